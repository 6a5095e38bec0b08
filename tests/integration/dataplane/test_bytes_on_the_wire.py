"""What one broker does with bytes that no client library would send, and with requests side by side."""

from __future__ import annotations

import struct
from pathlib import Path
from uuid import UUID

import pytest
import trio
from crc32c import crc32c

from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.record_batch import BatchHeader, encode_header
from springtide.wire.records import NewRecord, encode_batch
from tests.kit.dataplane.cluster_in_process import ClusterInProcess
from tests.kit.dataplane.one_broker import on_a_broker, produce_fields
from tests.kit.dataplane.raw import Raw, list_offsets_fields, request


def batch(value: bytes = b"v") -> bytes:
    record = bytes((0, 0, 0, 1, len(value) << 1)) + value + b"\x00"
    records = bytes((len(record) << 1,)) + record
    header = BatchHeader(0, 49 + len(records), -1, 2, 0, 0, 0, 1, 1, -1, -1, -1, 1)
    body = encode_header(header)[21:] + records
    return encode_header(header._replace(crc=crc32c(body))) + records


def fetch_fields(topic: str, *, max_wait_ms: int, fetch_offset: int = 0) -> dict[str, object]:
    return {
        "replica_id": -1,
        "max_wait_ms": max_wait_ms,
        "min_bytes": 1,
        "max_bytes": 1_000_000,
        "isolation_level": 0,
        "topics": [
            {
                "topic": topic,
                "partitions": [
                    {"partition": 0, "fetch_offset": fetch_offset, "partition_max_bytes": 1_000_000}
                ],
            }
        ],
    }


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # a TLS hello
        struct.pack(">i", -1),
        struct.pack(">i", 0),
        struct.pack(">i", 2**31 - 1),
        struct.pack(">ihhih", 10, 99, 0, 1, -1),  # unknown API
        struct.pack(">ihhih", 10, ApiKey.METADATA, 99, 1, -1),  # unknown version
        struct.pack(">ihhihi", 14, ApiKey.METADATA, 1, 1, -1, 2**31 - 1),  # a count beyond the bytes
    ],
    ids=lambda data: data[:12].hex(),
)
def test_bytes_that_are_no_request_close_the_connection_and_nothing_else(tmp_path: Path, data: bytes) -> None:
    async def test(wire: Raw, cluster: ClusterInProcess) -> None:
        await wire.send(data)
        assert await wire.is_closed()
        assert cluster.brokers[1].broker.counters.connections_closed_malformed == 1

    on_a_broker(tmp_path, test)


def test_junk_behind_a_clients_request_is_ignored(tmp_path: Path) -> None:
    async def test(wire: Raw, cluster: ClusterInProcess) -> None:
        good = request(ApiKey.METADATA, 1, {"topics": None})
        await wire.send(struct.pack(">i", len(good) - 4 + 1) + good[4:] + b"x")
        assert (await wire.answer(ApiKey.METADATA, 1)).brokers
        assert cluster.brokers[1].broker.counters.requests_with_trailing_bytes == 1

    on_a_broker(tmp_path, test)


def test_a_version_of_api_versions_that_is_too_new_gets_the_list_in_version_0(tmp_path: Path) -> None:
    async def test(wire: Raw, cluster: ClusterInProcess) -> None:
        await wire.send(struct.pack(">ihhih", 10, ApiKey.API_VERSIONS, 99, 7, -1))
        answer = await wire.answer(ApiKey.API_VERSIONS, 0, correlation_id=7)
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert (ApiKey.PRODUCE, 0, 13) in [(k.api_key, k.min_version, k.max_version) for k in answer.api_keys]

    on_a_broker(tmp_path, test)


def test_answers_come_in_the_order_of_requests_though_a_long_poll_waits_in_front(tmp_path: Path) -> None:
    async def test(wire: Raw, cluster: ClusterInProcess) -> None:
        await wire.begin(ApiKey.FETCH, 4, fetch_fields("orders", max_wait_ms=30_000), correlation_id=1)
        await wire.begin(ApiKey.METADATA, 1, {"topics": None}, correlation_id=2)
        assert await wire.is_silent()
        # The produce behind both is started all the same, and ends the wait of the fetch in front.
        await wire.begin(ApiKey.PRODUCE, 7, produce_fields("orders", batch()), correlation_id=3)
        fetched = await wire.answer(ApiKey.FETCH, 4, correlation_id=1)
        assert len(fetched.responses[0].partitions[0].records) == len(batch())
        assert (await wire.answer(ApiKey.METADATA, 1, correlation_id=2)).topics[0].name == "orders"
        produced = await wire.answer(ApiKey.PRODUCE, 7, correlation_id=3)
        assert produced.responses[0].partition_responses[0].base_offset == 0

    on_a_broker(tmp_path, test)


