"""Brokers join and leave under load, on real processes: what moves, how evenly, and what clients notice."""
