"""Clusters: create, list, look at; and their alarms."""
