"""The holdings of a broker: told while the metadata has gone back, for an operator's recovery to rebuild the
rows from; and what it has set aside: told to every controller, for an operator to bring topics back from."""

from __future__ import annotations

import msgspec

from springtide.contract.epochs import NO_LEADER_EPOCH, BrokerEpoch, LeaderEpoch
from springtide.contract.partition_state import PartitionState, TopicState
from springtide.contract.session import RegisterRequest


class HeldLog(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One log on a broker's disk. leader_epoch: the newest of its history; -1: none."""

    topic_id: str
    topic: str
    partition: int
    leader_epoch: LeaderEpoch
    log_end_offset: int


class SetAsideLog(msgspec.Struct, frozen=True, kw_only=True):
    """A log in quarantine on a broker's disk.

    directory: its name there. leader_epoch: the newest that its history or its last state names; offsets and
        epochs are -1 where they are not known. why, since_ms: as they were written down when it was set aside
        (wall clock). is_whole: it was durable to its end then, so its broker can take it up again (11.5, logs
        that were set aside).
    state, topic_state: the last that its broker applied before; None if it had applied none in that life.
    """

    directory: str
    topic_id: str
    topic: str
    partition: int
    why: str
    since_ms: int = -1
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH
    log_start_offset: int = -1
    log_end_offset: int = -1
    high_watermark: int = -1
    size_bytes: int = 0
    is_whole: bool = False
    state: PartitionState | None = None
    topic_state: TopicState | None = None

    @property
    def records(self) -> int:
        return self.log_end_offset - self.log_start_offset


class Holdings(msgspec.Struct, frozen=True, kw_only=True):
    """All that one broker can tell. identity: as it registers, its word on its last stop included.

    has_view: it has applied a FULL state in this life; without one topics, states and configs are empty.
    states: those applied, and those under which logs are still to be made.
    broker_epoch_max: the highest broker epoch among those of the last batch that is wholly applied.
    set_aside: what it has in quarantine.
    """

    identity: RegisterRequest
    has_view: bool = False
    broker_epoch_max: BrokerEpoch = BrokerEpoch(-1)
    #: Those admitted, as it was told last.
    broker_ids: tuple[int, ...] = ()
    cluster_configs: dict[str, str] = {}
    topics: tuple[TopicState, ...] = ()
    states: tuple[PartitionState, ...] = ()
    logs: tuple[HeldLog, ...] = ()
    set_aside: tuple[SetAsideLog, ...] = ()
