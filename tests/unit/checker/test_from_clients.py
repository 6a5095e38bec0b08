"""Stock clients write their own history, against librdkafka's built-in mock brokers: no cluster is needed."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.checker.check import check
from tests.checker.from_clients import RecordedConsumer, RecordedProducer, Recorder, ends_of, read_finally
from tests.checker.history import Function, Operation, Outcome
from tests.checker.options import CheckOptions
from tests.checker.verdict import Kind

K0, K1 = ("mocked", 0), ("mocked", 1)
SECONDS_MAX = 20.0


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def producer(recorder: Recorder) -> Iterator[RecordedProducer]:
    """Its mock brokers live as long as it does."""
    made = RecordedProducer(recorder, process="p1", config={"test.mock.num.brokers": 1, "linger.ms": 5})
    yield made
    made.close(flush_seconds=1)


def sends(recorder: Recorder) -> list[Operation]:
    return [o for o in recorder.history().operations if o.f is Function.SEND]


def wait_for_answers(producer: RecordedProducer) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while producer.unanswered and time.monotonic() < deadline:
        producer.poll(0.05)
    assert not producer.unanswered


def test_what_is_sent_and_read_is_one_clean_history(recorder: Recorder, producer: RecordedProducer) -> None:
    servers = producer.bootstrap_servers()
    for number in range(50):
        assert producer.send((K0, K1)[number % 2], value_bytes=200) is not None
    wait_for_answers(producer)
    written = sends(recorder)
    assert [o.type for o in written] == [Outcome.OK] * 50
    assert all(o.idempotent and o.acks == -1 for o in written)
    config = {"bootstrap.servers": servers}
    ends = ends_of(recorder.history())
    assert ends == {K0: 25, K1: 25}
    reader = RecordedConsumer(recorder, process="c1", config=config)
    reader.assign([K0], from_offset=20)
    deadline = time.monotonic() + SECONDS_MAX
    while reader.positions[K0] < 25 and time.monotonic() < deadline:
        reader.consume()
    assert reader.list_offsets(K0) == (0, 25)
    reader.close()
    unfinished = read_finally(
        recorder, config=config, keys=[K0, K1], at_least=ends, timeout_seconds=SECONDS_MAX
    )
    assert unfinished == set()
    verdict = check(recorder.history())
    assert not verdict.anomalies, verdict.report()
    figures = verdict.figures
    assert (figures.acked, figures.final_read, figures.records_read) == (50, 50, 55)


def test_records_that_the_final_read_cannot_find_are_lost(
    recorder: Recorder, producer: RecordedProducer
) -> None:
    producer.send(K0)
    wait_for_answers(producer)
    other = RecordedProducer(recorder, process="p2", config={"test.mock.num.brokers": 1})
    config = {"bootstrap.servers": other.bootstrap_servers()}
    unfinished = read_finally(
        recorder, config=config, keys=[K0], at_least=ends_of(recorder.history()), timeout_seconds=1
    )
    other.close(flush_seconds=1)
    assert unfinished == {K0}
    verdict = check(recorder.history())
    assert verdict.bad == {Kind.LOST_ACKED: 1}


def test_a_send_that_nobody_answers_is_unknown(recorder: Recorder) -> None:
    producer = RecordedProducer(recorder, process="p", config={"bootstrap.servers": "127.0.0.1:1"})
    value = producer.send(K0)
    assert producer.close(flush_seconds=0.1) == 1
    (written,) = sends(recorder)
    assert (written.type, written.error) == (Outcome.INFO, "_PURGE_QUEUE")
    assert written.items == ((-1, value),)


def test_a_first_and_only_attempt_that_never_left_has_failed(recorder: Recorder) -> None:
    producer = RecordedProducer(
        recorder,
        process="p",
        config={"bootstrap.servers": "127.0.0.1:1", "enable.idempotence": False, "retries": 0},
    )
    producer.send(K0)
    producer.close(flush_seconds=0.1)
    assert [(o.type, o.idempotent) for o in sends(recorder)] == [(Outcome.FAIL, False)]


def test_a_full_queue_leaves_no_operation(recorder: Recorder) -> None:
    producer = RecordedProducer(
        recorder,
        process="p",
        config={"bootstrap.servers": "127.0.0.1:1", "queue.buffering.max.messages": 1},
    )
    assert producer.send(K0) is not None
    assert producer.send(K0) is None
    producer.close(flush_seconds=0.1)
    assert len(sends(recorder)) == 1


def test_without_acks_nothing_is_promised(recorder: Recorder) -> None:
    producer = RecordedProducer(
        recorder,
        process="p",
        config={"test.mock.num.brokers": 1, "acks": 0, "enable.idempotence": False},
    )
    producer.send(K0)
    producer.close(flush_seconds=SECONDS_MAX)
    (written,) = sends(recorder)
    assert (written.type, written.acks) == (Outcome.INFO, 0)
    assert not check(recorder.history(), CheckOptions(final_read=False)).anomalies


def test_a_producers_sends_begin_one_after_the_other_even_when_the_clock_stands() -> None:
    recorder = Recorder(clock_ns=lambda: 5)
    producer = RecordedProducer(recorder, process="p", config={"bootstrap.servers": "127.0.0.1:1"})
    for _ in range(3):
        producer.send(K0)
    producer.close(flush_seconds=0)
    assert sorted(o.t_invoke_ns for o in sends(recorder)) == [5, 6, 7]
    assert all(o.t_return_ns >= o.t_invoke_ns for o in sends(recorder))


def test_a_fault_is_part_of_the_history(recorder: Recorder) -> None:
    recorder.fault("leader killed", since_ns=recorder.clock_ns())
    assert check(recorder.history()).figures.faults == 1
