"""The state of replication over a whole cluster: the most urgent partitions, and each broker's replicas."""
