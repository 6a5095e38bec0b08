"""The effects of losing brokers, hosts or racks."""
