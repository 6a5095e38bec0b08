"""Events in, replies out, and between the two everything is persisted, published and taken over."""

from __future__ import annotations

import itertools
import json
from collections.abc import Awaitable, Callable, Sequence

import anyio
import anyio.lowlevel
import msgspec
import pytest

from controller.audit.change import AuditedChange, Entity
from controller.core.events import (
    AlterAcls,
    AlterQuotas,
    AlterReassignments,
    AlterUsers,
    AppliedReply,
    BrokerApplied,
    ConfigureCluster,
    ConfigureTopic,
    CreateTopic,
    Event,
    ReassignmentsAltered,
    ReassignmentTarget,
    TopicConfigured,
    TopicCreated,
    UserToAlter,
)
from controller.core.options import ControllerOptions
from controller.shell.clock import Ids
from controller.shell.copies import read_published
from controller.shell.driver import IN_FORCE_MS_MAX
from controller.shell.leadership import ACTIVE_PATH, EPOCH_PATH
from controller.shell.listeners import ListenerAnswer
from controller.shell.meta import ANY_VERSION, Delete, MetaUnavailable, Node, SetData
from controller.shell.outcomes import (
    ClusterExists,
    MetadataWentBack,
    NotActive,
    NotInForce,
    OutcomeUnknown,
    UnknownCluster,
)
from controller.shell.rows import PARTITIONS_PER_CHUNK, level_path
from springtide.contract.administration import QuotasToAlter
from springtide.contract.epochs import BrokerEpoch, ControllerEpoch
from springtide.contract.errors import ControllerError
from springtide.contract.security import QuotaEntity, UserSecrets
from springtide.contract.session import BrokerStatus, Witness
from tests.kit.clocks import VirtualClock
from tests.kit.controller.security import SHA_256, has_secrets, of_topic
from tests.kit.controller.shell import (
    TOPIC_ID,
    AddressBook,
    Broker,
    form_cluster,
    make_engine,
    running,
    until_active,
)
from tests.kit.memory.zookeeper import LostAnswer, MemoryMeta, MemoryZooKeeper

pytestmark = pytest.mark.anyio


def create_topic(name: str = "orders", *, partitions: int = 3, topic_id: str = TOPIC_ID) -> CreateTopic:
    return CreateTopic(
        topic_id=topic_id,
        topic=name,
        partitions=partitions,
        replication_factor=3,
        actor="operator",
        wall_ms=1,
    )


class RecordedAudit:
    """An outbox that only remembers."""

    def __init__(self) -> None:
        self.changes: list[AuditedChange] = []
        self.backfilled: list[str] = []

    def record_changes(self, changes: Sequence[AuditedChange], /) -> None:
        self.changes.extend(changes)

    def backfill(self, cluster: str, /) -> None:
        self.backfilled.append(cluster)


async def test_a_broker_becomes_active_and_a_topic_is_led(meta: MemoryMeta, clock: VirtualClock) -> None:
    engine = make_engine(meta, clock)
    async with running(engine):
        brokers = await form_cluster(engine)
        assert [(await broker.heartbeat()).status for broker in brokers] == [BrokerStatus.ACTIVE] * 3
        created = await engine.submit("prod", create_topic())
        assert isinstance(created, TopicCreated)
        image = engine.cluster("prod").image
        assert sorted(state.leader for state in image.partitions_of(TOPIC_ID)) == [1, 2, 3]
        assert engine.clusters() == ["prod"]


async def test_a_standby_refuses_writes_names_the_active_and_shows_an_aging_copy(
    zookeeper: MemoryZooKeeper, clock: VirtualClock
) -> None:
    first = make_engine(zookeeper.connect(), clock, name="c1")
    second = make_engine(zookeeper.connect(), clock, name="c2")
    async with running(first, second):
        await form_cluster(first)
        await first.submit("prod", create_topic())
        await anyio.sleep(2.5)
        assert (second.role, second.leadership.active_url) == ("standby", "http://c1:8080")
        with pytest.raises(NotActive) as refused:
            await second.submit("prod", create_topic("more"))
        assert refused.value.active_url == "http://c1:8080"
        shown = second.cluster("prod")
        assert shown.image.partitions == first.cluster("prod").image.partitions
        assert shown.as_of_ms is not None and clock.now_mono_ms() - shown.as_of_ms < 2_000
        assert first.cluster("prod").as_of_ms is None


