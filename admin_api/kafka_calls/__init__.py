"""What Kafka clients administer through a broker: the services of REST, asked another way."""
