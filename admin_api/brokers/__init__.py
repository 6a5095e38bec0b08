"""Brokers: add through an operation, list, look at."""
