"""On processes: when an answer has said that somebody may no longer do something, no broker and no
coordinator lets them do it, on the connections that they have and on new ones (docs/replication.md 2.12,
answers).

A client of our own asks each process directly, the moment after the answer: a stock client would ask a while
later, and ask others when it is refused. One process is slow, or stands still meanwhile.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any

import pytest
import trio
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramMechanism,
    UserScramCredentialDeletion,
)

from localcluster.access import ALICE, OPERATOR, bindings
from localcluster.cluster import LocalCluster, NodeProcess
from localcluster.rest import RestFailed, describe_refusal
from springtide.security.sasl.clients import ScramClient
from springtide.security.sasl.exchange import Mechanism
from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.records import NewRecord, encode_batch
from tests.kit.dataplane.raw import Raw

pytestmark = pytest.mark.timeout(240)

BROKERS = (1, 2, 3)
GROUP = "orders-billing"
RECORD = encode_batch([NewRecord(None, bytes(1_000), 1_700_000_000_000)])
ANSWER_SECONDS_MAX = 30.0
SILENT_SECONDS = 3.0
"""Within the grace (6 s): the process has its lease when it goes on."""
GONE = {ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED}
CLOSED = "closed"
Answer = ErrorCode | str


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=3, coordinators=1, is_secure=True, has_users=True) as running:
        running.form()
        for leader in BROKERS:
            others = [other for other in BROKERS if other != leader]
            running.api.create_topic(
                running.name,
                topic_of(leader),
                partitions=1,
                replication_factor=3,
                configs={},
                assignments=[[leader, *others]],
            )
        yield running


@pytest.fixture(autouse=True)
def _alice_may(cluster: LocalCluster) -> None:
    """Give back what the test before took away."""
    cluster.api.post(f"/clusters/{cluster.name}/acls", {"bindings": bindings()})
    cluster.access.add_user(cluster.api, cluster.name, ALICE)
    set_quota(cluster, None)
    for leader in BROKERS:
        topic = topic_of(leader)
        cluster.wait_until_in_sync(topic)
        if cluster.leader(topic, 0) != leader:
            path = f"/clusters/{cluster.name}/topics/{topic}/partitions/0:elect-leader"
            cluster.api.post(path, {"election": "preferred"})


# What is taken away, and by whom


def delete_acls(cluster: LocalCluster) -> None:
    each: Any = None  # the client takes it, and its types do not
    alices = AclBindingFilter(
        ResourceType.ANY,
        each,
        ResourcePatternType.ANY,
        f"User:{ALICE}",
        each,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    with admin(cluster) as operator:
        for done in operator.delete_acls([alices]).values():
            assert done.result(ANSWER_SECONDS_MAX)


def delete_acls_over_rest(cluster: LocalCluster) -> None:
    path = f"/clusters/{cluster.name}/acls:delete"
    answer = cluster.rest.post(path, json={"principal": f"User:{ALICE}"}, timeout=ANSWER_SECONDS_MAX)
    if not answer.is_success:
        raise describe_refusal(answer)


def delete_user(cluster: LocalCluster) -> None:
    gone = UserScramCredentialDeletion(ALICE, ScramMechanism.SCRAM_SHA_512)
    less = UserScramCredentialDeletion(ALICE, ScramMechanism.SCRAM_SHA_256)
    with admin(cluster) as operator:
        for done in operator.alter_user_scram_credentials([gone, less]).values():
            done.result(ANSWER_SECONDS_MAX)


def delete_user_over_rest(cluster: LocalCluster) -> None:
    answer = cluster.rest.delete(f"/clusters/{cluster.name}/users/{ALICE}", timeout=ANSWER_SECONDS_MAX)
    assert answer.is_success, answer.text


def change_password(cluster: LocalCluster) -> None:
    path = f"/clusters/{cluster.name}/users/{ALICE}"
    answer = cluster.rest.put(path, json={"password": "another one"}, timeout=ANSWER_SECONDS_MAX)
    assert answer.is_success, answer.text


WAYS: list[Callable[[LocalCluster], None]] = [
    delete_acls,
    delete_acls_over_rest,
    delete_user,
    delete_user_over_rest,
    change_password,
]


@pytest.mark.parametrize("take_away", WAYS)
def test_after_the_answer_nobody_lets_the_one_do_it_from_whom_it_was_taken(
    cluster: LocalCluster, take_away: Callable[[LocalCluster], None]
) -> None:
    async def test() -> None:
        async with everywhere(cluster) as clients:
            assert await ask_all(clients) == dict.fromkeys(clients, ErrorCode.NONE)
            await trio.to_thread.run_sync(take_away, cluster)
            answers = await ask_all(clients)
            assert all(answer in GONE or answer == CLOSED for answer in answers.values()), answers
            anew = {name: await ask_anew(cluster, node) for name, node in nodes_of(cluster).items()}
            assert all(answer in GONE or answer == CLOSED for answer in anew.values()), anew

    trio.run(test)


@pytest.mark.parametrize("take_away", [delete_acls, delete_user_over_rest])
@pytest.mark.parametrize("slow", ["broker 2", "coordinator"])
def test_the_answer_waits_for_one_that_is_slow(
    cluster: LocalCluster, take_away: Callable[[LocalCluster], None], slow: str
) -> None:
    process = nodes_of(cluster)[slow].process

    async def test() -> None:
        async with everywhere(cluster) as clients, trio.open_nursery() as nursery:
            assert await ask_all(clients) == dict.fromkeys(clients, ErrorCode.NONE)
            process.pause()

            async def go_on() -> None:
                await trio.sleep(SILENT_SECONDS)
                process.resume()

            nursery.start_soon(go_on)
            began = time.monotonic()
            await trio.to_thread.run_sync(take_away, cluster)
            assert time.monotonic() - began > SILENT_SECONDS - 0.5
            answers = await ask_all(clients)
            assert all(answer in GONE or answer == CLOSED for answer in answers.values()), answers

    try:
        trio.run(test)
    finally:
        process.resume()


def test_a_broker_that_stood_still_until_the_answer_does_nothing_for_them_afterwards(
    cluster: LocalCluster,
) -> None:
    """A request waits in its socket. When it goes on it has not heard of the change; its lease is over."""
    process = cluster.brokers[2].process

    async def test() -> None:
        async with everywhere(cluster) as clients:
            assert await ask_all(clients) == dict.fromkeys(clients, ErrorCode.NONE)
            process.pause()
            await trio.to_thread.run_sync(delete_acls, cluster)
            answers = await ask_all_and({"broker 2": clients["broker 2"]}, process.resume)
            assert ErrorCode.NONE not in answers.values()

    try:
        trio.run(test)
    finally:
        process.resume()


def test_a_broker_that_stood_still_until_the_answer_asks_no_controller_for_them_afterwards(
    cluster: LocalCluster,
) -> None:
    """By what it knows alice may create topics, and the controller does not judge again."""
    made = {"resource_type": "topic", "resource_name": "made-by-", "pattern_type": "prefixed"}
    right = {**made, "principal": f"User:{ALICE}", "operation": "create"}
    cluster.api.post(f"/clusters/{cluster.name}/acls", {"bindings": [right]})
    process = cluster.brokers[2].process

    async def test() -> None:
        async with logged_in(cluster, cluster.brokers[2], topic_of(2)) as client:
            # What is allowed is in force when a broker has heard of it, not when it is answered.
            while (told := await client.create("made-by-alice-before")) is not ErrorCode.NONE:
                assert told is ErrorCode.TOPIC_AUTHORIZATION_FAILED
                await trio.sleep(0.05)
            process.pause()
            await trio.to_thread.run_sync(delete_acls, cluster)
            answers: list[Answer] = []
            async with trio.open_nursery() as nursery:

                async def ask() -> None:
                    answers.append(await client.create("made-by-alice-after"))

                nursery.start_soon(ask)
                await trio.sleep(0.5)
                process.resume()
            assert answers == [ErrorCode.NOT_CONTROLLER]

    try:
        trio.run(test)
    finally:
        process.resume()


def test_the_answer_names_a_coordinator_that_stands_still_and_it_is_true_once_it_is_given(
    cluster: LocalCluster,
) -> None:
    """A coordinator acts without its lease: what waits in its socket may be done when it goes on."""
    ((coordinator_id, node),) = cluster.coordinators.items()

    async def test() -> None:
        async with everywhere(cluster) as clients:
            assert await ask_all(clients) == dict.fromkeys(clients, ErrorCode.NONE)
            node.process.pause()
            with pytest.raises(RestFailed) as refused:
                await trio.to_thread.run_sync(delete_acls_over_rest, cluster)
            assert (refused.value.status, refused.value.problem["code"]) == (504, "not_in_force")
            assert f"the change is stored; {coordinator_id} may not" in refused.value.problem["detail"]
            node.process.resume()
            await trio.to_thread.run_sync(delete_acls_over_rest, cluster)
            answers = await ask_all(clients)
            assert GONE.issuperset(answers.values()), answers

    try:
        trio.run(test)
    finally:
        node.process.resume()


def test_a_lowered_quota_holds_everywhere_after_the_answer(cluster: LocalCluster) -> None:
    async def test() -> None:
        async with everywhere(cluster) as clients:
            brokers = {name: client for name, client in clients.items() if name != "coordinator"}
            assert set((await waits(brokers)).values()) == {0}
            await trio.to_thread.run_sync(set_quota, cluster, 1.0)
            told = await waits(brokers)
            assert all(wait_ms > 0 for wait_ms in told.values()), told

    trio.run(test)


# The client


class Client:
    """A connection of alice to one process. topic: that this process leads; "": it is a coordinator."""

    def __init__(self, raw: Raw, topic: str) -> None:
        self._raw, self._topic = raw, topic

    async def use(self) -> Answer:
        """Write to the topic, or commit an offset of the group."""
        try:
            if self._topic:
                return (await self._raw.produce_batch(self._topic, RECORD))[0]
            partition = {"partition_index": 0, "committed_offset": 1}
            fields: dict[str, object] = {
                "group_id": GROUP,
                "generation_id_or_member_epoch": -1,
                "member_id": "",
                "topics": [{"name": topic_of(1), "partitions": [partition]}],
            }
            answer = await self._raw.ask(ApiKey.OFFSET_COMMIT, 8, fields)
            return ErrorCode(answer.topics[0].partitions[0].error_code)
        except (EOFError, trio.BrokenResourceError):
            return CLOSED

    async def create(self, topic: str) -> Answer:
        asked = {
            "name": topic,
            "num_partitions": 1,
            "replication_factor": 3,
            "assignments": [],
            "configs": [],
        }
        fields: dict[str, object] = {"topics": [asked], "timeout_ms": 20_000, "validate_only": False}
        answer = await self._raw.ask(ApiKey.CREATE_TOPICS, 5, fields)
        return ErrorCode(answer.topics[0].error_code)

    async def wait_ms(self) -> float:
        fields: dict[str, object] = {
            "transactional_id": None,
            "acks": -1,
            "timeout_ms": 10_000,
            "topic_data": [{"name": self._topic, "partition_data": [{"index": 0, "records": RECORD}]}],
        }
        answer = await self._raw.ask(ApiKey.PRODUCE, 9, fields)
        return float(answer.throttle_time_ms)


@asynccontextmanager
async def logged_in(cluster: LocalCluster, node: NodeProcess, topic: str) -> AsyncIterator[Client]:
    """Connect as alice. Raise EOFError if the login is refused."""
    alice = cluster.clients[ALICE].settings
    trusted = ssl.create_default_context(cafile=alice["ssl.ca.location"])
    tcp = await trio.open_tcp_stream("127.0.0.1", node.sasl_port)
    async with trio.SSLStream(tcp, trusted, server_hostname="127.0.0.1", https_compatible=True) as stream:
        raw = Raw(stream)
        await raw.ask(ApiKey.SASL_HANDSHAKE, 1, {"mechanism": Mechanism.SCRAM_SHA_512.value})
        scram = ScramClient(
            Mechanism.SCRAM_SHA_512, ALICE, alice["sasl.password"], client_nonce="nonce-of-a-test"
        )
        reply: Any = scram.step(b"")
        while hasattr(reply, "token") and not hasattr(reply, "principal"):
            answer = await raw.ask(ApiKey.SASL_AUTHENTICATE, 1, {"auth_bytes": reply.token})
            if answer.error_code != 0:
                raise EOFError(answer.error_message)
            reply = scram.step(answer.auth_bytes)
        yield Client(raw, topic)


@asynccontextmanager
async def everywhere(cluster: LocalCluster) -> AsyncIterator[dict[str, Client]]:
    async with AsyncExitStack() as stack:
        yield {
            name: await stack.enter_async_context(logged_in(cluster, node, topic_at(name)))
            for name, node in nodes_of(cluster).items()
        }


async def ask_all(clients: dict[str, Client]) -> dict[str, Answer]:
    """Ask them at the same time."""
    answers: dict[str, Answer] = {}

    async def ask(name: str) -> None:
        answers[name] = await clients[name].use()

    async with trio.open_nursery() as nursery:
        for name in clients:
            nursery.start_soon(ask, name)
    return answers


async def ask_all_and(clients: dict[str, Client], act: Callable[[], None]) -> dict[str, Answer]:
    """Ask them, and act when the requests wait to be read."""
    async with trio.open_nursery() as nursery:

        async def act_soon() -> None:
            await trio.sleep(0.5)
            act()

        nursery.start_soon(act_soon)
        return await ask_all(clients)


async def ask_anew(cluster: LocalCluster, node: NodeProcess) -> Answer:
    name = next(name for name, one in nodes_of(cluster).items() if one is node)
    try:
        async with logged_in(cluster, node, topic_at(name)) as client:
            return await client.use()
    except (EOFError, trio.BrokenResourceError):
        return CLOSED


async def waits(clients: dict[str, Client]) -> dict[str, float]:
    return {name: await client.wait_ms() for name, client in clients.items()}


def nodes_of(cluster: LocalCluster) -> dict[str, NodeProcess]:
    (coordinator,) = cluster.coordinators.values()
    brokers = {f"broker {number}": node for number, node in cluster.brokers.items()}
    return {**brokers, "coordinator": coordinator}


def topic_of(leader: int) -> str:
    return f"orders-{leader}"


def topic_at(name: str) -> str:
    return "" if name == "coordinator" else topic_of(int(name.removeprefix("broker ")))


@contextmanager
def admin(cluster: LocalCluster) -> Iterator[AdminClient]:
    """The operator's, who asks any broker."""
    with AdminClient({**cluster.clients[OPERATOR].settings, "log_level": 0}) as client:
        yield client


def set_quota(cluster: LocalCluster, rate: float | None) -> None:
    of_alice = {"user": ALICE, "quotas": {"producer_byte_rate": rate}}
    cluster.api.post(f"/clusters/{cluster.name}/quotas:alter", {"entities": [of_alice]})
