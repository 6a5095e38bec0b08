"""Settings of topics, brokers and clusters: the effective value, its source, and changes."""
