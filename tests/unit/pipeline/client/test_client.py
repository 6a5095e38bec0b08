"""The client against scripted brokers: leaders that move, brokers that hang up, answers that lie."""

from __future__ import annotations

import os
import pickle
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from pipeline.client.client import Client
from pipeline.client.config import ClientConfig, client_config, parse_bootstrap
from pipeline.client.connection import BrokerConnection
from pipeline.client.errors import (
    BrokerError,
    ConnectionLost,
    InvalidClientOption,
    MalformedAnswer,
    NotAuthorized,
    OffsetsGone,
    RetriesExhausted,
    UnsupportedBroker,
)
from pipeline.client.pool import ConnectionPool
from pipeline.client.values import (
    EARLIEST,
    LATEST,
    ActiveProducer,
    FoundOffset,
    PartitionRange,
    ProduceResult,
    TopicPartition,
    Unsettled,
)
from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.fetch_response import EpochEnd
from tests.kit.pipeline.brokers import (
    EVERYTHING,
    Cluster,
    Handler,
    Says,
    ScriptedBroker,
    in_turn,
    produced,
)
from tests.kit.pipeline.fetching import batch

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with ExitStack() as stack:
        yield Cluster(stack)


def offsets(**fields: int) -> Handler:
    """Answers ListOffsets: the same for each partition asked for."""

    def handle(message: Any) -> Says:
        return {
            "topics": [
                {
                    "name": topic.name,
                    "partitions": [
                        {"partition_index": one.partition_index, **fields} for one in topic.partitions
                    ],
                }
                for topic in message.topics
            ]
        }

    return handle


def fetched(say: Callable[[int, int], dict[str, object]]) -> Handler:
    """Answers Fetch: `say` is given each partition and its offset."""

    def handle(message: Any) -> Says:
        return {
            "responses": [
                {
                    "topic": topic.topic,
                    "partitions": [
                        {
                            "partition_index": one.partition,
                            "preferred_read_replica": -1,
                            **say(one.partition, one.fetch_offset),
                        }
                        for one in topic.partitions
                    ],
                }
                for topic in message.topics
            ]
        }

    return handle


# --- questions ------------------------------------------------------------------------------------------


def test_every_leader_is_asked_for_its_own_partitions(cluster: Cluster) -> None:
    cluster.on(ApiKey.LIST_OFFSETS, offsets(offset=5), offsets(offset=9, leader_epoch=3))
    with cluster.client() as client:
        found = client.list_offsets({T0: EARLIEST, T1: LATEST})
    assert found == {T0: FoundOffset(5, -1, -1), T1: FoundOffset(9, -1, 3)}
    asked = [message for api, message in cluster.brokers[2].asked if api is ApiKey.LIST_OFFSETS]
    assert [(one.partition_index, one.timestamp) for one in asked[0].topics[0].partitions] == [(1, -1)]
    assert cluster.clock.slept_s == []


def test_a_leader_that_moved_is_looked_up_again(cluster: Cluster) -> None:
    cluster.lead({("t", 0): 1}, {("t", 0): 2})
    cluster.on(ApiKey.LIST_OFFSETS, offsets(error_code=NOT_LEADER), offsets(offset=7))
    assert cluster.client().list_offsets({T0: LATEST})[T0].offset == 7
    assert cluster.clock.slept_s == [0.1]


def test_a_broker_that_hangs_up_is_asked_again(cluster: Cluster) -> None:
    cluster.on(ApiKey.LIST_OFFSETS, in_turn(None, None, offsets(offset=7)))
    assert cluster.client().list_offsets({T0: LATEST})[T0].offset == 7
    assert cluster.clock.slept_s == [0.1, 0.2]


def test_a_bootstrap_broker_that_is_down_is_passed_over(cluster: Cluster) -> None:
    with ScriptedBroker({}) as gone:
        address = gone.address
    cluster.on(ApiKey.LIST_OFFSETS, offsets(offset=7))
    client = cluster.client(bootstrap=(address, cluster.brokers[1].address))
    assert client.list_offsets({T0: LATEST})[T0].offset == 7
    assert cluster.clock.slept_s == []


