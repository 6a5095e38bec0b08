"""A broker between its replicas and the world: the table of replicas, and what a controller is told. Pure.

The process, the simulation and the tests' small cluster each drive one of these. An entry (`on_<event>`) says
what happened, and returns what the driver has to do for it, in order; the driver carries all of it out at
once, without an await. What a replica is asked on the hot path (an append, a fetch) it is asked directly: its
effects are carried out the same way, and come back here as notes (`note_news`, `reports`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, NamedTuple

from dataplane.core.effects import Effects
from dataplane.core.hosted import H
from dataplane.core.replica import Replica
from dataplane.core.reports import Reports
from springtide.contract.lag_report import IsrProposalResult
from springtide.contract.partition_state import PartitionKey


class OfReplica(NamedTuple, Generic[H]):
    """Carry out what a replica asks for, in order. Its state may be another one than before. isr_change:
    members that its in-sync set has gained; below 0: lost."""

    hosted: H
    effects: Effects
    isr_change: int = 0


class Broker(Generic[H]):
    """partitions: the table, in the order in which replicas came. restless: those to which something has
    happened, until they are at rest."""

    __slots__ = ("partitions", "reports", "restless")

    def __init__(self, broker_id: int) -> None:
        self.partitions: dict[PartitionKey, H] = {}
        self.restless: dict[PartitionKey, H] = {}
        self.reports: Reports[H] = Reports(broker_id, self.partitions)

    def note_news(self, hosted: H) -> None:
        """Note that something has happened to this replica."""
        self.restless[hosted.key] = hosted
        self.reports.note_news(hosted)

    def forget(self, hosted: H) -> None:
        """Take the replica out of the table."""
        del self.partitions[hosted.key]
        hosted.is_forgotten = True
        self.restless.pop(hosted.key, None)
        self.reports.forget(hosted.key)

    def on_proposal_results(self, results: Iterable[IsrProposalResult], *, now_ms: int) -> list[OfReplica[H]]:
        """Give leaders the controller's answers to their proposals."""
        steps = list[OfReplica[H]]()
        for result in results:
            hosted = self.partitions.get((result.topic_id, result.partition))
            if hosted is not None:
                before = _isr_size(hosted.replica)
                effects = hosted.replica.on_proposal_result(result, now_ms=now_ms)
                steps.append(OfReplica(hosted, effects, _isr_size(hosted.replica) - before))
        return steps


def _isr_size(replica: Replica) -> int:
    return 0 if replica.state is None else len(replica.state.isr)
