"""The reader over real sockets: whom it asks, how, and what trouble with brokers becomes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from pipeline.client.client import Client
from pipeline.client.compaction import compacted_topics
from pipeline.client.config import ClientConfig
from pipeline.client.messages import SPOKEN
from pipeline.client.pool import ConnectionPool
from pipeline.verify.findings import Flaw
from pipeline.verify.planning import RangeTask
from pipeline.verify.reader import ReadOptions, verify_range
from pipeline.verify.replica_stream import End
from pipeline.verify.report import RangeReport
from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.fetch_response import AbortedTransaction, AppliedRound, encode_fetch_response
from springtide.wire.framing import FileChunk
from springtide.wire.markers import Outcome, encode_marker
from springtide.wire.records import NewRecord, encode_batch
from tests.kit.pipeline.brokers import Body, Fields, Handler, Says, ScriptedBroker, in_turn, metadata_of
from tests.kit.pipeline.verify_world import FIRST_MS, WHERE, Batch, Replica, batch, flipped, log_of

LOG = log_of([3] * 40)
END = LOG[-1].next_offset
QUICK: dict[str, Any] = {"request_timeout_ms": 2_000, "connect_timeout_ms": 500, "retry_budget_ms": 1_000}


def serving(replica: Replica, *, error: ErrorCode | None = None) -> Handler:
    """Answers a Fetch from a replica's log."""

    def handle(message: Any) -> Body:
        ((topic,),) = (message.topics,)
        (asked,) = topic.partitions
        answer = replica.fetch(asked.fetch_offset, asked.partition_max_bytes)
        if error is not None:
            answer = answer._replace(error_code=int(error))
        chunks = encode_fetch_response(SPOKEN[ApiKey.FETCH], [answer])
        return Body(b"".join(bytes(chunk) for chunk in chunks if not isinstance(chunk, FileChunk)))

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


def verify(
    brokers: Mapping[int, ScriptedBroker], *replicas: int, end_offset: int = END, **task: Any
) -> RangeReport:
    options = ReadOptions(config(brokers), fetch_bytes=64 * 1024, patience_ms=400, wait_ms=20)
    asked = RangeTask(
        WHERE.topic,
        WHERE.partition,
        0,
        end_offset,
        replicas or tuple(brokers),
        replicas or tuple(brokers),
        takes_head=True,
        **task,
    )
    pool = ConnectionPool()
    try:
        with Client(options.client, pool=pool) as client:
            return verify_range(options, asked, client, pool)
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


def telling(replica: Replica, aborted: tuple[AbortedTransaction, ...]) -> Handler:
    """Answers a reader of committed records with an index that says this."""
    sound, told = serving(replica), aborted

    def handle(message: Any) -> Body:
        if not message.isolation_level:
            return sound(message)  # type: ignore[return-value] # it answers with a body
        answer = replica.fetch(message.topics[0].partitions[0].fetch_offset, 1)._replace(aborted=told)
        chunks = encode_fetch_response(SPOKEN[ApiKey.FETCH], [answer])
        return Body(b"".join(bytes(chunk) for chunk in chunks if not isinstance(chunk, FileChunk)))

    return handle


def test_an_index_that_lacks_an_aborted_transaction_is_found_on_that_replica() -> None:
    records = encode_batch(
        [NewRecord(None, b"v", FIRST_MS)],
        base_offset=END,
        leader_epoch=9,
        producer_id=99,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )
    marker = encode_marker(
        Outcome.ABORT,
        coordinator_epoch=1,
        producer_id=99,
        producer_epoch=0,
        base_offset=END + 1,
        leader_epoch=9,
        timestamp_ms=FIRST_MS,
    )
    log = [*LOG, Batch(records, END, END + 1), Batch(marker, END + 1, END + 2)]
    right = (AbortedTransaction(99, END),)
    with cluster({1: telling(Replica(list(log)), right), 2: telling(Replica(list(log)), ())}) as brokers:
        report = verify(brokers, end_offset=END + 2)
    assert [(one.kind, one.broker_id, one.first_offset) for one in report.findings] == [
        (Flaw.ABORTED_NOT_TOLD, 2, END)
    ]


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


# --- compacted topics ------------------------------------------------------------------------------------