async def test_a_standby_without_a_copy_does_not_say_that_a_cluster_is_unknown(
    zookeeper: MemoryZooKeeper, clock: VirtualClock
) -> None:
    """One that has just started has no copy, nor has one that has just resigned; and the copies that it has
    may be older than the cluster."""
    first = make_engine(zookeeper.connect(), clock, name="c1")
    second = make_engine(zookeeper.connect(), clock, name="c2")
    async with running(first, second):
        await form_cluster(first)
        with pytest.raises(UnknownCluster):
            first.cluster("other")
        with pytest.raises(NotActive) as refused:
            second.cluster("prod")
        assert refused.value.active_url == "http://c1:8080"
        await anyio.sleep(2.5)
        with pytest.raises(NotActive):
            second.cluster("other")
        first.stand_down()
        await anyio.sleep(0.001)
        with pytest.raises(NotActive):
            first.cluster("prod")


async def test_what_one_controller_decided_the_next_one_knows(
    zookeeper: MemoryZooKeeper, clock: VirtualClock
) -> None:
    first_meta = zookeeper.connect()
    first = make_engine(first_meta, clock, name="c1")
    second = make_engine(zookeeper.connect(), clock, name="c2")
    async with running(first, second):
        await form_cluster(first)
        await first.submit("prod", create_topic())
        decided = dict(first.cluster("prod").image.partitions)
        first_meta.lose_session()
        await until_active([second])
        assert second.controller_epoch == 2
        assert second.cluster("prod").image.partitions == decided
        with pytest.raises(NotActive):
            await first.submit("prod", create_topic("more"))


async def test_a_move_goes_on_under_the_next_controller_and_can_be_cancelled_there(
    zookeeper: MemoryZooKeeper, clock: VirtualClock
) -> None:
    """Everything it needs stands in the partition's row in ZooKeeper, the order that was there before too."""
    first_meta = zookeeper.connect()
    first = make_engine(first_meta, clock, name="c1")
    second = make_engine(zookeeper.connect(), clock, name="c2")

    def move(replicas: tuple[int, ...] | None) -> AlterReassignments:
        target = ReassignmentTarget(topic_id=TOPIC_ID, partition=0, replicas=replicas)
        return AlterReassignments(actor="operator", wall_ms=2, targets=(target,))

    async with running(first, second):
        await form_cluster(first)
        event = msgspec.structs.replace(
            create_topic(), partitions=None, replication_factor=None, assignments=((2, 1),)
        )
        await first.submit("prod", event)
        await first.submit("prod", move((3, 1)))
        (before,) = first.cluster("prod").reassignments()
        with pytest.raises(NotActive):
            second.cluster("prod").reassignments()
        first_meta.lose_session()
        await until_active([second])
        (after,) = second.cluster("prod").reassignments()
        assert after == before
        assert (after.original_replicas, after.target_replicas, after.remaining) == ((2, 1), (3, 1), 1)
        reply = await second.submit("prod", move(None))
        assert isinstance(reply, ReassignmentsAltered)
        assert second.cluster("prod").image.partitions[TOPIC_ID, 0].replicas == (2, 1)
        assert second.cluster("prod").reassignments() == ()


