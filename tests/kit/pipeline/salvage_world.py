"""A partition's replicas through elections that lose records, as a model: who holds which entries, what was
cut off, what producers sent again. It knows the truth: which events are in no place any more.

Entries are told apart by leader epoch and offset, as in real logs. Three kinds of producers send: plain ones,
whose retries are stored twice; idempotent ones, whose retries the leader recognises; and idempotent ones that
begin a new producer epoch when a leader does not know them (KIP-360), as Kafka's Java producer does.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pipeline.salvage.identity import TransactionPart
from pipeline.sink.identity import DERIVED

REPLICAS = 3
PLAIN, IDEMPOTENT, BUMPING = range(3)


class Event(NamedTuple):
    """One record that an application sent. `content` is unique, but for a few."""

    number: int
    producer: int
    content: bytes
    timestamp: int
    key: bytes | None


class Entry(NamedTuple):
    leader_epoch: int
    event: Event
    producer_id: int
    producer_epoch: int
    sequence: int
    is_marked: bool = False


class Cut(NamedTuple):
    """A copy: what a replica dropped from `first_offset` on."""

    first_offset: int
    entries: tuple[Entry, ...]
    high_watermark: int


@dataclass
class World:
    """One partition. `log` is the leader's."""

    seed: int
    logs: list[list[Entry]] = field(default_factory=lambda: [[] for _ in range(REPLICAS)])
    leader: int = 0
    leader_epoch: int = 0
    cuts: list[Cut] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    merges: int = 0

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._waiting: list[Event] = []  # sent, and not known to be stored
        self._numbered: dict[int, tuple[int, int, int]] = {}  # event number: (id, epoch, sequence)
        self._epochs = [0, 0, 0]
        self._next_sequence = [0, 0, 0]

    @property
    def log(self) -> list[Entry]:
        return self.logs[self.leader]

    def live(self, *, keys: bool) -> list[tuple[Any, ...]]:
        """The leader's entries as identity rows, without target."""
        return [_row(entry, offset, keys=keys) for offset, entry in enumerate(self.log)]

    def cut_rows(self, *, keys: bool) -> list[tuple[Any, ...]]:
        return [
            _row(entry, cut.first_offset + place, keys=keys, cut=cut, copy=number)
            for number, cut in enumerate(self.cuts)
            for place, entry in enumerate(cut.entries)
        ]

    def truth(self) -> set[int]:
        """Numbers of the events that were cut off somewhere and are not in the log."""
        kept = {entry.event.number for entry in self.log}
        return {entry.event.number for cut in self.cuts for entry in cut.entries} - kept

    def run(self, steps: int) -> None:
        """Goes on, and ends with all replicas as the leader is."""
        for _ in range(steps):
            match self._random.randrange(10):
                case 0:
                    self._elect()
                case 1 | 2 | 3:
                    self._replicate()
                case _:
                    self._produce()
        for replica in range(REPLICAS):
            self._follow(replica)

    def merge(self, missing: list[tuple[int, int]]) -> None:
        """Appends entries (leader epoch, offset) of the copies again, as salvage does: when they are too old
        (`--min-age`) for a producer to send them again. Else both would stay, and might be lost together."""
        self._waiting.clear()
        held = {
            (entry.leader_epoch, cut.first_offset + place): entry.event
            for cut in self.cuts
            for place, entry in enumerate(cut.entries)
        }
        self.merges += 1
        for sequence, place in enumerate(missing):
            entry = Entry(self.leader_epoch, held[place], DERIVED + self.merges, 0, sequence, is_marked=True)
            self.log.append(entry)

    def _produce(self) -> None:
        """A batch of new events, or all those again whose fate is not known."""
        if self._waiting and self._random.random() < 0.6:
            retries, self._waiting = self._waiting, []
            self._append(retries)
            return
        count = self._random.randint(1, 4)
        for _ in range(count):
            number = len(self.events)
            is_like_others = self._random.random() < 0.1
            content = b"beat" if is_like_others else b"%d" % number
            # Producers of equal contents differ in time at least: else their events could not be told apart.
            event = Event(
                number,
                self._random.randrange(3),
                content,
                number if is_like_others else number // 3,
                b"k%d" % self._random.randrange(6) if self._random.random() < 0.8 else None,
            )
            self.events.append(event)
            self._append([event])

    def _append(self, events: list[Event]) -> None:
        for event in events:
            self._store(event)
            if self._random.random() < 0.3:  # the answer was lost
                self._waiting.append(event)

    def _store(self, event: Event) -> None:
        producer = event.producer
        if producer == PLAIN:
            self.log.append(Entry(self.leader_epoch, event, -1, -1, -1))
            return
        stored = {
            (entry.producer_epoch, entry.sequence): entry.event.number
            for entry in self.log
            if entry.producer_id == producer
        }
        identity = self._numbered.get(event.number)
        if identity is not None and stored.get(identity[1:]) == event.number:
            return
        is_new_epoch = producer == BUMPING and bool(stored) != bool(self._next_sequence[producer])
        if identity is None or (producer == BUMPING and self._random.random() < 0.5) or is_new_epoch:
            if is_new_epoch or identity is not None:
                self._epochs[producer] += 1
                self._next_sequence[producer] = 0
            identity = (producer, self._epochs[producer], self._next_sequence[producer])
            self._next_sequence[producer] += 1
            self._numbered[event.number] = identity
        self.log.append(Entry(self.leader_epoch, event, *identity))

    def _replicate(self) -> None:
        replica = self._random.randrange(REPLICAS)
        self._follow(replica, room=self._random.randint(0, 6))

    def _elect(self) -> None:
        self.leader = self._random.randrange(REPLICAS)
        self.leader_epoch += 1

    def _follow(self, replica: int, room: int | None = None) -> None:
        """Cuts to the common beginning, keeps what is cut, and copies some or all of the rest."""
        if replica == self.leader:
            return
        mine, leads = self.logs[replica], self.log
        same = 0
        while same < min(len(mine), len(leads)) and mine[same] == leads[same]:
            same += 1
        if same < len(mine):
            committed = self._random.randint(0, len(mine))
            self.cuts.append(Cut(same, tuple(mine[same:]), committed))
            del mine[same:]
        mine.extend(leads[same : None if room is None else same + room])


def _row(entry: Entry, offset: int, *, keys: bool, cut: Cut | None = None, copy: int = -1) -> tuple[Any, ...]:
    """Return the fields in the order of IDENTITY_SCHEMA, without target."""
    return (
        copy,
        -1 if cut is None else cut.first_offset,
        True if cut is None else offset < cut.high_watermark,
        entry.leader_epoch,
        offset,
        entry.producer_id,
        entry.producer_epoch,
        entry.sequence,
        entry.event.content,
        entry.event.timestamp,
        entry.event.key if keys else None,
        entry.is_marked,
        TransactionPart.NONE,
    )
