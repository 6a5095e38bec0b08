"""Faults of other systems, from their public reports, replayed on ours: docs/reports.md has the list."""
