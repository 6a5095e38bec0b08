"""Processes of a real cluster that stand still (`python -m tests.faults.pauses`)."""
