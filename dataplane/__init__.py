"""The data plane: brokers store and serve record batches over the Kafka wire protocol."""
