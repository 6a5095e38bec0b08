"""What bad clients send to a coordinator, over sockets: each gets Kafka's error, and another group goes on.

The codes are those that a Kafka 4.3.1 answers to the same bytes, but for the bound that only we have: what a
member's metadata may take.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from controller.core.shards import SHARDS
from coordinator.process import CoordinatorProcess
from coordinator.shell.shard_metrics import collect_shards
from springtide.node.cluster_view import ClusterView
from springtide.node.sharding import GROUPS_TOPIC
from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from tests.kit.coordinator.commits import commit_fields
from tests.kit.dataplane.cluster_in_process import ClusterInProcess, cluster_in_process
from tests.kit.dataplane.raw import Raw, connected, request

COORDINATOR = 1001
TOPIC, GONE = "orders", "gone"
Fields = dict[str, Any]


def join(member_id: str = "", *, version: int = 4, **fields: Any) -> tuple[int, int, Fields]:
    wanted: Fields = {
        "group_id": "bad",
        "session_timeout_ms": 1_800_000,  # nothing expires while a busy machine is at it
        "rebalance_timeout_ms": 10_000,
        "member_id": member_id,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    }
    return ApiKey.JOIN_GROUP, version, wanted | fields


def commit(
    offset: int, *, topic: str = TOPIC, partition: int = 0, metadata: str = "", **fields: Any
) -> tuple[int, int, Fields]:
    group_id = fields.pop("group_id", "bad")
    offsets = {partition: offset}
    return ApiKey.OFFSET_COMMIT, 9, commit_fields(group_id, topic, offsets, metadata=metadata, **fields)


def of_member(key: ApiKey, version: int, **fields: Any) -> tuple[int, int, Fields]:
    return key, version, {"group_id": "bad", "generation_id": 1, "member_id": "nobody"} | fields


def produce_under(transactional_id: str) -> tuple[int, int, Fields]:
    return ApiKey.INIT_PRODUCER_ID, 4, {"transactional_id": transactional_id}


ANY = "any#byte"
JAVA_4_4_BEGINS = bytes.fromhex(
    "0000002d 0012 0005 00000000 0004 73686f70 00"  # ApiVersions 5, correlation id 0, client id "shop"
    "12 6170616368652d6b61666b612d6a617661 06 342e342e30"  # apache-kafka-java 4.4.0
    "00 ffffffff 00"  # no cluster id and no node id yet (KIP-1242)
)
"""What the admin client of Kafka 4.4.0 sent to a socket, byte by byte."""
NO_SHARD_YET = {ErrorCode.NONE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR}
"""What is answered under a transactional id: shards of transactions are made when somebody wants some."""

BAD: list[tuple[tuple[int, int, Fields], ErrorCode]] = [
    (join(group_id=""), ErrorCode.INVALID_GROUP_ID),
    (join(session_timeout_ms=1), ErrorCode.INVALID_SESSION_TIMEOUT),
    (join(session_timeout_ms=2**31 - 1), ErrorCode.INVALID_SESSION_TIMEOUT),
    (join(protocols=[]), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    (join(protocol_type=""), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    (join("nobody"), ErrorCode.UNKNOWN_MEMBER_ID),
    (join(protocols=[{"name": "range", "metadata": bytes(5_000_000)}]), ErrorCode.POLICY_VIOLATION),
    (commit(1, topic=GONE), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    (commit(1, topic="never/was"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    (commit(1, partition=99), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    (commit(1, partition=-1), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    (commit(1, metadata="x" * 4_097), ErrorCode.OFFSET_METADATA_TOO_LARGE),
    (commit(2**63 - 1), ErrorCode.NONE),
    (commit(-5), ErrorCode.NONE),
    (commit(1, generation_id_or_member_epoch=2**31 - 1, member_id="m"), ErrorCode.UNKNOWN_MEMBER_ID),
    (commit(1, group_id="new", generation_id_or_member_epoch=3), ErrorCode.GROUP_ID_NOT_FOUND),
    (of_member(ApiKey.SYNC_GROUP, 4), ErrorCode.UNKNOWN_MEMBER_ID),
    (of_member(ApiKey.SYNC_GROUP, 4, group_id=""), ErrorCode.INVALID_GROUP_ID),
    (of_member(ApiKey.HEARTBEAT, 4, generation_id=2**31 - 1), ErrorCode.UNKNOWN_MEMBER_ID),
    (of_member(ApiKey.HEARTBEAT, 4, group_id=""), ErrorCode.INVALID_GROUP_ID),
    (of_member(ApiKey.LEAVE_GROUP, 1), ErrorCode.UNKNOWN_MEMBER_ID),
    (of_member(ApiKey.LEAVE_GROUP, 1, group_id=""), ErrorCode.INVALID_GROUP_ID),
    *(
        (commit(1, group_id=f"any{chr(number)}character"), ErrorCode.NONE)
        for number in (0, 1, 10, 32, 47, 92, 127, 255, 0x2028, 0x1F600)
    ),
]


class Bystander:
    """A member of another group, in the same shards' process, which must not notice."""

    def __init__(self, wire: Raw) -> None:
        self._wire = wire
        self._member: Fields = {}

    async def begin(self) -> None:
        joined = await self._wire.ask(*join(version=3, group_id="billing"))
        self._member = {
            "group_id": "billing",
            "generation_id": joined.generation_id,
            "member_id": joined.member_id,
        }
        given = [{"member_id": joined.member_id, "assignment": b"all"}]
        synced = await self._wire.ask(ApiKey.SYNC_GROUP, 4, self._member | {"assignments": given})
        assert synced.assignment == b"all"

    async def goes_on(self, offset: int) -> None:
        beat = await self._wire.ask(ApiKey.HEARTBEAT, 4, self._member)
        assert beat.error_code == ErrorCode.NONE
        fields = self._member | {"generation_id_or_member_epoch": self._member["generation_id"]}
        committed = await self._wire.ask(*commit(offset, **fields))
        assert error_of(committed) is ErrorCode.NONE