async def test_heartbeats_are_answered_while_a_write_is_stuck_and_no_longer_than_authority_lasts(
    meta: MemoryMeta, clock: VirtualClock
) -> None:
    engine = make_engine(meta, clock)
    async with running(engine):
        brokers = await form_cluster(engine)
        meta.hold_writes()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(engine.submit, "prod", create_topic())
            await meta.until_held(1)
            with anyio.fail_after(0.001):
                answers = [await broker.heartbeat() for broker in brokers]
            assert [answer.error for answer in answers] == [ControllerError.NONE] * 3
            assert TOPIC_ID not in engine.cluster("prod").image.topics
            meta.release_writes()
        assert TOPIC_ID in engine.cluster("prod").image.topics
        meta.disconnect()
        await anyio.sleep(0.001)
        with pytest.raises(NotActive):
            await brokers[0].heartbeat()


async def test_requests_that_arrive_during_a_write_are_persisted_together_by_the_next(
    zookeeper: MemoryZooKeeper, meta: MemoryMeta, clock: VirtualClock
) -> None:
    engine = make_engine(meta, clock)
    async with running(engine):
        await form_cluster(engine)
        meta.hold_writes()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(engine.submit, "prod", create_topic("first"))
            await meta.until_held(1)
            for number in range(20):
                event = create_topic(f"topic-{number}", topic_id=f"{number:022d}", partitions=1)
                tasks.start_soon(engine.submit, "prod", event)
            await anyio.sleep(0.01)
            writes_before = len(zookeeper.history)
            meta.release_writes()
        assert len(zookeeper.history) == writes_before + 2
        assert len(engine.cluster("prod").image.topics) == 21


async def test_a_silent_broker_is_fenced_after_the_grace_and_its_partitions_move(
    meta: MemoryMeta, clock: VirtualClock
) -> None:
    engine = make_engine(meta, clock, options=ControllerOptions())
    async with running(engine):
        brokers = await form_cluster(engine)
        await engine.submit("prod", create_topic())
        for _ in range(14):  # Seven seconds in which broker 3 says nothing.
            await anyio.sleep(0.5)
            for broker in brokers[:2]:
                await broker.heartbeat()
                await broker.apply()
        image = engine.cluster("prod").image
        assert image.brokers[3].fenced
        assert {state.leader for state in image.partitions_of(TOPIC_ID)} == {1, 2}


async def test_time_without_authority_counts_against_no_broker_and_ends_no_term(
    zookeeper: MemoryZooKeeper, meta: MemoryMeta, clock: VirtualClock
) -> None:
    engine = make_engine(meta, clock)
    async with running(engine):
        brokers = await form_cluster(engine)
        zookeeper.latency_ms = 20_000
        await anyio.sleep(18)
        with pytest.raises(NotActive):
            await brokers[0].heartbeat()
        zookeeper.latency_ms = 1
        await until_active([engine])
        await anyio.sleep(2)  # With the three seconds of authority before: less than the grace.
        assert not any(broker.fenced for broker in engine.cluster("prod").image.brokers.values())
        for broker in brokers[:2]:
            await broker.heartbeat()
        await anyio.sleep(2)  # The third is silent for more than the grace by now.
        image = engine.cluster("prod").image
        assert [image.brokers[n].fenced for n in (1, 2, 3)] == [False, False, True]
        assert (engine.controller_epoch, engine.leadership.elections_won) == (1, 1)


async def test_a_late_heartbeat_and_a_refusing_listener_fence_without_waiting_for_the_grace(
    meta: MemoryMeta, clock: VirtualClock
) -> None:
    listeners = AddressBook()
    listeners.open("127.0.0.1", 9003)
    engine = make_engine(meta, clock, listeners=listeners)
    async with running(engine):
        brokers = await form_cluster(engine)
        listeners.answers[("127.0.0.1", 9003)] = ListenerAnswer.REFUSED
        for _ in range(5):  # Two and a half seconds; the grace is six.
            await anyio.sleep(0.5)
            for broker in brokers[:2]:
                await broker.heartbeat()
        assert engine.cluster("prod").image.brokers[3].fenced
        assert (
            listeners.asked.count(("127.0.0.1", 9003)) == 3
        )  # once when it was first heard, then two refusals


