"""What the loss of brokers, hosts or racks would do."""
