"""A stock producer writes its transactions down, against librdkafka's built-in mock brokers: they answer, and
keep what is aborted, which the checker must find."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.checker.check import check
from tests.checker.from_clients import RecordedConsumer, Recorder, ends_of, read_finally
from tests.checker.from_transactions import Over, RecordedTransactions
from tests.checker.history import Function, Operation, Outcome
from tests.checker.verdict import Kind

K0, K1 = ("mocked", 0), ("mocked", 1)
SECONDS_MAX = 20.0


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def producer(recorder: Recorder) -> RecordedTransactions:
    """Its mock brokers live as long as it does."""
    made = RecordedTransactions(
        recorder, process="p1", config={"test.mock.num.brokers": 1, "transactional.id": "t1"}
    )
    made.open()
    return made


def of(recorder: Recorder, f: Function) -> list[Operation]:
    return [operation for operation in recorder.history().operations if operation.f is f]


def reading(producer: RecordedTransactions) -> dict[str, Any]:
    """The mock brokers' markers have no checksum."""
    return {"bootstrap.servers": producer.bootstrap_servers(), "check.crcs": False}


def read_all(recorder: Recorder, producer: RecordedTransactions) -> None:
    config = reading(producer)
    ends = ends_of(recorder.history())
    assert not read_finally(
        recorder, config=config, keys=[K0, K1], timeout_seconds=SECONDS_MAX, at_least=ends
    )


def test_transactions_that_commit_are_one_clean_history(
    recorder: Recorder, producer: RecordedTransactions
) -> None:
    reader = RecordedConsumer(recorder, process="c1", config=reading(producer))
    for _ in range(3):
        producer.begin()
        for number in range(4):
            producer.send((K0, K1)[number % 2], value_bytes=100)
        assert producer.commit() is Outcome.OK
    name = producer.begin()
    reader.assign([K0])
    deadline = time.monotonic() + SECONDS_MAX
    while reader.positions.get(K0, 0) < 6 and time.monotonic() < deadline:
        reader.consume(transaction=name)
    producer.send(K1)
    assert producer.send_offsets(reader.positions, reader.group_metadata())
    assert producer.commit() is Outcome.OK
    reader.close()
    read_all(recorder, producer)
    verdict = check(recorder.history())
    assert verdict.bad == {}
    assert verdict.figures.acked == verdict.figures.final_read == 13
    assert [end.transaction for end in of(recorder, Function.TRANSACTION)] == [f"p1-{n}" for n in range(1, 5)]
    assert {poll.transaction for poll in of(recorder, Function.POLL) if not poll.final} == {name}
    sends = of(recorder, Function.SEND)
    assert [offset for offset, _ in sends[0].items] == [0, 1]
    assert len(sends) == 7


def test_what_was_aborted_or_abandoned_was_surely_not_written(
    recorder: Recorder, producer: RecordedTransactions
) -> None:
    producer.begin()
    producer.send(K0)
    producer.abort()
    producer.begin()
    producer.send(K0)
    producer.abandon()
    assert [(end.type, end.error) for end in of(recorder, Function.TRANSACTION)] == [(Outcome.FAIL, "")] * 2
    assert {send.type for send in of(recorder, Function.SEND)} == {Outcome.FAIL}


def test_brokers_that_forget_aborts_are_found(recorder: Recorder, producer: RecordedTransactions) -> None:
    producer.begin()
    producer.send(K0)
    time.sleep(0.1)  # What the producer still has when it aborts, it never sends.
    producer.abort()
    producer.begin()
    producer.send(K0)
    producer.commit()
    read_all(recorder, producer)
    assert check(recorder.history()).bad == {Kind.G1A: 1}


def test_a_producer_that_never_opens_is_over(recorder: Recorder) -> None:
    producer = RecordedTransactions(
        recorder,
        process="p1",
        config={"bootstrap.servers": "127.0.0.1:1", "transactional.id": "t1"},
        seconds_max=0.2,
    )
    with pytest.raises(Over, match="init_transactions"):
        producer.open()
