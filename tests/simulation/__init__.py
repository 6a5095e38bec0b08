"""Seeded simulation of a whole cluster: the pure cores on an event heap, in virtual time."""
