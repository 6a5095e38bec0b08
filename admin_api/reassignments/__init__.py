"""Reassignments by hand: the brokers of a partition's replicas, and the progress of a change."""
