"""Who writes what, and when: the whole of a replay, decided before its first record is written. Pure.

    streams   what has an order to keep: a partition's records, or a file's. Pieces, in order
    tasks     each stream belongs to one task, so nobody overtakes
    rounds    each task takes its next pieces, up to a number of records; a round ends before the next begins

A round is to the sink what a micro-batch is: it has its own producer epoch, its openings and its commit. So a
replay that is started again goes on with the round that it was in, reads none of the earlier ones, and what
an attempt of an earlier round still sends is fenced off.

The plan is written down once. It must not depend on how many machines there are today: a second run that cut
the rows otherwise would store them at other sequences, which is to store them twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from pipeline.client.values import PartitionRange
from pipeline.replay.errors import ReplayError

RECORDS_PER_TASK = 1_000_000
"""Of one round. What a task that fails has to read again, and what is not overlapped between two rounds."""
TASKS_DEFAULT = 64
"""Streams allowing. More than there are slots costs nothing but waiting in line."""
TASKS_MAX = 10_000
PIECES_MAX = 2_000_000
NO_PARTITION = -1
NO_TIME = -1


class Partitioning(Enum):
    """Which partition a record goes to."""

    KEEP = "keep"
    """The one it had."""
    MURMUR2 = "murmur2"
    """The one where Kafka's producers put its key."""


class Timestamps(Enum):
    KEEP = "keep"
    NOW = "now"
    """That of the round's beginning: topics with a retention by time delete what is older as it comes."""


class LakeFile(NamedTuple):
    """A Parquet file. `path` is relative to the lake's root. Not of `size_bytes` any more: not the file
    planned."""

    path: str
    size_bytes: int


class FilePiece(NamedTuple):
    """Rows of some files: of one file in its order, of several in the order of their offsets.

    `partition`: the one that the rows had, NO_PARTITION where only the files' column can tell.
    """

    files: tuple[LakeFile, ...]
    partition: int
    records: int


class LogPiece(NamedTuple):
    """Offsets `start_offset` to `end_offset` (exclusive) of a partition of another cluster."""

    topic: str
    partition: int
    start_offset: int
    end_offset: int

    @property
    def records(self) -> int:
        """At most: compaction may have left fewer."""
        return self.end_offset - self.start_offset

    @property
    def range(self) -> PartitionRange:
        return PartitionRange(*self)


Piece = FilePiece | LogPiece
Stream = tuple[Piece, ...]
"""In the order to be kept."""
Round = tuple[tuple[Piece, ...], ...]
"""What each task does, by its index. A task may have nothing to do."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What every task of a replay has in common, whenever it runs.

    source: where records come from, for people and to tell replays apart; source_topic: "" if it was not
    said. from_ms, until_ms: only records whose timestamp is in between (until_ms itself is not), or NO_TIME.
    partition_count: the target's when the replay was planned; keys are spread over so many to the end.
    """

    run_id: str
    source: str
    topic: str
    topic_id: str
    partition_count: int
    partitioning: Partitioning
    timestamps: Timestamps = Timestamps.KEEP
    from_ms: int = NO_TIME
    until_ms: int = NO_TIME
    batch_bytes: int = 1_000_000
    batch_records: int = 2**16
    source_topic: str = ""
    planned_ms: int = 0

    def identity(self) -> Mapping[str, str]:
        """What a second run has to ask for to be the same replay. By the names that its user knows."""
        return {
            "SRC": self.source,
            "--source-topic": self.source_topic,
            "TOPIC": self.topic,
            "--partitioning": self.partitioning.value,
            "--timestamps": self.timestamps.value,
            "--starting-timestamp": str(self.from_ms),
            "--ending-timestamp": str(self.until_ms),
        }


@dataclass(frozen=True, slots=True)
class Plan:
    settings: Settings
    rounds: tuple[Round, ...]

    @property
    def records(self) -> int:
        """At most: rows outside the times that were asked for are counted."""
        return sum(records_of(one) for one in self.rounds)

    @property
    def tasks(self) -> int:
        return max(map(len, self.rounds), default=0)


def records_of(one: Round) -> int:
    return sum(piece.records for task in one for piece in task)


def plan_rounds(
    streams: Iterable[Stream], *, tasks: int, records_per_task: int = RECORDS_PER_TASK
) -> tuple[Round, ...]:
    """Every piece in one round, streams in order. Each round ends when its largest task has
    `records_per_task`, or one piece more. Raises ReplayError for numbers that no plan can be made of."""
    if not 1 <= tasks <= TASKS_MAX:
        raise ReplayError(f"{tasks} tasks: 1 to {TASKS_MAX} are possible")
    if records_per_task < 1:
        raise ReplayError(f"{records_per_task} records a task: at least one is needed")
    wanted = [cut(stream, records_per_task) for stream in streams]
    wanted = [stream for stream in wanted if stream]
    count = sum(map(len, wanted))
    if count > PIECES_MAX:
        raise ReplayError(
            f"a plan of {count} pieces is too large (at most {PIECES_MAX})",
            "Raise --records-per-task, or replay a part: a folder, or a span of time.",
        )
    queues = [deque(queue) for queue in spread(wanted, tasks) if queue]
    rounds: list[Round] = []
    while any(queues):
        rounds.append(tuple(_take(queue, records_per_task) for queue in queues))
    return tuple(rounds)


def cut(stream: Stream, records_max: int) -> Stream:
    """The stream without empty pieces; ranges of a log in parts of at most so many offsets."""
    parts: list[Piece] = []
    for piece in stream:
        if isinstance(piece, LogPiece):
            parts.extend(
                piece._replace(start_offset=first, end_offset=min(first + records_max, piece.end_offset))
                for first in range(piece.start_offset, piece.end_offset, records_max)
            )
        elif piece.records:
            parts.append(piece)
    return tuple(parts)


def spread(streams: Sequence[Stream], tasks: int) -> list[list[Piece]]:
    """Whole streams to tasks, the largest first, each to whom has least (Graham's LPT): no task has more than
    4/3 of what it must have, or its one stream."""
    sizes = [sum(piece.records for piece in stream) for stream in streams]
    loads = [0] * min(tasks, len(streams))
    chosen: list[list[int]] = [[] for _ in loads]
    for index in sorted(range(len(streams)), key=lambda index: (-sizes[index], index)):
        least = min(range(len(loads)), key=loads.__getitem__)
        loads[least] += sizes[index]
        chosen[least].append(index)
    return [[piece for index in sorted(indices) for piece in streams[index]] for indices in chosen]


def _take(queue: deque[Piece], records_max: int) -> tuple[Piece, ...]:
    """The next pieces: as many as fit, at least one if there is one."""
    taken: list[Piece] = []
    room = records_max
    while queue and (not taken or queue[0].records <= room):
        taken.append(queue.popleft())
        room -= taken[-1].records
    return tuple(taken)
