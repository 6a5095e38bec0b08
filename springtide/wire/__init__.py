"""Bytes <-> values for the Kafka protocol: framing, codec, record batches. Pure."""
