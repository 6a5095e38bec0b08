"""How a leader decides the next round of its log. Pure: what it measured in, a round out."""

from __future__ import annotations

from collections.abc import Iterable

from .known import KnownRounds
from .rounds import CompactionOptions, Dirt, Round, is_due, next_round


def due_round(
    known: KnownRounds,
    dirt: Dirt,
    options: CompactionOptions,
    *,
    last_stable_offset: int,
    agreed_ms: int,
    log_ends: Iterable[int],
    producers_floor: int,
) -> Round | None:
    """Return the round to append now, if any. The one before it has been applied by then: so a leader knows
    what its log holds below the end of the last, and rounds never pile up. It ends at or below the last
    stable offset: how each transaction with records below has ended stands below its own record then.

    `log_ends`, `producers_floor`: as `next_round` takes them.
    """
    last = known.last
    if not known.is_settled or dirt.end_offset > last_stable_offset:
        return None
    if last is not None and dirt.end_offset <= last.end_offset:
        return None
    is_needed = is_due(
        dirt,
        now_ms=agreed_ms,
        min_cleanable_dirty_ratio=options.min_cleanable_dirty_ratio,
        max_compaction_lag_ms=options.max_compaction_lag_ms,
    )
    if not is_needed:
        return None
    return next_round(
        last,
        end_offset=dirt.end_offset,
        now_ms=agreed_ms,
        delete_retention_ms=options.delete_retention_ms,
        log_ends=log_ends,
        producers_floor=producers_floor,
    )