def error_of(answer: Any) -> ErrorCode:
    """Return the error of the whole, or of the only partition that it tells of."""
    if hasattr(answer, "error_code"):
        return ErrorCode(answer.error_code)
    return ErrorCode(answer.topics[0].partitions[0].error_code)


def active_shards(process: CoordinatorProcess) -> float:
    samples = (sample for family in collect_shards((process.shards,)) for sample in family.samples)
    return sum(sample.value for sample in samples if sample.labels.get("state") == "active")


def is_ready(view: ClusterView) -> bool:
    return view.topic_by_name(GONE) is None and view.topic_by_name(TOPIC) is not None


def beside_a_bystander(
    root: Path, attack: Callable[[Raw, ClusterInProcess, Bystander], Awaitable[None]]
) -> None:
    async def run() -> None:
        async with cluster_in_process(root) as cluster:
            await cluster.form(1, 2, 3)
            for topic in (TOPIC, GONE):
                cluster.controller.create_topic(topic, ((1, 2, 3),))
            await cluster.form_coordinators(COORDINATOR, configs={"group.initial.rebalance.delay.ms": "0"})
            cluster.controller.delete_topic(GONE)
            process = cluster.coordinators[COORDINATOR].process
            await cluster.controller.wait_for(
                lambda: active_shards(process) == SHARDS and is_ready(process.view),
                "the coordinator serves all shards, and knows the topics",
            )
            port = cluster.coordinators[COORDINATOR].port
            async with connected(port) as wire, connected(port) as others:
                bystander = Bystander(others)
                await bystander.begin()
                await attack(wire, cluster, bystander)
                await bystander.goes_on(1_000)

    trio.run(run)


def test_bad_requests_get_the_errors_of_kafka(tmp_path: Path) -> None:
    async def attack(wire: Raw, cluster: ClusterInProcess, bystander: Bystander) -> None:
        for number, (asked, error) in enumerate(BAD):
            assert error_of(await wire.ask(*asked)) is error, asked
            await bystander.goes_on(number)

    beside_a_bystander(tmp_path, attack)


def test_every_byte_may_stand_in_an_id_or_ends_its_own_connection_only(tmp_path: Path) -> None:
    """From 128 on, a byte alone is no UTF-8."""

    async def attack(wire: Raw, cluster: ClusterInProcess, bystander: Bystander) -> None:
        port = cluster.coordinators[COORDINATOR].port
        for number in range(256):
            for (key, version, fields), taken in (
                (commit(number, group_id=ANY), {ErrorCode.NONE}),
                (produce_under(ANY), NO_SHARD_YET),
            ):
                frame = request(key, version, fields).replace(ANY.encode(), b"any%cbyte" % number)
                if number < 128:
                    await wire.send(frame)
                    assert error_of(await wire.answer(key, version)) in taken
                else:
                    async with connected(port) as other:
                        await other.send(frame)
                        assert await other.is_closed()
            if number % 16 == 0:
                await bystander.goes_on(number)

    beside_a_bystander(tmp_path, attack)


def test_what_no_client_may_do_is_refused_at_once(tmp_path: Path) -> None:
    """Clients do not write to the topic of groups, and a member of a consumer group has an id."""

    async def attack(wire: Raw, cluster: ClusterInProcess, bystander: Bystander) -> None:
        topic = cluster.controller.image.topics
        (topic_id,) = [each for each, state in topic.items() if state.topic == GROUPS_TOPIC]
        leader = cluster.controller.state(topic_id).leader
        async with connected(cluster.brokers[leader].port) as broker:
            error, _ = await broker.produce(GROUPS_TOPIC, [b"forged"])
            assert error is ErrorCode.INVALID_TOPIC_EXCEPTION
        beat = await wire.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, {"group_id": "bad"})
        assert (beat.error_code, beat.error_message) == (
            ErrorCode.INVALID_REQUEST,
            "the member id is empty",
        )

    beside_a_bystander(tmp_path, attack)


def test_groups_go_on_though_their_coordinators_clock_is_hours_ahead(tmp_path: Path) -> None:
    """As brokers see it whose own clocks are behind: the bound on clients' timestamps is not for groups."""

    async def attack(wire: Raw, cluster: ClusterInProcess, bystander: Bystander) -> None:
        for running in cluster.brokers.values():
            for hosted in running.broker.table:
                hosted.timestamp_after_ms_max = -3 * 3_600_000
        await bystander.goes_on(1)

    beside_a_bystander(tmp_path, attack)


def test_a_client_that_begins_with_kafka_4_4s_api_versions_falls_back_on_its_connection(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As Java's client does; the operator is not told of it as of a refusal."""

    async def attack(wire: Raw, cluster: ClusterInProcess, bystander: Bystander) -> None:
        async with connected(cluster.brokers[1].port) as broker:
            for node in (broker, wire):
                await node.send(JAVA_4_4_BEGINS)
                refused = await node.answer(ApiKey.API_VERSIONS, 0, correlation_id=0)
                ranges = {each.api_key: each.max_version for each in refused.api_keys}
                assert (refused.error_code, ranges[ApiKey.API_VERSIONS]) == (ErrorCode.UNSUPPORTED_VERSION, 4)
                java: Fields = {
                    "client_software_name": "apache-kafka-java",
                    "client_software_version": "4.4.0",
                }
                taken = await node.ask(ApiKey.API_VERSIONS, 4, java)
                assert taken.error_code == ErrorCode.NONE
        assert "request_refused" not in caplog.text

    beside_a_bystander(tmp_path, attack)
