"""What a coordinator answers to Kafka's clients, one file an API."""
