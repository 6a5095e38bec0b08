"""Transactional ids without a transaction expire, long after their last record. By time that the clocks agree
on alone (TimerDue.expiry_ms): a producer whose id is forgotten can't go on."""

from __future__ import annotations

from coordinator.core.transactions.options import EXPIRED_PER_STEP, EXPIRY_KEYS_PER_STEP
from coordinator.core.transactions.registry import IdExpiryTimer, TransactionRegistry, TransactionTurn
from coordinator.core.transactions.state import is_idle


def on_expiry_timer(registry: TransactionRegistry, turn: TransactionTurn, expiry_ms: int | None) -> None:
    """Look at some ids; the next step continues where this one ended. While expiry_ms is None, at none."""
    options, store = registry.options, registry.store
    if expiry_ms is None:
        turn.timers[IdExpiryTimer()] = turn.now_ms + options.expiration_check_ms
        return
    if not registry.unchecked:
        for transactional_id in [key for key in registry.clients if store.latest(key) is None]:
            del registry.clients[transactional_id]
        registry.unchecked = sorted((key for key, _ in store.transactions.latest_items()), reverse=True)
    seen = 0
    while registry.unchecked and seen < EXPIRY_KEYS_PER_STEP and len(turn.records) < EXPIRED_PER_STEP:
        seen += 1
        transactional_id = registry.unchecked.pop()
        stored = store.latest(transactional_id)
        if stored is None or store.is_under_way(transactional_id) or not is_idle(stored):
            continue
        if expiry_ms - stored.updated_ms >= options.expiration_ms:
            turn.write(transactional_id, None)
    wait_ms = 0 if registry.unchecked else options.expiration_check_ms
    turn.timers[IdExpiryTimer()] = turn.now_ms + wait_ms
