"""A blocking client of the Kafka protocol for Spark's executors: requests by value, batches as bytes."""
