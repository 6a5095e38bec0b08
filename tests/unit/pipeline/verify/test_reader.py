"""The reader over real sockets: whom it asks, how, and what trouble with brokers becomes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from pipeline.client.client import Client
from pipeline.client.config import ClientConfig
from pipeline.client.pool import ConnectionPool
from pipeline.verify.cluster import compacted_topics
from pipeline.verify.findings import Flaw
from pipeline.verify.planning import RangeTask
from pipeline.verify.reader import RangeReader, ReadOptions
from pipeline.verify.replica_stream import End
from pipeline.verify.report import RangeReport
from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from tests.kit.pipeline.brokers import Fields, Handler, ScriptedBroker, in_turn, metadata_of
from tests.kit.pipeline.verify_world import WHERE, Replica, flipped, log_of

LOG = log_of([3] * 40)
END = LOG[-1].next_offset
QUICK: dict[str, Any] = {"request_timeout_ms": 2_000, "connect_timeout_ms": 500, "retry_budget_ms": 1_000}


def serving(replica: Replica, *, error: ErrorCode | None = None) -> Handler:
    """Answers a Fetch from a replica's log."""

    def handle(message: Any) -> Fields:
        ((topic,),) = (message.topics,)
        (asked,) = topic.partitions
        answer = replica.fetch(asked.fetch_offset, asked.partition_max_bytes)
        return {
            "error_code": 0,
            "session_id": 0,
            "responses": [
                {
                    "topic": topic.topic,
                    "partitions": [
                        {
                            "partition_index": asked.partition,
                            "error_code": int(answer.error if error is None else error),
                            "high_watermark": answer.high_watermark,
                            "last_stable_offset": answer.high_watermark,
                            "log_start_offset": answer.log_start_offset,
                            "aborted_transactions": None,
                            "records": bytes(answer.view),
                        }
                    ],
                }
            ],
        }

    return handle


@contextmanager
def cluster(handlers: Mapping[int, Handler]) -> Iterator[dict[int, ScriptedBroker]]:
    with ExitStack() as stack:
        brokers = {
            number: stack.enter_context(ScriptedBroker({ApiKey.FETCH: handler}))
            for number, handler in handlers.items()
        }
        for broker in brokers.values():
            broker.handlers[ApiKey.METADATA] = lambda _: metadata_of(
                brokers, {(WHERE.topic, WHERE.partition): 1}
            )
        yield brokers


def config(brokers: Mapping[int, ScriptedBroker]) -> ClientConfig:
    return ClientConfig(bootstrap=tuple(broker.address for broker in brokers.values()), **QUICK)


def verify(brokers: Mapping[int, ScriptedBroker], *replicas: int, **task: Any) -> RangeReport:
    options = ReadOptions(config(brokers), fetch_bytes=64 * 1024, patience_ms=400, wait_ms=20)
    asked = RangeTask(
        WHERE.topic,
        WHERE.partition,
        0,
        END,
        replicas or tuple(brokers),
        replicas or tuple(brokers),
        takes_head=True,
        **task,
    )
    pool = ConnectionPool()
    try:
        with Client(options.client, pool=pool) as client:
            return RangeReader(options, asked, client, pool).run()
    finally:
        pool.close()


def kinds(report: RangeReport) -> list[tuple[Flaw, int]]:
    return [(one.kind, one.broker_id) for one in report.findings]


def ends(report: RangeReport) -> dict[int, End]:
    return {one.broker_id: one.end for one in report.replicas}


def test_every_replica_is_asked_as_a_debugging_consumer_asks() -> None:
    with cluster({number: serving(Replica(list(LOG))) for number in (1, 2, 3)}) as brokers:
        report = verify(brokers)
        fetches = [
            message for broker in brokers.values() for api, message in broker.asked if api is ApiKey.FETCH
        ]
    assert (kinds(report), report.records, set(ends(report).values())) == ([], END, {End.WHOLE})
    assert report.compared_bytes == 3 * report.size_bytes
    assert {message.replica_id for message in fetches} == {-2}
    assert {message.session_epoch for message in fetches} == {-1}


def test_damage_is_found_through_sockets() -> None:
    replicas = {number: Replica(list(LOG)) for number in (1, 2, 3)}
    replicas[2].batches[7] = flipped(LOG[7], 8 * 70)
    del replicas[3].batches[20]
    with cluster({number: serving(one) for number, one in replicas.items()}) as brokers:
        assert kinds(verify(brokers)) == [(Flaw.CRC_MISMATCH, 2), (Flaw.BATCH_MISSING, 3)]


