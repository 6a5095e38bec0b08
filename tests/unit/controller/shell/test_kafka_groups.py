"""What is asked of the Kafka client about groups, and what is made of its answers and errors."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import anyio
import msgspec
import pytest
from confluent_kafka import ConsumerGroupState, KafkaError, KafkaException, TopicPartition

from controller.core.records import BrokerRegistration, CoordinatorRegistration
from controller.shell import kafka_groups
from controller.shell.client_groups import (
    LATEST,
    CommittedPlace,
    GroupAbsent,
    GroupBusy,
    GroupsUnavailable,
    LogPosition,
)
from controller.shell.clock import SystemClock
from controller.shell.kafka_groups import KafkaGroups, KafkaTls, bootstrap_of
from controller.shell.outcomes import OutcomeUnknown
from controller.shell.published import Published
from springtide.contract.session import ListenerAddress

pytestmark = pytest.mark.anyio

BUSY, ABSENT = KafkaError.NON_EMPTY_GROUP, KafkaError.GROUP_ID_NOT_FOUND


@pytest.fixture
def anyio_backend() -> str:
    """Real time: the client's threads do not wait in virtual time."""
    return "asyncio"


def done(value: object) -> Future[Any]:
    future: Future[Any] = Future()
    if isinstance(value, Exception):
        future.set_exception(value)
    else:
        future.set_result(value)
    return future


def failed(code: int) -> KafkaException:
    return KafkaException(KafkaError(code))


class Library:
    """The library's administration client, which answers at once. made, settings: the addresses of each, and
    all of its settings."""

    made: list[str]
    settings: list[dict[str, Any]]
    answer: object

    def __init__(self, settings: dict[str, Any]) -> None:
        self.made.append(settings["bootstrap.servers"])
        self.settings.append(settings)

    def _one(self, *_: object, **__: object) -> dict[str, Future[Any]]:
        return {"g": done(self.answer)}

    describe_consumer_groups = delete_consumer_groups = _one
    list_consumer_group_offsets = alter_consumer_group_offsets = _one

    def list_consumer_groups(self, **_: object) -> Future[Any]:
        return done(self.answer)

    def list_offsets(
        self, wanted: dict[TopicPartition, Any], **_: object
    ) -> dict[TopicPartition, Future[Any]]:
        assert isinstance(self.answer, dict)
        return {one: done(self.answer[one.topic]) for one in wanted}


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> type[Library]:
    class Answering(Library):
        made: list[str] = []  # noqa: RUF012
        settings: list[dict[str, Any]] = []  # noqa: RUF012
        answer = None

    monkeypatch.setattr(kafka_groups, "AdminClient", Answering)
    return Answering


def view(*hosts: str, coordinator_fenced: bool = False) -> Published:
    published = Published("prod")
    published.image.coordinators[1001] = CoordinatorRegistration(
        coordinator_id=1001,
        coordinator_epoch=1,
        incarnation_id="i",
        host="desk1",
        port=9092,
        admitted=True,
        fenced=coordinator_fenced,
    )
    for broker_id, host in enumerate(hosts, 1):
        published.image.brokers[broker_id] = BrokerRegistration(
            broker_id=broker_id, broker_epoch=1, incarnation_id="i", host=host, port=9092, admitted=True
        )
    return published


def groups_of(published: Published) -> KafkaGroups:
    return KafkaGroups(lambda _: published, SystemClock())


async def test_the_client_is_made_once_and_again_when_brokers_have_moved(library: type[Library]) -> None:
    published = view("store1", "fd00::5")
    groups = groups_of(published)
    library.answer = SimpleNamespace(valid=[], errors=[])
    assert library.made == []
    for _ in range(2):
        assert await groups.listed("prod") == ([], [])
    assert library.made == ["store1:9092,[fd00::5]:9092"]
    del published.image.brokers[2]
    await groups.listed("prod")
    assert library.made[1:] == ["store1:9092"]


async def test_groups_are_listed_though_a_broker_does_not_answer(library: type[Library]) -> None:
    """It has died a moment ago, and is still listed."""
    one = SimpleNamespace(group_id="g", state=ConsumerGroupState.EMPTY, is_simple_consumer_group=False)
    gone = KafkaError(KafkaError._TRANSPORT, "store2:9092: connection refused")
    library.answer = SimpleNamespace(valid=[one], errors=[gone])
    groups, unanswered = await groups_of(view("store1")).listed("prod")
    assert [group.group_id for group in groups] == ["g"]
    assert unanswered == ["store2:9092: connection refused"]
    library.answer = SimpleNamespace(valid=[], errors=[gone])
    with pytest.raises(GroupsUnavailable):
        await groups_of(view("store1")).listed("prod")


async def test_a_cluster_whose_brokers_speak_tls_is_asked_over_tls(library: type[Library]) -> None:
    published = view("store1")
    store1 = published.image.brokers[1]
    groups = KafkaGroups(lambda _: published, SystemClock(), tls=KafkaTls("/ca.pem", "/me.pem", "/me.key"))
    library.answer = SimpleNamespace(valid=[], errors=[])
    for listeners, protocol in (
        ({"CLIENTS": ListenerAddress(host="public", port=9093, protocol="SSL")}, None),
        ({"INTERNAL": ListenerAddress(host="store1", port=9092, protocol="SSL")}, "SSL"),
    ):
        published.image.brokers[1] = msgspec.structs.replace(store1, listeners=listeners)
        await groups.listed("prod")
        assert library.settings[-1].get("security.protocol") == protocol
    assert library.settings[-1]["ssl.ca.location"] == "/ca.pem"
    assert library.settings[-1]["ssl.key.location"] == "/me.key"