async def test_a_refusal_from_an_address_that_never_accepted_proves_nothing_against_a_broker_we_hear(
    meta: MemoryMeta, clock: VirtualClock
) -> None:
    """It advertises an address that the controller can't reach; its heartbeats are late, but they come."""
    listeners = AddressBook()
    listeners.answers[("127.0.0.1", 9003)] = ListenerAnswer.REFUSED
    engine = make_engine(meta, clock, listeners=listeners)
    async with running(engine):
        brokers = await form_cluster(engine)
        for turn in range(8):
            await anyio.sleep(0.5)
            for broker in brokers if turn % 4 == 3 else brokers[:2]:
                await broker.heartbeat()
        assert not engine.cluster("prod").image.brokers[3].fenced


async def test_a_controller_whose_epoch_is_over_stops_at_its_next_write(
    zookeeper: MemoryZooKeeper, meta: MemoryMeta, clock: VirtualClock
) -> None:
    engine = make_engine(meta, clock)
    async with running(engine):
        await form_cluster(engine)
        other = zookeeper.connect()
        await other.start_write([SetData(EPOCH_PATH, b'{"controller_epoch":9}', -1)]).outcome()
        topics_before = {path for path in zookeeper.nodes if "/topics/" in path}
        with pytest.raises((NotActive, OutcomeUnknown)):
            await engine.submit("prod", create_topic())
        assert {path for path in zookeeper.nodes if "/topics/" in path} == topics_before
        await until_active([engine])
        assert engine.controller_epoch == 10


@pytest.mark.parametrize("is_applied", [True, False])
async def test_a_lost_answer_is_not_seen_by_who_asked(
    is_applied: bool, meta: MemoryMeta, clock: VirtualClock
) -> None:
    engine = make_engine(meta, clock)
    async with running(engine):
        await form_cluster(engine)
        meta.faults.append(LostAnswer(is_applied=is_applied))
        assert isinstance(await engine.submit("prod", create_topic()), TopicCreated)
        assert engine.controller_epoch == 1


async def test_a_new_controller_waits_the_grace_before_it_fences_anyone(
    zookeeper: MemoryZooKeeper, clock: VirtualClock
) -> None:
    """Leases that its predecessor granted may still run (S18, a successor right after heartbeats)."""
    first_meta = zookeeper.connect()
    first = make_engine(first_meta, clock, name="c1")
    second = make_engine(zookeeper.connect(), clock, name="c2")
    async with running(first, second):
        await form_cluster(first)
        first_meta.lose_session()
        await until_active([second])
        await anyio.sleep(5.5)
        assert not any(broker.fenced for broker in second.cluster("prod").image.brokers.values())
        await anyio.sleep(1.5)
        assert all(broker.fenced for broker in second.cluster("prod").image.brokers.values())


async def test_the_loop_turns_between_the_writes_of_a_creation_and_the_chunks_of_a_takeover(
    zookeeper: MemoryZooKeeper, clock: VirtualClock
) -> None:
    """Each turn is one in which heartbeats are answered. Time stands still while turns are counted."""
    zookeeper.latency_ms = 0
    first_meta = zookeeper.connect()
    first = make_engine(first_meta, clock, name="c1")
    second = make_engine(zookeeper.connect(), clock, name="c2")

    async def writes_by_turn(work: Callable[[], Awaitable[object]]) -> list[int]:
        """How many writes ZooKeeper had seen by each turn of the loop."""
        seen = [len(zookeeper.history)]
        async with anyio.create_task_group() as tasks:

            async def count() -> None:
                while True:
                    seen.append(len(zookeeper.history))
                    await anyio.lowlevel.checkpoint()

            tasks.start_soon(count)
            await work()
            tasks.cancel_scope.cancel()
        return [*seen, len(zookeeper.history)]

    async def take_over() -> None:
        first_meta.lose_session()
        for _ in range(100_000):
            if second.role == "active":
                return
            await anyio.lowlevel.checkpoint()
        raise AssertionError("nobody took over")

    async with running(first, second):
        await form_cluster(first)
        seen = await writes_by_turn(lambda: first.submit("prod", create_topic(partitions=10_000)))
        assert seen[-1] - seen[0] > 4
        # Of two tasks that are ready trio runs either first, so a turn may see two writes: never more.
        assert max(after - before for before, after in itertools.pairwise(seen)) <= 2
        assert len(await writes_by_turn(take_over)) > 10_000 // PARTITIONS_PER_CHUNK


