"""Pure decisions of a broker: replicas, in-sync sets, watermarks, epochs, producers, fetch sessions."""
