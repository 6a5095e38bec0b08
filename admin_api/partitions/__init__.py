"""Partitions: who leads, who follows and how far, what is wrong and why."""
