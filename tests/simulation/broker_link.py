"""A simulated broker at its controllers, in one life: what it says beside a member's heartbeats and polls.

What is new to tell, the broker's core knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from springtide.contract.epochs import BrokerEpoch
from springtide.contract.holdings import HeldLog, Holdings, SetAsideLog
from springtide.contract.lag_report import LagReportResponse
from springtide.contract.session import (
    HeartbeatResponse,
    RegisterRequest,
    RegisterResponse,
    ShutdownKind,
)
from springtide.contract.updates import UpdateBatch
from springtide.node.controller_client import Seen
from springtide.node.core.session import Meaning, MemberSession, WentBackProof
from tests.simulation.controller_link import Answered, Beat, ControllerLink

if TYPE_CHECKING:
    from tests.simulation.broker_node import BrokerNode

#: Lags told of in one report, and others of each kind.
LAGS_TOLD_MAX, TOLD_MAX = 100, 20


class BrokerLink(ControllerLink):
    """It is what lies on the disk, too, for those who ask (StoredLogs). The epoch of the controller by whose
    answer a broker could find out that its host went back is a beat's `known_under`."""

    def __init__(self, node: BrokerNode, session: MemberSession) -> None:
        super().__init__(node, session, node.cluster, node.random, node.controllers)
        self.node = node
        self.reporting = False
        self.report_soon = False

    @property
    def seen(self) -> Seen:  # it is kept on the disk
        return self.node.disk.seen

    @seen.setter
    def seen(self, seen: Seen) -> None:
        self.node.disk.seen = seen

    # A member's session

    def _next_registration(self) -> RegisterRequest:
        keeps_its_logs = self.node.disk.shutdown_kind() is ShutdownKind.PROCESS_CRASH
        return self.session.registration(self.witness, keeps_its_logs=keeps_its_logs)

    def _on_registered(self, response: RegisterResponse, *, is_first: bool) -> None:
        node, disk = self.node, self.node.disk
        node.cluster.marks.on_registered(first=is_first)
        node.lease.on_controller_epoch(response.controller_epoch)
        disk.cluster_id = response.cluster_id
        disk.broker_epoch = response.broker_epoch
        node.upkeep.chain_epoch = response.chain_epoch
        disk.last_boot_id = disk.boot_id
        disk.has_mount_mark = True
        disk.is_written_over = False
        disk.unanswered = ()
        node.events.note(f"{node.name} registered, broker epoch {node.broker_epoch}")

    def begin(self) -> None:
        super().begin()
        self.report_periodically()

    def _next_beat(self) -> Beat | None:
        node = self.node
        known_under = node.cluster.who_knows_later(node) if node.is_resumed else None
        if node.is_resumed and known_under is None:
            node.cluster.marks.reached("host.cannot.find.out")
            node.end_unproven("can no longer find out that it went back (G6)")
            return None
        offline = (node.disk.directory_id,) if node.upkeep.directory_failed else ()
        request = self.session.heartbeat(self.witness, clock_leap=node.time.leap(), offline=offline)
        node.cluster.marks.on_clocks(request.clock_leap)
        return self._beat(request, known_under)

    def _on_heartbeat(self, beat: Beat, response: HeartbeatResponse, meaning: Answered) -> None:
        node = self.node
        node.cluster.marks.on_heartbeat(response.error)
        if isinstance(meaning, WentBackProof):
            node.cluster.marks.reached("host.finds.out")
            node.end_unproven(f"finds out that it went back: {meaning.text}")
        elif meaning is Meaning.DONE:
            node.heard_ms = max(node.heard_ms, beat.true_sent_ms)
            node.time.on_heartbeat(response, sent_ms=beat.sent_ms)
            node.cluster.oracle.check_leap_is_told(node, response.wall_ms, beat.sent_ms)
            if response.controller_epoch == beat.known_under:
                node.is_resumed = False  # it could have been found out, and was believed
            if self.session.may_shut_down:
                node.finish_shutdown()

    def _on_batch(self, batch: UpdateBatch) -> None:
        self.node.cluster.marks.on_update(self.node, batch)

    def _apply(self, batch: UpdateBatch) -> bool:
        return self.node.metadata.apply(batch)

    def _poll_delay_ms(self) -> int:
        return max(self.node.poll_delays_ms, default=0)  # late, and then several at once

    # What it holds, and its reports

    def set_aside(self) -> tuple[SetAsideLog, ...]:
        return tuple(self.node.disk.notes.values())

    def holdings(self, identity: RegisterRequest, *, has_view: bool) -> Holdings:
        node = self.node
        states = [r.state for _, r in sorted(node.replicas.items()) if r.state is not None]
        states += node.creations.wanted.values()
        return Holdings(
            identity=identity,
            has_view=has_view,
            broker_epoch_max=BrokerEpoch(
                max((e.broker_epoch for e in node.view.brokers.values()), default=-1)
            ),
            broker_ids=tuple(node.view.brokers),
            topics=tuple(node.view.topics.values()),
            states=tuple(states),
            logs=tuple(
                HeldLog(
                    topic_id=key[0],
                    topic=node.view.topics[key[0]].topic if key[0] in node.view.topics else key[0],
                    partition=key[1],
                    leader_epoch=log.epochs.latest,
                    log_end_offset=log.log_end_offset,
                )
                for key, log in sorted(node.disk.logs.items())
            ),
            set_aside=self.set_aside(),
        )

    def _tell_holdings(self) -> None:
        node = self.node
        report = self.session.holdings(self, self.witness, now_ms=node.now_ms)
        if report is not None:
            node.call(self.controller, report, lambda _: None, lambda: None)

    def report_periodically(self) -> None:
        node = self.node
        self.report()
        report_ms = node.cluster.options.report_ms
        node.after(report_ms * (1 + 0.2 * node.random.random()), self.report_periodically)

    def report(self) -> None:
        node = self.node
        if self.reporting:
            self.report_soon = True
            return
        now_ms = node.now_ms
        reports = node.core.reports
        if node.cluster.options.family != "metadata":
            reports.take_set_aside()  # so that what all other seeds draw stays as it is
        report = self.session.report(reports, self, self.witness, count_max=TOLD_MAX, now_ms=now_ms)
        if report is None:
            return
        for proposal in report.proposals:
            node.cluster.oracle.on_replica_touched(node, (proposal.topic_id, proposal.partition))
        # They go along with other news: no simulated operator looks at them.
        report = structs.replace(report, lags=tuple(reports.changed_lags(now_ms, count_max=LAGS_TOLD_MAX)))
        self.reporting = True

        def done() -> None:
            self.reporting = False
            if self.report_soon:
                self.report_soon = False
                node.after(1, self.report)

        def answered(response: LagReportResponse) -> None:
            _, has_more = self.session.on_report(report, reports, response)
            self.report_soon = self.report_soon or has_more
            for result in response.results:
                if (replica := node.replicas.get((result.topic_id, result.partition))) is not None:
                    node.cluster.marks.on_proposal_result(replica, result)
            node.carry_out(node.core.on_proposal_results(response.results, now_ms=node.now_ms))
            done()

        def lost() -> None:
            node.cluster.marks.reached("report.unanswered")
            self.session.on_report_lost(report, reports)
            done()

        node.call(self.controller, report, answered, lost)
