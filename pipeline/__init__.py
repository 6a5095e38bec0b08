"""The data pipeline: PySpark reads and writes the log through its brokers, by Kafka's protocol alone."""
