"""Small clusters for tests of plans: built, carried out, checked, and solved by trying everything."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import hypothesis.strategies as st
import msgspec

from controller.core.planning.assembly import assemble
from controller.core.planning.goals import EvenOut
from controller.core.planning.plan import Move, Plan
from controller.core.planning.planner import lay_out
from controller.core.planning.snapshot import BrokerSnapshot, PartitionSnapshot, Snapshot, TopicSnapshot
from springtide.contract.epochs import PartitionEpoch
from springtide.contract.session import WORKER_ID_STEP, worker_id

Cost = tuple[int, int, int, int]


def broker(broker_id: int, host: str | None = None, rack: str | None = None, **state: bool) -> BrokerSnapshot:
    return BrokerSnapshot(
        broker_id=broker_id,
        host=f"host{broker_id}" if host is None else host,
        rack=rack,
        receives=state.get("receives", True),
        leaving=state.get("leaving", False),
    )


def workers(broker_id: int, count: int, rack: str | None = None) -> list[BrokerSnapshot]:
    """Return the workers of one broker."""
    return [
        msgspec.structs.replace(
            broker(worker_id(broker_id, number), f"host{broker_id}", rack), worker_of=broker_id
        )
        for number in range(count)
    ]


def partition(number: int, *replicas: int, size: int | None = 100, topic: str = "t") -> PartitionSnapshot:
    return PartitionSnapshot(
        topic_id=topic,
        topic=topic,
        partition=number,
        partition_epoch=PartitionEpoch(7),
        replicas=replicas,
        leader=replicas[0],
        isr=replicas,
        min_insync_replicas=len(replicas) // 2 + 1,
        size_bytes=size,
    )


def cut(snapshot: Snapshot, plan: Plan, moves: int) -> Plan:
    """Return the plan's first moves alone. snapshot: the one it was made from."""
    layout = lay_out(snapshot, plan.goal)
    return assemble(snapshot, layout, plan.goal, plan.moves[:moves], plan.rejections)


def snapshot(brokers: Iterable[BrokerSnapshot], partitions: Sequence[PartitionSnapshot]) -> Snapshot:
    counts = Counter(p.topic_id for p in partitions)
    factor = {p.topic_id: len(p.replicas) for p in reversed(partitions)}
    return Snapshot(
        brokers=tuple(sorted(brokers, key=lambda b: b.broker_id)),
        topics=tuple(
            TopicSnapshot(topic_id=t, topic=t, partitions=counts[t], replication_factor=factor[t])
            for t in sorted(counts)
        ),
        partitions=tuple(partitions),
    )


def alone(count: int, *assignments: tuple[int, ...], sizes: Sequence[int] = ()) -> Snapshot:
    """Brokers 0 to count-1, each on a host of its own."""
    return snapshot(
        [broker(b) for b in range(count)],
        [
            partition(number, *replicas, size=sizes[number] if sizes else 100)
            for number, replicas in enumerate(assignments)
        ],
    )


def carry_out(before: Snapshot, moves: Iterable[Move]) -> Snapshot:
    """The cluster when these moves are complete and preferred leaders are elected."""
    by_key = {move.key: move for move in moves}
    return msgspec.structs.replace(
        before, partitions=tuple(_carried_out(p, by_key.get(p.key)) for p in before.partitions)
    )


def _carried_out(before: PartitionSnapshot, move: Move | None) -> PartitionSnapshot:
    if move is None:
        return before
    after = move.replicas_after
    return msgspec.structs.replace(
        before, replicas=after, leader=after[0], isr=after, partition_epoch=before.partition_epoch + 1
    )


# --- what must hold -----------------------------------------------------------------------------------------


