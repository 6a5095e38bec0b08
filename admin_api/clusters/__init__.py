"""Clusters: create, list, show; their alarms; what a loss of brokers would do to them."""
