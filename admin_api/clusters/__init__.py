"""Clusters: create, list, show; and their alarms."""
