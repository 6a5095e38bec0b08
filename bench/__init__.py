"""Benchmarks: the same load on Springtide and, side by side, on an Apache Kafka that is installed."""
