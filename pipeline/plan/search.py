"""Fewest bytes to an even load: a local search over single moves, each allowed by the hard rules. Pure.

    while a broker has more than `target` times the mean of some load:
        the farthest one: of all its replicas to all brokers, and of all its leaderships to their followers,
        what evens out most for each byte copied; if nothing does, two replicas that change places
    then everything is taken back that turns out not to be needed

What is minimised is the sum of squares of what stands out over `aim`, and a little of the squares of all
loads, so that of brokers with room the emptiest is filled. It falls with every step, so the search ends. A
leadership moves nothing and therefore goes first.

The hard rules (placement.broken_rules) hold after every step. The search looks at so many candidates a step
whatever the clock says: the same input gives the same moves on any machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from pipeline.plan.board import NOBODY, Board, Bools, Ints
from pipeline.plan.goal import Found, Goal, Shortfall
from pipeline.plan.load import NEGLIGIBLE, RESOURCES, Floats, Level, LoadModel
from pipeline.plan.placement import Limits

CANDIDATES_MAX = 512
"""Replicas of one broker that a step looks at: those with the largest load, and with the largest for their
bytes."""
LOOKED_AT_EACH = 24
STILL_GOOD = 0.5
"""Of so many replicas that a step looks at one may be moved, so that large clusters take fewer steps; if it
is still worth this part of what it was before the others."""
SWAPS_MAX = 48
"""Replicas on either side, when two change places."""
SWAP_BROKERS_MAX = 12
SWAP_SHARE_MIN = 0.02
"""A swap takes away at least this part of what stands out: smaller ones would go on for ever."""
EVEN_WEIGHT = 0.01
GAIN_MIN = 1e-9
PASSES = (False, True, True)
"""Whether replicas may change places: only when single moves have done what they can."""
STEPS_EACH = 4
"""Steps for each partition that may change: a bound that only a search that runs in circles would meet."""


class _Change(NamedTuple):
    """The replica at `place` of a partition to another broker; or, with `leads`, the leadership to it, who is
    on that broker already. score: what it evens out for each byte."""

    score: float
    number: int
    place: int
    target: int
    leads: bool = False


def find_moves(
    model: LoadModel,
    goal: Goal,
    limits: Limits,
    *,
    on_step: Callable[[int, float], None] = lambda step, ratio: None,
) -> Found:
    """on_step: told the number of the step and the highest ratio. Raises ValueError for a target below 1."""
    if goal.target <= 1.0:
        raise ValueError(f"the target is {goal.target}, and must be more than 1")
    search = _Search(Board(model, limits), goal)
    search.run(on_step)
    search.prune()
    moves = search.board.moves()
    after = model.levels(moves)
    return Found(
        moves=moves,
        before=model.levels(),
        after=after,
        copied=search.board.copied,
        shortfalls=tuple(search.shortfalls(after)),
    )


class _Search:
    def __init__(self, board: Board, goal: Goal) -> None:
        self.board = board
        self.goal = goal
        count = max(int(board.serves.sum()), 1)
        mean = board.loads[board.serves].sum(axis=0) / count
        self.active = [r for r in goal.resources if mean[r] >= NEGLIGIBLE[RESOURCES[r]]]
        self.mean: Floats = mean[self.active]
        #: What one replica of each partition is of a broker's mean, and what leading it adds.
        self.shares: Floats = board.model.follower[:, self.active] / self.mean
        self.leading: Floats = board.model.leading[:, self.active] / self.mean
        largest = (self.shares + self.leading).max(axis=1, initial=0.0)
        self.giants: list[int] = np.flatnonzero(largest > goal.target).tolist()
        #: What a move costs besides its bytes, so that a move of nothing is not free.
        self.base_bytes = max(float(board.size.mean()) if len(board.size) else 0.0, 1.0)
        self.is_out_of_bytes = False
        self.steps = 0

    def run(self, on_step: Callable[[int, float], None]) -> None:
        if not self.active or not self.board.serves.any():
            return
        for swaps in PASSES:
            self._pass(on_step, swaps=swaps)

    def _pass(self, on_step: Callable[[int, float], None], *, swaps: bool) -> None:
        """Until every broker is as it should be, or nothing helps it. One that nothing helped is not looked
        at again before the next pass: what others do seldom makes room for it."""
        steps_max = STEPS_EACH * (min(len(self.board.size), self.board.limits.moves_max) + 1)
        stuck: set[tuple[int, int]] = set()
        while self.steps < steps_max and (place := self._farthest(stuck)) is not None:
            broker, at, ratio = place
            taken = self._take_singles(broker, at)
            if not taken and swaps:
                taken = self._take_swap(broker, at)
            if not taken:
                stuck.add((broker, at))
                continue
            self.steps += taken
            on_step(self.steps, ratio)

    def _farthest(self, stuck: set[tuple[int, int]]) -> tuple[int, int, float] | None:
        """Broker and load that stand out most over what they should be, and the ratio."""
        ratios = self._ratios()
        over = ratios - self._wanted()
        over[~self.board.serves] = 0.0
        for broker, at in stuck:
            over[broker, at] = 0.0
        broker, at = divmod(int(over.argmax()), over.shape[1])
        return (broker, at, float(ratios[broker, at])) if over[broker, at] > 0.0 else None

    def _wanted(self) -> Floats:
        """The ratio that each broker is to come down to. One replica that alone is more than the target
        can't be divided: whoever has it keeps it, and no bytes are spent on what makes no difference."""
        wanted: Floats = np.full((len(self.board.broker_ids), len(self.active)), self.goal.target)
        for number in self.giants:
            for place, broker in enumerate(self.board.replicas[number].tolist()):
                if broker != NOBODY:
                    share = self.shares[number] + (self.leading[number] if place == 0 else 0.0)
                    np.maximum(wanted[broker], share + self.goal.target - 1.0, out=wanted[broker])
        return wanted

    def _ratios(self) -> Floats:
        ratios: Floats = self.board.loads[:, self.active] / self.mean
        return ratios

    def _penalty(self, ratios: Floats) -> Floats:
        """Of brokers, summed over loads (the last axis)."""
        over = np.maximum(ratios - self.goal.aim, 0.0)
        found: Floats = (over * over + EVEN_WEIGHT * ratios * ratios).sum(axis=-1)
        return found

    # --- one replica, or one leadership ---------------------------------------------------------------

    def _take_singles(self, broker: int, at: int) -> int:
        """Makes the best of all changes, and of many that were looked at a few more that are as good after
        it. How many."""
        numbers, places = self.board.held_by(broker)
        vectors = self.board.vectors(numbers, places)[:, self.active] / self.mean
        chosen = self._promising(numbers, vectors[:, at], broker, at)
        numbers, places, vectors = numbers[chosen], places[chosen], vectors[chosen]
        if not len(numbers):
            return 0
        led = numbers[(places == 0) & (self.leading[numbers, at] > 0.0)]
        changes = self._moves_from(broker, numbers, places, vectors) + self._leads_from(broker, led)
        changes.sort(key=lambda change: (-change.score, change.number, change.target))
        taken: set[int] = set()
        for change in changes[: max(1, len(numbers) // LOOKED_AT_EACH)]:
            if taken and (
                change.number in taken
                or self._ratios()[broker, at] <= self._wanted()[broker, at]
                or not self._is_still_good(broker, change)
            ):
                continue
            self._take(change)
            taken.add(change.number)
        return len(taken)

    def _is_still_good(self, broker: int, change: _Change) -> bool:
        """After other changes: within room and budget, and worth most of what it was."""
        board, number = self.board, change.number
        vector = self.leading[number] if change.leads else self.shares[number]
        if not change.leads and change.place == 0:
            vector = vector + self.leading[number]
        here, there = self._ratios()[[broker, change.target]]
        gain = (
            self._penalty(here)
            - self._penalty(here - vector)
            + self._penalty(there)
            - self._penalty(there + vector)
        )
        added = 0
        if not change.leads:
            at, to = np.array([number]), np.array([change.target])
            added = int(board.added_bytes(at, broker, to)[0, 0])
            if not board.may_move(at, np.array([change.place]), broker, to)[0, 0]:
                return False
            if board.limits.bytes_max is not None and board.copied + max(added, 0) > board.limits.bytes_max:
                return False
            if number not in board.changed and len(board.changed) >= board.limits.moves_max:
                return False
        return bool(gain / (max(added, 0) + self.base_bytes) > STILL_GOOD * change.score)

    def _promising(self, numbers: Ints, shares: Floats, broker: int, at: int) -> Ints:
        """Which replicas to look at: of those that carry some of the load, half by load and half by load for
        each byte; those that are larger than what stands out come last."""
        surplus = float(self._ratios()[broker, at]) - 1.0
        order = np.lexsort((numbers, -shares, shares > 2.0 * surplus))
        order = order[shares[order] > 0.0]
        if len(order) <= CANDIDATES_MAX:
            return order
        by_byte = np.lexsort((numbers, -shares / (self.board.size[numbers] + self.base_bytes)))
        by_byte = by_byte[shares[by_byte] > 0.0]
        half = CANDIDATES_MAX // 2
        return np.unique(np.concatenate((order[:half], by_byte[:half])))

    def _moves_from(self, broker: int, numbers: Ints, places: Ints, vectors: Floats) -> list[_Change]:
        """Of each replica the best place to go to, if any is better."""
        board = self.board
        targets = np.flatnonzero(board.receives)
        targets = targets[targets != broker]
        if not len(targets):
            return []
        ratios = self._ratios()
        leaving = self._penalty(ratios[broker]) - self._penalty(ratios[broker] - vectors)
        there = ratios[targets]
        arriving = self._penalty(there)[None, :] - self._penalty(there[None, :, :] + vectors[:, None, :])
        gain = leaving[:, None] + arriving
        added = board.added_bytes(numbers, broker, targets)
        allowed = (gain > GAIN_MIN) & board.may_move(numbers, places, broker, targets)
        allowed &= self._affordable(allowed, added)
        score = np.where(allowed, gain / (np.maximum(added, 0) + self.base_bytes), -1.0)
        best = score.argmax(axis=1)
        return [
            _Change(
                float(score[row, best[row]]), int(numbers[row]), int(places[row]), int(targets[best[row]])
            )
            for row in np.flatnonzero(allowed.any(axis=1)).tolist()
        ]

    def _affordable(self, allowed: Bools, added: Ints) -> Bools:
        """Within the budget of bytes. allowed: by all other rules."""
        bytes_max = self.board.limits.bytes_max
        if bytes_max is None:
            return np.ones_like(allowed)
        within: Bools = (added <= 0) | (self.board.copied + added <= bytes_max)
        self.is_out_of_bytes |= bool((allowed & ~within).any())
        return within

    def _leads_from(self, broker: int, led: Ints) -> list[_Change]:
        """Of each leadership the best other replica of the partition, if any is better."""
        heirs = self.board.replicas[led][:, 1:]
        if not heirs.size:
            return []
        vectors = self.leading[led]
        ratios = self._ratios()
        leaving = self._penalty(ratios[broker]) - self._penalty(ratios[broker] - vectors)
        there = ratios[heirs]
        arriving = self._penalty(there) - self._penalty(there + vectors[:, None, :])
        gain = leaving[:, None] + arriving
        allowed = (gain > GAIN_MIN) & (heirs != NOBODY) & self.board.leads[heirs]
        score = np.where(allowed, gain / self.base_bytes, -1.0)
        best = score.argmax(axis=1)
        return [
            _Change(
                float(score[row, best[row]]),
                int(led[row]),
                int(best[row]) + 1,
                int(heirs[row, best[row]]),
                leads=True,
            )
            for row in np.flatnonzero(allowed.any(axis=1)).tolist()
        ]

    # --- two that change places -----------------------------------------------------------------------

    def _take_swap(self, broker: int, at: int) -> int:
        """One replica of the broker for a smaller one of another: where replicas are so large that any of
        them alone would only carry the trouble on. How many changes that were."""
        board = self.board
        if not board.receives[broker] or len(board.changed) + 2 > board.limits.moves_max:
            return 0
        ratios = self._ratios()
        others = np.flatnonzero(board.receives)
        others = others[(others != broker) & (ratios[others, at] < ratios[broker, at])]
        others = others[np.lexsort((others, ratios[others, at]))][:SWAP_BROKERS_MAX]
        mine, my_places = self._largest(broker, at)
        pairs = (self._swap_with(broker, int(other), at, mine, my_places) for other in others)
        best = max((pair for pair in pairs if pair is not None), key=lambda pair: pair[0].score, default=())
        for change in best:
            self._take(change)
        return len(best)

    def _largest(self, broker: int, at: int) -> tuple[Ints, Ints]:
        numbers, places = self.board.held_by(broker)
        shares = self.board.vectors(numbers, places)[:, self.active[at]]
        order = np.lexsort((numbers, -shares))
        if len(order) > SWAPS_MAX:  # evenly over all sizes: what fits together is not known beforehand
            order = order[np.linspace(0, len(order) - 1, SWAPS_MAX).astype(np.int64)]
        return numbers[order], places[order]

    def _swap_with(
        self, broker: int, other: int, at: int, mine: Ints, my_places: Ints
    ) -> tuple[_Change, _Change] | None:
        board = self.board
        theirs, their_places = self._largest(other, at)
        if not len(mine) or not len(theirs):
            return None
        here, there = np.array([broker], dtype=np.int64), np.array([other], dtype=np.int64)
        out = board.may_move(mine, my_places, broker, there)[:, 0]
        back = board.may_move(theirs, their_places, other, here)[:, 0]
        going = board.vectors(mine, my_places)[:, self.active] / self.mean
        coming = board.vectors(theirs, their_places)[:, self.active] / self.mean
        shift = going[:, None, :] - coming[None, :, :]
        ratios = self._ratios()
        gain = (
            self._penalty(ratios[broker])
            - self._penalty(ratios[broker] - shift)
            + self._penalty(ratios[other])
            - self._penalty(ratios[other] + shift)
        )
        added = (
            board.added_bytes(mine, broker, there)[:, 0][:, None]
            + board.added_bytes(theirs, other, here)[:, 0][None, :]
        )
        allowed = (gain > GAIN_MIN) & out[:, None] & back[None, :] & (mine[:, None] != theirs[None, :])
        allowed &= shift[:, :, at] >= SWAP_SHARE_MIN * (ratios[broker, at] - 1.0)
        allowed &= self._affordable(allowed, added)
        if not allowed.any():
            return None
        score = np.where(allowed, gain / (np.maximum(added, 0) + 2 * self.base_bytes), -1.0)
        one, two = np.unravel_index(int(score.argmax()), score.shape)
        best = float(score[one, two])
        return (
            _Change(best, int(mine[one]), int(my_places[one]), other),
            _Change(best, int(theirs[two]), int(their_places[two]), broker),
        )

    def _take(self, change: _Change) -> None:
        if change.leads:
            self.board.lead(change.number, change.place)
        else:
            self.board.move(change.number, change.place, change.target)

    # --- afterwards -----------------------------------------------------------------------------------

    def prune(self) -> None:
        """Takes back what is not needed, the dearest first: steps that came early may have been made
        superfluous by later ones, and steps stop at the aim, which is below the target."""
        board = self.board
        if not self.active:
            return
        for number in sorted(board.changed, key=lambda n: (-self._bytes_of(n), n)):
            touched = [b for b in {*board.replicas[number], *board.original[number]} if b != NOBODY]
            kept = board.replicas[number].copy()
            before = self._ratios()[touched]
            board.take_back(number)
            after = self._ratios()[touched]
            serves = board.serves[touched][:, None]
            worse = serves & (after > before + GAIN_MIN) & (after > self.goal.target)
            if worse.any():
                self._restore(number, kept)

    def _bytes_of(self, number: int) -> int:
        now, had = self.board.replicas[number], self.board.original[number]
        return int(self.board.size[number]) * int((~np.isin(now, had)).sum())

    def _restore(self, number: int, replicas: Ints) -> None:
        """From what it was at first to these: newcomers into the places of those that went, then the
        order."""
        board = self.board
        coming = [b for b in replicas.tolist() if b != NOBODY and b not in board.replicas[number]]
        for place, broker in enumerate(board.replicas[number].tolist()):
            if broker != NOBODY and broker not in replicas:
                board.move(number, place, coming.pop())
        leader = int(np.flatnonzero(board.replicas[number] == replicas[0])[0])
        if leader:
            board.lead(number, leader)
        board.replicas[number] = replicas  # the order of followers carries no load

    def shortfalls(self, levels: tuple[Level, ...]) -> Iterator[Shortfall]:
        for resource in self.active:
            level = levels[resource]
            if level.ratio <= self.goal.target:
                continue
            heaviest, partition = self.board.model.heaviest(resource)
            if partition is not None and heaviest > self.goal.target * level.mean:
                share = heaviest / level.mean
                why = (
                    f"{partition.name} alone is {share:.2f} times a broker's mean: more partitions would help"
                )
            elif self.is_out_of_bytes:
                why = "moves that would help copy more bytes than may be copied"
            elif len(self.board.changed) >= self.board.limits.moves_max:
                why = f"{self.board.limits.moves_max} partitions change, and no more may"
            else:
                why = "no move that the hard rules allow makes it more even"
            yield Shortfall(level, why)
