"""Quotas of clients and addresses: which one holds, what was used of it, and what happens above it."""
