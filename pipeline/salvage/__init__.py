"""Salvage: the records that truncations cut off, compared with the log and brought back."""
