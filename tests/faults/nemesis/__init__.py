"""Seeded faults against real processes on simulated hosts, under stock clients' load, and the verdict."""
