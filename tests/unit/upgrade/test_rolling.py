"""What is made of the clients' notes: stalls of each thing that happened, and records that are doubled."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.upgrade.rolling import IDEMPOTENT, KINDS, Report, judge, render
from tests.upgrade.stopwatch import Stopwatch

WINDOWS = (("nothing happens", 0.0, 10.0), ("broker-1 is rolled", 10.0, 20.0))


class Noted(Stopwatch):
    """A client that has worked already."""

    def work(self) -> None: ...


def clients() -> dict[str, Stopwatch]:
    """Two partitions, each heard of every second; the first is silent for four seconds of the roll."""
    made: dict[str, Stopwatch] = {}
    for name in KINDS:
        one = made[name] = Noted(name, "localhost:1", "orders", 2)
        for second in range(21):
            if not 13 < second < 17:
                one.times[0].append(float(second))
            one.times[1].append(float(second))
            one.answered[f"{name}-{second}".encode()] = float(second)
    return made


def judged(read: Counter[bytes], working: dict[str, Stopwatch]) -> Report:
    return judge(WINDOWS, working, read)


def test_the_longest_silence_of_any_partition_is_told_for_each_thing_that_happened() -> None:
    working = clients()
    report = judged(Counter(dict.fromkeys(_values(working), 1)), working)
    assert [set(row.stalls_ms) for row in report.rows] == [{1_000}, {4_000}]
    assert report.is_ok


def test_a_client_that_hears_nothing_at_all_stalls_for_the_whole_time() -> None:
    silent = Noted("x", "localhost:1", "orders", 1)
    assert silent.longest_stall_ms(2.0, 9.5) == 7_500


@pytest.mark.parametrize(("name", "is_ok"), [("aiokafka producer", True), (IDEMPOTENT, False)])
def test_a_doubled_record_is_told_where_it_was_answered_and_none_may_be_of_an_idempotent_producer(
    name: str, is_ok: bool
) -> None:
    working = clients()
    read = Counter(dict.fromkeys(_values(working), 1))
    read[f"{name}-12".encode()] += 1
    report = judged(read, working)
    assert [row.doubled for row in report.rows] == [0, 1]
    assert (report.doubled, report.is_ok) == (1, is_ok)


def test_a_lost_record_an_error_and_a_record_that_is_read_again_are_not_right() -> None:
    working = clients()
    read = Counter(dict.fromkeys(_values(working), 1))
    lacks_one = Counter(dict.fromkeys(list(read)[1:], 1))
    assert (judged(lacks_one, working).lost, judged(lacks_one, working).is_ok) == (1, False)
    working[IDEMPOTENT].errors.append("the broker is gone")
    assert "the same, idempotent: the broker is gone" in render(judged(read, working))
    assert not judged(read, working).is_ok
    again = clients()
    again["aiokafka consumer"].note_read(0, 7)
    again["aiokafka consumer"].note_read(0, 7)
    assert judged(read, again).read_again == 1


def _values(working: dict[str, Stopwatch]) -> list[bytes]:
    return [value for one in working.values() for value in one.answered]
