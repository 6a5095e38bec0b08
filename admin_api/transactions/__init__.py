"""Transactions: which are open, who waits for them, and ending those that do not end by themselves."""