def test_a_connection_that_is_lost_is_made_again() -> None:
    sound = serving(Replica(list(LOG)))
    with cluster({1: sound, 2: in_turn(None, None, sound)}) as brokers:
        report = verify(brokers)
        assert brokers[2].connections >= 3
    assert (kinds(report), report.records) == ([], END)


@pytest.mark.parametrize(
    "trouble",
    [
        lambda _: None,
        serving(Replica(list(LOG)), error=ErrorCode.KAFKA_STORAGE_ERROR),
        serving(Replica(list(LOG)), error=ErrorCode.INVALID_REQUEST),
        lambda _: b"\x00\x00\x00\x04\xff\xff\xff\xff",
        lambda _: {"error_code": 0, "session_id": 0, "responses": []},
    ],
    ids=["hangs up", "disk error", "refuses", "wrong bytes", "says nothing of it"],
)
def test_a_replica_that_can_not_be_read_is_told_of_and_the_others_are_compared(trouble: Handler) -> None:
    replicas = {number: Replica(list(LOG)) for number in (1, 3)}
    replicas[3].batches[7] = flipped(LOG[7], 8 * 70)
    with cluster({1: serving(replicas[1]), 2: trouble, 3: serving(replicas[3])}) as brokers:
        report = verify(brokers)
    assert sorted(kinds(report)) == [(Flaw.CRC_MISMATCH, 3), (Flaw.UNREADABLE_REPLICA, 2)]
    assert (ends(report)[2], report.records) == (End.UNREADABLE, END)


def test_a_broker_that_nobody_knows_is_unreadable() -> None:
    with cluster({1: serving(Replica(list(LOG)))}) as brokers:
        report = verify(brokers, 1, 9)
    assert ends(report) == {1: End.WHOLE, 9: End.LEFT}, "Metadata does not name it among the replicas"


def test_a_replica_that_is_taken_away_meanwhile_is_no_trouble() -> None:
    gone = serving(Replica([]), error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    with cluster({1: serving(Replica(list(LOG))), 2: gone}) as brokers:
        left = {1: brokers[1]}
        told = in_turn(
            metadata_of(brokers, {(WHERE.topic, WHERE.partition): 1}),
            metadata_of(left, {(WHERE.topic, WHERE.partition): 1}),
        )
        for broker in brokers.values():
            broker.handlers[ApiKey.METADATA] = told
        report = verify(brokers)
    assert (kinds(report), ends(report)) == ([], {1: End.WHOLE, 2: End.LEFT})


def test_a_topic_that_is_deleted_meanwhile_is_no_trouble() -> None:
    gone = serving(Replica([]), error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    with cluster({1: gone, 2: gone}) as brokers:
        told = in_turn(
            metadata_of(brokers, {(WHERE.topic, WHERE.partition): 1}),
            metadata_of(brokers, {}, errors={WHERE.topic: 3}),
        )
        for broker in brokers.values():
            broker.handlers[ApiKey.METADATA] = told
        report = verify(brokers)
    assert (kinds(report), set(ends(report).values())) == ([], {End.LEFT})


def test_compacted_replicas_are_checked_each_alone() -> None:
    one, other = list(LOG), list(LOG)
    del one[5], other[9]
    other[20] = flipped(other[20], 8 * 70)
    with cluster({1: serving(Replica(one)), 2: serving(Replica(other))}) as brokers:
        report = verify(brokers, is_compacted=True)
    assert kinds(report) == [(Flaw.CRC_MISMATCH, 2)]


def policy_of(**policies: str) -> Callable[[Any], Fields]:
    return lambda message: {
        "results": [
            {
                "error_code": 0,
                "resource_type": 2,
                "resource_name": one.resource_name,
                "configs": [
                    {
                        "name": "cleanup.policy",
                        "value": policies[one.resource_name],
                        "read_only": False,
                        "is_sensitive": False,
                    }
                ],
            }
            for one in message.resources
        ]
    }


def test_which_topics_compact_is_asked_of_any_broker() -> None:
    with cluster({1: lambda _: None, 2: lambda _: None}) as brokers:
        brokers[1].handlers[ApiKey.DESCRIBE_CONFIGS] = lambda _: None
        brokers[2].handlers[ApiKey.DESCRIBE_CONFIGS] = policy_of(
            orders="delete", totals="compact", both="compact,delete"
        )
        with Client(config(brokers)) as client:
            client.metadata(None)
            assert compacted_topics(["orders", "totals", "both"], client) == {"totals", "both"}
            brokers[2].handlers[ApiKey.DESCRIBE_CONFIGS] = lambda _: None
            assert compacted_topics(["orders"], client) is None
