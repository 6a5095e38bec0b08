"""What a controller is told of this broker's partitions, and what follows from its answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from dataplane.core.replica import Replica
from dataplane.shell.data_directory import DataDirectory
from dataplane.shell.effect_runner import EffectRunner
from dataplane.shell.hosted import HostedPartition
from dataplane.shell.metrics import BrokerCounters
from dataplane.shell.partitions import PartitionTable
from dataplane.shell.untold import Untold
from springtide.contract.holdings import HeldLog, Holdings, SetAsideLog
from springtide.contract.lag_report import (
    CreatedLogs,
    IsrProposal,
    IsrProposalResult,
    LagReportResponse,
    PartitionLag,
    ReplicaLogEnd,
    ReplicaProblem,
)
from springtide.contract.session import RegisterRequest
from springtide.node.cluster_view import ClusterView

SET_ASIDE_TOLD_MAX: Final = 2_000
"""Limit of logs in quarantine reported to a controller, ordered by name of directory."""


class PartitionReports:
    """A controller_session.ReportSource."""

    def __init__(
        self,
        *,
        table: PartitionTable,
        effects: EffectRunner,
        untold: Untold,
        view: ClusterView,
        store: DataDirectory,
        counters: BrokerCounters,
        end_turn: Callable[[], None],
    ) -> None:
        self._table = table
        self._effects = effects
        self._untold = untold
        self._view = view
        self._store = store
        self._counters = counters
        self._end_turn = end_turn

    def due_proposals(self, now_ms: int) -> Sequence[IsrProposal]:
        proposals = []
        ready, self._untold.proposals = self._untold.proposals, {}
        for key in ready:
            hosted = self._table.get(*key)
            if hosted is not None and (proposal := hosted.replica.role.due_proposal(now_ms)) is not None:
                proposals.append(proposal)
        return proposals

    def changed_lags(self, now_ms: int, *, count_max: int) -> Sequence[PartitionLag]:
        lags: list[PartitionLag] = []
        for key, hosted in list(self._untold.lags.items()):
            if len(lags) >= count_max:
                break
            del self._untold.lags[key]
            lag = hosted.replica.role.lag(now_ms)
            if lag is not None and not _is_same_lag(lag, hosted.lag_reported):
                hosted.lag_reported = lag
                lags.append(lag)
            if not hosted.replica.role.is_at_rest:
                self._untold.lags[key] = hosted  # behind those that are not told of yet
        return lags

    def untold_log_ends(self, *, count_max: int) -> Sequence[ReplicaLogEnd]:
        return self._untold.log_ends.next(count_max=count_max)

    def on_log_ends_told(self, log_ends: Sequence[ReplicaLogEnd]) -> None:
        if self._untold.log_ends.on_told(log_ends):
            self._untold.wake()

    def untold_creations(self, *, count_max: int) -> Sequence[CreatedLogs]:
        return self._untold.creations.next(count_max=count_max)

    def on_creations_told(self, created: Sequence[CreatedLogs]) -> None:
        if self._untold.creations.on_told(created):
            self._untold.wake()

    def holdings(self, identity: RegisterRequest, *, has_view: bool) -> Holdings:
        """Return all that this broker can tell a controller whose ZooKeeper went back."""
        view, table = self._view, self._table
        logs = [*(hosted.log for hosted in table), *table.found.values()]
        states = (hosted.replica.state for hosted in table)
        return Holdings(
            identity=identity,
            has_view=has_view,
            broker_epoch_max=table.broker_epoch_max,
            broker_ids=tuple(view.brokers),
            cluster_configs=view.cluster_configs,
            topics=tuple(view.topics.values()),
            states=(
                *(state for state in states if state is not None),
                *table.creator.pending.wanted.values(),
            ),
            logs=tuple(
                HeldLog(
                    topic_id=log.partition.topic_id,
                    topic=log.partition.topic,
                    partition=log.partition.partition,
                    leader_epoch=log.epochs.latest,
                    log_end_offset=log.log_end_offset,
                )
                for log in logs
            ),
            set_aside=tuple(self._store.set_aside()[:SET_ASIDE_TOLD_MAX]),
        )

    def untold_set_aside(self) -> tuple[SetAsideLog, ...] | None:
        if not self._untold.is_set_aside_untold:
            return None
        self._untold.is_set_aside_untold = False
        return tuple(self._store.set_aside()[:SET_ASIDE_TOLD_MAX])

    def on_set_aside_not_told(self) -> None:
        self._untold.is_set_aside_untold = True

    def unreported_problems(self) -> Sequence[ReplicaProblem]:
        return tuple(self._untold.problems)

    def on_problems_reported(self, problems: Sequence[ReplicaProblem]) -> None:
        told = {id(problem) for problem in problems}
        self._untold.problems = [problem for problem in self._untold.problems if id(problem) not in told]

    def on_report_answered(self, response: LagReportResponse, now_ms: int) -> None:
        for result in response.results:
            hosted = self._table.get(result.topic_id, result.partition)
            if hosted is not None:
                self._on_proposal_result(hosted, result, now_ms)
        self._end_turn()

    def _on_proposal_result(self, hosted: HostedPartition, result: IsrProposalResult, now_ms: int) -> None:
        before = _isr_size(hosted.replica)
        self._effects.run(hosted, hosted.replica.on_proposal_result(result, now_ms=now_ms))
        self._table.served_learners.note(hosted.key, hosted.replica)
        after = _isr_size(hosted.replica)
        if after > before:
            self._counters.isr_expands += 1
        elif after < before:
            self._counters.isr_shrinks += 1


def _isr_size(replica: Replica) -> int:
    return 0 if replica.state is None else len(replica.state.isr)


def _is_same_lag(lag: PartitionLag, reported: PartitionLag | None) -> bool:
    """Return whether nothing changed that an operator looks at. `lag_ms` stays small for a follower that has
    everything; for another it grows, and is reported.
    """
    if reported is None:
        return False
    return (
        lag.leader_epoch == reported.leader_epoch
        and lag.log_end_offset == reported.log_end_offset
        and lag.high_watermark == reported.high_watermark
        and lag.log_start_offset == reported.log_start_offset
        and lag.size_bytes == reported.size_bytes
        and all(follower.lag_records == 0 for follower in lag.followers)
        and len(lag.followers) == len(reported.followers)
        and all(follower.lag_records == 0 for follower in reported.followers)
    )
