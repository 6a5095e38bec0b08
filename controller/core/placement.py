"""The placement of new replicas. A function of brokers and counts only: no image, no clock, no state.

Brokers stand in a circle, sorted by id. Partition i's preferred replica is on the broker i places after
`start`; its j-th replica stands a shifted distance further, so that the partitions one broker leads have
their second replicas on all the others in turn: when it dies, its leadership spreads evenly (Kafka's
AdminUtils scheme). The last, incomplete round lays its arcs end to end instead, so that replicas stay
balanced within one for any number of partitions, which the plain scheme does not achieve.

When brokers share hosts or racks, the distances can't be regular: followers are then chosen one by one
(another host first, then another rack, then the least loaded, then the one that follows this leader least
often); two last passes even out the loads, and who stands second, as far as the separation allows. No two
replicas of a partition share a host while there are enough hosts. No two are ever on workers of one broker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from springtide.contract.session import owner_of


class PlacementBroker(NamedTuple):
    """owner_id: the broker that this one is a worker of, None: of none."""

    broker_id: int
    host: str
    rack: str | None = None
    owner_id: int | None = None


Assignment = tuple[tuple[int, ...], ...]


def place_replicas(
    brokers: Sequence[PlacementBroker],
    *,
    partitions: int,
    replication_factor: int,
    start: int = 0,
    shift: int = 0,
    held: Sequence[int] = (),
) -> Assignment:
    """Replicas of each partition, preferred leader first.

    brokers: those that may hold replicas; ids are distinct, and at least `replication_factor` owners.
    start: position (by ascending id) of partition 0's preferred leader, so that small topics don't all begin
        at the lowest id. shift: varies the distance to the second replica from topic to topic.
    held: replicas that each broker, ascending by id, holds of other topics; where brokers share hosts or
        racks it decides between those that are equal for this one.
    """
    assert 1 <= replication_factor <= len({_owner(broker) for broker in brokers})
    assert len({broker.broker_id for broker in brokers}) == len(brokers)
    ordered = sorted(brokers)
    if has_shared_domains(ordered):
        leaders = [(start + number) % len(ordered) for number in range(partitions)]
        return _place_apart(ordered, leaders, replication_factor, shift, held or [0] * len(ordered))
    offsets = circle_offsets(len(ordered), partitions, replication_factor, shift)
    return tuple(
        tuple(
            ordered[(start + number + offset) % len(ordered)].broker_id
            for offset in offsets[number // len(ordered)]
        )
        for number in range(partitions)
    )


def place_from_emptiest(
    brokers: Sequence[PlacementBroker],
    *,
    preferred: Sequence[int],
    held: Sequence[int],
    partitions: int,
    replication_factor: int,
) -> Assignment:
    """The same, from the broker on that is preferred least often. brokers: ascending by id. preferred, held:
    partitions that name each first, and replicas that it holds, already."""
    start = min(range(len(brokers)), key=lambda position: (preferred[position], held[position], position))
    return place_replicas(
        brokers,
        partitions=partitions,
        replication_factor=replication_factor,
        start=start,
        shift=preferred[start],
        held=held,
    )


def has_shared_domains(brokers: Sequence[PlacementBroker]) -> bool:
    """Return whether it matters which brokers hold a partition together: brokers share hosts, or are workers
    of one, or racks are fewer than brokers."""
    for count in (len({broker.host for broker in brokers}), len({_owner(broker) for broker in brokers})):
        if count < len(brokers):
            return True
    return 1 < len({_rack(broker) for broker in brokers}) < len(brokers)


def _owner(broker: PlacementBroker) -> int:
    return owner_of(broker.broker_id, broker.owner_id)


def _rack(broker: PlacementBroker) -> str:
    """A broker that names no rack is a rack of its own host."""
    return f"host:{broker.host}" if broker.rack is None else f"rack:{broker.rack}"


# --- every broker on its own: regular distances ----------------------------------------------------


def circle_offsets(n: int, partitions: int, replication_factor: int, shift: int) -> list[tuple[int, ...]]:
    """Return distances from the preferred replica, per round of n partitions; the last round may be
    incomplete."""
    rounds, rest = divmod(partitions, n)
    last = _last_round_offsets(n, rest, replication_factor, shift) if rest else ()
    # The last round's second replica takes the distance that is used last in the cycle of full rounds, so
    # that counting it too leaves a broker's successors balanced within one.
    phase = last[1] if len(last) > 1 else shift
    offsets = [
        (0, *(1 + (phase + turn + j) % (n - 1) for j in range(replication_factor - 1)))
        for turn in range(rounds)
    ]
    return [*offsets, last] if rest else offsets


def _last_round_offsets(n: int, rest: int, replication_factor: int, shift: int) -> tuple[int, ...]:
    """Replica j of the `rest` partitions covers an arc of `rest` brokers. Laid end to end around the circle
    the arcs load all brokers within one; when they close the circle early, the next lap begins one further,
    because a partition's replicas must differ."""
    followers = replication_factor - 1
    if rest == 1:
        return (0, *(1 + (shift + j) % (n - 1) for j in range(followers)))
    if rest * replication_factor <= n:
        slack = n - rest * replication_factor
        return (0, *(rest * j + shift % (slack + 1) for j in range(1, replication_factor)))
    offsets: list[int] = []
    lap = 0
    for j in range(1, replication_factor):
        if (rest * j + lap) % n == lap:
            lap += 1
        offsets.append((rest * j + lap) % n)
    turn = shift % followers
    return (0, *offsets[turn:], *offsets[:turn])


# --- shared hosts or racks: one by one -------------------------------------------------------------


