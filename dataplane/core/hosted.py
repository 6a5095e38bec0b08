"""One replica in the table of a broker, with what the broker's core remembers of it: pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

from dataplane.core.replica import Replica
from springtide.contract.epochs import NO_LEADER_EPOCH, LeaderEpoch
from springtide.contract.lag_report import PartitionLag
from springtide.contract.partition_state import PartitionKey


@dataclass(slots=True, eq=False, kw_only=True)
class Hosted:
    topic: str
    topic_id: str
    partition: int
    replica: Replica
    key: PartitionKey = field(init=False)
    #: What the last report said; an idle partition is not reported again.
    lag_reported: PartitionLag | None = None
    #: Since the process started: what producers brought, and what consumers got.
    bytes_in: int = 0
    bytes_out: int = 0
    #: Not in the table any more, or about to be closed: what still comes back from a thread is dropped.
    is_forgotten: bool = False
    #: Its fetches belong to a move: counted apart, and throttled where there is a rate (learner_turns.py).
    is_learner: bool = False
    #: Leader epoch in which it reached the high watermark: its leader may be waiting for it since.
    caught_up_epoch: LeaderEpoch = NO_LEADER_EPOCH

    def __post_init__(self) -> None:
        self.key = (self.topic_id, self.partition)


H = TypeVar("H", bound=Hosted)
"""An entry of the table, as the shell has it."""
H_co = TypeVar("H_co", bound=Hosted, covariant=True)
