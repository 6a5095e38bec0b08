"""Partitions: the leader, the followers and their lag, what is wrong and why."""
