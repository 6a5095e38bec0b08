"""Thousands of partitions are created on real processes, and controller and broker are killed (S56, creation
in parts and a failover; S57, a leader dies while logs are made)."""
