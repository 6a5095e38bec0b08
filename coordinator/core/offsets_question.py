"""What a group's coordinator asks that of a transaction."""

from __future__ import annotations

from typing import NamedTuple


class OffsetsQuestion(NamedTuple):
    """Whether a producer's transaction has the group's partition of `__consumer_offsets`. is_verify_only: it
    must be there already; else it is added."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partition: int
    is_verify_only: bool
