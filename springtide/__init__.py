"""The parts that the planes share: the Kafka protocol, processes that speak it, and the command line."""
