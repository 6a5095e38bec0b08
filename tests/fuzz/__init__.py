"""Bytes from outside, searched by coverage for one that breaks what our decoders promise."""