@pytest.mark.parametrize("is_changed", [False, True])
async def test_a_standby_that_has_the_cluster_as_it_is_does_not_read_it_again(
    zookeeper: MemoryZooKeeper, clock: VirtualClock, is_changed: bool
) -> None:
    first_meta, second_meta = zookeeper.connect(), zookeeper.connect()
    first = make_engine(first_meta, clock, name="c1")
    second = make_engine(second_meta, clock, name="c2")
    read: list[str] = []
    get_many = second_meta.get_many

    async def noted(paths: Sequence[str]) -> list[Node | None]:
        read.extend(paths)
        return await get_many(paths)

    async with running(first, second):
        await form_cluster(first)
        await first.submit("prod", create_topic())
        await anyio.sleep(2.5)
        second_meta.get_many = noted  # type: ignore[method-assign]
        if is_changed:
            await first.submit("prod", create_topic("later", topic_id="l" * 22))
        decided = dict(first.cluster("prod").image.partitions)
        first_meta.lose_session()
        await until_active([second])
        assert any("/partitions-" in path for path in read) == is_changed
        assert second.cluster("prod").image.partitions == decided
        assert second.cluster("prod").as_of_ms is None
        assert vars(second.cluster("prod").decided) == vars(second.cluster("prod").image)
        await second.submit("prod", create_topic("next", topic_id="n" * 22))
        topics = second.cluster("prod").image.topic_ids
        assert set(topics) == {"orders", "next"} | ({"later"} if is_changed else set())
        rebuilt = await read_published(second_meta, clock, Ids(bytes), "prod")
        assert rebuilt is not None
        assert rebuilt.published.image.partitions == second.cluster("prod").image.partitions


async def test_a_copy_that_a_term_began_with_begins_no_other_term(
    zookeeper: MemoryZooKeeper, clock: VirtualClock
) -> None:
    """A term that ends while clusters are opened may have counted on with what it never wrote."""
    second_meta = zookeeper.connect()
    first = make_engine(zookeeper.connect(), clock, name="c1")
    second = make_engine(second_meta, clock, name="c2")
    read: list[str] = []
    get, get_many = second_meta.get, second_meta.get_many

    async def fails_once(path: str) -> Node | None:
        if path == "/clusters/staging/head":
            second_meta.get = get  # type: ignore[method-assign]
            raise MetaUnavailable("not now")
        return await get(path)

    async def noted(paths: Sequence[str]) -> list[Node | None]:
        read.extend(paths)
        return await get_many(paths)

    async with running(first, second):
        await form_cluster(first)
        await first.submit("prod", create_topic())
        await form_cluster(first, cluster="staging")
        await anyio.sleep(2.5)
        second_meta.get_many = noted  # type: ignore[method-assign]
        second_meta.get = fails_once  # type: ignore[method-assign]
        first.stand_down()
        await until_active([second])
        assert second_meta.get == get, "its first term ended at the second cluster"
        assert any(path.startswith("/clusters/prod/") for path in read)
        of_staging = [path for path in read if path.startswith("/clusters/staging/")]
        assert set(of_staging) == {level_path("staging")}, "which is read before it stands"


async def test_a_cluster_is_created_once(meta: MemoryMeta, clock: VirtualClock) -> None:
    engine = make_engine(meta, clock)
    async with running(engine):
        await engine.create_cluster("prod", configs={"num.partitions": "5"}, actor="operator")
        with pytest.raises(ClusterExists):
            await engine.create_cluster("prod", configs={}, actor="operator")
        with pytest.raises(UnknownCluster):
            await engine.submit("other", create_topic())
        assert engine.cluster("prod").image.configs == {"num.partitions": "5"}


