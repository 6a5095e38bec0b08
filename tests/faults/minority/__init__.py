"""Files of a minority of brokers change while these are down: what Jepsen did to NATS JetStream in 2025."""
