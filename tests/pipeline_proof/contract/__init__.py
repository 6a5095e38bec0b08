"""Row 1: what Spark's Kafka source documents, written down a second time, and logs that are read by it."""
