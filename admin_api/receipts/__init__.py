"""Safety receipts: how near an operation's partitions came to refusing acks=all while it ran."""