COMPACTED = LOG[::2] + LOG[-1:]
"""What a round has left of LOG."""
ROUND = AppliedRound(offset=END - 1, end_offset=END - 3, tombstone_floor=0)
EARLIER = AppliedRound(offset=60, end_offset=50, tombstone_floor=0)
NONE_YET = AppliedRound(offset=-1, end_offset=0, tombstone_floor=0)


def apart(report: RangeReport) -> list[int]:
    return [one.broker_id for one in report.replicas if one.is_apart]


def rounds(report: RangeReport) -> dict[int, AppliedRound | None]:
    return {one.broker_id: one.round for one in report.replicas}


def test_replicas_that_applied_the_same_rounds_are_compared() -> None:
    replicas = {number: Replica(list(COMPACTED), applied_round=ROUND) for number in (1, 2, 3)}
    replicas[2] = replace(
        replicas[2], applied_round=ROUND._replace(tombstone_floor=7)
    )  # no part of its round
    del replicas[3].batches[4]
    with cluster({number: serving(one) for number, one in replicas.items()}) as brokers:
        report = verify(brokers, is_compacted=True)
    assert (kinds(report), apart(report)) == ([(Flaw.BATCH_MISSING, 3)], [])
    assert rounds(report)[3] == ROUND


def test_replicas_that_applied_other_rounds_are_told_of_and_checked_alone() -> None:
    behind = Replica(list(LOG), applied_round=EARLIER)
    behind.batches[20] = flipped(LOG[20], 8 * 70)
    replicas = {
        1: Replica(list(COMPACTED), applied_round=ROUND),
        2: behind,
        3: Replica(COMPACTED[:4] + COMPACTED[5:], applied_round=ROUND),
        4: Replica(LOG[:7] + LOG[8:]),  # tells of no round
    }
    with cluster({number: serving(one) for number, one in replicas.items()}) as brokers:
        report = verify(brokers, is_compacted=True)
    assert kinds(report) == [(Flaw.BATCH_MISSING, 3), (Flaw.CRC_MISMATCH, 2)]
    assert (apart(report), rounds(report)) == ([2, 4], {1: ROUND, 2: EARLIER, 3: ROUND, 4: None})


def test_brokers_that_tell_of_no_rounds_are_checked_each_alone() -> None:
    one, other = list(LOG), list(LOG)
    del one[5], other[9]
    other[20] = flipped(other[20], 8 * 70)
    with cluster({1: serving(Replica(one)), 2: serving(Replica(other))}) as brokers:
        report = verify(brokers, is_compacted=True)
    assert (kinds(report), apart(report)) == ([(Flaw.CRC_MISMATCH, 2)], [2])


def large_log() -> list[Batch]:
    """It takes several answers."""
    return [batch(offset, 3, text="x" * (3_000 + 10 * offset)) for offset in range(0, END, 3)]


def compacting(replica: Replica, *, at: int, told: AppliedRound | None) -> Handler:
    """Loses every second batch between two answers, when it is asked for the `at`-th time."""
    asked = count(1)

    def handle(message: Any) -> Says:
        if next(asked) == at:
            last = replica.batches[-1]
            replica.batches = [one for one in replica.batches[::2] if one is not last] + [last]
            replica.applied_round = told
        return serving(replica)(message)

    return handle


def test_a_range_is_read_again_if_a_replica_applies_a_round_meanwhile() -> None:
    with cluster(
        {
            number: compacting(Replica(large_log(), applied_round=NONE_YET), at=at, told=ROUND)
            for number, at in [(1, 4), (2, 3)]
        }
    ) as brokers:
        report = verify(brokers, is_compacted=True)
    assert (kinds(report), apart(report), rounds(report)) == ([], [], {1: ROUND, 2: ROUND})


def test_rounds_in_a_topic_that_is_not_compacted_any_more_are_no_damage() -> None:
    behind = Replica(list(LOG), applied_round=None)
    with cluster({1: serving(Replica(COMPACTED, applied_round=ROUND)), 2: serving(behind)}) as brokers:
        report = verify(brokers)
    assert (kinds(report), apart(report), report.is_compacted) == ([], [2], True)


@pytest.mark.parametrize("at", [2, 3, 4])
def test_a_broker_that_tells_of_no_rounds_may_compact_between_two_answers(at: int) -> None:
    with cluster({1: compacting(Replica(large_log()), at=at, told=None)}) as brokers:
        assert kinds(verify(brokers, is_compacted=True)) == []


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