def _place_apart(
    brokers: Sequence[PlacementBroker],
    leaders: Sequence[int],
    replication_factor: int,
    shift: int,
    held: Sequence[int],
) -> Assignment:
    n = len(brokers)
    hosts = [broker.host for broker in brokers]
    racks = [_rack(broker) for broker in brokers]
    owners = [_owner(broker) for broker in brokers]
    load = Counter(leaders)
    successors: Counter[tuple[int, int]] = Counter()
    placed: list[list[int]] = []
    for leader in leaders:
        chosen = [leader]
        while len(chosen) < replication_factor:
            used_hosts = [hosts[c] for c in chosen]
            used_racks = [racks[c] for c in chosen]
            used_owners = {owners[c] for c in chosen}
            follower = min(
                (c for c in range(n) if owners[c] not in used_owners),
                key=lambda c: (
                    used_hosts.count(hosts[c]),
                    used_racks.count(racks[c]),
                    load[c],
                    held[c],
                    successors[leader, c],
                    (c - leader - 1 - shift) % n,
                ),
            )
            load[follower] += 1
            chosen.append(follower)
        successors.update((leader, follower) for follower in chosen[1:])
        placed.append(chosen)
    _even_out(brokers, placed, load)
    _spread_succession(placed, shift)
    return tuple(tuple(brokers[c].broker_id for c in chosen) for chosen in placed)


def _even_out(brokers: Sequence[PlacementBroker], placed: list[list[int]], load: Counter[int]) -> None:
    """Move followers from overloaded brokers to underloaded ones, through others where no direct move would
    keep replicas as far apart as they are. Each round lowers the imbalance, or is the last."""
    n = len(brokers)
    for _ in range(len(placed) * n):
        sources = [c for c in range(n) if load[c] >= min(load[d] for d in range(n)) + 2]
        path = next(
            (
                p
                for c in sorted(sources, key=lambda c: (-load[c], c))
                if (p := _relief(brokers, placed, load, c))
            ),
            None,
        )
        if path is None:
            return
        for source, target in pairwise(path):
            # An earlier hop may have used up this one; what was moved until then is harmless.
            if not _move_follower(brokers, placed, source=source, target=target):
                break
            load[source] -= 1
            load[target] += 1


def _relief(
    brokers: Sequence[PlacementBroker], placed: list[list[int]], load: Counter[int], source: int
) -> list[int] | None:
    """The shortest chain of moves from `source` to a broker with at least two replicas fewer."""
    came_from = {source: source}
    queue = [source]
    for current in queue:
        if load[current] <= load[source] - 2:
            path = [current]
            while path[-1] != source:
                path.append(came_from[path[-1]])
            return path[::-1]
        for target in range(len(brokers)):
            if target not in came_from and _find_move(brokers, placed, source=current, target=target):
                came_from[target] = current
                queue.append(target)
    return None


def _find_move(
    brokers: Sequence[PlacementBroker], placed: list[list[int]], *, source: int, target: int
) -> list[int] | None:
    """A partition, latest first, whose follower `source` can become `target` without crowding it more."""
    for chosen in reversed(placed):
        if source not in chosen[1:]:
            continue
        others = [brokers[c] for c in chosen if c != source]
        if any(_owner(other) == _owner(brokers[target]) for other in others):
            continue
        if _crowding(others, brokers[target]) <= _crowding(others, brokers[source]):
            return chosen
    return None


def _move_follower(
    brokers: Sequence[PlacementBroker], placed: list[list[int]], *, source: int, target: int
) -> bool:
    chosen = _find_move(brokers, placed, source=source, target=target)
    if chosen is None:
        return False
    chosen[chosen.index(source)] = target
    return True


def _crowding(others: Sequence[PlacementBroker], broker: PlacementBroker) -> tuple[int, int]:
    return (
        sum(other.host == broker.host for other in others),
        sum(_rack(other) == _rack(broker) for other in others),
    )


def _spread_succession(placed: list[list[int]], shift: int) -> None:
    """Choose who stands second so that each leader's partitions go to all who follow it, as evenly as the
    sets allow. First each partition takes the follower that succeeds least so far (of equals another one in
    another topic), which is nearly even and costs one pass; then one partition at a time shifts along a path
    from the most frequent successor to one that succeeds at least two partitions fewer, until there is no
    such path."""
    by_leader: dict[int, list[list[int]]] = {}
    for chosen in placed:
        by_leader.setdefault(chosen[0], []).append(chosen)
    for led in by_leader.values():
        if len(led[0]) > 2:
            counts: Counter[int] = Counter()
            for chosen in led:
                at = min(
                    range(1, len(chosen)),
                    key=lambda i: (counts[chosen[i]], (i - 1 - shift) % (len(chosen) - 1)),
                )
                chosen[1], chosen[at] = chosen[at], chosen[1]
                counts[chosen[1]] += 1
            while _shift_succession(led):
                pass


def _shift_succession(led: list[list[int]]) -> bool:
    counts = Counter({c: 0 for chosen in led for c in chosen[1:]})
    for chosen in led:
        counts[chosen[1]] += 1
    for source, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        reached: dict[int, list[int] | None] = {source: None}  # follower -> the partition that led to it
        queue = [source]
        for current in queue:
            if counts[current] <= count - 2:
                _flip_path(reached, current)
                return True
            for chosen in led:
                if chosen[1] == current:
                    for follower in chosen[2:]:
                        if follower not in reached:
                            reached[follower] = chosen
                            queue.append(follower)
    return False


def _flip_path(reached: dict[int, list[int] | None], target: int) -> None:
    chosen = reached[target]
    while chosen is not None:
        before, at = chosen[1], chosen.index(target)
        chosen[1], chosen[at] = chosen[at], chosen[1]
        target = before
        chosen = reached[target]
