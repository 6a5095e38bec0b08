"""One partition moves between five brokers while they die, come back and change controllers: whatever the
order of events, no move of ours takes what keeps the partition safe, and each move can be ended both ways."""

from __future__ import annotations

import copy

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from controller.core.events import ConfigureTopic, Event, Refusal, RefusalCode
from controller.core.machine import Step
from controller.core.options import ControllerOptions
from controller.core.records import Cause, PartitionRecord
from springtide.contract.partition_state import NO_LEADER, PartitionState
from tests.kit.controller.core_cluster import Cluster

BROKERS = (1, 2, 3, 4, 5)
MOVES = (Cause.REASSIGNMENT_STARTED, Cause.REASSIGNMENT_COMPLETED, Cause.REASSIGNMENT_CANCELLED)

brokers = st.sampled_from(BROKERS)
assignments = st.lists(brokers, min_size=1, max_size=4, unique=True)


def check_move(before: PartitionState, record: PartitionRecord) -> None:
    """What one record of the partition may do to the one before it."""
    after = record.state
    assert after.partition_epoch == before.partition_epoch + 1
    assert after.leader_epoch in (before.leader_epoch, before.leader_epoch + 1)
    assert {*after.isr, *after.elr} <= set(after.replicas)
    assert after.leader == NO_LEADER or after.leader in after.isr
    dropped = set(before.replicas) - set(after.replicas)
    if dropped:
        assert record.change.cause in MOVES
        assert after.leader_epoch > before.leader_epoch
    if record.change.cause in MOVES:
        lost = dropped & {*before.isr, *before.elr}
        assert not lost or len(after.isr) >= after.min_insync_replicas
        assert set(before.isr) - dropped <= set(after.isr)
        assert before.leader == NO_LEADER or after.leader != NO_LEADER
    if record.change.cause is Cause.REASSIGNMENT_COMPLETED:
        is_asked_for = record.change.actor == "ann"  # just now, and nothing was missing
        assert is_asked_for or after.replicas == before.target_replicas
        assert not after.is_reassigning
    if record.change.cause is Cause.REASSIGNMENT_CANCELLED:
        assert after.replicas == before.original_replicas


class Moving(Cluster):
    """Checks each record against the one before it."""

    def step(self, event: Event) -> Step:
        before = dict(self.image.partitions)
        step = super().step(event)
        for record in step.records:
            if isinstance(record, PartitionRecord):
                key = (record.state.topic_id, record.state.partition)
                if key in before:
                    check_move(before[key], record)
                before[key] = record.state
        return step


class RandomMoves(RuleBasedStateMachine):
    @initialize(minimum=st.sampled_from(["1", "2", "3"]))
    def begin(self, minimum: str) -> None:
        self.cluster = Moving(ControllerOptions(preferred_leader_delay_ms=1_000), brokers=BROKERS)
        self.cluster.create((1, 2, 3), configs={"min.insync.replicas": minimum})
        self.restarts = 0

    @property
    def state(self) -> PartitionState:
        return self.cluster.partition()

    @rule(replicas=assignments)
    def reassign(self, replicas: list[int]) -> None:
        dry = self.cluster.reassign(*replicas, dry_run=True)
        assert self.cluster.reassign(*replicas) == dry

    @rule()
    def cancel(self) -> None:
        was_reassigning = self.state.is_reassigning
        result = self.cluster.cancel()
        assert was_reassigning or result.refusal is not None

    @rule(minimum=st.sampled_from(["1", "2", "3", None]))
    def configure(self, minimum: str | None) -> None:
        configs = {"min.insync.replicas": minimum}
        event = ConfigureTopic(wall_ms=0, actor="ann", topic_id=self.state.topic_id, configs=configs)
        targets = len(self.state.target_replicas)
        if minimum is not None and int(minimum) > targets:
            assert self.cluster.ask(event, Refusal).code is RefusalCode.INVALID_CONFIG
            return
        self.cluster.step(event)
        factor = self.state.replication_factor
        wanted = factor // 2 + 1 if minimum is None else min(int(minimum), factor)
        assert self.state.min_insync_replicas == wanted

    @precondition(lambda self: self.state.leader != NO_LEADER)
    @rule(data=st.data())
    def leader_proposes(self, data: st.DataObject) -> None:
        others = [b for b in self.state.replicas if b != self.state.leader]
        members = data.draw(st.sets(st.sampled_from(others))) if others else set()
        self.cluster.propose(self.state.leader, *sorted(members))

    @precondition(lambda self: self.state.leader != NO_LEADER)
    @rule()
    def all_join(self) -> None:
        self.all_who_can_join()

    @rule(broker_id=brokers)
    def die(self, broker_id: int) -> None:
        self.cluster.kill(broker_id)

    @rule(broker_id=brokers)
    def restart(self, broker_id: int) -> None:
        self.cluster.kill(broker_id)
        self.come_back(broker_id)

    @rule(broker_id=brokers)
    def shut_down(self, broker_id: int) -> None:
        self.cluster.heartbeat(broker_id, wants_shutdown=True)

    @rule(ms=st.sampled_from([500, 2_000]))
    def wait(self, ms: int) -> None:
        self.cluster.beat_all()
        self.cluster.pass_ms(ms)

    @rule()
    def fail_over(self) -> None:
        before = self.state
        self.cluster.fail_over()
        assert self.state.target_replicas == before.target_replicas
        assert self.state.original_replicas == before.original_replicas

    @invariant()
    def the_leader_and_whoever_is_in_sync_are_replicas(self) -> None:
        if hasattr(self, "cluster"):
            state = self.state
            assert {*state.isr, *state.elr} <= set(state.replicas)
            assert state.leader == NO_LEADER or state.leader in state.isr

    def come_back(self, broker_id: int) -> None:
        self.restarts += 1
        self.cluster.restart(broker_id, str(self.restarts))

    def all_who_can_join(self) -> None:
        image = self.cluster.image
        isr = [b for b in self.state.replicas if b in self.state.isr or image.is_eligible(b)]
        self.cluster.propose(*isr)

    def teardown(self) -> None:
        """Once everybody is back the move can be completed, and cancelled as long as enough of those who were
        there before are in sync."""
        if not hasattr(self, "cluster"):
            return
        for broker_id in BROKERS:
            self.cluster.kill(broker_id)
        for broker_id in BROKERS:
            self.come_back(broker_id)
        before = self.state
        assert before.leader != NO_LEADER
        if not before.is_reassigning:
            return
        here, elsewhere = self.cluster, copy.deepcopy(self.cluster)
        self.all_who_can_join()
        assert (here.partition().replicas, here.partition().is_reassigning) == (before.target_replicas, False)

        missing = next(b for b in before.target_replicas if b not in before.isr)
        members = {*before.isr, *before.original_replicas} - {missing}
        elsewhere.propose(*sorted(members))
        is_safe = len(members & set(before.original_replicas)) >= before.min_insync_replicas
        # Below the minimum, who fell out of the ISR may be the one that has what was acknowledged (KIP-966).
        holders = {*elsewhere.partition().isr, *elsewhere.partition().elr}
        assert (elsewhere.cancel().refusal is None) == (is_safe or holders <= set(before.original_replicas))
        if is_safe:
            assert elsewhere.partition().replicas == before.original_replicas


TestRandomMoves = RandomMoves.TestCase
TestRandomMoves.settings = settings(max_examples=150, stateful_step_count=25, deadline=None)
