from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.placement import Assignment, PlacementBroker, place_from_emptiest, place_replicas
from springtide.contract.session import WORKER_ID_STEP, worker_id


def alone(n: int) -> list[PlacementBroker]:
    return [PlacementBroker(b, f"host{b}") for b in range(n)]


def spread(counts: Counter[int], n: int) -> int:
    values = [counts[b] for b in range(n)]
    return max(values) - min(values)


def replica_counts(placed: Assignment) -> Counter[int]:
    return Counter(b for replicas in placed for b in replicas)


@st.composite
def shapes(draw: st.DrawFn) -> dict[str, Any]:
    n = draw(st.integers(1, 14))
    return {
        "n": n,
        "partitions": draw(st.integers(1, 90)),
        "replication_factor": draw(st.integers(1, min(n, 6))),
        "start": draw(st.integers(0, 50)),
        "shift": draw(st.integers(0, 50)),
    }


@given(shapes())
def test_replicas_are_distinct_and_leaders_and_replicas_balanced_within_one(shape: dict[str, Any]) -> None:
    n = shape.pop("n")
    placed = place_replicas(alone(n), **shape)
    assert len(placed) == shape["partitions"]
    assert all(len(set(replicas)) == shape["replication_factor"] for replicas in placed)
    assert spread(Counter(replicas[0] for replicas in placed), n) <= 1
    assert spread(replica_counts(placed), n) <= 1


@given(shapes())
def test_the_preferred_leader_of_partition_i_stands_i_places_after_the_start(shape: dict[str, Any]) -> None:
    n = shape.pop("n")
    placed = place_replicas(alone(n), **shape)
    assert [replicas[0] for replicas in placed] == [
        (shape["start"] + i) % n for i in range(shape["partitions"])
    ]


@given(shapes())
def test_a_dead_brokers_leadership_spreads_within_one_over_all_survivors(shape: dict[str, Any]) -> None:
    n = shape.pop("n")
    if n == 1 or shape["replication_factor"] == 1:
        return
    placed = place_replicas(alone(n), **shape)
    for dead in range(n):
        successors = Counter(replicas[1] for replicas in placed if replicas[0] == dead)
        counts = [successors[b] for b in range(n) if b != dead]
        assert max(counts) - min(counts) <= 1


@st.composite
def hosts(draw: st.DrawFn) -> tuple[list[PlacementBroker], dict[str, Any]]:
    """Several broker processes per host, as on big machines; racks may group the hosts."""
    host_count = draw(st.integers(2, 6))
    per_host = draw(st.lists(st.integers(1, 4), min_size=host_count, max_size=host_count))
    racks = draw(st.integers(0, 3))
    brokers = [
        PlacementBroker(h * 10 + i, f"host{h}", f"rack{h % racks}" if racks else None)
        for h, count in enumerate(per_host)
        for i in range(count)
    ]
    return brokers, {
        "partitions": draw(st.integers(1, 60)),
        "replication_factor": draw(st.integers(1, min(4, len(brokers)))),
        "start": draw(st.integers(0, 20)),
        "shift": draw(st.integers(0, 20)),
    }


@given(hosts())
def test_replicas_share_a_host_or_a_rack_only_when_there_are_too_few(
    case: tuple[list[PlacementBroker], dict[str, Any]],
) -> None:
    brokers, shape = case
    by_id = {b.broker_id: b for b in brokers}
    factor = shape["replication_factor"]
    host_count = len({b.host for b in brokers})
    hosts_of_rack: dict[str | None, set[str]] = defaultdict(set)
    for b in brokers:
        hosts_of_rack[b.rack].add(b.host)
    for replicas in place_replicas(brokers, **shape):
        assert len(set(replicas)) == factor
        assert len({by_id[b].host for b in replicas}) == min(factor, host_count)
        if None not in hosts_of_rack:
            assert len({by_id[b].rack for b in replicas}) >= min(factor, len(hosts_of_rack))


@given(
    st.integers(2, 6),
    st.integers(1, 4),
    st.integers(1, 80),
    st.integers(0, 30),
    st.data(),
)
def test_equal_hosts_carry_equal_loads_within_one(
    host_count: int, per_host: int, partitions: int, start: int, data: st.DataObject
) -> None:
    brokers = [PlacementBroker(h * per_host + i, f"h{h}") for h in range(host_count) for i in range(per_host)]
    factor = data.draw(st.integers(1, min(4, host_count)))
    placed = place_replicas(
        brokers, partitions=partitions, replication_factor=factor, start=start, shift=start // 3
    )
    assert spread(Counter(replicas[0] for replicas in placed), len(brokers)) <= 1
    assert spread(replica_counts(placed), len(brokers)) <= 1


