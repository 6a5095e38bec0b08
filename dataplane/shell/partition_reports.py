"""What a controller is told of this broker's partitions, and what follows from its answers: core/reports.py
decides it, and this adds what the directory and the view of the cluster hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dataplane.shell.data_directory import DataDirectory
from dataplane.shell.effect_runner import EffectRunner
from dataplane.shell.partitions import PartitionTable
from springtide.contract.epochs import LeaderEpoch
from springtide.contract.holdings import HeldLog, Holdings, SetAsideLog
from springtide.contract.lag_report import (
    CreatedLogs,
    IsrProposal,
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
        self, *, table: PartitionTable, effects: EffectRunner, view: ClusterView, store: DataDirectory
    ) -> None:
        self._table = table
        self._effects = effects
        self._broker = effects.broker
        self._untold = effects.broker.reports
        self._view = view
        self._store = store

    def due_proposals(self, now_ms: int) -> Sequence[IsrProposal]:
        return self._untold.due_proposals(now_ms)

    def changed_lags(self, now_ms: int, *, count_max: int) -> Sequence[PartitionLag]:
        return self._untold.changed_lags(now_ms, count_max=count_max)

    def untold_log_ends(self, *, count_max: int) -> Sequence[ReplicaLogEnd]:
        return self._untold.untold_log_ends(count_max=count_max)

    def on_log_ends_told(self, log_ends: Sequence[ReplicaLogEnd]) -> None:
        if self._untold.on_log_ends_told(log_ends):
            self._effects.wake_report()

    def untold_creations(self, *, count_max: int) -> Sequence[CreatedLogs]:
        return self._untold.untold_creations(count_max=count_max)

    def on_creations_told(self, created: Sequence[CreatedLogs]) -> None:
        if self._untold.on_creations_told(created):
            self._effects.wake_report()

    def holdings(self, identity: RegisterRequest, *, has_view: bool) -> Holdings:
        """Return all that this broker can tell a controller whose ZooKeeper went back."""
        view, table, broker = self._view, self._table, self._broker
        logs = [self._store.log_dir.logs[key] for key in (*broker.partitions, *broker.found)]
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
                *broker.creations.wanted.values(),
            ),
            logs=tuple(
                HeldLog(
                    topic_id=log.partition.topic_id,
                    topic=log.partition.topic,
                    partition=log.partition.partition,
                    leader_epoch=LeaderEpoch(log.epochs.latest),
                    log_end_offset=log.log_end_offset,
                )
                for log in logs
            ),
            set_aside=self._set_aside(),
        )

    def _set_aside(self) -> tuple[SetAsideLog, ...]:
        return tuple(self._store.set_aside()[:SET_ASIDE_TOLD_MAX])

    def untold_set_aside(self) -> tuple[SetAsideLog, ...] | None:
        return self._set_aside() if self._untold.take_set_aside() else None

    def on_set_aside_not_told(self) -> None:
        self._untold.note_set_aside()

    def unreported_problems(self) -> Sequence[ReplicaProblem]:
        return self._untold.unreported_problems()

    def on_problems_reported(self, problems: Sequence[ReplicaProblem]) -> None:
        self._untold.on_problems_reported(problems)

    def on_report_answered(self, response: LagReportResponse, now_ms: int) -> None:
        self._effects.carry_out(self._broker.on_proposal_results(response.results, now_ms=now_ms))