def test_a_client_that_looks_for_its_coordinator_does_not_wait_for_its_own_long_poll(tmp_path: Path) -> None:
    async def test(wire: Raw, _: ClusterInProcess) -> None:
        await wire.begin(ApiKey.FETCH, 4, fetch_fields("orders", max_wait_ms=300_000), correlation_id=1)
        assert await wire.is_silent()
        await wire.begin(
            ApiKey.FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": ["billing"]}, correlation_id=2
        )
        fetched = await wire.answer(ApiKey.FETCH, 4, correlation_id=1)
        (found,) = fetched.responses[0].partitions
        assert (found.error_code, found.records) == (ErrorCode.NONE, b"")
        answer = await wire.answer(ApiKey.FIND_COORDINATOR, 4, correlation_id=2)
        assert [each.key for each in answer.coordinators] == ["billing"]

    on_a_broker(tmp_path, test)


def test_a_long_poll_ends_empty_when_its_time_is_up(tmp_path: Path) -> None:
    async def test(wire: Raw, cluster: ClusterInProcess) -> None:
        before = trio.current_time()
        await wire.begin(ApiKey.FETCH, 4, fetch_fields("orders", max_wait_ms=150))
        fetched = await wire.answer(ApiKey.FETCH, 4)
        assert trio.current_time() - before >= 0.149  # the broker counts whole milliseconds
        assert not fetched.responses[0].partitions[0].records

    on_a_broker(tmp_path, test)