def test_eight_processes_on_four_hosts_lose_one_and_its_leadership_goes_to_every_other_host() -> None:
    brokers = [PlacementBroker(b, f"host{b // 2}") for b in range(8)]
    placed = place_replicas(brokers, partitions=96, replication_factor=3)
    for dead in range(8):
        successors = Counter(replicas[1] for replicas in placed if replicas[0] == dead)
        assert set(successors) == {b for b in range(8) if b // 2 != dead // 2}
        assert max(successors.values()) - min(successors.values()) <= 1


@st.composite
def hosts_of_workers(draw: st.DrawFn) -> tuple[list[PlacementBroker], dict[str, Any]]:
    """Brokers with some workers each, two or more of them on a host here and there; racks may group them."""
    counts = draw(st.lists(st.integers(1, 4), min_size=1, max_size=6))
    per_host, racks = draw(st.integers(1, 2)), draw(st.integers(0, 3))
    brokers = [
        PlacementBroker(
            worker_id(owner, number),
            f"host{owner // per_host}",
            f"rack{owner // per_host % racks}" if racks else None,
            owner,
        )
        for owner, count in enumerate(counts)
        for number in range(count)
    ]
    return brokers, {
        "partitions": draw(st.integers(1, 60)),
        "replication_factor": draw(st.integers(1, len(counts))),
        "start": draw(st.integers(0, 20)),
        "shift": draw(st.integers(0, 20)),
    }


@given(hosts_of_workers())
def test_no_two_replicas_are_on_workers_of_one_broker(
    case: tuple[list[PlacementBroker], dict[str, Any]],
) -> None:
    brokers, shape = case
    placed = place_replicas(brokers, **shape)
    for replicas in placed:
        assert len({broker_id % WORKER_ID_STEP for broker_id in replicas}) == shape["replication_factor"]
    leads = Counter(replicas[0] for replicas in placed)
    assert max(leads.values()) - min(leads[broker.broker_id] for broker in brokers) <= 1


@given(st.integers(1, 5), st.integers(2, 4), st.integers(1, 80), st.integers(0, 30), st.data())
def test_brokers_with_equally_many_workers_load_these_within_one(
    count: int, each: int, partitions: int, start: int, data: st.DataObject
) -> None:
    members = [
        PlacementBroker(worker_id(owner, number), f"host{owner}", None, owner)
        for owner in range(count)
        for number in range(each)
    ]
    factor = data.draw(st.integers(1, count))
    placed = place_replicas(members, partitions=partitions, replication_factor=factor, start=start)
    counts = replica_counts(placed)
    loads = [counts[member.broker_id] for member in members]
    assert max(loads) - min(loads) <= 1


@given(st.integers(2, 4), st.integers(1, 2), st.lists(st.integers(1, 30), min_size=1, max_size=12))
def test_what_other_topics_hold_decides_only_between_equals(
    racks: int, per_rack: int, topics: list[int]
) -> None:
    brokers = [
        PlacementBroker(b, f"host{b // 2}", f"rack{b // 2 % racks}") for b in range(2 * racks * per_rack)
    ]
    for placed in topic_after_topic(brokers, topics):
        assert spread(replica_counts(placed), len(brokers)) <= 1
        assert all((a // 2 - b // 2) % racks for a, b in placed), "never in one rack"


def test_topics_that_do_not_fill_a_round_are_balanced_together() -> None:
    brokers = [PlacementBroker(b, f"host{b // 2}", f"rack{b // 2 % 3}") for b in range(12)]
    held: Counter[int] = Counter()
    for placed in topic_after_topic(brokers, [5, 7, 1, 11, 9, 3] * 5):
        held.update(replica_counts(placed))
        assert spread(held, 12) <= 2


def topic_after_topic(brokers: list[PlacementBroker], topics: list[int]) -> Iterator[Assignment]:
    held: Counter[int] = Counter()
    preferred: Counter[int] = Counter()
    for partitions in topics:
        placed = place_from_emptiest(
            brokers,
            preferred=[preferred[b.broker_id] for b in brokers],
            held=[held[b.broker_id] for b in brokers],
            partitions=partitions,
            replication_factor=2,
        )
        held.update(replica_counts(placed))
        preferred.update(replicas[0] for replicas in placed)
        yield placed


@pytest.mark.parametrize(
    ("n", "partitions", "factor", "expected"),
    [
        (3, 3, 2, ((0, 1), (1, 2), (2, 0))),
        (3, 6, 2, ((0, 1), (1, 2), (2, 0), (0, 2), (1, 0), (2, 1))),
        (6, 2, 3, ((0, 2, 4), (1, 3, 5))),
    ],
)
def test_small_layouts_are_what_one_would_draw_by_hand(
    n: int, partitions: int, factor: int, expected: Assignment
) -> None:
    assert place_replicas(alone(n), partitions=partitions, replication_factor=factor) == expected


def grouped(n: int, *, per_host: int, racks: int) -> list[PlacementBroker]:
    return [PlacementBroker(b, f"host{b // per_host}", f"rack{b // per_host % racks}") for b in range(n)]


@pytest.mark.parametrize(
    ("brokers", "partitions", "start", "shift", "expected"),
    [
        (alone(4), 5, 0, 2, ((0, 1, 2), (1, 2, 3), (2, 3, 0), (3, 0, 1), (0, 3, 1))),
        (alone(6), 2, 0, 1, ((0, 2, 4), (1, 3, 5))),
        (grouped(4, per_host=1, racks=1), 2, 0, 2, ((0, 3, 2, 1), (1, 0, 3, 2))),
        (
            grouped(4, per_host=1, racks=2),
            5,
            0,
            2,
            ((0, 2, 1, 3), (1, 3, 2, 0), (2, 0, 3, 1), (3, 0, 1, 2), (0, 3, 1, 2)),
        ),
        (grouped(7, per_host=3, racks=3), 2, 1, 3, ((1, 6, 5), (2, 6, 3))),
    ],
)
def test_a_dry_run_and_the_creation_after_it_place_alike_under_whichever_controller(
    brokers: list[PlacementBroker],
    partitions: int,
    start: int,
    shift: int,
    expected: Assignment,
) -> None:
    """Other layouts would be as good, but these are the ones."""
    placed = place_replicas(
        brokers, partitions=partitions, replication_factor=len(expected[0]), start=start, shift=shift
    )
    assert placed == expected
