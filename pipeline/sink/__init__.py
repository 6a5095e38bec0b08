"""The sink: rows into topics, each stored exactly once although tasks, brokers and drivers die."""