def check_moves(before: Snapshot, moves: Sequence[Move]) -> None:
    """Check that each move, by itself, is one that the controller may be asked for."""
    brokers = {b.broker_id: b for b in before.brokers}
    partitions = {p.key: p for p in before.partitions}
    assert len({move.key for move in moves}) == len(moves), "one move per partition"
    for move in moves:
        was = partitions[move.key]
        assert move.replicas_before == was.replicas != move.replicas_after
        assert move.partition_epoch == was.partition_epoch
        owners = {broker_id % WORKER_ID_STEP for broker_id in move.replicas_after}
        assert len(owners) == len(move.replicas_after) > 0, "two on workers of one broker"
        assert not was.is_reassigning and not was.is_recovering and was.leader != -1
        for broker_id in move.adding:
            assert brokers[broker_id].receives and not brokers[broker_id].leaving
        if len(move.replicas_after) == len(move.replicas_before):
            assert _distances(brokers, move.replicas_after) <= _widened(before, was)


def check_evened(before: Snapshot, goal: EvenOut, moves: Sequence[Move]) -> None:
    """Check that moves keep every rule of the goal `even_out`, each by itself and all together."""
    check_moves(before, moves)
    brokers = {b.broker_id: b for b in before.brokers}
    partitions = {p.key: p for p in before.partitions}
    known = [p.size_bytes for p in before.partitions if p.size_bytes is not None]
    mean = max(sum(known) // len(known), 1) if known else 1
    coming: Counter[int] = Counter()
    for move in moves:
        was = partitions[move.key]
        size = mean if was.size_bytes is None else max(was.size_bytes, 1)
        assert set(was.replicas) <= set(was.isr)
        assert len(move.replicas_after) == len(was.replicas)
        assert move.bytes == size * len(move.adding)
        if move.replicas_after[0] != was.replicas[0]:
            assert brokers[move.replicas_after[0]].leads
        for broker_id in move.adding:
            assert brokers[broker_id].serves
            coming[broker_id] += size
    for broker_id, added in coming.items():
        room = brokers[broker_id].room_bytes
        assert room is None or added <= room
    assert goal.bytes_max is None or sum(move.bytes for move in moves) <= goal.bytes_max
    assert len(moves) <= goal.moves_max


def _distances(brokers: dict[int, BrokerSnapshot], replicas: Sequence[int]) -> tuple[int, int]:
    pairs = list(itertools.combinations([brokers[b] for b in replicas], 2))
    return (
        sum(a.host == b.host for a, b in pairs),
        sum(_rack(brokers, a) == _rack(brokers, b) for a, b in pairs),
    )


def _rack(brokers: dict[int, BrokerSnapshot], one: BrokerSnapshot) -> str:
    """Return the rack of a host: the one that its first broker names, even if others name another
    (layout.py)."""
    of_host = (brokers[b].rack for b in sorted(brokers) if brokers[b].host == one.host)
    return next((rack for rack in of_host if rack is not None), f"host {one.host}")


def _widened(before: Snapshot, was: PartitionSnapshot) -> tuple[int, int]:
    """Return how close replicas may stand: as now, or as they must without the brokers that are leaving."""
    brokers = {b.broker_id: b for b in before.brokers}
    staying = [b for b in was.replicas if not brokers[b].leaving]
    now = _distances(brokers, was.replicas)
    if len(staying) == len(was.replicas):
        return now
    takers = [
        b.broker_id for b in before.brokers if b.receives and not b.leaving and b.broker_id not in staying
    ]
    coming = len(was.replicas) - len(staying)
    forced = min(
        (_distances(brokers, [*staying, *some]) for some in itertools.combinations(takers, coming)),
        default=now,
    )
    return max(now, forced)


def loads(cluster: Snapshot) -> dict[int, int]:
    counts = Counter(b for p in cluster.partitions for b in p.replicas)
    return {b.broker_id: counts[b.broker_id] for b in cluster.brokers}


def leads(cluster: Snapshot) -> dict[int, int]:
    counts = Counter(p.replicas[0] for p in cluster.partitions)
    return {b.broker_id: counts[b.broker_id] for b in cluster.brokers}


def spread(counts: dict[int, int]) -> int:
    return max(counts.values()) - min(counts.values())


# --- everything tried ---------------------------------------------------------------------------------------


def cost(before: Snapshot, assignment: Sequence[frozenset[int]]) -> Cost:
    """Return the costs that a plan is to make least, the left one first: pairs on one host, pairs in one
    rack, the squares of what brokers that take replicas hold, bytes copied."""
    brokers = {b.broker_id: b for b in before.brokers}
    counts = Counter(b for replicas in assignment for b in replicas)
    distances = [_distances(brokers, sorted(replicas)) for replicas in assignment]
    return (
        sum(pair[0] for pair in distances),
        sum(pair[1] for pair in distances),
        sum(counts[b.broker_id] ** 2 for b in before.brokers if b.receives and not b.leaving),
        sum(
            (p.size_bytes or 1) * len(replicas.difference(p.replicas))
            for p, replicas in zip(before.partitions, assignment, strict=True)
        ),
    )


def least_cost(before: Snapshot, *, new: frozenset[int] | None = None, is_drain: bool = False) -> Cost:
    """Return the least cost of all assignments that a rebalance may lead to. new: only these receive.
    is_drain: only what is on brokers that are leaving moves."""
    return min(cost(before, assignment) for assignment in _assignments(before, new, is_drain))


def _assignments(
    before: Snapshot, new: frozenset[int] | None, is_drain: bool
) -> Iterator[tuple[frozenset[int], ...]]:
    takers = [b.broker_id for b in before.brokers if b.receives and not b.leaving]
    leaving = {b.broker_id for b in before.brokers if b.leaving}
    choices = []
    for p in before.partitions:
        free = [b for b in p.replicas if b in leaving or (b in takers and not is_drain)]
        if p.is_reassigning or p.leader == -1:
            free = []
        kept = frozenset(p.replicas).difference(free)
        targets = [b for b in takers if b not in kept and (new is None or b in new or b in p.replicas)]
        choices.append([kept | set(some) for some in itertools.combinations(targets, len(free))])
    return itertools.product(*choices)


def cost_after(before: Snapshot, plan: Plan) -> Cost:
    after = carry_out(before, plan.moves)
    return cost(before, [frozenset(p.replicas) for p in after.partitions])


# --- drawn --------------------------------------------------------------------------------------------------


@st.composite
def clusters(
    draw: st.DrawFn,
    *,
    brokers_max: int,
    partitions_max: int,
    has_domains: bool = True,
    factor: int | None = None,
) -> Snapshot:
    """Brokers in some state on hosts in racks, with partitions anywhere on them."""
    count = draw(st.integers(2, brokers_max))
    hosts = draw(st.integers(max(1, count // 2), count)) if has_domains else count
    racks = draw(st.integers(0, 3)) if has_domains else 0
    brokers = [
        broker(b, f"host{b % hosts}", f"rack{b % hosts % racks}" if racks else None) for b in range(count)
    ]
    partitions = []
    for number in range(draw(st.integers(1, partitions_max))):
        size = draw(st.sampled_from([0, 1, 5, 20, 300, 301]))
        most = min(count, 3)
        width = min(factor, count) if factor else draw(st.integers(1, most))
        replicas = draw(st.permutations(range(count)))[:width]
        partitions.append(partition(number, *replicas, size=max(size, 1)))
    return snapshot(brokers, partitions)


def with_states(cluster: Snapshot, draw: Callable[[st.SearchStrategy[Any]], Any]) -> Snapshot:
    """Some brokers cordoned, leaving or down; some partitions on their way or leaderless."""
    states = st.sampled_from([{}, {}, {}, {"receives": False}, {"receives": False, "leaving": True}])
    brokers = tuple(msgspec.structs.replace(b, **draw(states)) for b in cluster.brokers)
    conditions = st.sampled_from([{}, {}, {}, {}, {"is_reassigning": True}, {"leader": -1}])
    partitions = tuple(msgspec.structs.replace(p, **draw(conditions)) for p in cluster.partitions)
    return msgspec.structs.replace(cluster, brokers=brokers, partitions=partitions)
