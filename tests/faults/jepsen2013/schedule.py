"""Who writes what where and when, and when the network is cut. Pure: no clock, no socket.

The schedule is the one that Jepsen ran against Kafka in 2013. Five writers, each bootstrapped to a broker
of its own, send the integers 0 to 999, dealt round-robin, at a fixed rate to a topic of five partitions with
five replicas. One quarter into it the broker that leads most partitions is cut off from the other *brokers*
only: nobody follows it any more, and it still tells the controller so. Half way it is cut off from everybody
but the clients, and so replaced. Whatever it acknowledged alone in between is lost with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

TOPIC = "jepsen"
TOTAL = 1000
WRITERS = 5
BROKERS = 5
PARTITIONS = 5
FIRST_CUT_SECONDS_MAX = 10.0
POLL_SECONDS = 1.0
"""How often the cut leader's partitions are looked at, until it leads none."""
SETTLE_SECONDS = 10.0
"""Between the end of writes and faults, and the drain."""

RATE_DEFAULT = 5.0
RATE_MAX = 10.0
"""Above it the time between the cuts is too short for the ISR to shrink."""

LED_BY_ONE = 3
"""Partitions that prefer broker 1: the broker that leads *most* should lead more than the others do."""

UNSAFE_CONFIGS: Mapping[str, str] = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}
"""What Kafka 0.8 did and did not let one change."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One run. rate: integers a second that each writer sends."""

    rate: float = RATE_DEFAULT
    total: int = TOTAL

    def __post_init__(self) -> None:
        if not 0 < self.rate <= RATE_MAX:
            raise ValueError(f"a rate of {self.rate:g}/s: above 0 and at most {RATE_MAX:g}/s is possible")

    @property
    def seconds(self) -> float:
        """How long the writers write, T."""
        return self.total / (WRITERS * self.rate)

    @property
    def first_cut_seconds(self) -> float:
        return min(FIRST_CUT_SECONDS_MAX, self.seconds / 4)

    @property
    def second_cut_seconds(self) -> float:
        return self.seconds / 2

    @property
    def lag_ms_max(self) -> int:
        """replica.lag.time.max.ms: half of the time between the cuts, of which the ISR's shrinking takes once
        to one and a half times as much; and not more than ten seconds, the default."""
        return min(10_000, round((self.second_cut_seconds - self.first_cut_seconds) / 2 * 1000))

    @property
    def request_timeout_ms(self) -> int:
        """How long a broker may wait for followers before it answers. A broker answers a connection's
        requests one after another, so the first that met the isolated leader holds back the others; it must
        end before the leader is replaced, or none of them is ever refused. As published ten seconds."""
        return min(10_000, 2 * self.lag_ms_max)

    def integers(self, writer: int) -> range:
        """What a writer (from 1) sends, in order."""
        return range(writer - 1, self.total, WRITERS)

    def due_seconds(self, integer: int) -> float:
        """When it is sent, since the beginning."""
        return integer // WRITERS / self.rate


def writer_name(writer: int) -> str:
    """As a process of the history."""
    return f"writer-{writer}"


def integer_of(process: str, number: int) -> int:
    """The integer that was the `number`-th (from 0) that this writer sent."""
    return number * WRITERS + int(process.removeprefix("writer-")) - 1


def is_writer(process: str) -> bool:
    return process.startswith("writer-")


def partition_of(integer: int) -> int:
    """At any time the five writers write to five partitions, and each of them visits all."""
    return (integer % WRITERS + integer // WRITERS) % PARTITIONS


def assignments(brokers: Sequence[int], *, led_by_one: int = LED_BY_ONE) -> list[list[int]]:
    """Replicas of each partition, the preferred leader first; every broker has a replica of each.

    The first broker is preferred for `led_by_one` partitions, the others take turns for the rest.
    """
    assert 1 <= led_by_one <= PARTITIONS
    placed = []
    for partition in range(PARTITIONS):
        first = 0 if partition < led_by_one else 1 + (partition - led_by_one) % (len(brokers) - 1)
        # Who comes next differs between partitions, so that one failure does not make one broker lead all.
        rest = [broker for index, broker in enumerate(brokers) if index != first]
        turn = partition % len(rest)
        placed.append([brokers[first], *rest[turn:], *rest[:turn]])
    return placed


def choose_victim(leaders: Mapping[int, int | None]) -> int:
    """The broker that leads most partitions, of several the one with the lowest id. `leaders`: by
    partition."""
    led = Counter(leader for leader in leaders.values() if leader is not None)
    if not led:
        raise ValueError("no partition has a leader")
    return min(led, key=lambda broker: (-led[broker], broker))
