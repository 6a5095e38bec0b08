"""The oracle itself: each kind of fault is found, and a clean history has none."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from localcluster.verdict import (
    UNKNOWN_OFFSET,
    AcknowledgedWrite,
    Mark,
    ReadRecord,
    RecordPlace,
    judge,
    longest_silence,
    render_timeline,
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


def test_everything_acknowledged_and_read_once_is_clean() -> None:
    verdict = judge(
        [write(b"a", offset=0), write(b"b", offset=1)], [read(b"a", offset=0), read(b"b", offset=1)]
    )
    assert verdict.is_clean
    assert (verdict.acknowledged, verdict.read) == (2, 2)


def test_an_acknowledged_record_that_nobody_reads_is_lost() -> None:
    missing = write(b"b", offset=1)
    verdict = judge([write(b"a", offset=0), missing], [read(b"a", offset=0)])
    assert verdict.lost == (missing,)
    assert not verdict.is_clean


def test_a_value_at_two_offsets_is_a_duplicate_even_without_acknowledgement() -> None:
    verdict = judge([], [read(b"a", offset=0), read(b"a", offset=1)])
    assert verdict.duplicated == (b"a",)
    assert not verdict.is_clean


def test_a_record_found_elsewhere_than_acknowledged_is_misplaced() -> None:
    acknowledged = write(b"a", offset=5)
    verdict = judge([acknowledged], [read(b"a", offset=6)])
    assert (verdict.lost, verdict.misplaced) == ((), (acknowledged,))
    assert not verdict.is_clean


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


def test_the_silence_before_the_end_counts() -> None:
    assert longest_silence([write(b"a", offset=0, at=1.0)], since=0.5, until=5.0) == 4.0


def test_the_timeline_shows_bars_dots_and_the_kill() -> None:
    times = [0.05] * 8 + [0.15] * 4 + [0.45] * 1
    shown = render_timeline(times, since=0.0, until=0.5, marks=[Mark(0.21, "SIGKILL to broker 2")])
    assert shown.splitlines() == [
        "   0.0 s  █▄··▁",
        "            ^ SIGKILL to broker 2",
        "          one column = 100 ms, highest = 8 acknowledgements, · = none",
    ]


def test_a_long_timeline_is_broken_into_rows() -> None:
    shown = render_timeline([0.05, 0.95], since=0.0, until=1.0, columns=5, marks=[Mark(0.6, "here")])
    assert shown.splitlines()[:3] == ["   0.0 s  ▅····", "   0.5 s  ····▅", "           ^ here"]
