"""The last hour as series, and the heat map of partitions over brokers."""
