"""Reading what was recorded: the history, earlier placements, safety receipts, verifications of replicas."""
