"""What a broker holds, told while the metadata is back: of it an operator's recovery rebuilds the rows."""

from __future__ import annotations

import msgspec

from controller.contract.partition_state import PartitionState, TopicState
from controller.contract.session import RegisterRequest


class HeldLog(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One log on a broker's disk. leader_epoch: the newest of its history; -1: none."""

    topic_id: str
    topic: str
    partition: int
    leader_epoch: int
    log_end_offset: int


class Holdings(msgspec.Struct, frozen=True, kw_only=True):
    """All that one broker can tell. identity: as it registers, its word on its last stop included.

    has_view: it has applied a FULL state in this life; without one topics, states and configs are empty.
    states: those applied, and those under which logs are still to be made.
    broker_epoch_max: the highest of its own and those that it knows of others.
    """

    identity: RegisterRequest
    has_view: bool = False
    broker_epoch_max: int = -1
    #: Those admitted, as it was told last.
    broker_ids: tuple[int, ...] = ()
    cluster_configs: dict[str, str] = {}
    topics: tuple[TopicState, ...] = ()
    states: tuple[PartitionState, ...] = ()
    logs: tuple[HeldLog, ...] = ()
