"""A seeded simulation of the sink: its delivery core against brokers, a network and a Spark that fail."""