async def test_clusters_are_driven_side_by_side(meta: MemoryMeta, clock: VirtualClock) -> None:
    engine = make_engine(meta, clock)
    async with running(engine):
        await form_cluster(engine, cluster="prod")
        await form_cluster(engine, cluster="test", brokers=1)
        assert engine.clusters() == ["prod", "test"]
        assert [len(engine.cluster(name).image.brokers) for name in engine.clusters()] == [3, 1]


async def test_every_persisted_change_reaches_the_audit_once_with_before_and_after(
    meta: MemoryMeta, clock: VirtualClock
) -> None:
    audit = RecordedAudit()
    engine = make_engine(meta, clock, outbox=audit)
    async with running(engine):
        await form_cluster(engine)
        await engine.submit("prod", create_topic(partitions=2))
        await engine.submit(
            "prod", ConfigureCluster(configs={"num.partitions": "7"}, actor="ada", reason="more", wall_ms=5)
        )
        await anyio.sleep(0.1)
        keys = [(change.entity, change.entity_id, change.version) for change in audit.changes]
        assert len(keys) == len(set(keys))
        created = [c for c in audit.changes if c.entity is Entity.PARTITION]
        assert [(c.entity_id, c.cause, c.before is None) for c in created] == [
            (f"{TOPIC_ID}/0", "topic_created", True),
            (f"{TOPIC_ID}/1", "topic_created", True),
        ]
        configured = audit.changes[-1]
        assert (configured.entity, configured.actor, configured.reason) == (Entity.CLUSTER, "ada", "more")
        assert configured.before is not None and configured.after is not None
        assert "num.partitions" not in configured.before["configs"]
        assert configured.after["configs"]["num.partitions"] == "7"
        assert audit.backfilled == ["prod"]


async def test_a_poll_waits_for_no_write_that_it_does_not_speak_of(
    zookeeper: MemoryZooKeeper, clock: VirtualClock
) -> None:
    """A dead broker's leaders are published in parts: each broker asks for the next while it is written."""
    engine = make_engine(zookeeper.connect(), clock)
    async with running(engine):
        broker, *_ = await form_cluster(engine)
        zookeeper.latency_ms = 50
        applied = BrokerApplied(
            broker_id=1,
            broker_epoch=BrokerEpoch(broker.broker_epoch),
            controller_epoch=engine.controller_epoch,
            sequence=engine.cluster("prod").image.sequence,
            wall_ms=5,
        )
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(engine.submit, "prod", create_topic())
            await anyio.sleep(0.01)
            began = anyio.current_time()
            assert await engine.submit("prod", applied) == AppliedReply()
            assert anyio.current_time() - began < 0.01
            assert engine.cluster("prod").image.topics == {}


async def test_much_history_is_written_once_what_is_being_decided_stands(
    zookeeper: MemoryZooKeeper, clock: VirtualClock
) -> None:
    audit = RecordedAudit()
    engine = make_engine(zookeeper.connect(), clock, outbox=audit)
    zookeeper.latency_ms = 50
    answered = 0

    async def submit(event: Event) -> None:
        nonlocal answered
        await engine.submit("prod", event)
        answered += 1

    change = ConfigureCluster(configs={"num.partitions": "8"}, actor="ada", reason=None, wall_ms=5)
    async with running(engine):
        await form_cluster(engine)
        await anyio.sleep(1)
        known = len(audit.changes)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(submit, create_topic(partitions=300))
            await anyio.sleep(0.01)
            tasks.start_soon(submit, change)
            await anyio.sleep(0.06)
            assert (answered, len(audit.changes)) == (1, known)
        await anyio.sleep(0.1)
        assert answered == 2
        assert len(audit.changes) > known + 300


