"""Makes a failing run smaller: fewer strikes, a smaller cluster, a shorter time, and still the same rule.

Delta debugging (Zeller and Hildebrandt's ddmin) over the strikes, between two rounds of making the cluster
smaller. A candidate counts only if it fails by the same rule: another failure is another bug. Streams of
chance are keyed by purpose, so what is left out moves the rest little; that is all that makes this work, and
it promises no minimum.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from tests.simulation.corpus import Case, case_of, run_case
from tests.simulation.options import ClusterOptions
from tests.simulation.run import Verdict
from tests.simulation.schedule import Strike

RUNS_MAX = 200
SECONDS_MAX = 600.0


class NotReproduced(Exception):
    """The case does not fail, or its expanded strikes do not fail as their seed did."""


@dataclass(frozen=True, slots=True)
class Shrunk:
    """case: the smallest one found. verdict: what it does. runs: how many it took."""

    case: Case
    verdict: Verdict
    runs: int
    strikes_before: int


class _OutOfBudget(Exception):
    pass


class Shrinker:
    """Args:
    run: what gives a verdict, e.g. with a bug planted.
    runs_max, seconds_max: when to be content with what there is.
    clock: of seconds.
    """

    def __init__(
        self,
        *,
        run: Callable[[Case], Verdict] = run_case,
        runs_max: int = RUNS_MAX,
        seconds_max: float = SECONDS_MAX,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._run = run
        self._runs_max = runs_max
        self._clock = clock
        self._deadline = clock() + seconds_max
        self.runs = 0
        self._best: tuple[Case, Verdict] | None = None

    def shrink(self, case: Case) -> Shrunk:
        """Raises NotReproduced."""
        first = self._try(case)
        if first.rule is None:
            raise NotReproduced(f"{case} does not fail")
        expanded = case_of(first)
        again = self._try(expanded)
        if again.rule != first.rule:
            raise NotReproduced(
                f"{case} fails by {first.rule}; replayed from its strikes it gives {again.failure}"
            )
        self._best = (expanded, again)
        before = len(first.strikes)
        try:
            self._cut_tail()
            self._change(_shorter)
            size = None
            while size != (size := self._size()):
                self._drop_strikes()
                self._make_smaller()
        except _OutOfBudget:
            pass
        best, verdict = self._best
        return Shrunk(best, verdict, self.runs, before)

    # --- candidates -------------------------------------------------------------------------------------

    def _size(self) -> tuple[int, ClusterOptions]:
        case, _ = self.best
        assert case.strikes is not None and case.options is not None
        return len(case.strikes), case.options

    @property
    def best(self) -> tuple[Case, Verdict]:
        assert self._best is not None
        return self._best

    def _cut_tail(self) -> None:
        """What struck after the violation has not caused it. It is cut off in one piece: one run."""
        case, verdict = self.best
        assert case.strikes is not None
        self._keep(case, tuple(s for s in case.strikes if s.at_ms <= verdict.simulated_ms))

    def _drop_strikes(self) -> None:
        """ddmin: remove ever smaller pieces, from the back, which disturbs least what came before."""
        pieces = 2
        while (strikes := self.best[0].strikes) and pieces <= 2 * len(strikes):
            length = max(1, len(strikes) // pieces)
            for start in reversed(range(0, len(strikes), length)):
                if self._keep(self.best[0], strikes[:start] + strikes[start + length :]):
                    pieces = max(2, pieces - 1)
                    break
            else:
                if length == 1:
                    return
                pieces *= 2

    def _make_smaller(self) -> None:
        for change in _CHANGES:
            self._change(change)

    def _change(self, change: _Change) -> None:
        """Of the clusters that this change offers, the first one in which the same rule fails."""
        case, verdict = self.best
        assert case.options is not None and case.strikes is not None
        for options in change(case.options, verdict):
            strikes = tuple(s for s in case.strikes if _is_possible(s, options))
            if self._keep(msgspec.structs.replace(case, options=options), strikes):
                return

    # --- runs -------------------------------------------------------------------------------------------

    def _keep(self, case: Case, strikes: tuple[Strike, ...]) -> bool:
        """Whether this candidate fails by the same rule; then it is the best one."""
        best, verdict = self.best
        candidate = msgspec.structs.replace(case, strikes=strikes)
        if candidate == best:
            return False
        found = self._try(candidate)
        if found.rule != verdict.rule:
            return False
        self._best = (msgspec.structs.replace(candidate, why=found.failure or ""), found)
        return True

    def _try(self, case: Case) -> Verdict:
        if self.runs >= self._runs_max or self._clock() > self._deadline:
            raise _OutOfBudget
        self.runs += 1
        return self._run(case)


def shrink(case: Case, *, runs_max: int = RUNS_MAX, seconds_max: float = SECONDS_MAX) -> Shrunk:
    """Raises NotReproduced."""
    return Shrinker(runs_max=runs_max, seconds_max=seconds_max).shrink(case)


# --- smaller clusters -----------------------------------------------------------------------------------

_Change = Callable[[ClusterOptions, Verdict], Iterator[ClusterOptions]]


def _lower(name: str, *values: int) -> _Change:
    """Tries these values of an option in turn, as far as they are lower."""

    def change(options: ClusterOptions, verdict: Verdict) -> Iterator[ClusterOptions]:
        for value in values:
            if value < getattr(options, name):
                changed: dict[str, Any] = {name: value}
                yield replace(options, **changed)

    return change


def _fewer_brokers(options: ClusterOptions, verdict: Verdict) -> Iterator[ClusterOptions]:
    if options.brokers > options.replication_factor:
        yield replace(options, brokers=options.replication_factor)
        yield replace(options, brokers=options.brokers - 1)


def _shorter(options: ClusterOptions, verdict: Verdict) -> Iterator[ClusterOptions]:
    """A safety phase that ends soon after the last strike, or at half its length."""
    last_ms = max((strike.at_ms for strike in verdict.strikes), default=0)
    for faults_ms in (last_ms + 100, last_ms + 3_000, options.faults_ms // 2):
        if faults_ms < options.faults_ms:
            yield replace(options, faults_ms=faults_ms)


_CHANGES: Sequence[_Change] = (
    _shorter,
    _lower("partitions", 1, 2),
    _fewer_brokers,
    _lower("topics_max", 0),
    _lower("consumers", 0),
    _lower("plain_producers", 0),
    _lower("producers", 1),
    _lower("controllers", 1, 2),
    _lower("in_flight_max", 1),
    _lower("records_max", 1),
)


def _is_possible(strike: Strike, options: ClusterOptions) -> bool:
    """Whether everybody whom it names is there."""
    return all(_is_there(name, value, options) for name, value in strike.args.items())


def _is_there(name: str, value: object, options: ClusterOptions) -> bool:
    if name == "broker" and isinstance(value, int):
        return value <= options.brokers
    if isinstance(value, list | tuple):
        return all(_is_there(name, each, options) for each in value)
    if isinstance(value, str) and value.startswith("broker-"):
        return int(value.removeprefix("broker-")) <= options.brokers
    if isinstance(value, str) and value.startswith("controller-"):
        return int(value.removeprefix("controller-")) < options.controllers
    return True
