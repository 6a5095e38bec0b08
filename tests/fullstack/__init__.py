"""Whole brokers and controllers, with their real shells, in one trio run in virtual time, replayed by a seed."""
