"""Thousands of partitions are created on real processes, and controller and broker are killed (S56, S57)."""