async def test_a_little_history_is_written_at_once(zookeeper: MemoryZooKeeper, clock: VirtualClock) -> None:
    """A person looks for what they have just changed."""
    audit = RecordedAudit()
    engine = make_engine(zookeeper.connect(), clock, outbox=audit)
    zookeeper.latency_ms = 50
    async with running(engine):
        await form_cluster(engine)
        await anyio.sleep(1)
        known = len(audit.changes)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(engine.submit, "prod", create_topic())
            await anyio.sleep(0.01)
            tasks.start_soon(engine.submit, "prod", create_topic("later"))
            await anyio.sleep(0.06)
            assert known < len(audit.changes), "though another topic is being created"


async def test_the_truth_names_every_entity_with_the_version_its_change_had(
    zookeeper: MemoryZooKeeper, clock: VirtualClock
) -> None:
    audit = RecordedAudit()
    first_meta = zookeeper.connect()
    first = make_engine(first_meta, clock, name="c1", outbox=audit)
    second = make_engine(zookeeper.connect(), clock, name="c2")
    async with running(first, second):
        await form_cluster(first)
        await first.submit("prod", create_topic(partitions=2))
        await anyio.sleep(0.1)
        latest = {(c.entity, c.entity_id): c.version for c in audit.changes}
        first_meta.lose_session()
        await until_active([second])
        truth = {(c.entity, c.entity_id): c.version for c in second.truth("prod")}
        # The creation of the cluster itself is found by the back-fill only.
        assert {key: truth[key] for key in latest} == latest
        assert truth.keys() - latest.keys() == {(Entity.CLUSTER, "prod")}


