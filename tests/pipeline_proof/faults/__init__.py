"""Row 6 with real Spark and real brokers: a stream is written while everything that takes part is killed."""
