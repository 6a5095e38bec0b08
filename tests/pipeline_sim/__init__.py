"""Seeded simulations: the sink's delivery core against brokers, a network and a Spark that fail, and the
source's offsets in a topic that is made again."""
