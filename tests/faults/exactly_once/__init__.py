"""Applications with transactions that are killed in the middle: everything exactly once, and money kept."""
