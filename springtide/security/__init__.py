"""Security that all planes share: who a client is, and what it may do."""