async def test_acls_users_and_quotas_are_audited_and_taken_over(
    zookeeper: MemoryZooKeeper, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    audit = RecordedAudit()
    first_meta = zookeeper.connect()
    first = make_engine(first_meta, clock, name="c1", outbox=audit)
    second = make_engine(zookeeper.connect(), clock, name="c2")
    quotas = QuotasToAlter(entity=QuotaEntity(user="alice"), quotas={"request_percentage": 5.0})
    events = (
        AlterAcls(wall_ms=5, actor="ada", added=of_topic("a", "ALLOW alice@* READ").bindings),
        AlterUsers(wall_ms=6, actor="ada", users=(UserToAlter(user="alice", upsertions=(SHA_256,)),)),
        AlterQuotas(wall_ms=7, actor="ada", changes=(quotas,)),
    )
    async with running(first, second):
        await form_cluster(first)
        for event in events:
            await first.submit("prod", event)
        await anyio.sleep(0.1)
        told = [change for change in audit.changes if change.actor == "ada"]
        assert [(change.entity, change.cause, change.actor) for change in told] == [
            (Entity.ACLS, "acls_altered", "ada"),
            (Entity.USER, "user_altered", "ada"),
            (Entity.QUOTAS, "quotas_altered", "ada"),
        ]
        first_meta.lose_session()
        await until_active([second])
        image = second.cluster("prod").image
        assert list(image.acls.values()) == [of_topic("a", "ALLOW alice@* READ")]
        assert image.users == {"alice": UserSecrets(user="alice", scram=(SHA_256,))}
        assert [one.quotas for one in image.quotas.values()] == [{"request_percentage": 5.0}]
        found = {(change.entity, change.entity_id): change for change in second.truth("prod")}
        assert [found[change.entity, change.entity_id].after for change in told] == [
            change.after for change in told
        ]
        assert not has_secrets(repr([*audit.changes, *found.values(), *events]) + caplog.text)


async def test_a_fault_of_the_machine_ends_the_term_and_not_the_controller(
    meta: MemoryMeta, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = make_engine(meta, clock)
    async with running(engine):
        brokers = await form_cluster(engine)
        machine = engine.drivers.of("prod").machine
        monkeypatch.setattr(type(machine), "step", lambda *_: 1 // 0)
        with pytest.raises(NotActive):
            await brokers[0].heartbeat()
        monkeypatch.undo()
        await until_active([engine])
        assert engine.controller_epoch == 2
        answer = await Broker(engine, 1).register()
        assert answer.error is ControllerError.NONE


async def test_a_zookeeper_that_went_back_is_known_by_what_brokers_were_told(
    zookeeper: MemoryZooKeeper, clock: VirtualClock
) -> None:
    """The same controller epoch is given twice, on two histories; and a broker knows of both."""
    first = make_engine(zookeeper.connect(), clock, name="c1")
    async with running(first):
        await form_cluster(first)
        before = dict(zookeeper.nodes)
    async with running(make_engine(zookeeper.connect(), clock, name="c2")):
        epoch_lost = json.loads(zookeeper.nodes[EPOCH_PATH].data)
    zookeeper.nodes = {path: node for path, node in before.items() if not node.owner}
    third = make_engine(zookeeper.connect(), clock, name="c3")
    async with running(third):
        assert third.controller_epoch == epoch_lost["controller_epoch"]
        broker = Broker(third, 1)
        await broker.register()
        witness = Witness(
            cluster_id=third.cluster("prod").image.cluster_id,
            controller_epoch=epoch_lost["controller_epoch"],
            lineage=epoch_lost["lineage"],
        )
        broker.witness = witness
        assert (await broker.heartbeat()).error is ControllerError.METADATA_WENT_BACK
        with pytest.raises(MetadataWentBack):
            await third.submit("prod", create_topic())
        assert third.cluster("prod").went_back is not None


async def test_to_a_controller_that_was_replaced_a_newer_word_is_no_evidence(
    zookeeper: MemoryZooKeeper, clock: VirtualClock
) -> None:
    engine = make_engine(zookeeper.connect(), clock)
    async with running(engine):
        brokers = await form_cluster(engine)
        driver = engine.drivers.of("prod")
        other = zookeeper.connect()
        await other.start_write([Delete(ACTIVE_PATH, ANY_VERSION)]).outcome()
        brokers[0].witness = Witness(
            cluster_id=engine.cluster("prod").image.cluster_id,
            controller_epoch=ControllerEpoch(engine.controller_epoch + 1),
        )
        with pytest.raises(NotActive):
            await brokers[0].heartbeat()
        assert driver.machine.went_back is None


async def test_an_answer_that_forbids_waits_for_brokers_and_says_after_its_time_who_is_late(
    meta: MemoryMeta, clock: VirtualClock
) -> None:
    """Broker 3 is heard, and its stream stands still."""
    engine = make_engine(meta, clock)
    async with running(engine):
        one, two, three = await form_cluster(engine)
        await engine.submit("prod", create_topic())
        raised = ConfigureTopic(
            topic_id=TOPIC_ID, configs={"min.insync.replicas": "3"}, actor="operator", wall_ms=2
        )

        async def live(until_s: float) -> None:
            while anyio.current_time() < until_s:
                for broker in (one, two, three):
                    await broker.heartbeat()
                await one.apply()
                await two.apply()
                await anyio.sleep(0.5)

        asked_ms = engine.clock.now_mono_ms()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(live, anyio.current_time() + 20)
            with pytest.raises(NotInForce) as late:
                await engine.submit("prod", raised)
            assert late.value.members == (3,)
            late_ms = engine.clock.now_mono_ms()
            assert IN_FORCE_MS_MAX <= late_ms - asked_ms < IN_FORCE_MS_MAX + 100
            await three.apply()
            assert isinstance(await engine.submit("prod", raised), TopicConfigured)
            assert engine.clock.now_mono_ms() == late_ms


async def test_an_answer_that_forbids_ends_with_the_term(meta: MemoryMeta, clock: VirtualClock) -> None:
    engine = make_engine(meta, clock)
    async with running(engine):
        await form_cluster(engine)
        await engine.submit("prod", create_topic())
        raised = ConfigureTopic(
            topic_id=TOPIC_ID, configs={"min.insync.replicas": "3"}, actor="operator", wall_ms=2
        )
        async with anyio.create_task_group() as tasks:

            async def lose() -> None:
                await anyio.sleep(1)
                meta.lose_session()

            tasks.start_soon(lose)
            with pytest.raises(NotInForce):
                await engine.submit("prod", raised)
