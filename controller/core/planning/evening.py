"""No broker far above the mean of some weights, with few bytes copied: a search over single moves, each
allowed by the rules of placement.

    while a broker carries more than the target of some weight:
        the farthest one: of its replicas to other brokers, and of its leaderships to their followers,
        what evens out most for each byte copied; if nothing does, two replicas that change places
    then everything is taken back that turns out not to be needed

What is minimised is the sum of squares of what stands out over `aim`, and a little of the squares of all
loads, so that of brokers with room the emptiest is filled. It falls with every step, so the search ends. A
leadership moves nothing and therefore goes first.

Beyond the rules of every plan (planner.py), a partition that is not wholly in sync stays as it is, and what
moves bring to a broker fits into its room, without counting on what leaves it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import nsmallest
from itertools import islice
from typing import Final, NamedTuple

from controller.core.planning.goals import EvenOut
from controller.core.planning.layout import Effort, Freedom, Layout
from controller.core.planning.permits import Permits
from controller.core.planning.plan import Load, MoveReason, Rejection, RejectionCode
from controller.core.planning.weighing import NEGLIGIBLE, Weighing

#: Replicas of one broker that a step looks at: those that weigh most, and those that weigh most for their
#: bytes.
CANDIDATES_MAX: Final = 128
#: Brokers that each of them is tried on, the most welcoming first.
TARGETS_MAX: Final = 8
#: Of so many replicas that a broker could give, a step may take one, and some at most, so that large clusters
#: take fewer steps; if it is still worth this part of what it was before the others.
OFFERED_EACH: Final = 24
TAKEN_MAX: Final = 10
STILL_GOOD: Final = 0.5
#: Replicas on either side, and brokers on the other, when two replicas change places.
SWAPS_MAX: Final = 32
SWAP_BROKERS_MAX: Final = 12
#: A swap takes away at least this part of what stands out: smaller ones would go on for ever.
SWAP_PART_MIN: Final = 0.02
EVEN_FACTOR: Final = 0.01
GAIN_MIN: Final = 1e-9
#: Whether replicas may change places: only when single moves have done what they can.
PASSES: Final = (False, True, True)
#: Steps for each partition that may change: only a search that runs in circles would meet this bound.
STEPS_EACH: Final = 4

_Vector = Sequence[float]


class _Change(NamedTuple):
    """A replica from a broker to another; or, with `leads`, the leadership, to a broker that holds a replica.
    score: what it evens out for each byte."""

    score: float
    number: int
    source: int
    target: int
    leads: bool = False


def even_out(
    layout: Layout, weighing: Weighing, goal: EvenOut, effort: Effort, freedom: Freedom | None = None
) -> list[Rejection]:
    """Move until every broker is as the goal wants it; return what could not be reached. freedom: for a
    search that follows one for even counts and leaves them as even, else None."""
    search = _Evening(layout, weighing, goal, effort, freedom)
    search.run()
    search.prune()
    return list(search.shortfalls())


class _Evening:
    def __init__(
        self, layout: Layout, weighing: Weighing, goal: EvenOut, effort: Effort, freedom: Freedom | None
    ) -> None:
        self.layout = layout
        self.weighing = weighing
        self.goal = goal
        self.effort = effort
        self.target = goal.target_permille / 1000
        #: What single steps go for, below the target so that they leave room.
        self.aim = 1.0 + 0.6 * (self.target - 1.0)
        before = weighing.levels(layout, layout.touched)
        self.active = [
            at
            for at, load in enumerate(before)
            if load.weight in goal.weights and load.total > NEGLIGIBLE.get(load.weight, 0) * load.brokers
        ]
        per_unit = [before[at].brokers / before[at].total for at in self.active]
        #: Of a broker's mean: what one replica of each partition is, what leading it adds, and both.
        self.replica = [self._parts(vector, per_unit) for vector in weighing.replica]
        self.leader = [self._parts(vector, per_unit) for vector in weighing.leader]
        self.whole = [
            [a + b for a, b in zip(replica, leader, strict=True)]
            for replica, leader in zip(self.replica, self.leader, strict=True)
        ]
        self.ratio = [self._parts(load, per_unit) for load in weighing.loads(layout, layout.touched)]
        self.keeps_counts = freedom is not None
        self.permits = Permits(layout, freedom)
        #: Where the search begins, to which it may take changes back.
        self.found = [tuple(replicas) for replicas in layout.replicas]
        #: Partitions that alone are more than the target, by broker.
        self.giants: list[set[int]] = [set() for _ in layout.broker_ids]
        for number, replicas in enumerate(self.found):
            if max(self.whole[number], default=0.0) > self.target:
                for broker in replicas:
                    self.giants[broker].add(number)
        #: What a move costs besides its bytes, so that a move of nothing is not free.
        self.base_bytes = sum(layout.size) / max(len(layout.size), 1)
        #: Bytes that moves copy in all.
        self.copied = 0
        self.changed: set[int] = set()
        self.is_out_of_bytes = False
        self.steps = 0

    def _parts(self, vector: Sequence[int], per_unit: Sequence[float]) -> list[float]:
        return [vector[at] * unit for at, unit in zip(self.active, per_unit, strict=True)]

    def _vector(self, number: int, broker: int) -> _Vector:
        """Return a partition's weights on a broker that holds it, as parts of a broker's mean."""
        return (self.whole if self.layout.replicas[number][0] == broker else self.replica)[number]

    def run(self) -> None:
        if self.active:
            for swaps in PASSES:
                self._pass(swaps=swaps)

    def _pass(self, *, swaps: bool) -> None:
        """Move until every broker is as it should be or no move helps it. A broker that no move helped is
        looked at again in the next pass only: moves of others seldom make room for it."""
        steps_max = STEPS_EACH * (min(len(self.layout.partitions), self.goal.moves_max) + 1)
        stuck: set[tuple[int, int]] = set()
        while self.steps < steps_max and self.effort.left > 0:
            farthest = self._farthest(stuck)
            if farthest is None:
                return
            taken = self._take_singles(*farthest)
            if not taken and swaps:
                taken = self._take_swap(*farthest)
            if not taken:
                stuck.add(farthest)
            self.steps += taken

    def _farthest(self, stuck: set[tuple[int, int]]) -> tuple[int, int] | None:
        """Broker and weight that stand out most over what they should be."""
        found, most = None, 0.0
        self.effort.spend(len(self.ratio) // 2)
        for broker, serves in enumerate(self.layout.serves):
            if not serves or max(self.ratio[broker]) <= self.target:
                continue
            for at, ratio in enumerate(self.ratio[broker]):
                over = ratio - self._wanted(broker, at) if ratio > self.target else 0.0
                if over > most and (broker, at) not in stuck:
                    found, most = (broker, at), over
        return found

    def _wanted(self, broker: int, at: int) -> float:
        """The ratio that a broker is to come down to. One replica that alone is more than the target can't be
        divided: the broker that has it keeps it, and no bytes are spent on what makes no difference."""
        alone = max((self._vector(number, broker)[at] for number in self.giants[broker]), default=1.0)
        return self.target + max(alone - 1.0, 0.0)

    # --- what changes are worth -------------------------------------------------------------------------

    def _penalty(self, ratios: _Vector, more: _Vector, sign: int = 1) -> float:
        """Return a broker's penalty when `more` is added to its ratios (sign -1: taken off; 0: ignored)."""
        penalty = 0.0
        for ratio, part in zip(ratios, more, strict=True):
            value = ratio + sign * part
            penalty += EVEN_FACTOR * value * value
            over = value - self.aim
            if over > 0.0:
                penalty += over * over
        return penalty

    def _stands(self, broker: int) -> float:
        return self._penalty(self.ratio[broker], self.ratio[broker], 0)

    def _gain(self, source: int, target: int, vector: _Vector) -> float:
        return (
            self._stands(source)
            - self._penalty(self.ratio[source], vector, -1)
            + self._stands(target)
            - self._penalty(self.ratio[target], vector)
        )

    def _added(self, number: int, source: int, target: int) -> int:
        """Bytes more that are copied. A newcomer costs nothing to move on, and saves its copy at home."""
        original = self.layout.original[number]
        return self.layout.size[number] * ((target not in original) - (source not in original))

    def _worth(self, number: int, source: int, target: int, *, leads: bool) -> float | None:
        """Return what a change evens out for each byte; None if nothing, or if it copies more than it may."""
        vector = self.leader[number] if leads else self._vector(number, source)
        added = 0 if leads else self._added(number, source, target)
        gain = self._gain(source, target, vector)
        if gain <= GAIN_MIN or not self._is_affordable(added):
            return None
        return gain / (max(added, 0) + self.base_bytes)

    # --- what is allowed --------------------------------------------------------------------------------

    def _may_change(self, number: int, source: int) -> bool:
        is_within = number in self.changed or len(self.changed) < self.goal.moves_max
        return is_within and self.permits.may_leave(number, source)

    def _is_affordable(self, added: int) -> bool:
        bytes_max = self.goal.bytes_max
        if bytes_max is None or added <= 0 or self.copied + added <= bytes_max:
            return True
        self.is_out_of_bytes = True
        return False

    # --- one replica, or one leadership -----------------------------------------------------------------

    def _take_singles(self, broker: int, at: int) -> int:
        """Make the best of all changes, and of many that were looked at a few more that are as good after it.
        Return how many."""
        offered, numbers = self._promising(broker, at)
        if not numbers:
            return 0
        layout = self.layout
        targets = self._welcoming(broker, numbers)
        changes = []
        for number in numbers:
            homes = [b for b in layout.original[number] if self.permits.receives[b]]
            changes += self._best(number, broker, (*homes, *targets))
            if layout.replicas[number][0] == broker and self.leader[number][at] > 0.0:
                changes += self._best(number, broker, layout.replicas[number][1:], leads=True)
        changes.sort(key=lambda change: (-change.score, change.number, change.target))
        taken: set[int] = set()
        for change in changes[: min(max(offered // OFFERED_EACH, 1), TAKEN_MAX)]:
            if taken and (
                change.number in taken
                or self.ratio[broker][at] <= self._wanted(broker, at)
                or not self._is_still_good(change)
            ):
                continue
            self._take(change)
            taken.add(change.number)
        return len(taken)

    def _promising(self, broker: int, at: int) -> tuple[int, list[int]]:
        """Return how many replicas that may go carry some of the weight, and those to look at: half by weight
        and half by weight for each byte; those that are larger than what stands out come last."""
        replicas, sizes, base = self.layout.replicas, self.layout.size, self.base_bytes
        surplus = 2.0 * (self.ratio[broker][at] - 1.0)
        by_weight, by_byte = [], []
        for number in self.layout.held[broker]:
            part = (self.whole if replicas[number][0] == broker else self.replica)[number][at]
            if part > 0.0 and self._may_change(number, broker):
                by_weight.append((part > surplus, -part, number))
                by_byte.append((-part / (sizes[number] + base), number))
        self.effort.spend(len(by_weight) // 2)
        if len(by_weight) <= CANDIDATES_MAX:
            return len(by_weight), [number for _, _, number in by_weight]
        half = CANDIDATES_MAX // 2
        chosen = {number for _, _, number in nsmallest(half, by_weight)}
        chosen.update(number for _, number in nsmallest(half, by_byte))
        return len(by_weight), sorted(chosen)

    def _welcoming(self, broker: int, numbers: Sequence[int]) -> list[int]:
        """Brokers that may receive, by what a mean one of these replicas adds to their penalty."""
        columns = zip(*(self._vector(number, broker) for number in numbers), strict=True)
        mean = [sum(column) / len(numbers) for column in columns]
        self.effort.spend(len(self.layout.broker_ids))

        def adds(target: int) -> float:
            return self._penalty(self.ratio[target], mean) - self._stands(target)

        receivers = (b for b, receives in enumerate(self.permits.receives) if receives)
        return sorted(receivers, key=lambda b: (adds(b), b))

    def _best(
        self, number: int, source: int, targets: Iterable[int], *, leads: bool = False
    ) -> list[_Change]:
        """The best broker to go to, of the first that may have it; nothing if none makes it more even."""
        allowed = (t for t in targets if self.permits.may_move(number, source, t, leads=leads))
        found = [
            _Change(score, number, source, target, leads)
            for target in islice(allowed, TARGETS_MAX)
            if (score := self._worth(number, source, target, leads=leads)) is not None
        ]
        self.effort.spend(TARGETS_MAX)
        return [max(found, key=lambda change: (change.score, -change.target))] if found else []

    def _is_still_good(self, change: _Change) -> bool:
        """Return whether a move is, after other changes, still allowed and worth most of what it was."""
        score, number, source, target, leads = change
        may_move = self.permits.may_move(number, source, target, leads=leads)
        if not may_move or not self._may_change(number, source):
            return False
        return (self._worth(number, source, target, leads=leads) or 0.0) > STILL_GOOD * score

    # --- two that change places -------------------------------------------------------------------------

    def _take_swap(self, broker: int, at: int) -> int:
        """Exchange a replica of the broker for a smaller one of another: where replicas are so large that any
        of them alone would only carry the trouble on. Return how many changes that were."""
        if not self.permits.receives[broker] or len(self.changed) + 2 > self.goal.moves_max:
            return 0
        others = sorted(
            (
                b
                for b, takes in enumerate(self.permits.receives)
                if takes and self.ratio[b][at] < self.ratio[broker][at]
            ),
            key=lambda b: (self.ratio[b][at], b),
        )
        mine = self._sample(broker, at)
        best: tuple[_Change, _Change] | None = None
        for other in others[:SWAP_BROKERS_MAX]:
            found = self._swap_with(broker, other, at, mine)
            if found is not None and (best is None or found[0].score > best[0].score):
                best = found
        for change in best or ():
            self._take(change)
        return len(best or ())

    def _sample(self, broker: int, at: int) -> list[int]:
        """Replicas of all sizes, evenly: what fits together is not known beforehand."""
        held = sorted(
            (-self._vector(number, broker)[at], number)
            for number in self.layout.held[broker]
            if self._may_change(number, broker)
        )
        self.effort.spend(len(held) // 2)
        if len(held) > SWAPS_MAX:
            held = [held[place * (len(held) - 1) // (SWAPS_MAX - 1)] for place in range(SWAPS_MAX)]
        return [number for _, number in held]

    def _swap_with(
        self, broker: int, other: int, at: int, mine: Sequence[int]
    ) -> tuple[_Change, _Change] | None:
        coming = [
            (number, self._vector(number, other), self._added(number, other, broker))
            for number in self._sample(other, at)
            if self.permits.may_trade(number, other, broker)
        ]
        least = SWAP_PART_MIN * (self.ratio[broker][at] - 1.0)
        best: tuple[_Change, _Change] | None = None
        for one in mine:
            if not coming or not self.permits.may_trade(one, broker, other):
                continue
            going = self._vector(one, broker)
            added_here = self._added(one, broker, other)
            for two, vector, added_there in coming:
                if going[at] - vector[at] < least:
                    continue
                self.effort.spend(1)
                shift = [a - b for a, b in zip(going, vector, strict=True)]
                gain = self._gain(broker, other, shift)
                added = added_here + added_there
                if gain <= GAIN_MIN or not self._is_affordable(added):
                    continue
                score = gain / (max(added, 0) + 2 * self.base_bytes)
                if best is None or score > best[0].score:
                    best = _Change(score, one, broker, other), _Change(score, two, other, broker)
        return best

    # --- changing ---------------------------------------------------------------------------------------

    def _take(self, change: _Change) -> None:
        places = {change.source: change.target}
        if change.leads:
            places[change.target] = change.source
        replicas = self.layout.replicas[change.number]
        self._lay(change.number, [places.get(broker, broker) for broker in replicas])

    def _lay(self, number: int, replicas: Sequence[int]) -> None:
        """Give a partition these replicas, in this order."""
        layout = self.layout
        original, size = layout.original[number], layout.size[number]
        for sign, held in ((-1, layout.replicas[number]), (1, replicas)):
            for place, broker in enumerate(held):
                ratios = self.ratio[broker]
                for at, part in enumerate((self.replica if place else self.whole)[number]):
                    ratios[at] += sign * part
                if broker not in original:
                    self.copied += sign * size
                if max(self.whole[number]) > self.target:
                    (self.giants[broker].discard if sign < 0 else self.giants[broker].add)(number)
        layout.lay(number, replicas, next(iter(layout.touched.get(number, ())), MoveReason.BALANCE))
        if tuple(replicas) == self.found[number]:
            self.changed.discard(number)
        else:
            self.changed.add(number)

    # --- afterwards -------------------------------------------------------------------------------------

    def prune(self) -> None:
        """Take back what is not needed, the dearest first: steps that came early may have been made
        superfluous by later ones, and steps stop at the aim, which is below the target."""
        layout = self.layout
        for number in sorted(self.changed, key=lambda n: (-self._bytes_of(n), n)):
            kept, found = tuple(layout.replicas[number]), self.found[number]
            touched = [b for b in dict.fromkeys((*kept, *found)) if layout.serves[b]]
            before = [list(self.ratio[b]) for b in touched]
            squares = self._squares(touched)
            self._lay(number, found)
            if (
                any(
                    now > max(was + GAIN_MIN, self.target)
                    for b, ratios in zip(touched, before, strict=True)
                    for now, was in zip(self.ratio[b], ratios, strict=True)
                )
                or self._squares(touched) > squares
                or not self.permits.may_stay(touched)
            ):
                self._lay(number, kept)

    def _squares(self, brokers: Iterable[int]) -> int:
        return sum(self.layout.load[b] ** 2 for b in brokers) if self.keeps_counts else 0

    def _bytes_of(self, number: int) -> int:
        layout = self.layout
        return layout.size[number] * sum(layout.is_newcomer(number, b) for b in layout.replicas[number])

    def shortfalls(self) -> Iterator[Rejection]:
        levels = self.weighing.levels(self.layout, self.layout.touched)
        for at, load in enumerate(levels[at] for at in self.active):
            if load.highest_over_mean > self.target:
                yield self._shortfall(at, load)

    def _shortfall(self, at: int, load: Load) -> Rejection:
        """Return why a weight is not as even as was wanted."""
        heaviest, number = max((whole[at], -number) for number, whole in enumerate(self.whole))
        if heaviest > self.target:
            partition = self.layout.partitions[-number]
            code = RejectionCode.TOO_HEAVY
            detail = (
                f"{partition.topic}-{partition.partition} alone is {heaviest:.2f} times a broker's mean; "
                "more partitions would help"
            )
        elif self.is_out_of_bytes:
            code, detail = RejectionCode.BYTES_MAX_REACHED, "what would help copies more bytes than may be"
        elif len(self.changed) >= self.goal.moves_max:
            code = RejectionCode.MOVES_MAX_REACHED
            detail = f"{self.goal.moves_max} partitions change, and no more may"
        else:
            said = "no move that is allowed makes it more even"
            ended = "the search ended before; another plan after this one may get further"
            code, detail = RejectionCode.NO_BETTER_PLACE, said if self.effort.left > 0 else ended
        return Rejection(code=code, detail=f"{load.weight.value}: {detail}", weight=load.weight)