async def test_a_coordinator_that_says_it_is_not_the_one_is_looked_up_anew_once(
    library: type[Library], monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = failed(KafkaError.NOT_COORDINATOR)
    monkeypatch.setattr(
        library, "_one", lambda self, *_, **__: {"g": done(moved if len(self.made) == 1 else None)}
    )
    monkeypatch.setattr(library, "delete_consumer_groups", library._one)
    groups = groups_of(view("store1"))
    await groups.delete("prod", "g")
    assert library.made == ["store1:9092"] * 2
    monkeypatch.setattr(library, "delete_consumer_groups", lambda *_, **__: {"g": done(moved)})
    with pytest.raises(GroupsUnavailable):
        await groups.delete("prod", "g")
    assert len(library.made) == 3


def test_without_a_live_coordinator_or_a_broker_nobody_is_asked() -> None:
    with pytest.raises(GroupsUnavailable, match="no coordinator of 'prod' is admitted and live"):
        bootstrap_of(view("store1", coordinator_fenced=True))
    with pytest.raises(GroupsUnavailable, match="no broker"):
        bootstrap_of(view())


async def test_a_group_is_told_in_our_words(library: type[Library]) -> None:
    member = SimpleNamespace(
        member_id="m",
        group_instance_id=None,
        client_id="app",
        host="/10.0.0.9",
        assignment=SimpleNamespace(topic_partitions=[TopicPartition("orders", 1)]),
    )
    library.answer = told = SimpleNamespace(
        is_simple_consumer_group=False,
        state=ConsumerGroupState.PREPARING_REBALANCING,
        partition_assignor="range",
        coordinator=SimpleNamespace(id=1001, host="desk1", port=9092),
        members=[member],
    )
    found = await groups_of(view("store1")).described("prod", "g")
    assert (found.state, found.protocol_type, found.endpoint) == (
        "preparing_rebalance",
        "consumer",
        "desk1:9092",
    )
    assert found.members[0].assigned == (("orders", 1),)
    told.state = ConsumerGroupState.DEAD
    with pytest.raises(GroupAbsent):
        await groups_of(view("store1")).described("prod", "g")


async def test_partitions_without_an_offset_or_a_leader_are_left_out(library: type[Library]) -> None:
    groups = groups_of(view("store1"))
    none = TopicPartition("orders", 1, -1001)
    library.answer = SimpleNamespace(topic_partitions=[TopicPartition("orders", 0, 7), none])
    assert await groups.committed("prod", "g") == {("orders", 0): CommittedPlace(offset=7)}
    library.answer = {
        "orders": SimpleNamespace(offset=9, timestamp=-1),
        "lost": failed(KafkaError.LEADER_NOT_AVAILABLE),
    }
    wanted = {("orders", 0): LATEST, ("lost", 0): LATEST}
    assert await groups.log_offsets("prod", wanted) == {("orders", 0): LogPosition(offset=9)}


@pytest.mark.parametrize(
    ("code", "of_reads", "of_writes"),
    [
        (ABSENT, GroupAbsent, GroupAbsent),
        (BUSY, GroupBusy, GroupBusy),
        (KafkaError._TIMED_OUT, GroupsUnavailable, OutcomeUnknown),
        (KafkaError._TRANSPORT, GroupsUnavailable, OutcomeUnknown),
        (KafkaError.COORDINATOR_NOT_AVAILABLE, GroupsUnavailable, GroupsUnavailable),
    ],
)
async def test_errors_say_what_became_of_the_request(
    library: type[Library], code: int, of_reads: type[Exception], of_writes: type[Exception]
) -> None:
    groups = groups_of(view("store1"))
    library.answer = failed(code)
    with pytest.raises(of_reads):
        await groups.described("prod", "g")
    with pytest.raises(of_writes):
        await groups.delete("prod", "g")


async def test_a_commit_that_members_stand_in_the_way_of_is_refused(library: type[Library]) -> None:
    groups = groups_of(view("store1"))
    place = SimpleNamespace(topic="orders", partition=0, error=KafkaError(KafkaError.UNKNOWN_MEMBER_ID))
    library.answer = SimpleNamespace(topic_partitions=[place])
    with pytest.raises(GroupBusy):
        await groups.commit("prod", "g", {("orders", 0): 1})
    place.error = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
    assert list(await groups.commit("prod", "g", {("orders", 0): 1})) == [("orders", 0)]
    place.error = None
    assert await groups.commit("prod", "g", {("orders", 0): 1}) == {}


async def test_an_id_that_the_library_would_cut_names_no_other_group(library: type[Library]) -> None:
    library.answer = None
    for asked in (
        groups_of(view("store1")).delete,
        groups_of(view("store1")).described,
        groups_of(view("store1")).committed,
    ):
        with pytest.raises(GroupAbsent):
            await asked("prod", "billing\0x")
    assert library.made == []


async def test_a_cluster_that_never_answers_is_waited_for_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """The real library, connected to a listener that accepts and says nothing."""
    monkeypatch.setattr(kafka_groups, "REQUEST_S", 0.5)
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    published = view("127.0.0.1")
    published.image.brokers[1] = BrokerRegistration(
        broker_id=1, broker_epoch=1, incarnation_id="i", host="127.0.0.1", port=port, admitted=True
    )
    async with listener:
        with pytest.raises(GroupsUnavailable, match=r"no coordinator answered within 0\.5 s"):
            await groups_of(published).described("prod", "g")
