"""Rules of security that all planes share."""
