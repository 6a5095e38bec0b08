"""Whole brokers and controllers, with their shells, in one trio run in virtual time, replayed by a seed."""
