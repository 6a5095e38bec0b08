"""The board of plans: what it counts as replicas move, how close they stand, and who may give and take."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Any

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given, settings

from controller.core.planning.layout import Crowding, Freedom, Ideal, Layout, estimate_sizes
from controller.core.planning.plan import MoveReason
from controller.core.planning.snapshot import BrokerSnapshot, Snapshot
from tests.kit.controller.planning_board import broker, partition, snapshot


@st.composite
def boards(draw: st.DrawFn) -> Snapshot:
    """Workers of brokers on hosts in racks, some of them without a name of their rack, some leaving."""
    members = []
    for at in range(draw(st.integers(1, 7))):
        owner = draw(st.integers(0, at))
        rack = draw(st.sampled_from([None, "r1", "r2"]))
        one = broker(at, f"h{draw(st.integers(0, 3))}", rack, leaving=draw(st.integers(0, 5)) == 0)
        members.append(msgspec.structs.replace(one, worker_of=owner))
    ids = range(len(members))
    parts = [
        partition(n, *draw(st.permutations(ids))[: draw(st.integers(1, 4))], size=draw(st.integers(1, 9)))
        for n in range(draw(st.integers(1, 4)))
    ]
    return snapshot(members, parts)


def closeness(board: Snapshot, replicas: Sequence[int]) -> Crowding:
    """Pairs on one host and in one rack, as hosts and racks are named: workers stand on the host that the
    first of their broker names, and a host in the rack that its first names."""
    hosts: dict[int, str] = {}
    racks: dict[str, str] = {}
    for b in board.brokers:
        hosts.setdefault(b.owner_id, b.host)
    for b in board.brokers:
        if b.rack is not None:
            racks.setdefault(hosts[b.owner_id], b.rack)
    at = [hosts[board.brokers[b].owner_id] for b in replicas]
    pairs = list(itertools.combinations(at, 2))
    return (
        sum(one == other for one, other in pairs),
        sum(racks.get(one, f"of {one}") == racks.get(other, f"of {other}") for one, other in pairs),
    )


@settings(max_examples=150, deadline=None)
@given(boards())
def test_a_replica_may_go_where_it_stands_no_closer_to_the_others(board: Snapshot) -> None:
    layout = Layout(board)
    owner = [b.owner_id for b in board.brokers]
    for number, replicas in enumerate(layout.replicas):
        now = closeness(board, replicas)
        assert layout.pairs(replicas) == now
        for source, target in itertools.product(replicas, range(len(owner))):
            others = [b for b in replicas if b != source]
            is_other = target not in replicas and owner[target] not in {owner[b] for b in others}
            then = closeness(board, [*others, target])
            assert layout.is_as_apart(number, source, target) == (is_other and then <= now)
            if target in replicas:
                continue
            rest = closeness(board, others)
            assert layout.crowding(others, target) == (then[0] - rest[0], then[1] - rest[1])
            in_rack = then[1] - rest[1]
            assert layout.has_room(number, source, target) == (
                (0, in_rack) <= (now[0] - rest[0], now[1] - rest[1])
            )


@settings(max_examples=150, deadline=None)
@given(boards(), st.data())
def test_the_ideal_is_the_fewest_pairs_of_any_choice(board: Snapshot, data: st.DataObject) -> None:
    layout = Layout(board)
    owner = [b.owner_id for b in board.brokers]
    allowed = data.draw(st.sets(st.sampled_from(range(len(owner))), min_size=1))
    ideal = Ideal(layout, allowed)
    for replicas in (*layout.replicas, *layout.replicas):  # the second time it is remembered
        staying = [b for b in replicas if b not in allowed and not board.brokers[b].leaving]
        taken = {owner[b] for b in staying}
        choices = [
            some
            for some in itertools.combinations(sorted(allowed), len(replicas) - len(staying))
            if len({owner[b] for b in some} - taken) == len(some)
        ]
        if choices:
            assert ideal.of(replicas) == min(closeness(board, [*staying, *some]) for some in choices)


CHANGES = ("move", "add", "remove", "lead", "lay")


@settings(max_examples=150, deadline=None)
@given(boards(), st.data())
def test_what_is_counted_follows_every_change(board: Snapshot, data: st.DataObject) -> None:
    layout = Layout(board)
    ids = range(len(board.brokers))
    sizes = [p.size_bytes or 0 for p in board.partitions]
    changed: Counter[int] = Counter()
    for _ in range(data.draw(st.integers(0, 8))):
        number = data.draw(st.sampled_from(range(len(sizes))))
        held, kind = list(layout.replicas[number]), data.draw(st.sampled_from(CHANGES))
        others = [b for b in ids if b not in held]
        if not held or (kind in {"move", "add"} and not others):
            continue
        source = data.draw(st.sampled_from(held))
        target = data.draw(st.sampled_from(others or held))
        at = held.index(source)
        if kind == "move":
            layout.move(number, source, target, MoveReason.BALANCE)
            wanted = [*held[:at], target, *held[at + 1 :]]
        elif kind == "add":
            layout.add(number, target, MoveReason.BALANCE)
            wanted = [*held, target]
        elif kind == "remove":
            layout.remove(number, source, MoveReason.BALANCE)
            wanted = [*held[:at], *held[at + 1 :]]
        elif kind == "lead":
            layout.lead(number, source, MoveReason.BALANCE)
            wanted = list(held)
            wanted[0], wanted[at] = source, held[0]
        else:
            wanted = data.draw(st.lists(st.sampled_from(ids), unique=True, min_size=1))
            layout.lay(number, wanted, MoveReason.BALANCE)
        assert layout.replicas[number] == wanted
        changed[number] += 1
    assert set(layout.touched) == set(changed)
    assert layout.original == [p.replicas for p in board.partitions]
    for b in ids:
        numbers = {number for number, replicas in enumerate(layout.replicas) if b in replicas}
        new = {number for number in numbers if b not in layout.original[number]}
        assert set(layout.held[b]) == numbers
        assert (layout.load[b], layout.stored[b]) == (len(numbers), sum(sizes[n] for n in numbers))
        assert layout.coming[b] == sum(sizes[n] for n in new)
        assert all(layout.is_newcomer(n, b) == (n in new) for n in numbers)
        assert all(layout.weight(n, b) == (0 if n in new else sizes[n]) for n in numbers)


def test_a_disk_has_room_for_what_is_brought_and_always_for_what_was_there() -> None:
    board = snapshot(
        [broker(0), msgspec.structs.replace(broker(1), room_bytes=150)],
        [partition(0, 1), partition(1, 0), partition(2, 0, size=50), partition(3, 0, size=51)],
    )
    layout = Layout(board)
    assert [layout.fits(number, 1) for number in range(4)] == [True] * 4
    layout.move(1, 0, 1, MoveReason.BALANCE)
    assert [layout.fits(number, 1) for number in (0, 2, 3)] == [True, True, False]
    layout.room[1] = 0
    assert (layout.fits(0, 1), layout.fits(3, 0)) == (True, True)


@pytest.mark.parametrize(
    ("before", "now", "settled"),
    [
        ((0, 1, 2), (2, 4, 3), [3, 4, 2]),
        ((0, 1, 2), (3, 1, 0), [0, 1, 3]),
        ((0, 1), (4, 1, 3, 2), [2, 1, 3, 4]),
        ((0, 1, 2), (4, 2), [4, 2]),
        ((0, 1, 2), (2,), [2]),
    ],
)
def test_those_that_stay_keep_their_place_and_new_ones_take_what_is_left(
    before: tuple[int, ...], now: tuple[int, ...], settled: list[int]
) -> None:
    layout = Layout(snapshot([broker(b) for b in range(5)], [partition(0, *before)]))
    layout.lay(0, now, MoveReason.BALANCE)
    layout.settle_order()
    assert layout.replicas == [settled]


def test_who_gives_takes_serves_and_leads_is_as_the_broker_is() -> None:
    """The last is one that nobody knows but a partition."""
    states: tuple[dict[str, Any], ...] = (
        {},
        {"receives": False},
        {"serves": False},
        {"leads": False},
        {"leaving": True},
    )
    members = [BrokerSnapshot(broker_id=b, host=f"h{b}", **state) for b, state in enumerate(states)]
    board = msgspec.structs.replace(snapshot(members, [partition(0, 9)]), destinations=(2, 3, 4, 9))
    layout = Layout(board)
    assert layout.broker_ids == [0, 1, 2, 3, 4, 9]
    assert (layout.givers, layout.takers) == ({0, 2, 3}, {2, 3})
    assert [b for b, serves in enumerate(layout.serves) if serves] == [0, 1, 3]
    assert [b for b, leads in enumerate(layout.leads) if leads] == [0, 1]
    assert [b for b, leaves in enumerate(layout.leaving) if leaves] == [4]


def test_what_the_plan_has_placed_may_move_on_and_donors_have_back_what_they_had() -> None:
    board = snapshot(
        [broker(b) for b in range(4)],
        [partition(0, 0), partition(1, 3), msgspec.structs.replace(partition(2, 0), is_reassigning=True)],
    )
    layout = Layout(board)
    free = Freedom(donors=frozenset({0}), receivers=frozenset({1}))
    layout.move(1, 3, 2, MoveReason.DRAIN)
    assert free.brokers == [0, 1]
    assert free.may_leave(layout, 0, 0)
    assert [free.may_leave(layout, 1, b) for b in (2, 3)] == [True, False]
    assert not free.may_leave(layout, 2, 0) and layout.unlocked == [0, 1]
    assert [free.may_receive(layout, 0, b) for b in range(4)] == [True, True, False, False]
    assert [free.may_receive(layout, 1, b) for b in range(4)] == [False, True, False, False]


@pytest.mark.parametrize(
    ("told", "sizes"),
    [
        ((), []),
        ((None, None), [1, 1]),
        ((0, None), [1, 1]),
        ((10, None, 21), [10, 15, 21]),
        ((0, 0, 9), [1, 1, 9]),
    ],
)
def test_sizes_that_nobody_told_are_the_mean_of_those_told(
    told: tuple[int | None, ...], sizes: list[int]
) -> None:
    assert estimate_sizes([partition(n, 0, size=size) for n, size in enumerate(told)]) == sizes
