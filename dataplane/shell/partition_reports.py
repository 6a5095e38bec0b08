"""What a controller is told of this broker's partitions, and what follows from its answers: core/reports.py
decides it, and this adds what the directory and the view of the cluster hold."""

from __future__ import annotations

from typing import Final

from dataplane.shell.data_directory import DataDirectory
from dataplane.shell.effect_runner import EffectRunner
from dataplane.shell.partitions import PartitionTable
from springtide.contract.epochs import BrokerEpoch
from springtide.contract.holdings import HeldLog, Holdings, SetAsideLog
from springtide.contract.lag_report import LagReportResponse
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
        self.untold = effects.broker.reports
        self._view = view
        self._store = store

    def holdings(self, identity: RegisterRequest, *, has_view: bool) -> Holdings:
        """Return all that this broker can tell a controller whose ZooKeeper went back."""
        view, table, broker = self._view, self._table, self._broker
        logs = [self._store.log_dir.logs[key] for key in (*broker.partitions, *broker.found)]
        states = (hosted.replica.state for hosted in table)
        return Holdings(
            identity=identity,
            has_view=has_view,
            broker_epoch_max=BrokerEpoch(table.broker_epoch_max),
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
                    leader_epoch=log.epochs.latest,
                    log_end_offset=log.log_end_offset,
                )
                for log in logs
            ),
            set_aside=self.set_aside(),
        )

    def set_aside(self) -> tuple[SetAsideLog, ...]:
        return tuple(self._store.set_aside()[:SET_ASIDE_TOLD_MAX])

    def on_report_answered(self, response: LagReportResponse, now_ms: int) -> None:
        self._effects.carry_out(self._broker.on_proposal_results(response.results, now_ms=now_ms))
