"""The oracle itself: each kind of fault is found, and a clean history has none."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from localcluster.verdict import (
    UNKNOWN_OFFSET,
    AcknowledgedWrite,
    ReadRecord,
    RecordPlace,
    judge,
    longest_silence,
    seconds_to_next_write,
)


def write(
    value: bytes, *, partition: int = 0, offset: int, produced_at: float = 0.0, at: float = 0.0
) -> AcknowledgedWrite:
    return AcknowledgedWrite(
        value=value,
        place=RecordPlace(partition=partition, offset=offset),
        produced_at=produced_at,
        acknowledged_at=at,
    )


def read(value: bytes, *, partition: int = 0, offset: int) -> ReadRecord:
    return ReadRecord(value, RecordPlace(partition=partition, offset=offset))


def test_a_record_that_was_acknowledged_without_an_offset_may_be_anywhere_but_must_be() -> None:
    """An idempotent producer's batch that was sent again, after more than five others."""
    acknowledged = write(b"a", offset=UNKNOWN_OFFSET)
    assert judge([acknowledged], [read(b"a", offset=6)]).is_clean
    assert judge([acknowledged], []).lost == (acknowledged,)


def test_a_record_read_without_an_acknowledgement_is_no_fault() -> None:
    assert judge([], [read(b"a", offset=0)]).is_clean


@given(count=st.integers(min_value=1, max_value=50), seed=st.integers(min_value=0))
def test_any_single_change_to_a_clean_history_is_noticed(count: int, seed: int) -> None:
    acknowledged = [write(b"%d" % number, offset=number) for number in range(count)]
    history = [read(b"%d" % number, offset=number) for number in range(count)]
    chosen = random.Random(seed).randrange(count)
    assert judge(acknowledged, history).is_clean
    dropped = history[:chosen] + history[chosen + 1 :]
    assert len(judge(acknowledged, dropped).lost) == 1
    doubled = [*history, read(history[chosen].value, offset=count)]
    assert judge(acknowledged, doubled).duplicated == (history[chosen].value,)
    moved = [*dropped, read(history[chosen].value, offset=count)]
    assert len(judge(acknowledged, moved).misplaced) == 1


def test_the_next_write_counts_only_records_produced_since() -> None:
    writes = [
        write(b"in flight", offset=0, produced_at=9.9, at=10.1),
        write(b"first", offset=1, produced_at=10.2, at=10.9),
        write(b"second", offset=2, produced_at=10.3, at=10.95),
        write(b"other", partition=1, offset=0, produced_at=10.0, at=10.25),
    ]
    waited = seconds_to_next_write(writes, after=10.0)
    assert {partition: round(seconds, 6) for partition, seconds in waited.items()} == {0: 0.9, 1: 0.25}


def test_the_longest_silence_is_that_of_the_worst_partition() -> None:
    writes = [
        *(write(b"%d" % number, offset=number, at=number / 10) for number in range(100)),
        write(b"x", partition=1, offset=0, at=2.0),
        write(b"y", partition=1, offset=1, at=9.5),
    ]
    assert longest_silence(writes, since=1.0, until=9.6) == 7.5
