"""Decisions of a process that speaks Kafka. Pure: what they depend on is given to them."""
