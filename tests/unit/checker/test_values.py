"""Values, and the rule of which sends fail: what they must never be mistaken for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.checker.history import Outcome
from tests.checker.outcomes import NO_ANSWER, OK, REFUSED_BEFORE_APPEND, outcome_of_send
from tests.checker.values import decode_value, encode_value, make_value, parse_value

K = ("orders.eu", 12)


def a_value(value_bytes: int = 100) -> str:
    return make_value(run="r1", process="p-3", number=42, key=K, value_bytes=value_bytes)


@given(st.integers(0, 500))
def test_a_value_survives_being_a_record(value_bytes: int) -> None:
    text = a_value(value_bytes)
    record = encode_value(text)
    assert len(record) == max(len(text), value_bytes)
    assert decode_value(record) == text
    said = parse_value(text)
    assert said is not None
    assert (said.key, said.value_bytes) == (K, value_bytes)


@given(st.integers(0, 149), st.integers(1, 255))
def test_no_changed_byte_goes_unnoticed(at: int, change: int) -> None:
    record = bytearray(encode_value(a_value(150)))
    record[at] ^= change
    assert parse_value(decode_value(bytes(record))) is None


@given(st.binary(max_size=200))
def test_no_cut_or_extended_record_is_taken_for_whole(end: bytes) -> None:
    record = encode_value(a_value(150))
    for damaged in (record + end, record[: -len(end)]):
        if damaged != record:
            assert decode_value(damaged) != a_value(150)
            assert parse_value(decode_value(damaged)) is None


@given(st.text())
def test_text_of_others_is_no_value(text: str) -> None:
    assert parse_value(text) is None


def test_a_large_damaged_record_is_kept_short_and_told_apart() -> None:
    one, other = decode_value(b"x" * 10_000), decode_value(b"x" * 9_999 + b"y")
    assert len(one) < 400
    assert one != other


@pytest.mark.parametrize("process", ["a b", "a@b", "a#b", ""])
def test_a_name_that_would_not_parse_is_not_used(process: str) -> None:
    with pytest.raises(AssertionError):
        make_value(run="r", process=process, number=0, key=("t#", 0) if not process else K)


@pytest.mark.parametrize(
    ("attempts", "outcome"),
    [
        ([OK], Outcome.OK),
        ([NO_ANSWER, OK], Outcome.OK),
        ([], Outcome.FAIL),
        (["NOT_ENOUGH_REPLICAS"], Outcome.FAIL),
        (["NOT_ENOUGH_REPLICAS", "INVALID_RECORD"], Outcome.FAIL),
        ([NO_ANSWER], Outcome.INFO),
        ([NO_ANSWER, "NOT_ENOUGH_REPLICAS"], Outcome.INFO),
        (["NOT_ENOUGH_REPLICAS", NO_ANSWER], Outcome.INFO),
        (["REQUEST_TIMED_OUT"], Outcome.INFO),
        (["NOT_ENOUGH_REPLICAS_AFTER_APPEND"], Outcome.INFO),
        (["NOT_LEADER_OR_FOLLOWER"], Outcome.INFO),
        (["KAFKA_STORAGE_ERROR"], Outcome.INFO),
        (["DUPLICATE_SEQUENCE_NUMBER"], Outcome.INFO),
        (["AN_ERROR_OF_THE_FUTURE"], Outcome.INFO),
    ],
)
def test_a_send_fails_only_if_every_attempt_was_refused_before_the_append(
    attempts: list[str], outcome: Outcome
) -> None:
    assert outcome_of_send(attempts) is outcome


def test_no_answer_that_a_waiting_produce_may_get_counts_as_refusal() -> None:
    after_append = {
        "NOT_LEADER_OR_FOLLOWER",
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        "REQUEST_TIMED_OUT",
        "UNKNOWN_TOPIC_OR_PARTITION",
        "KAFKA_STORAGE_ERROR",
        "UNKNOWN_SERVER_ERROR",
    }
    assert not after_append & REFUSED_BEFORE_APPEND