def test_patience_ends_with_the_last_reason(cluster: Cluster) -> None:
    cluster.on(ApiKey.LIST_OFFSETS, offsets(error_code=ErrorCode.OFFSET_NOT_AVAILABLE))
    with pytest.raises(RetriesExhausted, match="LIST_OFFSETS of t-0: OFFSET_NOT_AVAILABLE"):
        cluster.client(retry_budget_ms=2_000).list_offsets({T0: LATEST})
    assert sum(cluster.clock.slept_s) < 2
    assert len(cluster.clock.slept_s) == 4


def test_nobody_there_at_all_is_told_in_time(cluster: Cluster) -> None:
    with ScriptedBroker({}) as gone:
        address = gone.address
    with pytest.raises(RetriesExhausted, match=f"{address[1]}.*refused"):
        cluster.client(bootstrap=(address,), retry_budget_ms=1_000).metadata(None)


def test_a_topic_that_is_not_there_is_given_up_on_sooner(cluster: Cluster) -> None:
    cluster.on(ApiKey.LIST_OFFSETS, offsets(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    with pytest.raises(RetriesExhausted, match="UNKNOWN_TOPIC_OR_PARTITION"):
        cluster.client(unknown_topic_budget_ms=500).list_offsets({T0: LATEST})
    assert cluster.clock.now_ms < 500
    cluster.lead({}, errors={"t": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
    with pytest.raises(RetriesExhausted, match="t-0: the cluster does not know the topic"):
        cluster.client(unknown_topic_budget_ms=500).list_offsets({T0: LATEST})
    assert cluster.clock.now_ms < 1_000


def test_an_error_that_stays_is_raised_at_once(cluster: Cluster) -> None:
    cluster.on(ApiKey.LIST_OFFSETS, offsets(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(BrokerError) as caught:
        cluster.client().list_offsets({T0: LATEST})
    assert caught.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert cluster.clock.slept_s == []


DENIED = r"TOPIC_AUTHORIZATION_FAILED \(29\): the cluster's ACLs do not allow it to User:ANONYMOUS"


@pytest.mark.parametrize(
    "ask",
    [
        lambda client: client.metadata(["t"]),
        lambda client: client.list_offsets({T0: LATEST}),
        lambda client: client.produce({T0: batch(0, 1)}),
        lambda client: client.refresh(["t"]),
        lambda client: next(client.fetch([PartitionRange("t", 0, 0, 5)])),
    ],
)
def test_a_topic_that_the_acls_hide_is_told_at_once_with_the_principal(
    cluster: Cluster, ask: Callable[[Client], object]
) -> None:
    cluster.lead({}, errors={"t": ErrorCode.TOPIC_AUTHORIZATION_FAILED})
    with pytest.raises(NotAuthorized, match=f"topic 't': {DENIED}"):
        ask(cluster.client())
    assert cluster.clock.slept_s == []


def test_an_answer_that_the_acls_forbid_names_partition_and_principal(cluster: Cluster) -> None:
    cluster.on(ApiKey.PRODUCE, produced(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(NotAuthorized, match=f"produce to t-0: {DENIED}"):
        cluster.client().produce({T0: batch(0, 1)})
    assert cluster.clock.slept_s == []


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ],
)
def test_other_resources_that_the_acls_forbid_are_told_so_too(cluster: Cluster, error: ErrorCode) -> None:
    cluster.on(ApiKey.LIST_OFFSETS, offsets(error_code=error))
    with pytest.raises(NotAuthorized, match=f"{error.name}.*do not allow it to User:ANONYMOUS"):
        cluster.client().list_offsets({T0: LATEST})
    assert cluster.clock.slept_s == []


def test_an_answer_that_forgets_a_partition_is_no_answer(cluster: Cluster) -> None:
    cluster.on(ApiKey.LIST_OFFSETS, in_turn({"topics": []}, offsets(offset=7)))
    assert cluster.client().list_offsets({T0: LATEST})[T0].offset == 7
    assert cluster.clock.slept_s == [0.1]


def test_epoch_ends_and_producers_are_told_by_leaders(cluster: Cluster) -> None:
    cluster.on(
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        lambda message: {
            "topics": [
                {
                    "topic": "t",
                    "partitions": [
                        {"partition": one.partition, "leader_epoch": one.leader_epoch - 1, "end_offset": 44}
                        for one in message.topics[0].partitions
                    ],
                }
            ]
        },
    )
    producer = {
        "producer_id": 2**62 + 5,
        "producer_epoch": 7,
        "last_sequence": 41,
        "last_timestamp": 99,
        "coordinator_epoch": -1,
        "current_txn_start_offset": -1,
    }
    cluster.on(
        ApiKey.DESCRIBE_PRODUCERS,
        lambda message: {
            "topics": [
                {
                    "name": "t",
                    "partitions": [
                        {"partition_index": one, "active_producers": [producer]}
                        for one in message.topics[0].partition_indexes
                    ],
                }
            ]
        },
    )
    with cluster.client() as client:
        assert client.epoch_ends({T0: 3, T1: 5}) == {T0: EpochEnd(2, 44), T1: EpochEnd(4, 44)}
        state = (ActiveProducer(2**62 + 5, 7, 41, 99, -1, -1),)
        assert client.describe_producers([T1, T0]) == {T1: state, T0: state}


def test_metadata_tells_topics_their_errors_and_ids(cluster: Cluster) -> None:
    cluster.lead({("t", 0): 1, ("t", 1): -1}, errors={"no": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
    told = cluster.client().metadata(["t", "no"])
    assert told.topics["no"].error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert told.leader_of(T0) == (1, *cluster.brokers[1].address, None)
    assert told.leader_of(T1) is None
    assert told.topics["t"].partitions[1].replicas == (1, 2)
    (asked,) = [message for api, message in cluster.brokers[1].asked if api is ApiKey.METADATA]
    assert [one.name for one in asked.topics] == ["t", "no"]
    assert asked.allow_auto_topic_creation is False
    assert pickle.loads(pickle.dumps(told)) == told


# --- producing ------------------------------------------------------------------------------------------


def test_produce_sends_until_each_partition_is_answered(cluster: Cluster) -> None:
    cluster.on(
        ApiKey.PRODUCE, in_turn(None, produced(base_offset=10)), in_turn(produced(NOT_LEADER), produced())
    )
    results = cluster.client().produce({T0: b"zero", T1: bytearray(b"one")})
    assert results == {
        T0: ProduceResult(ErrorCode.NONE, 10),
        T1: ProduceResult(ErrorCode.NONE, 0),
    }
    sent = [message for api, message in cluster.brokers[2].asked if api is ApiKey.PRODUCE]
    assert [one.topic_data[0].partition_data[0].records for one in sent] == [b"one", b"one"]
    assert sent[0].acks == -1


def test_one_attempt_says_what_it_knows(cluster: Cluster) -> None:
    cluster.on(ApiKey.PRODUCE, in_turn(None), produced(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER))
    results = cluster.client().produce_once({T0: b"zero", T1: memoryview(b"one")})
    assert isinstance(results[T0], Unsettled)
    assert results[T1] == ProduceResult(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 0)
    with pytest.raises(ValueError, match="acks=0"):
        cluster.client().produce_once({T0: b""}, acks=0)


def test_a_partition_without_a_leader_is_unsettled(cluster: Cluster) -> None:
    cluster.lead({("t", 0): -1})
    cluster.on(ApiKey.PRODUCE, produced())
    assert cluster.client().produce_once({T0: b"x", T1: b"y"}) == {
        T0: Unsettled("it has no leader"),
        T1: Unsettled("there is no such partition", is_unknown_topic=True),
    }


def test_an_error_of_produce_that_stays_is_raised(cluster: Cluster) -> None:
    cluster.on(ApiKey.PRODUCE, produced(ErrorCode.INVALID_PRODUCER_EPOCH))
    with pytest.raises(BrokerError, match="produce to t-0: INVALID_PRODUCER_EPOCH"):
        cluster.client().produce({T0: b"x"})


# --- fetching -------------------------------------------------------------------------------------------


def test_ranges_are_fetched_from_all_leaders_to_their_ends(cluster: Cluster) -> None:
    cluster.on(ApiKey.FETCH, fetched(lambda _, offset: {"high_watermark": 100, "records": batch(offset, 10)}))
    ranges = [PartitionRange("t", 0, 0, 30), PartitionRange("t", 1, 5, 12)]
    with cluster.client().fetch(ranges) as stream:
        got = [(one.where, one.start_offset, one.next_offset, bytes(one.records)) for one in stream]
    assert [one for one in got if one[0] == T0] == [
        (T0, start, start + 10, batch(start, 10)) for start in (0, 10, 20)
    ]
    assert [one for one in got if one[0] == T1] == [(T1, 5, 12, batch(5, 10))]
    connections = cluster.brokers[1].connections
    cluster.client().metadata(None)
    assert cluster.brokers[1].connections == connections, "the stream gave its connection back"


def test_ranges_come_one_after_another_although_their_brokers_answer_otherwise(cluster: Cluster) -> None:
    records = fetched(lambda _, offset: {"high_watermark": 100, "records": batch(offset, 10)})
    cluster.on(ApiKey.FETCH, in_turn(None, None, records), records)  # the first one hangs up twice
    ranges = [PartitionRange("t", 0, 0, 30), PartitionRange("t", 1, 0, 30)]
    with cluster.client().fetch(ranges, in_order=True) as stream:
        got = [(one.where, one.start_offset) for one in stream]
    assert got == [(where, start) for where in (T0, T1) for start in (0, 10, 20)]


def test_the_next_fetch_is_under_way_before_the_reader_has_the_last(cluster: Cluster) -> None:
    cluster.on(ApiKey.FETCH, fetched(lambda _, offset: {"records": batch(offset, 10)}))
    with cluster.client().fetch([PartitionRange("t", 0, 0, 100)]) as stream:
        next(stream)
        next(stream)
        assert cluster.brokers[1].times_asked(ApiKey.FETCH) >= 2


def test_fetching_survives_lost_connections_and_moving_leaders(cluster: Cluster) -> None:
    cluster.lead({("t", 0): 1}, {("t", 0): 2}, {("t", 0): 1})
    records = fetched(lambda _, offset: {"records": batch(offset, 10)})
    refuse = fetched(lambda *_: {"error_code": NOT_LEADER})
    cluster.on(ApiKey.FETCH, in_turn(records, None, records), in_turn(records, refuse))
    with cluster.client().fetch([PartitionRange("t", 0, 0, 50)]) as stream:
        assert [one.start_offset for one in stream] == [0, 10, 20, 30, 40]


def test_a_malformed_fetch_answer_is_asked_for_again_and_nothing_of_it_is_lost(cluster: Cluster) -> None:
    good = fetched(lambda _, offset: {"records": batch(offset, 10)})
    bad = fetched(lambda *_: {"records": batch(0, 1) + batch(0, 1)})
    cluster.on(ApiKey.FETCH, in_turn(good, bad, good))
    with cluster.client().fetch([PartitionRange("t", 0, 0, 30)]) as stream:
        assert [one.start_offset for one in stream] == [0, 10, 20]


def test_offsets_below_the_logs_start_are_an_error_or_skipped(cluster: Cluster) -> None:
    cluster.on(
        ApiKey.FETCH,
        fetched(
            lambda _, offset: (
                {"error_code": ErrorCode.OFFSET_OUT_OF_RANGE}
                if offset < 20
                else {"records": batch(offset, 10)}
            )
        ),
    )
    cluster.on(ApiKey.LIST_OFFSETS, in_turn(offsets(offset=20), offsets(offset=50)))
    ranges = [PartitionRange("t", 0, 3, 40)]
    with pytest.raises(OffsetsGone, match="t-0: offset 3 is out of range, the log holds 20 to 49"):
        next(cluster.client().fetch(ranges))
    cluster.on(ApiKey.LIST_OFFSETS, in_turn(offsets(offset=50), offsets(offset=50)))
    with pytest.raises(OffsetsGone, match="offset 3 is out of range, the log is empty, and continues at 50"):
        next(cluster.client().fetch(ranges))
    cluster.on(ApiKey.LIST_OFFSETS, in_turn(offsets(offset=20), offsets(offset=50)))
    stream = cluster.client().fetch(ranges, skip_gone=True)
    assert [one.start_offset for one in stream] == [20, 30]
    assert stream.skipped == {T0: 17}


def test_an_end_beyond_the_log_is_an_error_or_the_end(cluster: Cluster) -> None:
    def say(_: int, offset: int) -> dict[str, object]:
        # The client's clock is the test's: an answer without records costs it a second.
        if offset < 10:
            return {"high_watermark": 10, "records": batch(offset, 10)}
        cluster.clock.now_ms += 1_000
        return {"high_watermark": 10}

    cluster.on(ApiKey.FETCH, fetched(say))
    ranges = [PartitionRange("t", 0, 0, 40)]
    stream = cluster.client(retry_budget_ms=3_000).fetch(ranges)
    assert next(stream).next_offset == 10
    with pytest.raises(OffsetsGone, match=r"offset 10 .of 40 to be read. could not be fetched.*watermark 10"):
        next(stream)
    stream = cluster.client(retry_budget_ms=3_000).fetch(ranges, skip_gone=True)
    assert [one.next_offset for one in stream] == [10]
    assert stream.skipped == {T0: 30}


def test_what_the_reader_keeps_to_himself_is_not_the_clusters_fault(cluster: Cluster) -> None:
    cluster.on(ApiKey.FETCH, fetched(lambda _, offset: {"records": batch(offset, 10)}))
    with cluster.client(retry_budget_ms=1_000).fetch([PartitionRange("t", 0, 0, 100)]) as stream:
        for _ in stream:
            cluster.clock.now_ms += 3_600_000


# --- connections ----------------------------------------------------------------------------------------


def connect(broker: ScriptedBroker, **config: int) -> BrokerConnection:
    values: dict[str, Any] = {"bootstrap": (broker.address,), **config}
    return BrokerConnection(broker.address, ClientConfig(**values))


@pytest.mark.parametrize(
    ("says", "message"),
    [
        (struct.pack(">i", -1), "not within"),
        (struct.pack(">i", 0), "not within"),
        (struct.pack(">i", 2**30), "not within"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "not within"),
        (struct.pack(">ii", 8, 77) + bytes(4), "answer 77 where"),
        (struct.pack(">iib", 5, 2, 1), "tagged fields"),
        (struct.pack(">iib", 5, 2, 0), "METADATA"),
        (struct.pack(">iibiiii", 21, 2, 0, 0, 2**31 - 1, 0, 0), "METADATA"),
    ],
)
def test_what_is_no_answer_ends_the_connection(says: bytes, message: str) -> None:
    with ScriptedBroker({ApiKey.METADATA: lambda _: says}) as broker:
        connection = connect(broker)
        with pytest.raises(MalformedAnswer, match=message):
            connection.call(ApiKey.METADATA, {"topics": ()})
        assert not connection.is_open


def test_a_claim_of_a_large_answer_buys_little_memory() -> None:
    claim = struct.pack(">i", 100 * 1024 * 1024) + bytes(100)
    with ScriptedBroker({ApiKey.METADATA: lambda _: claim}) as broker:
        connection = connect(broker, request_timeout_ms=300)
        with pytest.raises(ConnectionLost, match=r"timed out|in time"):
            connection.call(ApiKey.METADATA, {"topics": ()})


def test_silence_ends_the_connection() -> None:
    with ScriptedBroker({ApiKey.METADATA: lambda _: b""}) as broker:
        connection = connect(broker, request_timeout_ms=200)
        with pytest.raises(ConnectionLost, match=r"timed out|in time"):
            connection.call(ApiKey.METADATA, {"topics": ()})
        assert not connection.is_open


def test_a_broker_without_an_api_is_named() -> None:
    few = {"api_keys": [{"api_key": 1, "min_version": 4, "max_version": 11}]}
    with ScriptedBroker({ApiKey.API_VERSIONS: lambda _: few}) as broker:
        connection = connect(broker)
        with pytest.raises(UnsupportedBroker, match=r"FETCH version 12 is needed, it speaks only.* 4 to 11"):
            connection.call(ApiKey.FETCH, {})
        with pytest.raises(UnsupportedBroker, match="DESCRIBE_PRODUCERS version 0 is needed, it speaks none"):
            connection.call(ApiKey.DESCRIBE_PRODUCERS, {})
        assert connection.is_reusable
        connection.close()


def test_a_pooled_connection_is_used_again_unless_the_broker_hung_up() -> None:
    versions = in_turn(EVERYTHING)
    with ScriptedBroker({ApiKey.API_VERSIONS: versions, ApiKey.METADATA: in_turn({}, None)}) as broker:
        config = ClientConfig(bootstrap=(broker.address,))
        pool = ConnectionPool()
        with pool.lease(broker.address, config) as first:
            first.call(ApiKey.METADATA, {"topics": ()})
        with pool.lease(broker.address, config) as second:
            assert second is first
            with pytest.raises(ConnectionLost):
                second.call(ApiKey.METADATA, {"topics": ()})
        with pool.lease(broker.address, config) as third:
            assert third is not first
        assert broker.connections == 2
        pool.close()


def test_a_forked_process_begins_with_an_empty_pool() -> None:
    with ScriptedBroker({}) as broker:
        config = ClientConfig(bootstrap=(broker.address,))
        pool = ConnectionPool()
        with pool.lease(broker.address, config) as mine:
            pass
        pool._process_id = os.getpid() - 1
        with pool.lease(broker.address, config) as after:
            assert after is not mine
        mine.close()
        pool.close()


# --- configuration --------------------------------------------------------------------------------------


def test_bootstrap_servers_are_read() -> None:
    assert parse_bootstrap(" a:1, b.c-d:65535,,[::1]:9092,a:1") == (("a", 1), ("b.c-d", 65535), ("::1", 9092))


@pytest.mark.parametrize(
    "text", ["", ",", "a", "a:0", "a:65536", "a:x", "a:1:2", "http://a:1", "a b:1", ":1"]
)
def test_bootstrap_servers_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(InvalidClientOption, match="bootstrap"):
        parse_bootstrap(text)


def test_kafka_options_become_a_config_that_pickles() -> None:
    config = client_config(
        {
            "bootstrap.servers": "a:1",
            "client.id": "me",
            "request.timeout.ms": "7",
            "fetch.max.wait.ms": " 9 ",
            "group.id": "passed over",
        }
    )
    assert (config.client_id, config.request_timeout_ms, config.fetch_max_wait_ms) == ("me", 7, 9)
    assert pickle.loads(pickle.dumps(config)) == config


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "must be specified"),
        ({"bootstrap.servers": "a:1", "security.protocol": "SASL_SSL"}, r"kafka\.sasl\.mechanism"),
        ({"bootstrap.servers": "a:1", "fetch.max.bytes": "0"}, "fetch.max.bytes"),
        ({"bootstrap.servers": "a:1", "request.timeout.ms": "soon"}, "request.timeout.ms"),
    ],
)
def test_options_that_can_not_be_honoured_are_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidClientOption, match=message):
        client_config(options)
