"""A random walk of markers of version 1 that arrive late, twice and out of order at a partition's leader.

I32: a marker ends what its own transaction wrote, and nothing of another one of the same producer and epoch.
All that is told is true: a marker that is answered has ended its transaction here. The coordinator sends what
is not answered again, and waits for the last answer alone; it is taken over; the leadership is given anew, to
a process that remembers nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from dataplane.core.producer_state import decode_producer_states
from springtide.wire.errors import ErrorCode
from springtide.wire.markers import Outcome
from tests.kit.dataplane.replica import leader_of, leading

PRODUCER_ID = 7
INDEXES = st.integers(0, 30)


@dataclass(frozen=True, slots=True)
class Sent:
    """A marker under way. number: of its transaction."""

    number: int
    outcome: Outcome
    coordinator_epoch: int
    attempt: int
    leader_epoch: int


class MarkerWalk(RuleBasedStateMachine):
    """number: of the present transaction. outcome: what is decided of it; None: nothing yet. opened: the
    transaction of each record that is not ended here."""

    def __init__(self) -> None:
        super().__init__()
        self.bench = leading()
        self.number = self.sequence = self.attempts = 0
        self.outcome: Outcome | None = None
        self.coordinator_epoch = 1
        self.opened: list[int] = []
        self.under_way: list[Sent] = []

    @precondition(lambda self: self.outcome is None)
    @rule()
    def write(self) -> None:
        result, _ = self.bench.begin(PRODUCER_ID, 0, self.sequence)
        assert result.error is ErrorCode.NONE, result
        self.sequence += 1
        self.opened.append(self.number)

    @precondition(lambda self: self.outcome is None)
    @rule(outcome=st.sampled_from(Outcome))
    def decide(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self.send()

    @precondition(lambda self: self.outcome is not None)
    @rule()
    def send(self) -> None:
        assert self.outcome is not None
        self.attempts += 1
        leader_epoch = leader_of(self.bench).leader_epoch
        sent = Sent(self.number, self.outcome, self.coordinator_epoch, self.attempts, leader_epoch)
        self.under_way.append(sent)

    @precondition(lambda self: self.under_way)
    @rule(index=INDEXES, is_twice=st.booleans())
    def deliver(self, index: int, is_twice: bool) -> None:
        index %= len(self.under_way)
        sent = self.under_way[index] if is_twice else self.under_way.pop(index)
        before = self.bench.log.log_end_offset
        result, _ = self.bench.end(
            PRODUCER_ID,
            outcome=sent.outcome,
            coordinator_epoch=sent.coordinator_epoch,
            attempt=sent.attempt,
            leader_epoch=sent.leader_epoch,
        )
        if self.bench.log.log_end_offset > before:
            assert set(self.opened) <= {sent.number}, "a marker ended another transaction"
            self.opened.clear()
        is_last = (sent.coordinator_epoch, sent.attempt) == (self.coordinator_epoch, self.attempts)
        if result.error is ErrorCode.NONE and is_last and sent.number == self.number:
            assert not self.opened, "a marker was answered that ended nothing"
            self.number, self.outcome = self.number + 1, None

    @rule()
    def take_over(self) -> None:
        """Another coordinator opens the shard, which sends again what is decided."""
        self.coordinator_epoch += 1
        self.attempts = 0
        if self.outcome is not None:
            self.send()

    @rule()
    def lead_anew(self) -> None:
        epoch = leader_of(self.bench).leader_epoch + 1
        self.bench.apply(leader_epoch=epoch, partition_epoch=epoch)
        producers = self.bench.log.producers
        producers.replace_with(decode_producer_states(producers.encode()))
