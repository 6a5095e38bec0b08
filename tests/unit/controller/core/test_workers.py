"""The workers of a broker, which are one broker to operators."""

from __future__ import annotations

import msgspec
import pytest

from controller.core.effects import Alarm, AlarmCode, AlarmKey
from controller.core.events import (
    AddPartitions,
    AdmitBrokers,
    BrokerDescribed,
    BrokersAdmitted,
    BrokersConfigured,
    BrokersMaintained,
    ConfigureBrokers,
    CreateTopic,
    DescribeBroker,
    MaintainBrokers,
    MemberRemoved,
    OperatorEvent,
    PartitionsAdded,
    Refusal,
    RefusalCode,
    RegisterMember,
    RemoveMember,
    TopicCreated,
)
from controller.core.records import BrokerRegistration
from controller.core.workers import brokers_of, ids_of, status_of
from springtide.contract.errors import ControllerError
from springtide.contract.session import BrokerStatus, RegisterResponse, worker_id
from tests.kit.controller.core_cluster import Cluster, image_of_rows, topic_id

FIVE = (5, 1_000_005, 2_000_005)


def with_workers(*member_ids: int) -> Cluster:
    """Return a cluster of brokers 1 to 3, and of these registered workers of broker 5."""
    cluster = Cluster()
    for member_id in member_ids:
        assert cluster.register(member_id, worker_of=5).error is ControllerError.NONE
    return cluster


def admit(cluster: Cluster, *broker_ids: int) -> BrokersAdmitted:
    return cluster.ask(AdmitBrokers(wall_ms=0, actor="ann", broker_ids=broker_ids), BrokersAdmitted)


def statuses(cluster: Cluster) -> list[BrokerStatus]:
    return [cluster.broker(member_id).status for member_id in FIVE if member_id in cluster.image.brokers]


def refused(cluster: Cluster, member_id: int, worker_of: int | None, incarnation: str = "a") -> str:
    request = cluster.request(member_id, incarnation, worker_of=worker_of)
    answer = cluster.ask(RegisterMember(wall_ms=0, request=request), RegisterResponse)
    assert answer.error is ControllerError.INVALID_REQUEST
    return answer.detail


def test_the_first_worker_has_the_broker_s_own_id() -> None:
    assert [worker_id(5, number) for number in range(3)] == list(FIVE)


@pytest.mark.parametrize(
    ("member_id", "worker_of"),
    [
        (1_000_006, 5),
        (6, 5),
        (5, 1_000_005),
        (1_000_005, 1_000_005),
        (5 + 1_024 * 1_000_000, 5),
        (5, -1),
        (999_999, -1),
    ],
)
def test_a_worker_s_id_follows_from_its_broker_s(member_id: int, worker_of: int) -> None:
    assert "is the id of no worker of broker" in refused(Cluster(), member_id, worker_of)


def test_the_last_worker_that_a_broker_may_have_registers() -> None:
    assert Cluster().register(worker_id(5, 1_023), worker_of=5).error is ControllerError.NONE


def test_a_broker_of_its_own_is_not_made_a_worker_nor_a_worker_a_broker() -> None:
    cluster = with_workers(1_000_005)
    cluster.register(1_000_006)
    assert "the id of worker 1 of broker 5" in refused(cluster, 1_000_005, None, "b")
    assert "the id of broker 1000006" in refused(cluster, 1_000_006, 6, "b")


def test_the_workers_that_have_registered_are_admitted_with_their_broker() -> None:
    cluster = with_workers(*FIVE)
    assert statuses(cluster) == [BrokerStatus.WAITING] * 3
    reply = admit(cluster, 5)
    assert [worker.broker_id for worker in reply.brokers] == list(FIVE)
    for member_id in FIVE:
        cluster.heartbeat(member_id)
    assert statuses(cluster) == [BrokerStatus.ACTIVE] * 3


def test_a_worker_that_registers_later_is_admitted_and_as_its_broker_was_set() -> None:
    cluster = with_workers(5)
    admit(cluster, 5)
    for event in (
        MaintainBrokers(wall_ms=0, actor="ann", broker_ids=(5,), cordoned=True, demoted=True),
        DescribeBroker(wall_ms=0, actor="ann", broker_id=5, rack="r2", labels={"owner": "storage"}),
        ConfigureBrokers(
            wall_ms=0,
            actor="ann",
            broker_ids=(5,),
            configs={"leader.replication.throttled.rate": "100000"},
        ),
    ):
        assert not isinstance(cluster.step(event).reply, Refusal)
    cluster.register(1_000_005, worker_of=5)
    cluster.heartbeat(1_000_005)
    first, later = cluster.broker(5), cluster.broker(1_000_005)
    assert later.status is BrokerStatus.ACTIVE
    own = ("broker_id", "broker_epoch", "incarnation_id", "log_dir_ids", "chain_epoch", "fenced")
    assert msgspec.structs.replace(later, **{name: getattr(first, name) for name in own}) == first


