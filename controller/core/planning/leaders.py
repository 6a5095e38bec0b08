"""The choice of preferred leaders: all brokers lead within one of each other where the replicas allow it, and
no byte is moved. Then the choice of the second replica in the partitions that the plan changes anyway, so
that the leaderships of a broker that dies spread over the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from controller.core.planning.layout import Effort, Freedom, Layout
from controller.core.planning.plan import MoveReason


def balance_leaders(layout: Layout, freedom: Freedom, numbers: Iterable[int], effort: Effort) -> None:
    """Reorder some of the partitions `numbers`: those that the plan changes anyway first."""
    leads = Counter(replicas[0] for replicas in layout.replicas if replicas)
    led: dict[int, dict[int, None]] = {}  # in order
    for number in sorted(numbers, key=lambda number: (number not in layout.touched, number)):
        if number not in layout.locked:
            led.setdefault(layout.replicas[number][0], {})[number] = None
    brokers = freedom.donors | freedom.receivers
    has_changed = True
    while has_changed and effort.left > 0:  # straight to a follower with at least two fewer
        has_changed = False
        for broker in sorted(led, key=lambda b: (-leads[b], b)):
            if broker not in brokers:
                continue
            for number in list(led[broker]):
                effort.spend(1)
                target = _emptiest_follower(layout, freedom, leads, number)
                if target is not None and leads[target] <= leads[broker] - 2:
                    _hand_over(layout, led, leads, number, target)
                    has_changed = True
    while effort.left > 0:  # over third brokers
        path = _path(layout, freedom, led, leads, effort)
        if path is None:
            return
        for target, number in path:
            _hand_over(layout, led, leads, number, target)


def _emptiest_follower(layout: Layout, freedom: Freedom, leads: Mapping[int, int], number: int) -> int | None:
    followers = [b for b in layout.replicas[number][1:] if b in freedom.receivers]
    return min(followers, key=lambda b: (leads[b], b)) if followers else None


def _hand_over(
    layout: Layout, led: dict[int, dict[int, None]], leads: Counter[int], number: int, target: int
) -> None:
    leader = layout.replicas[number][0]
    layout.lead(number, target, MoveReason.LEADER_BALANCE)
    del led[leader][number]
    led.setdefault(target, {})[number] = None
    leads[leader] -= 1
    leads[target] += 1


def _path(
    layout: Layout,
    freedom: Freedom,
    led: Mapping[int, dict[int, None]],
    leads: Mapping[int, int],
    effort: Effort,
) -> list[tuple[int, int]] | None:
    """The shortest chain of handovers from one of the fullest brokers that has any: each with the broker that
    is to lead and the partition. No broker hands over what it got in the same chain: each comes once."""
    brokers = freedom.donors | freedom.receivers
    lowest = min((leads[b] for b in freedom.receivers), default=0)
    for start in sorted(brokers, key=lambda b: (-leads[b], b)):
        if leads[start] < lowest + 2:
            return None
        came: dict[int, tuple[int, int]] = {start: (start, -1)}
        queue = [start]
        for current in queue:
            if leads[current] <= leads[start] - 2:
                path = []
                while current != start:
                    before, number = came[current]
                    path.append((current, number))
                    current = before  # noqa: PLW2901 - the search is over
                return path[::-1]
            for number in led.get(current, ()):
                for follower in layout.replicas[number][1:]:
                    if follower in freedom.receivers and follower not in came:
                        came[follower] = (current, number)
                        queue.append(follower)
            effort.spend(len(led.get(current, ())))
    return None


def spread_succession(layout: Layout) -> None:
    """Order the followers of each partition that changes: second stands the one that succeeds this leader
    least often."""
    changing = sorted(n for n in layout.touched if tuple(layout.replicas[n]) != layout.original[n])
    seconds = Counter((replicas[0], replicas[1]) for replicas in layout.replicas if len(replicas) > 1)
    for _ in range(3):  # each round leaves less to do
        has_changed = False
        for number in changing:
            replicas = layout.replicas[number]
            if len(replicas) < 3:
                continue
            leader, second = replicas[0], replicas[1]
            seconds[leader, second] -= 1
            at = min(range(1, len(replicas)), key=lambda i: (seconds[leader, replicas[i]], i))
            replicas[1], replicas[at] = replicas[at], replicas[1]
            seconds[leader, replicas[1]] += 1
            has_changed = has_changed or at != 1
        if not has_changed:
            return
