"""Administration by Kafka clients through a broker, carried out by the services of REST."""
