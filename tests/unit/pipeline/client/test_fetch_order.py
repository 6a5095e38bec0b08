"""In which order fetched records are handed out, and what waiting for one's turn costs."""

from __future__ import annotations

import random

from pipeline.client.config import ClientConfig
from pipeline.client.fetch_order import AsTheyCome, OneAfterAnother
from pipeline.client.fetching import RangeFetching
from pipeline.client.values import FetchedRecords, PartitionRange, TopicPartition
from tests.kit.pipeline.fetching import answer, asked, batch, cluster, offsets

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))
CONFIG = ClientConfig(bootstrap=(("h", 1),), retry_budget_ms=1_000)


def fetched(where: TopicPartition, start: int, *, size: int = 10) -> FetchedRecords:
    return FetchedRecords(where, memoryview(bytes(size)), start, start + 1, 100, 0)


def test_as_they_come_is_as_they_come() -> None:
    ready = AsTheyCome()
    ready.put([fetched(T1, 0), fetched(T0, 0)])
    assert [ready.take(lambda _: True).where for _ in range(2)] == [T1, T0]  # type: ignore[union-attr]
    assert ready.take(lambda _: True) is None
    assert ready.only is None


PER_RANGE = 5


def order_seen(dice: random.Random) -> list[tuple[TopicPartition, int]]:
    """What a reader gets of three ranges, given in the order 2, 0, 1, when records come by chance."""
    ready = OneAfterAnother([T2, T0, T1], held_bytes_max=40)
    come = dict.fromkeys((T0, T1, T2), 0)
    got: list[tuple[TopicPartition, int]] = []
    while len(got) < 3 * PER_RANGE:
        may = [where for where, count in come.items() if ready.only in (None, where) and count < PER_RANGE]
        if may and dice.random() < 0.6:
            where = dice.choice(may)
            ready.put([fetched(where, come[where])])
            come[where] += 1
        taken = ready.take(lambda where: come[where] == PER_RANGE)
        if taken is not None:
            got.append((taken.where, taken.start_offset))
    return got


def test_whatever_order_brokers_answer_in_the_reader_sees_one() -> None:
    expected = [(where, start) for where in (T2, T0, T1) for start in range(PER_RANGE)]
    for seed in range(200):
        assert order_seen(random.Random(seed)) == expected, seed


def test_a_range_of_which_nothing_came_does_not_stop_the_line() -> None:
    ready = OneAfterAnother([T0, T1])
    ready.put([fetched(T1, 0)])
    assert ready.take(lambda _: False) is None
    taken = ready.take(lambda where: where == T0)
    assert taken is not None
    assert taken.where == T1


def test_beyond_the_bound_only_the_one_whose_turn_it_is_may_be_asked_for() -> None:
    ready = OneAfterAnother([T0, T1], held_bytes_max=25)
    ready.put([fetched(T1, 0), fetched(T1, 1)])
    assert ready.only is None
    ready.put([fetched(T1, 2)])
    assert ready.only == T0
    ready.put([fetched(T0, 0)])
    assert ready.take(lambda _: False) == fetched(T0, 0)
    assert ready.only == T0
    assert ready.take(lambda where: where == T0) == fetched(T1, 0)
    assert ready.only is None


def test_only_one_is_asked_and_those_who_wait_lose_no_patience() -> None:
    fetching = RangeFetching(
        [PartitionRange("t", 0, 0, 100), PartitionRange("t", 1, 0, 100)], CONFIG, in_order=True
    )
    metadata = cluster({0: 1, 1: 1})
    (wanted,) = asked(fetching, metadata).values()
    fetching.on_answer(wanted, [answer(T0), answer(T1)], now_ms=0)  # nobody got anything: patience runs
    (wanted,) = fetching.ask(metadata, now_ms=500, only=T0).values()
    assert offsets(wanted) == [(0, 0)]
    fetching.hold_back_all_but(T0)
    stalled = fetching.stalled(now_ms=1_500)
    assert stalled is not None
    assert stalled.where == T0
    fetching.on_answer(wanted, [answer(T0, batch(0, 10))], now_ms=1_500)
    assert fetching.stalled(now_ms=10_000) is None


def test_the_first_range_stays_first_in_every_request() -> None:
    fetching = RangeFetching(
        [PartitionRange("t", 0, 0, 100), PartitionRange("t", 1, 0, 100)], CONFIG, in_order=True
    )
    metadata = cluster({0: 1, 1: 1})
    (wanted,) = asked(fetching, metadata).values()
    fetching.on_answer(wanted, [answer(T0, batch(0, 10)), answer(T1)], now_ms=1)
    (wanted,) = asked(fetching, metadata).values()
    assert offsets(wanted) == [(0, 10), (1, 0)]
    assert not fetching.is_finished(T0)
