"""The hands of a simulated broker, as dataplane/shell/effect_runner.py are the process's."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from dataplane.core.broker import (
    Forgotten,
    NotApplied,
    OfReplica,
    ReportSoon,
    Step,
)
from dataplane.core.effects import (
    NO_EFFECTS,
    BackOff,
    CheckAtRest,
    CompleteDeletion,
    CompleteProduce,
    CopyDivergent,
    DataAppended,
    Effect,
    Effects,
    HighWatermarkMoved,
    LeadershipChanged,
    LogStartMoved,
    MendLog,
    ProposalReady,
    Remark,
    RemarkKind,
    ReportProblem,
    StartFetching,
    StopFetching,
    Vouch,
)
from dataplane.core.hosted import Hosted
from dataplane.core.leader import Leader
from springtide.contract.partition_state import PartitionKey
from tests.simulation.violation import Violation

if TYPE_CHECKING:
    from tests.simulation.broker_node import BrokerNode

HUNG_LOOK_MS = 50


class BrokerHands:
    """Of one life."""

    def __init__(self, node: BrokerNode) -> None:
        self.node = node

    def carry_out(self, steps: Iterable[Step[Hosted]]) -> None:
        node = self.node
        for step in steps:
            match step:
                case OfReplica(hosted=hosted, effects=effects):
                    for effect in effects:
                        self._run_one(hosted, effect)
                    node.cluster.oracle.on_replica_touched(node, hosted.key)
                case Forgotten(hosted=hosted):
                    node.following.unfollow(hosted.key, node.now_ms)
                    node.requests.fetches.note(node.requests.fetches.on_leadership_changed, hosted.key)
                case ReportSoon():
                    node.after(1, node.link.report)
                case NotApplied(state=state, code="log_missing"):
                    key = (state.topic_id, state.partition)
                    if (node.broker_id, key) not in node.cluster.logs_made:
                        raise Violation("I11", f"{node.name} never had a log of {key}, and calls it lost")
                case _:
                    pass

    def run(self, key: PartitionKey, effects: Effects) -> None:
        node = self.node
        if effects:
            node.core.note_news(node.core.partitions[key])
        for effect in effects:
            self._run_one(node.core.partitions[key], effect)

    def _run_one(self, hosted: Hosted, effect: Effect) -> None:
        node = self.node
        key, replica = hosted.key, hosted.replica
        match effect:
            case CompleteProduce(waiters=waiters, error=error):
                node.cluster.marks.on_completed(error)
                for waiter in waiters:
                    assert callable(waiter)
                    waiter(error)
            case CompleteDeletion(waiters=waiters, result=result):
                for waiter in waiters:
                    assert callable(waiter)
                    waiter(result)
            case LogStartMoved():
                node.after(node.random.randint(1, 30), partial(self._store_log_start, key))
                node.requests.fetches.note(node.requests.fetches.on_high_watermark_moved, key)
            case StartFetching(leader_id=leader_id):
                node.following.follow(hosted, leader_id, node.now_ms)
            case StopFetching():
                node.following.unfollow(key, node.now_ms)
            case BackOff(delay_ms=delay_ms):
                node.following.back_off(key, delay_ms)
            case CopyDivergent():
                self._copy_divergent(key, effect)
            case Vouch():
                node.after(node.random.randint(1, 30), partial(self._vouch, key))
            case ProposalReady():
                node.core.reports.note_proposal(key)
                node.after(1, node.link.report)
            case ReportProblem(problem=problem):
                node.core.reports.note_problem(problem)
                node.problems_seen.append(problem)
                if problem.code == "went_back" and problem.broker_id < 0:
                    node.vouch_for_nothing()
                node.cluster.marks.on_problem(problem.code)
                node.events.note(
                    f"{node.name} {key[0][:4]}-{key[1]} problem {problem.code}: {problem.detail}"
                )
                if problem.code == "storage_error" and node.disk.failing is not None:
                    node.after(0, node.upkeep.on_directory_failed)
            case MendLog():
                node.after(1, lambda: node.scrubbing.mend(key, effect))
            case CheckAtRest():
                node.after(1, lambda: node.scrubbing.check(key))
            case HighWatermarkMoved():
                node.cluster.marks.on_commit(node, replica)
                node.cluster.oracle.on_high_watermark_moved(node, key)
                node.requests.fetches.note(node.requests.fetches.on_high_watermark_moved, key)
            case Remark(kind=RemarkKind.BEGINS_ANEW_FOR_ROT):
                node.cluster.marks.reached("rot.begins.a.log.anew")
            case Remark(kind=RemarkKind.BEGUN_ANEW_FOR_A_ROUND, text=text):
                node.cluster.marks.reached("round.begins.a.log.anew")
                node.events.note(f"{node.name} {key[0][:4]}-{key[1]} {text}")
            case DataAppended():
                node.requests.fetches.note(node.requests.fetches.on_data_appended, key)
            case LeadershipChanged():
                node.requests.fetches.note(node.requests.fetches.on_leadership_changed, key)
                if isinstance(replica.role, Leader):
                    node.cluster.oracle.on_leadership_began(node, key)
                node.events.note(
                    f"{node.name} {key[0][:4]}-{key[1]} {replica.role.name} epoch {replica.leader_epoch}"
                )
            case _:
                pass

    def _copy_divergent(self, key: PartitionKey, effect: CopyDivergent) -> None:
        """A thread's work: what it copies is what the log holds now, and a failing disk makes no copy."""
        node = self.node
        could_read = node.disk.failing is None
        if could_read:
            node.disk.asides += 1
            node.cluster.marks.reached("truncation.with.suffix.aside")
            node.cluster.history.divergent_copied(node.name, key, node.disk.logs[key], effect)
        node.after(
            5 + 20 * node.random.random(),
            lambda: self._divergent_copied(key, effect.hold_id, could_read=could_read),
        )

    def _divergent_copied(self, key: PartitionKey, hold_id: int, *, could_read: bool) -> None:
        node = self.node
        replica = node.replicas.get(key)
        if replica is not None:
            error = None if could_read and node.disk.failing is None else "the disk fails"
            follower = replica.following
            effects: Effects = NO_EFFECTS
            if follower is not None:
                effects = follower.on_divergent_copied(hold_id, error=error, now_ms=node.now_ms)
            node.cluster.marks.on_divergent_copied(effects)
            self.run(key, effects)
            node.cluster.oracle.on_replica_touched(node, key)

    def _vouch(self, key: PartitionKey) -> None:
        """The seal's removal is durable."""
        node = self.node
        replica = node.replicas.get(key)
        log = node.disk.logs.get(key)
        if replica is None or log is None or replica.log is not log or node.disk.failing is not None:
            return
        log.open_seal()
        node.cluster.marks.reached("seal.opened")
        self.run(key, replica.role.on_vouched(now_ms=node.now_ms))
        node.cluster.oracle.on_replica_touched(node, key)

    def _store_log_start(self, key: PartitionKey) -> None:
        """A thread's work."""
        node = self.node
        replica = node.replicas.get(key)
        log = node.disk.logs.get(key)
        if replica is None or log is None or replica.log is not log or node.disk.failing is not None:
            return
        if node.disk.hung:
            node.after(HUNG_LOOK_MS, partial(self._store_log_start, key))
            return
        offset = log.log_start_offset
        log.store_log_start(offset)
        self.run(key, replica.role.on_log_start_stored(offset, now_ms=node.now_ms))
