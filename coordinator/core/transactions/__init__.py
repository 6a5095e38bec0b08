"""Transactions of a shard of `__transaction_state`: who may write under a transactional id, and how each of
its transactions ends."""
