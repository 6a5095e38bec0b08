"""Brokers: add through an operation, list, show."""
