"""Safety receipts: how close an operation's partitions came to refusing acks=all while it ran."""
