"""The recorder tells the truth about a run, and the checker sees through it what a client would see."""

from __future__ import annotations

import pytest

from springtide.wire.errors import ErrorCode
from springtide.wire.records import NewRecord, encode_batch
from tests.checker.history import Function, Outcome
from tests.kit.memory.log import MemoryLog, StoredBatch
from tests.simulation.cluster import TOPIC_ID, Cluster, ClusterOptions
from tests.simulation.events import Events
from tests.simulation.history import HistoryRecorder
from tests.simulation.judge import failure_of, judge

KEY = (TOPIC_ID, 0)


@pytest.fixture
def cluster() -> Cluster:
    """Three brokers, one partition, some records, everybody at rest."""
    made = Cluster(1, ClusterOptions(partitions=1, producers=1))
    made.start()
    made.run_until(20_000, lambda: made.acked > 20)
    for producer in made.producers:
        producer.stopped = True
    made.run_until(made.events.now_ms + 5_000)
    assert made.is_settled() is None
    return made


def replace_batches(log: MemoryLog, batches: list[StoredBatch]) -> None:
    """What stands on the disk changes behind everybody's back."""
    log._batches = batches


def test_a_healthy_run_is_clean_and_the_final_read_has_every_record(cluster: Cluster) -> None:
    verdict = judge(cluster)
    assert failure_of(verdict) is None
    assert verdict.figures.acked == verdict.figures.final_read == cluster.acked
    dumps = [o for o in cluster.history.operations if o.f is Function.DUMP]
    assert {o.process for o in dumps} == {"broker-1", "broker-2", "broker-3"}
    assert all(len(o.items) == cluster.acked for o in dumps)


def test_a_record_that_vanished_from_every_replica_is_named_lost(cluster: Cluster) -> None:
    for broker in cluster.brokers.values():
        log = broker.disk.logs[KEY]
        gone = log.batches[3]
        replace_batches(log, [*log.batches[:3], *log.batches[4:]])
        log._bases.remove(gone.header.base_offset)
    verdict = judge(cluster)
    found = failure_of(verdict)
    assert found is not None
    assert found[0] == "lost-acked"
    assert "no replica has it" in found[1]
    assert verdict.figures.lost == gone.header.record_count


def test_a_record_that_one_follower_lacks_makes_replicas_differ(cluster: Cluster) -> None:
    state = cluster.truth(KEY)
    assert state is not None
    follower = next(b for b in state.replicas if b != state.leader)
    log = cluster.brokers[follower].disk.logs[KEY]
    log._bases.remove(log.batches[2].header.base_offset)
    replace_batches(log, [*log.batches[:2], *log.batches[3:]])
    found = failure_of(judge(cluster))
    assert found is not None
    assert found[0] == "replicas-differ"


def test_a_damaged_batch_is_not_taken_for_the_one_that_was_sent(cluster: Cluster) -> None:
    for broker in cluster.brokers.values():
        log = broker.disk.logs[KEY]
        header, data = log.batches[1]
        damaged = StoredBatch(header, data[:-1] + bytes([data[-1] ^ 1]))
        replace_batches(log, [log.batches[0], damaged, *log.batches[2:]])
    verdict = judge(cluster)
    assert verdict.bad["corrupt"] == 1
    assert verdict.bad["lost-acked"] == header.record_count


def batch() -> bytes:
    records = [NewRecord(value=b"a"), NewRecord(value=b"b")]
    return encode_batch(records, producer_id=7, producer_epoch=0, base_sequence=0)


@pytest.mark.parametrize(
    ("answers", "outcome"),
    [
        ([ErrorCode.NOT_ENOUGH_REPLICAS], Outcome.FAIL),
        ([ErrorCode.NOT_ENOUGH_REPLICAS, None], Outcome.INFO),
        ([ErrorCode.NOT_LEADER_OR_FOLLOWER], Outcome.INFO),
        ([None, ErrorCode.NOT_ENOUGH_REPLICAS], Outcome.INFO),
        ([ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND], Outcome.INFO),
        ([], Outcome.FAIL),
    ],
)
def test_a_send_that_is_given_up_failed_only_if_every_attempt_was_refused(
    answers: list[ErrorCode | None], outcome: Outcome
) -> None:
    recorder = HistoryRecorder(Events())
    send = recorder.begin_send("producer", KEY, batch())
    for answer in answers:
        if answer is None:
            send.unanswered()
        else:
            send.answered(answer)
    send.give_up()
    assert [operation.type for operation in recorder.operations] == [outcome]
    assert recorder.operations[0].items == ((-1, "a"), (-1, "b"))


def test_an_answer_after_the_client_gave_up_changes_nothing() -> None:
    recorder = HistoryRecorder(Events())
    send = recorder.begin_send("producer", KEY, batch())
    send.unanswered()
    send.give_up()
    send.answered(ErrorCode.NONE, 5)
    assert [operation.type for operation in recorder.operations] == [Outcome.INFO]


def test_an_old_duplicate_that_was_acknowledged_without_its_offset_gets_it() -> None:
    recorder = HistoryRecorder(Events())
    recorder.begin_send("one", KEY, batch()).answered(ErrorCode.NONE, -1)
    recorder.begin_send("two", KEY, batch(), acks=1).answered(ErrorCode.NONE, -1)
    recorder.place_old_duplicates(lambda key, producer_id, sequence: 7 if key == KEY else -1)
    assert [operation.items for operation in recorder.operations] == [
        ((7, "a"), (8, "b")),
        ((-1, "a"), (-1, "b")),
    ]


def test_a_send_under_way_when_the_run_ends_is_unknown_and_an_answered_one_has_its_offsets() -> None:
    recorder = HistoryRecorder(Events())
    recorder.begin_send("one", KEY, batch()).answered(ErrorCode.NONE, 5)
    recorder.begin_send("two", KEY, batch())
    recorder.close_sends()
    assert [operation.type for operation in recorder.operations] == [Outcome.OK, Outcome.INFO]
    assert recorder.operations[0].items == ((5, "a"), (6, "b"))
