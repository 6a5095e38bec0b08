"""The history: SQL tables, the outbox that fills them from ZooKeeper's truth, the queries that read them."""
