"""Reassignments by hand: which brokers have a partition's replicas, and how a change of that gets on."""