@pytest.mark.parametrize(
    ("version", "fields", "error"),
    [
        (7, produce_fields("orders", batch(), acks=2), ErrorCode.INVALID_REQUIRED_ACKS),
        (7, produce_fields("unknown", batch()), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (7, produce_fields("orders", batch(), partition=7), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (7, produce_fields("orders", batch(), partition=-1), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (7, produce_fields("../etc", batch()), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (7, produce_fields("orders", b"short"), ErrorCode.CORRUPT_MESSAGE),
        (7, produce_fields("orders", batch()[:-1] + b"\x01"), ErrorCode.CORRUPT_MESSAGE),
        (7, produce_fields("orders", batch() + batch()), ErrorCode.INVALID_RECORD),
        (
            7,
            produce_fields("orders", batch(), acks=1) | {"transactional_id": "t"},
            ErrorCode.INVALID_REQUIRED_ACKS,
        ),
    ],
)
def test_a_bad_produce_gets_its_code_and_leaves_the_log_empty(
    tmp_path: Path, version: int, fields: dict[str, object], error: ErrorCode
) -> None:
    async def test(wire: Raw, cluster: ClusterInProcess) -> None:
        await wire.begin(ApiKey.PRODUCE, version, fields)
        answer = await wire.answer(ApiKey.PRODUCE, version)
        assert answer.responses[0].partition_responses[0].error_code == error
        hosted = cluster.brokers[1].broker.table.get_by_name("orders", 0)
        assert hosted is not None
        assert hosted.log.log_end_offset == 0

    on_a_broker(tmp_path, test)


def test_a_record_without_a_key_is_refused_to_a_compacted_topic_with_its_whole_batch(tmp_path: Path) -> None:
    async def test(wire: Raw, cluster: ClusterInProcess) -> None:
        hosted = cluster.brokers[1].broker.table.get_by_name("orders", 0)
        assert hosted is not None
        hosted.is_compacted = True
        mixed = encode_batch([NewRecord(b"k", b"v", 1), NewRecord(None, b"v", 1)])
        await wire.begin(ApiKey.PRODUCE, 8, produce_fields("orders", mixed))
        (refused,) = (await wire.answer(ApiKey.PRODUCE, 8)).responses[0].partition_responses
        assert refused.error_code == ErrorCode.INVALID_RECORD
        assert "without a key" in refused.error_message
        assert hosted.log.log_end_offset == 0
        await wire.begin(
            ApiKey.PRODUCE, 8, produce_fields("orders", encode_batch([NewRecord(b"k", None, 1)]))
        )
        (taken,) = (await wire.answer(ApiKey.PRODUCE, 8)).responses[0].partition_responses
        assert (taken.error_code, taken.base_offset) == (ErrorCode.NONE, 0)

    on_a_broker(tmp_path, test)


def test_a_produce_of_a_version_before_batches_is_refused_by_partition(tmp_path: Path) -> None:
    async def test(wire: Raw, cluster: ClusterInProcess) -> None:
        body = (
            struct.pack(">hii", -1, 1000, 1)
            + struct.pack(">h6s", 6, b"orders")
            + struct.pack(">iii", 1, 0, 0)
        )
        await wire.send(struct.pack(">ihhih", 10 + len(body), ApiKey.PRODUCE, 2, 1, -1) + body)
        frame = await wire.frame()
        assert struct.unpack_from(">ih", frame, 4 + 4 + 8 + 4) == (0, ErrorCode.UNSUPPORTED_VERSION)

    on_a_broker(tmp_path, test)


def test_a_produce_by_topic_id_is_stored_and_a_foreign_id_is_refused(tmp_path: Path) -> None:
    async def test(wire: Raw, cluster: ClusterInProcess) -> None:
        metadata = await wire.ask(ApiKey.METADATA, 13, {"topics": [{"name": "orders"}]})
        known = metadata.topics[0].topic_id
        for topic_id, error, offset in (
            (known, ErrorCode.NONE, 0),
            (UUID(int=9), ErrorCode.UNKNOWN_TOPIC_ID, -1),
            (known, ErrorCode.NONE, 1),
        ):
            partitions = [{"index": 0, "records": batch()}]
            topic = {"topic_id": topic_id, "partition_data": partitions}
            fields: dict[str, object] = {
                "transactional_id": None,
                "acks": -1,
                "timeout_ms": 5_000,
                "topic_data": [topic],
            }
            answer = await wire.ask(ApiKey.PRODUCE, 13, fields)
            (told,) = answer.responses
            (partition,) = told.partition_responses
            assert (told.topic_id, partition.error_code, partition.base_offset) == (topic_id, error, offset)

    on_a_broker(tmp_path, test)


def test_acks_0_is_not_answered_but_keeps_its_place(tmp_path: Path) -> None:
    async def test(wire: Raw, cluster: ClusterInProcess) -> None:
        await wire.begin(ApiKey.PRODUCE, 7, produce_fields("orders", batch(), acks=0))
        await wire.begin(ApiKey.PRODUCE, 7, produce_fields("orders", batch()), correlation_id=2)
        answer = await wire.answer(ApiKey.PRODUCE, 7, correlation_id=2)
        assert answer.responses[0].partition_responses[0].base_offset == 1

    on_a_broker(tmp_path, test)


def test_acks_0_with_an_error_closes_the_connection(tmp_path: Path) -> None:
    async def test(wire: Raw, cluster: ClusterInProcess) -> None:
        await wire.begin(ApiKey.PRODUCE, 7, produce_fields("unknown", batch(), acks=0))
        assert await wire.is_closed()

    on_a_broker(tmp_path, test)


def test_transactions_and_groups_are_refused_in_words(tmp_path: Path) -> None:
    async def test(wire: Raw, cluster: ClusterInProcess) -> None:
        await wire.begin(ApiKey.FIND_COORDINATOR, 1, {"key": "g", "key_type": 0})
        found = await wire.answer(ApiKey.FIND_COORDINATOR, 1)
        # Where there never was a coordinator, a broker says no to whatever is asked of the group.
        assert (found.error_code, found.node_id) == (ErrorCode.NONE, 1)
        joined = await wire.ask(ApiKey.JOIN_GROUP, 4, {"group_id": "g", "member_id": ""})
        assert joined.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        await wire.begin(ApiKey.FIND_COORDINATOR, 4, {"key_type": 1, "coordinator_keys": ["t"]})
        (coordinator,) = (await wire.answer(ApiKey.FIND_COORDINATOR, 4)).coordinators
        assert coordinator.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert "no coordinator" in coordinator.error_message
        await wire.begin(
            ApiKey.INIT_PRODUCER_ID, 3, {"transactional_id": "t", "transaction_timeout_ms": 1000}
        )
        answer = await wire.answer(ApiKey.INIT_PRODUCER_ID, 3)
        assert answer.error_code == ErrorCode.NOT_COORDINATOR

    on_a_broker(tmp_path, test)


@pytest.mark.parametrize("version", range(14))
def test_metadata_of_every_version_names_the_leader_and_refuses_what_is_not_there(
    tmp_path: Path, version: int
) -> None:
    async def test(wire: Raw, cluster: ClusterInProcess) -> None:
        topics = [{"name": name} for name in ("orders", "unknown", "../etc")]
        await wire.begin(ApiKey.METADATA, version, {"topics": topics})
        answer = await wire.answer(ApiKey.METADATA, version)
        assert [(topic.name, topic.error_code) for topic in answer.topics] == [
            ("orders", ErrorCode.NONE),
            ("unknown", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ("../etc", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ]
        assert answer.topics[0].partitions[0].leader_id == 1
        allowed = {"include_topic_authorized_operations": True, "include_cluster_authorized_operations": True}
        answer = await wire.ask(ApiKey.METADATA, version, {"topics": topics[:1], **allowed})
        if version >= 8:
            assert answer.topics[0].topic_authorized_operations == 3576
        if 8 <= version <= 10:
            assert answer.cluster_authorized_operations == 8096
        assert [(broker.node_id, broker.port) for broker in answer.brokers] == [(1, cluster.brokers[1].port)]

    on_a_broker(tmp_path, test)


@pytest.mark.parametrize("version", range(1, 12))
def test_list_offsets_of_every_version_knows_both_ends(tmp_path: Path, version: int) -> None:
    async def test(wire: Raw, cluster: ClusterInProcess) -> None:
        await wire.begin(ApiKey.PRODUCE, 7, produce_fields("orders", batch()))
        await wire.answer(ApiKey.PRODUCE, 7)

        async def find(timestamp: int) -> tuple[int, int, int]:
            await wire.begin(ApiKey.LIST_OFFSETS, version, list_offsets_fields(timestamp))
            (found,) = (await wire.answer(ApiKey.LIST_OFFSETS, version)).topics[0].partitions
            return found.error_code, found.offset, found.timestamp

        assert [(await find(timestamp))[:2] for timestamp in (-2, -1, 0, 2)] == [
            (0, 0),
            (0, 1),
            (0, 0),
            (0, -1),
        ]
        too_early = (ErrorCode.UNSUPPORTED_VERSION, -1, -1)
        assert await find(-3) == ((0, 0, 1) if version >= 7 else too_early)
        assert await find(-4) == ((0, 0, -1) if version >= 8 else too_early)
        assert await find(-5) == ((0, -1, -1) if version >= 9 else too_early)
        assert await find(-6) == ((0, -1, -1) if version >= 11 else too_early)
        assert await find(-7) == too_early

    on_a_broker(tmp_path, test)


def test_list_offsets_of_version_0_lists_each_end_and_refuses_timestamps(tmp_path: Path) -> None:
    async def test(wire: Raw, _: ClusterInProcess) -> None:
        await wire.ask(ApiKey.PRODUCE, 7, produce_fields("orders", batch()))
        answer = await wire.ask(ApiKey.LIST_OFFSETS, 0, list_offsets_fields(-2))
        assert [one.old_style_offsets for one in answer.topics[0].partitions] == [(0,)]
        answer = await wire.ask(ApiKey.LIST_OFFSETS, 0, list_offsets_fields(-1))
        assert [one.old_style_offsets for one in answer.topics[0].partitions] == [(1,)]
        answer = await wire.ask(ApiKey.LIST_OFFSETS, 0, list_offsets_fields(0))
        (refused,) = answer.topics[0].partitions
        assert (refused.error_code, refused.old_style_offsets) == (ErrorCode.UNSUPPORTED_VERSION, ())
        # The bytes that Burrow sends: replica -1, one topic, one partition, the latest, one offset at most.
        asked = struct.pack(">hhih", ApiKey.LIST_OFFSETS, 0, 7, -1) + struct.pack(
            ">iih6siiqi", -1, 1, 6, b"orders", 1, 0, -1, 1
        )
        await wire.send(struct.pack(">i", len(asked)) + asked)
        assert await wire.frame() == struct.pack(">iih6siihiq", 7, 1, 6, b"orders", 1, 0, 0, 1, 1)

    on_a_broker(tmp_path, test)


def test_a_partition_asked_for_twice_is_looked_up_never(tmp_path: Path) -> None:
    async def test(wire: Raw, _: ClusterInProcess) -> None:
        await wire.begin(ApiKey.LIST_OFFSETS, 5, list_offsets_fields(0, 0))
        answer = await wire.answer(ApiKey.LIST_OFFSETS, 5)
        assert [one.error_code for one in answer.topics[0].partitions] == [ErrorCode.INVALID_REQUEST] * 2

    on_a_broker(tmp_path, test)


@pytest.mark.parametrize("version", [4, 7, 12])
@pytest.mark.parametrize(("level", "error"), [(0, 0), (1, 0), (7, -1), (-1, -1)])
def test_an_isolation_level_that_does_not_exist_is_an_error_as_with_kafka(
    tmp_path: Path, version: int, level: int, error: int
) -> None:
    """Kafka's IsolationLevel.forId raises; a client must not take what it gets for the level it asked for."""

    async def test(wire: Raw, cluster: ClusterInProcess) -> None:
        fields = fetch_fields("orders", max_wait_ms=0) | {"isolation_level": level}
        answer = await wire.ask(ApiKey.FETCH, version, fields)
        assert answer.responses[0].partitions[0].error_code == error
        if version >= 7:
            assert answer.error_code == error
        offsets = list_offsets_fields(-1) | {"isolation_level": level}
        (told,) = (await wire.ask(ApiKey.LIST_OFFSETS, 4, offsets)).topics[0].partitions
        assert told.error_code == error

    on_a_broker(tmp_path, test)
