"""Stored bytes of a real broker change under it."""
