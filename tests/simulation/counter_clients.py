"""Clients of the simulated shard: each counts, one increment after the other, and remembers what it was
told."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from springtide.wire.errors import ErrorCode
from tests.kit.coordinator.counter import Counted, Increment, ReadCounter, ReadLatest
from tests.simulation.clients import REQUEST_TIMEOUT_MS
from tests.simulation.events import keyed_random

if TYPE_CHECKING:
    from tests.simulation.shards import Shards

#: Errors after which an attempt has certainly not made its increment.
REFUSED = (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.THROTTLING_QUOTA_EXCEEDED)
READ_RATE = 0.1
#: Between two attempts.
PAUSE_MS_MAX = 1_000

Question = Increment | ReadCounter | ReadLatest


class CounterClient:
    """Increments, one after the other, each until it is answered; and reads now and then."""

    def __init__(self, shards: Shards, number: int) -> None:
        self.shards = shards
        self.name = f"counter-client-{number}"
        self.random: Random = keyed_random(shards.cluster.seed, self.name)
        self.number = 1
        self.operation = 0
        self.is_open = False
        self.stopped = False
        self.is_resting = False
        self._attempts = 0
        #: Whether every attempt of this operation so far was refused.
        self._is_refused = True
        self._target = 0

    def go_on(self) -> None:
        """Make the next increment; or rest, once it was told to stop."""
        self.is_resting = self.stopped
        if not self.is_resting:
            self._begin()
            self._ask()

    def _begin(self) -> None:
        self.is_open = True
        self.operation += 1
        self._is_refused = True

    def _ask(self) -> None:
        cluster = self.shards.cluster
        nodes = self.shards.nodes
        self._attempts += 1
        asked_ms = cluster.events.now_ms
        request: Question = Increment(0, self.name, self.number, self.operation)
        if self.random.random() < READ_RATE:
            request = self.random.choice((ReadCounter(0), ReadLatest(0)))
        cluster.network.call(
            self.name,
            nodes[self._target].name,
            request,
            lambda answer: self._on_answer(request, answer, asked_ms),
            timeout_ms=REQUEST_TIMEOUT_MS,
            on_timeout=lambda: self._on_answer(request, None, asked_ms),
            connection=(self.name, self._attempts),
        )

    def _on_answer(self, request: Question, answer: object, asked_ms: float) -> None:
        shards, cluster = self.shards, self.shards.cluster
        if isinstance(answer, Counted):
            shards.check_answer(self, request, answer.value, asked_ms)
            if isinstance(request, Increment):
                self.number += 1
                self.is_open = False
                shards.answered += 1
                pace_ms = 3 * cluster.options.pace_ms * (0.2 + 1.6 * self.random.random())
                cluster.events.after(pace_ms, self.go_on)
                return
        elif isinstance(request, Increment):
            self._is_refused = self._is_refused and answer in REFUSED
            if self._is_refused and self.random.random() < 0.5:
                shards.refused.add((self.name, self.operation))
                cluster.marks.reached("shard.refuses.and.undoes")
                self._begin()
            self._target = self.random.randrange(len(shards.nodes))
        pause_ms = min(cluster.options.pace_ms, PAUSE_MS_MAX) * (0.2 + self.random.random())
        cluster.events.after(pause_ms, self._ask)
