"""Placement: where replicas are, where they were, and why."""
