"""Bytes <-> values for the Kafka protocol: framing, codec, record batches. No socket, clock or file."""