def test_a_broker_goes_from_one_worker_to_two_with_what_it_holds() -> None:
    cluster = Cluster()
    cluster.create((1, 2, 3))
    cluster.kill(1)
    assert cluster.register(1, "b", worker_of=1).error is ControllerError.NONE
    assert cluster.register(1_000_001, worker_of=1).error is ControllerError.NONE
    assert [worker.admitted for worker in cluster.image.brokers.values()] == [True] * 4
    assert cluster.partition().replicas == (1, 2, 3)


EVENTS = [
    MaintainBrokers(wall_ms=0, actor="ann", broker_ids=(1_000_005,), cordoned=True),
    DescribeBroker(wall_ms=0, actor="ann", broker_id=1_000_005, rack="r2"),
    ConfigureBrokers(wall_ms=0, actor="ann", broker_ids=(1_000_005,), configs={}),
    AdmitBrokers(wall_ms=0, actor="ann", broker_ids=(1_000_005,)),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_what_operators_do_to_a_broker_is_refused_for_one_of_its_workers(event: OperatorEvent) -> None:
    cluster = with_workers(*FIVE)
    refusal = cluster.ask(event, Refusal)
    assert (refusal.code, refusal.hint) == (RefusalCode.INELIGIBLE_BROKER, "name broker 5")
    assert "1000005 is worker 1 of broker 5" in refusal.detail
    assert cluster.last.records == ()


def test_what_operators_do_to_a_broker_is_done_to_all_its_workers_in_one_step() -> None:
    cluster = with_workers(*FIVE)
    admit(cluster, 5)
    for flag in ("cordoned", "draining", "demoted"):
        bare = MaintainBrokers(wall_ms=0, actor="ann", broker_ids=(5,))
        event = msgspec.structs.replace(bare, **{flag: True})
        reply = cluster.ask(event, BrokersMaintained)
        assert [worker.broker_id for worker in reply.brokers] == list(FIVE)
        assert all(getattr(cluster.broker(member_id), flag) for member_id in FIVE)
    described = cluster.ask(
        DescribeBroker(wall_ms=0, actor="ann", broker_id=5, rack="r2", labels={"owner": "storage"}),
        BrokerDescribed,
    )
    assert described.broker == cluster.broker(5)
    assert [cluster.broker(member_id).rack for member_id in FIVE] == ["r2"] * 3
    rate = {"follower.replication.throttled.rate": "100000"}
    cluster.ask(
        ConfigureBrokers(wall_ms=0, actor="ann", broker_ids=(5,), configs=dict(rate)), BrokersConfigured
    )
    assert [cluster.broker(member_id).configs for member_id in FIVE] == [rate] * 3


def test_a_broker_is_removed_with_all_its_workers_once_none_runs_and_none_holds_a_replica() -> None:
    cluster = with_workers(*FIVE)
    admit(cluster, 5)
    for member_id in FIVE:
        cluster.heartbeat(member_id)
    cluster.create((1, 2, 2_000_005))
    event = RemoveMember(wall_ms=0, actor="ann", member_id=5)
    assert cluster.ask(event, Refusal).detail == "broker 5 is assigned 1 replicas"
    cluster.reassign(1, 2, 3)
    cluster.propose(1, 2, 3, 2_000_005)
    cluster.kill(5, 1_000_005)
    assert cluster.ask(event, Refusal).detail == "worker 2 of broker 5 is still running"
    cluster.kill(2_000_005)
    last = cluster.image.last_broker_epoch
    cluster.ask(event, MemberRemoved)
    assert sorted(cluster.image.brokers) == [1, 2, 3]
    assert cluster.image.worker_ids == {1: (1,), 2: (2,), 3: (3,)}
    assert image_of_rows(cluster.records).last_broker_epoch == last


def test_a_worker_that_its_host_does_not_start_any_more_is_removed_alone() -> None:
    cluster = with_workers(*FIVE)
    admit(cluster, 5)
    for member_id in FIVE:
        cluster.heartbeat(member_id)
    cluster.create((1, 2, 2_000_005))
    event = RemoveMember(wall_ms=0, actor="ann", member_id=2_000_005)
    assert cluster.ask(event, Refusal).detail == "worker 2 of broker 5 is assigned 1 replicas"
    cluster.reassign(1, 2, 5)
    cluster.propose(1, 2, 5, 2_000_005)
    assert cluster.ask(event, Refusal).detail == "worker 2 of broker 5 is still running"
    cluster.kill(2_000_005)
    cluster.ask(event, MemberRemoved)
    assert sorted(cluster.image.brokers) == [1, 2, 3, 5, 1_000_005]
    assert cluster.image.worker_ids[5] == (5, 1_000_005)


def with_two_brokers_of_workers() -> Cluster:
    """Return a cluster of broker 1, and of two active workers of broker 5 and of broker 6 each."""
    cluster = Cluster(brokers=(1,))
    members = [(5, 5), (1_000_005, 5), (6, 6), (1_000_006, 6)]
    for member_id, owner_id in members:
        cluster.register(member_id, worker_of=owner_id)
    admit(cluster, 5, 6)
    for member_id, _ in members:
        cluster.heartbeat(member_id)
    return cluster


def creation(**fields: object) -> CreateTopic:
    return CreateTopic(wall_ms=0, actor="ann", topic_id=topic_id(0), topic="placed", **fields)  # type: ignore[arg-type]


def test_replicas_are_placed_on_as_many_brokers_and_on_all_their_workers() -> None:
    cluster = with_two_brokers_of_workers()
    few = cluster.ask(creation(partitions=1, replication_factor=4), Refusal)
    assert (few.code, few.limit) == (RefusalCode.REPLICATION_FACTOR_TOO_LARGE, 3)
    assert few.facts["eligible_brokers"] == 3
    placed = cluster.ask(creation(partitions=8, replication_factor=3), TopicCreated).partitions
    assert all({b % 1_000_000 for b in state.replicas} == {1, 5, 6} for state in placed)
    assert {b for state in placed for b in state.replicas} == {1, 5, 6, 1_000_005, 1_000_006}
    more = cluster.ask(AddPartitions(wall_ms=0, actor="ann", topic="placed", partitions=12), PartitionsAdded)
    assert all({b % 1_000_000 for b in state.replicas} == {1, 5, 6} for state in more.partitions)


@pytest.mark.parametrize("replicas", [(5, 1_000_005), (1_000_006, 1, 6)])
def test_no_operator_places_two_replicas_on_workers_of_one_broker(replicas: tuple[int, ...]) -> None:
    cluster = with_two_brokers_of_workers()
    refusal = cluster.ask(creation(assignments=(replicas,)), Refusal)
    assert (refusal.code, refusal.field) == (RefusalCode.INVALID_REPLICA_ASSIGNMENT, "assignments.0")
    assert "one host would hold two replicas of the partition" in refusal.detail
    cluster.create((5, 6))
    moved = cluster.reassign(*replicas).refusal
    assert moved is not None
    assert moved.code is RefusalCode.INVALID_REPLICA_ASSIGNMENT


def test_a_partition_moves_between_workers_and_is_on_both_only_until_it_has_arrived() -> None:
    cluster = with_two_brokers_of_workers()
    cluster.create((5, 6))
    assert cluster.reassign(1_000_005, 6).refusal is None
    assert cluster.partition().replicas == (1_000_005, 6, 5)
    cluster.propose(5, 6, 1_000_005)
    assert cluster.partition().replicas == (1_000_005, 6)


def test_a_worker_that_dies_is_fenced_alone_and_the_alarm_says_whose_it_is() -> None:
    cluster = with_two_brokers_of_workers()
    cluster.kill(1_000_005)
    assert [cluster.broker(b).status for b in (5, 1_000_005)] == [BrokerStatus.ACTIVE, BrokerStatus.FENCED]
    alarms = [effect for effect in cluster.effects if isinstance(effect, Alarm)]
    assert [(alarm.key, alarm.detail) for alarm in alarms] == [
        (
            AlarmKey(code=AlarmCode.BROKER_FENCED, broker_id=1_000_005),
            "worker 1 of broker 5 refuses connections: its process is dead",
        )
    ]


def test_a_row_of_the_version_before_reads_as_that_of_a_broker_alone() -> None:
    cluster = with_workers(1_000_005)
    row = msgspec.json.encode(cluster.broker(1_000_005))
    assert msgspec.json.decode(row, type=BrokerRegistration) == cluster.broker(1_000_005)
    before = msgspec.json.decode(row)
    del before["worker_of"]
    read = msgspec.convert(before, BrokerRegistration)
    assert (read.owner_id, read.worker_number, read.name) == (1_000_005, 0, "broker 1000005")
    known = cluster.broker(1_000_005)
    assert (known.owner_id, known.worker_number, known.name) == (5, 1, "worker 1 of broker 5")


def test_a_broker_is_as_its_worker_that_is_worst_off_and_is_known_by_those_that_registered() -> None:
    cluster = with_workers(1_000_005)
    cluster.kill(3)
    found = {broker_id: status_of(workers) for broker_id, workers in brokers_of(cluster.image).items()}
    assert list(found) == [1, 2, 3, 5]
    assert found[3] is BrokerStatus.FENCED
    assert [ids_of(cluster.image, broker_id) for broker_id in (1, 5, 9)] == [(1,), (1_000_005,), (9,)]
    assert status_of(cluster.image.brokers[b] for b in (1, 1_000_005)) is BrokerStatus.WAITING
    assert admit(cluster, 5).brokers, "it is named by its own id, which none of its workers has"


def test_broker_0_may_have_workers_and_one_with_the_id_of_a_worker_may_not() -> None:
    cluster = Cluster()
    assert cluster.register(1_000_000, worker_of=0).error is ControllerError.NONE
    assert "is the id of no worker" in refused(cluster, 2_000_000, 1_000_000)
