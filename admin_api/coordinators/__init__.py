"""Coordinators: the processes that serve client groups."""
