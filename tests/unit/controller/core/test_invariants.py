"""Random events, and after each of them the rules that no event may break."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from functools import partial

import hypothesis.strategies as st
import msgspec
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from controller.core.alarms import way_on
from controller.core.configs import effective_min_insync_replicas
from controller.core.effects import AlarmCode
from controller.core.events import (
    AddPartitions,
    AlterReassignments,
    ConfigureCluster,
    ConfigureTopic,
    ElectUnclean,
    Event,
    MaintainBrokers,
    ReassignmentTarget,
    RegisterMember,
)
from controller.core.image import ClusterImage
from controller.core.machine import ClusterMachine, Step
from controller.core.options import ControllerOptions
from controller.core.records import Cause, PartitionRecord
from springtide.contract.epochs import BrokerEpoch, ControllerEpoch
from springtide.contract.partition_state import NO_LEADER, LeaderRecovery, PartitionState
from springtide.contract.session import BrokerStatus, ShutdownKind
from springtide.contract.updates import ApplyFailure, PollRequest
from tests.kit.controller.core_cluster import Cluster, topic_id
from tests.kit.controller.images import build_update, replay_all

BROKERS = (1, 2, 3, 4)
#: The only causes for which a broker may enter an ISR (I10, only leaders expand the ISR).
MAY_ADD_TO_ISR = {
    Cause.TOPIC_CREATED,
    Cause.ISR_EXPANDED,
    Cause.REASSIGNMENT_COMPLETED,  # with the addition of the last target
    Cause.UNCLEAN_LEADER_ELECTED,
}


class Recorded(Cluster):
    """Keeps every event with its time, to be played again."""

    def __init__(self) -> None:
        self.history: list[tuple[Event, int]] = []
        self.steps: list[Step] = []
        super().__init__(brokers=BROKERS)

    def step(self, event: Event) -> Step:
        before = {
            (r.state.topic_id, r.state.partition): r.state
            for r in self.records
            if isinstance(r, PartitionRecord)
        }
        self.history.append((event, self.now_ms))
        step = super().step(event)
        self.steps.append(step)
        for record in step.records:
            if isinstance(record, PartitionRecord):
                key = (record.state.topic_id, record.state.partition)
                check_transition(before.get(key), record)
                before[key] = record.state
        return step


def check_transition(before: PartitionState | None, record: PartitionRecord) -> None:
    after = record.state
    if before is None:
        assert record.change.cause in (Cause.TOPIC_CREATED, Cause.PARTITIONS_ADDED)
        return
    assert after.partition_epoch == before.partition_epoch + 1
    unclean = after.unclean_leader_epoch != before.unclean_leader_epoch
    lost_log = record.change.cause in (Cause.LOG_MISSING, Cause.STORAGE_ERROR, Cause.REPLICA_ROTTEN)
    drops = not set(before.replicas) <= set(after.replicas)
    begins_anew = after.leader != before.leader or drops or (lost_log and after.leader != NO_LEADER)
    assert after.leader_epoch == before.leader_epoch + begins_anew
    joined = set(after.isr) - set(before.isr)
    if joined and record.change.cause not in MAY_ADD_TO_ISR:
        # Election from the ELR: alone in its ISR.
        assert joined <= set(before.elr)
        assert after.isr == (after.leader,)
    if not unclean and after.leader not in (NO_LEADER, before.leader):
        assert after.leader in (*before.isr, *before.elr, *joined)
    # Nobody becomes eligible but who was in sync or eligible.
    assert set(after.elr) <= set(before.isr) | set(before.elr)


def check_image(image: ClusterImage, awaits_word: Callable[[PartitionState], bool]) -> None:
    """awaits_word: whether an election from the ELR waits until another live member tells of its log."""
    for key, state in image.partitions.items():
        if image.topics[key[0]].deleting:
            continue
        assert state.isr == tuple(b for b in state.replicas if b in state.isr)
        assert set(state.new_replicas) <= set(state.replicas)
        check_assignment(state)
        configs = image.topics[key[0]].configs
        assert state.min_insync_replicas == effective_min_insync_replicas(
            configs, image.configs, replication_factor=state.replication_factor
        )
        assert set(state.isr).isdisjoint(state.elr)
        assert set(state.elr) <= set(state.replicas)
        assert set(state.last_known_elr).isdisjoint({*state.isr, *state.elr})
        if len(state.isr) >= state.min_insync_replicas:
            assert state.elr == ()
            assert state.last_known_elr == ()
        if state.leader == NO_LEADER:
            assert not any(image.is_eligible(b) for b in state.isr)
            assert awaits_word(state) or not any(image.is_eligible(b) for b in state.elr)
        else:
            assert state.leader in state.isr
            assert not image.brokers[state.leader].fenced
            assert state.last_known_leader == NO_LEADER
        for broker_id in state.isr:
            assert not image.brokers[broker_id].fenced
        if state.recovery is LeaderRecovery.RECOVERING:
            assert len(state.isr) <= 1
    check_indexes(image)


def check_assignment(state: PartitionState) -> None:
    """4.2 (reassignment): the targets come first, what goes stands behind them, and what was there before is
    known."""
    original, target = set(state.original_replicas), state.target_replicas
    assert len(set(state.replicas)) == len(state.replicas) > 0
    assert state.replicas == target + state.removing_replicas
    if not state.is_reassigning:
        assert (state.adding_replicas, state.removing_replicas, state.throttle) == ((), (), None)
        return
    assert set(state.adding_replicas) == set(target) - original
    assert set(state.removing_replicas) == original - set(target)
    assert state.adding_replicas or state.removing_replicas


def check_indexes(image: ClusterImage) -> None:
    rebuilt = ClusterImage()
    live = {k: s for k, s in image.partitions.items() if k[0] not in image.deletions}
    for state in live.values():
        rebuilt._replay_partition(state)
    for name in (
        "leaderless",
        "below_min",
        "under_replicated",
        "not_preferred",
        "recovering",
        "reassigning",
    ):
        assert set(getattr(rebuilt, name)) == set(getattr(image, name)), name
    for name in ("replicas_of", "seats_of", "leader_of"):
        mine = {b: set(keys) for b, keys in getattr(image, name).items() if keys}
        assert {b: set(keys) for b, keys in getattr(rebuilt, name).items() if keys} == mine, name
    counts = {b: n for b, n in image.preferred_counts.items() if n}
    assert {b: n for b, n in rebuilt.preferred_counts.items() if n} == counts
    assert set(image.demoted) == {b for b, registration in image.brokers.items() if registration.demoted}
    workers: dict[int, list[int]] = {}
    for broker_id in sorted(image.brokers):
        workers.setdefault(image.brokers[broker_id].owner_id, []).append(broker_id)
    assert {owner: list(ids) for owner, ids in image.worker_ids.items()} == workers
    assert set(rebuilt.unconfirmed_new) == set(image.unconfirmed_new)
    assert vars(image.copy()) == vars(image)


brokers = st.sampled_from(BROKERS)


class RandomCluster(RuleBasedStateMachine):
    @initialize(minimum=st.sampled_from(["1", "2", "3"]), unclean=st.sampled_from(["true", "false"]))
    def begin(self, minimum: str, unclean: str) -> None:
        self.cluster = Recorded()
        self.topics = 0
        self.incarnations = 0
        self.ids: set[int] = set()
        self.create(data_replicas=[(1, 2, 3), (4, 1, 2)], minimum=minimum, unclean="false")
        self.create(data_replicas=[(2, 3, 4)], minimum=minimum, unclean=unclean)

    def create(self, *, data_replicas: list[tuple[int, ...]], minimum: str, unclean: str) -> None:
        configs = {"min.insync.replicas": minimum, "unclean.leader.election.enable": unclean}
        self.cluster.create(*data_replicas, number=self.topics, configs=configs)
        self.topics += 1

    def state(self, data: st.DataObject) -> PartitionState:
        return data.draw(st.sampled_from(list(self.cluster.image.partitions.values())))

    @precondition(lambda self: self.topics < 5 and self.cluster.image.is_eligible(1))
    @precondition(lambda self: not any(self.cluster.broker(b).cordoned for b in (1, 2, 3)))
    @rule(minimum=st.sampled_from(["1", "2", "3"]))
    def create_another(self, minimum: str) -> None:
        self.create(data_replicas=[(1, 2, 3)], minimum=minimum, unclean="false")

    @rule(data=st.data(), minimum=st.sampled_from(["1", "2", "3", None]))
    def configure(self, data: st.DataObject, minimum: str | None) -> None:
        state = self.state(data)
        configs = {"min.insync.replicas": minimum}
        event = ConfigureTopic(wall_ms=0, actor="ann", topic_id=state.topic_id, configs=configs)
        self.cluster.step(event)

    @rule(minimum=st.sampled_from(["1", "3", None]))
    def configure_cluster(self, minimum: str | None) -> None:
        configs = {"min.insync.replicas": minimum}
        self.cluster.step(ConfigureCluster(wall_ms=0, actor="ann", configs=configs))

    @rule(data=st.data())
    def add_partition(self, data: st.DataObject) -> None:
        topic = self.cluster.image.topics[self.state(data).topic_id]
        if topic.partitions < 4:
            count = topic.partitions + 1
            event = AddPartitions(wall_ms=0, actor="ann", topic_id=topic.topic_id, partitions=count)
            self.cluster.step(event)

    @rule(number=st.integers(1, 4))
    def delete(self, number: int) -> None:
        self.cluster.delete(number)

    @rule(broker_id=brokers, behind=st.integers(0, 6), stopping=st.sampled_from([False, False, False, True]))
    def heartbeat(self, broker_id: int, behind: int, stopping: bool) -> None:
        self.cluster.heartbeat(
            broker_id, applied=self.cluster.image.sequence - behind, wants_shutdown=stopping
        )

    @rule()
    def heartbeat_all(self) -> None:
        for broker_id in BROKERS:
            self.cluster.heartbeat(broker_id)

    @rule(broker_id=brokers)
    def die(self, broker_id: int) -> None:
        self.cluster.kill(broker_id)

    @rule(ms=st.sampled_from([300, 1_500, 4_000, 6_500]))
    def wait(self, ms: int) -> None:
        self.cluster.pass_ms(ms)

    @rule(
        broker_id=brokers,
        kind=st.sampled_from(list(ShutdownKind)),
        wiped=st.booleans(),
        knows_epoch=st.booleans(),
    )
    def restart(self, broker_id: int, kind: ShutdownKind, wiped: bool, knows_epoch: bool) -> None:
        self.incarnations += 1
        before = self.cluster.broker(broker_id)
        request = self.cluster.request(
            broker_id,
            str(self.incarnations),
            last_shutdown=kind,
            previous_broker_epoch=before.broker_epoch if knows_epoch else -1,
            dirs=(f"dir-{broker_id}-{self.incarnations}",) if wiped else before.log_dir_ids,
        )
        step = self.cluster.step(RegisterMember(wall_ms=0, request=request))
        after = self.cluster.broker(broker_id)
        if after.broker_epoch == before.broker_epoch:
            return
        assert after.broker_epoch not in self.ids
        self.ids.add(after.broker_epoch)
        vouched = kind.is_intact and knows_epoch and not wiped
        for state in self.cluster.image.partitions.values():
            if self.cluster.image.topics[state.topic_id].deleting:
                continue
            assert broker_id not in state.isr
            assert vouched or broker_id not in state.elr
        assert getattr(step.records[-1], "registration", None) == after

    @rule(data=st.data(), members=st.sets(brokers), stale=st.integers(0, 1))
    def propose(self, data: st.DataObject, members: set[int], stale: int) -> None:
        state = self.state(data)
        if state.leader == NO_LEADER:
            return
        base = msgspec.structs.replace(state, partition_epoch=state.partition_epoch - stale)
        isr = sorted({*members, state.leader})
        result = self.cluster.propose(*isr, base=base, sender=state.leader)
        assert result.state == self.cluster.image.partitions.get((state.topic_id, state.partition))

    @rule(data=st.data())
    def confirm_recovery(self, data: st.DataObject) -> None:
        state = self.state(data)
        if state.recovery is LeaderRecovery.RECOVERING and state.leader != NO_LEADER:
            self.cluster.propose(*state.isr, base=state, recovery=LeaderRecovery.RECOVERED)

    @rule(data=st.data(), code=st.sampled_from(["log_missing", "storage_error", "rotten", "quarantined"]))
    def lose_log(self, data: st.DataObject, code: str) -> None:
        state = self.state(data)
        broker_id = data.draw(st.sampled_from(state.replicas))
        failure = ApplyFailure(
            topic_id=state.topic_id,
            partition=state.partition,
            partition_epoch=state.partition_epoch,
            code=code,
        )
        self.cluster.applied(broker_id, failure)

    @rule(data=st.data(), broker_id=brokers)
    def elect_unclean(self, data: st.DataObject, broker_id: int) -> None:
        state = self.state(data)
        self.cluster.step(
            ElectUnclean(
                wall_ms=0,
                actor="ann",
                topic_id=state.topic_id,
                partition=state.partition,
                broker_id=broker_id,
                partition_epoch=state.partition_epoch,
            )
        )

    @rule(data=st.data(), replicas=st.lists(brokers, min_size=1, max_size=4, unique=True))
    def reassign(self, data: st.DataObject, replicas: list[int]) -> None:
        state = self.state(data)
        self.alter(state, tuple(replicas))

    @rule(data=st.data())
    def cancel_reassignment(self, data: st.DataObject) -> None:
        self.alter(self.state(data), None)

    @rule(broker_id=brokers, cordoned=st.booleans(), demoted=st.booleans())
    def maintain(self, broker_id: int, cordoned: bool, demoted: bool) -> None:
        event = MaintainBrokers(
            wall_ms=0, actor="ann", broker_ids=(broker_id,), cordoned=cordoned, demoted=demoted
        )
        dry = self.cluster.machine.step(msgspec.structs.replace(event, dry_run=True), self.cluster.now_ms)
        assert dry.records == ()
        reply = self.cluster.step(event).reply
        assert reply == msgspec.structs.replace(dry.reply, dry_run=False)  # type: ignore[type-var]

    def alter(self, state: PartitionState, replicas: tuple[int, ...] | None) -> None:
        target = ReassignmentTarget(topic_id=state.topic_id, partition=state.partition, replicas=replicas)
        rate = 1_000 if replicas and replicas[0] % 2 else None
        event = AlterReassignments(wall_ms=0, actor="ann", targets=(target,), throttled_rate=rate)
        self.cluster.step(event)

    @rule(broker_id=brokers)
    def lose_disk(self, broker_id: int) -> None:
        broker = self.cluster.broker(broker_id)
        self.cluster.heartbeat(broker_id, offline=broker.log_dir_ids)

    @invariant()
    def the_image_is_sound(self) -> None:
        image, floors = self.cluster.image, self.cluster.machine._floors
        check_image(image, partial(floors.awaits, image))

    @invariant()
    def alarms_agree_with_the_image(self) -> None:
        image, code = self.cluster.image, AlarmCode.PARTITION_LEADERLESS
        alarms = self.cluster.machine.alarms()
        listed = {a.key.partition_key for a in alarms if a.key.code is code}
        folded = sum(a.follows.get(code, 0) for a in alarms)
        assert listed <= set(image.leaderless)
        assert len(listed) + folded == len(image.leaderless) == self.cluster.machine.alarm_counts()[code]
        undecided = {key for key in image.leaderless if way_on(image.partitions[key]) is not None}
        assert undecided <= listed, "what needs an operator's choice is never folded"

    def teardown(self) -> None:
        if not hasattr(self, "cluster"):
            return
        self.replaying_the_records_gives_the_same_image()
        self.the_same_events_give_the_same_records()

    def replaying_the_records_gives_the_same_image(self) -> None:
        image = ClusterImage()
        replay_all(image, self.cluster.records)
        mine = self.cluster.image
        assert (image.partitions, image.topics, image.brokers) == (mine.partitions, mine.topics, mine.brokers)
        assert image.sequence == mine.sequence

    def the_same_events_give_the_same_records(self) -> None:
        again = Cluster(brokers=())
        again.now_ms = self.cluster.history[0][1]
        for (event, now_ms), expected in zip(self.cluster.history, self.cluster.steps, strict=True):
            again.now_ms = now_ms
            assert again.step(event) == expected


TestRandomCluster = RandomCluster.TestCase
TestRandomCluster.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_everything_heals_once_faults_stop() -> None:
    """L2 (in sync again), L7 (alarms clear): brokers return, leaders let them in, and no alarm stays up."""
    cluster = Cluster()
    cluster.create((1, 2, 3), (2, 3, 1), (3, 1, 2))
    for round_number, broker_id in enumerate((1, 2, 3, 1, 2, 3)):
        cluster.kill(broker_id)
        cluster.restart(broker_id, f"r{round_number}")
        for number in range(3):
            state = cluster.partition(number)
            assert cluster.propose(*state.replicas, base=state).error == "none"
    assert all(cluster.partition(n).isr == cluster.partition(n).replicas for n in range(3))
    assert cluster.machine.alarms() == ()


def leads_many(partitions: int, replicas: tuple[int, ...]) -> tuple[ClusterMachine, Cluster]:
    cluster = Cluster(ControllerOptions(partitions_per_topic_max=partitions), brokers=(1, 2, 3))
    cluster.create(*[replicas] * partitions)
    return cluster.machine, cluster


def test_the_death_of_a_leader_of_ten_thousand_partitions_is_one_quick_step() -> None:
    _, cluster = leads_many(10_000, (1, 2, 3))
    began = time.process_time()
    step = cluster.kill(1)
    spent_ms = (time.process_time() - began) * 1_000
    print(f"10,000 elections in {spent_ms:.0f} ms of CPU")
    assert len(step.records) == 10_001
    assert cluster.partition(9_999).leader == 2
    assert spent_ms < 1_000  # several times what it takes, for slow machines


def test_a_death_costs_what_it_touches_not_what_the_cluster_holds() -> None:
    _, cluster = leads_many(10_000, (1, 2, 3))
    cluster.register(4)
    cluster.create((3,), number=1)
    gc.disable()  # a collection would look at all that the cluster holds
    try:
        began = time.process_time()
        cluster.kill(4)
        assert time.process_time() - began < 0.01
    finally:
        gc.enable()
    assert (
        build_update(
            cluster.image,
            PollRequest(
                broker_id=1,
                broker_epoch=BrokerEpoch(1),
                applied_controller_epoch=ControllerEpoch(1),
                applied_sequence=cluster.image.sequence,
            ),
            controller_epoch=1,
        )
        is None
    )
    assert cluster.broker(4).status is BrokerStatus.WAITING
    assert topic_id(1) in cluster.image.topics
