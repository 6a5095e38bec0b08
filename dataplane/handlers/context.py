"""The parts of a broker that its handlers answer from.

A handler never awaits, which keeps check, append and state update of a partition in one piece.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dataplane.core.room import Room
from dataplane.shell.config import BrokerConfig
from dataplane.shell.coordinator_calls import CoordinatorCalls
from dataplane.shell.divergent_logs import DivergentLogs
from dataplane.shell.effect_runner import EffectRunner
from dataplane.shell.fetches import Fetches
from dataplane.shell.lookups import Lookups
from dataplane.shell.metrics import BrokerCounters
from dataplane.shell.partitions import PartitionTable
from dataplane.shell.produces import Produces
from dataplane.shell.verification import CoordinatorQuestions
from springtide.node.handlers.context import NodeContext


@dataclass(slots=True, kw_only=True)
class BrokerContext(NodeContext):
    """The objects that handlers of a process that stores records use, beside those of every process."""

    broker_id: int
    config: BrokerConfig
    counters: BrokerCounters
    table: PartitionTable
    effects: EffectRunner
    produces: Produces
    verification: CoordinatorQuestions
    fetches: Fetches
    lookups: Lookups
    divergent_logs: DivergentLogs
    coordinator_calls: CoordinatorCalls
    #: Why the log directory may not be used any more, or None.
    log_dir_failure: Callable[[], str | None]
    room: Room
