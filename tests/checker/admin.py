"""What the controller answered about a topic fits one order of events that respects real time.

Each topic is judged against a sequential model: absent, or present with its overrides; absent when the
history begins, so a run records how its topics came to be. The search is that of Wing and Gong with Lowe's
memory of configurations seen: pick any operation that could have been first, apply it, go on; a configuration
(what is done, and the state) is entered once. A call whose outcome is unknown may take effect at any time
after it began, or never. A refused call that proves nothing about the topic is not part of the problem.

The problem is NP-complete; a topic whose search takes more than STEPS_MAX steps is counted as undecided.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

from .history import AdminAction, AdminCall, Function, Operation, Outcome
from .index import Index
from .verdict import Findings, Kind, Severity

STEPS_MAX = 500_000

State = tuple[tuple[str, str], ...] | None
"""A topic's overrides in order of name; None while there is no such topic."""

Configuration = tuple[int, int, int, State]
"""How many of the answered calls are done, which beyond these (bits), which unknown ones (bits), the
state."""


@dataclass(frozen=True, slots=True)
class _Call:
    index: int
    operation: Operation
    call: AdminCall


def check_admin(index: Index, findings: Findings) -> None:
    topics: dict[str, list[_Call]] = {}
    for number, operation in enumerate(index.operations):
        call = operation.admin
        if operation.f is Function.ADMIN and call is not None and _tells_something(operation, call):
            topics.setdefault(call.topic, []).append(_Call(number, operation, call))
    for topic, calls in topics.items():
        calls.sort(key=lambda call: call.operation.t_invoke_ns)
        search = _Search(calls)
        match search.run():
            case True:
                pass
            case False:
                stuck = search.stuck_at
                findings.add(
                    Kind.ADMIN_NOT_LINEARIZABLE,
                    f"no order of the {len(calls)} calls about topic {topic} explains their answers; the "
                    f"longest that does has {search.most_done} of them, and then line {stuck[0].index + 1} "
                    "does not fit",
                    key=None,
                    values=(topic,),
                    about=[call.index for call in stuck],
                )
            case None:
                findings.add(
                    Kind.ADMIN_UNDECIDED,
                    f"{len(calls)} calls about topic {topic} were not ordered within {STEPS_MAX} steps",
                    key=None,
                    severity=Severity.COUNTED,
                    values=(topic,),
                )


def _tells_something(operation: Operation, call: AdminCall) -> bool:
    if operation.type is Outcome.FAIL:
        return call.exists is not None
    return operation.type is Outcome.OK or call.action is not AdminAction.DESCRIBE


def apply(operation: Operation, call: AdminCall, state: State) -> tuple[bool, State]:
    """Return whether the call can be answered as it was while the topic is in `state`, and the state after
    it. A call with an unknown outcome that changes nothing says it can't: it needs no place in the order."""
    is_there = state is not None
    if operation.type is Outcome.FAIL:
        return call.exists == is_there, state
    after: State
    match call.action:
        case AdminAction.CREATE:
            possible, after = not is_there, tuple(sorted(call.configs.items()))
        case AdminAction.DELETE:
            possible, after = is_there, None
        case AdminAction.CONFIGURE:
            merged = {**dict(state or ()), **call.configs}
            possible, after = is_there, tuple(sorted((n, v) for n, v in merged.items() if v))
        case AdminAction.DESCRIBE:
            told: State = None if call.exists is False else tuple(sorted(call.configs.items()))
            return told == state, state
        case _:
            assert_never(call.action)
    if operation.type is Outcome.INFO and after == state:
        return False, state
    return possible, after


class _Search:
    """Depth first over configurations."""

    def __init__(self, calls: list[_Call]) -> None:
        self._required = [call for call in calls if call.operation.type is not Outcome.INFO]
        self._unknown = [call for call in calls if call.operation.type is Outcome.INFO]
        self.most_done = -1
        self.stuck_at: list[_Call] = []

    def run(self) -> bool | None:
        """None: gave up."""
        start: Configuration = (0, 0, 0, None)
        seen: set[Configuration] = {start}
        stack: list[Configuration] = [start]
        steps = 0
        while stack:
            low, beyond, unknown, state = stack.pop()
            if low == len(self._required):
                return True
            first = list(self._first(low, beyond))
            done = low + beyond.bit_count()
            if done > self.most_done:
                self.most_done, self.stuck_at = done, [self._required[number] for number in first]
            deadline = min(self._required[number].operation.t_return_ns for number in first)
            steps += len(first) + len(self._unknown)
            if steps > STEPS_MAX:
                return None
            # An answer that fits and changes nothing is best given at once: no order needs it later.
            for number in first:
                call = self._required[number]
                if apply(call.operation, call.call, state) == (True, state):
                    stack.append((*self._advance(low, beyond, number), unknown, state))
                    break
            else:
                self._branch(first, deadline, (low, beyond, unknown, state), seen, stack)
        return False

    def _branch(
        self,
        first: list[int],
        deadline: int,
        at: Configuration,
        seen: set[Configuration],
        stack: list[Configuration],
    ) -> None:
        """Every call that could be next and changes the state; those that returned are tried before
        others."""
        low, beyond, unknown, state = at
        for number, call in enumerate(self._unknown):
            if unknown >> number & 1 or call.operation.t_invoke_ns > deadline:
                continue
            possible, after = apply(call.operation, call.call, state)
            following = (low, beyond, unknown | 1 << number, after)
            if possible and following not in seen:
                seen.add(following)
                stack.append(following)
        for number in reversed(first):
            call = self._required[number]
            possible, after = apply(call.operation, call.call, state)
            following = (*self._advance(low, beyond, number), unknown, after)
            if possible and following not in seen:
                seen.add(following)
                stack.append(following)

    def _first(self, low: int, beyond: int) -> Iterator[int]:
        """The operations that could be next: not done, and begun before any other that is not done
        returned."""
        deadline: int | None = None
        for number in range(low, len(self._required)):
            operation = self._required[number].operation
            if deadline is not None and operation.t_invoke_ns > deadline:
                return
            if not beyond >> (number - low) & 1:
                yield number
                deadline = operation.t_return_ns if deadline is None else min(deadline, operation.t_return_ns)

    @staticmethod
    def _advance(low: int, beyond: int, number: int) -> tuple[int, int]:
        """Marks `number` done; bit i of `beyond` stands for low + i, and bit 0 is never set."""
        beyond |= 1 << (number - low)
        while beyond & 1:
            beyond >>= 1
            low += 1
        return low, beyond
