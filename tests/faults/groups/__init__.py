"""A consumer group of stock clients, while members, coordinators, brokers and controllers are struck."""
