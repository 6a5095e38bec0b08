"""Which task writes which records in which round: decided before a replay's first record is written. Pure.

    streams   records that keep their order: a partition's, or a file's. Pieces, in order
    tasks     each stream belongs to one task, so no record overtakes another
    rounds    each task takes its next pieces, up to a number of records; a round ends before the next begins

To the sink a round is a micro-batch: it has its own producer epoch, openings and commit. So a replay that is
started again continues with the round that it was in, and what an attempt of an earlier round still sends is
fenced off.

The plan is written down once. It must not depend on how many machines there are today: a second run that cut
the rows in another way would give them other sequences, and store them twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, NamedTuple

from msgspec import Meta, Struct

from pipeline.client.values import PartitionRange
from pipeline.errors import ReplayError
from pipeline.stored import INT32_MAX, INT64_MAX, Int32, Int64

RECORDS_PER_TASK = 1_000_000
"""In one round: what a task that fails has to read again."""
TASKS_DEFAULT = 64
"""Tasks of a round, if there are so many streams. Tasks beyond Spark's slots only wait for a free one."""
TASKS_MAX = 10_000
PIECES_MAX = 2_000_000
NO_PARTITION = -1
NO_TIME = -1


class Partitioning(Enum):
    """The partition that a record goes to: the one that it had, or the one where Kafka's producers put its
    key."""

    KEEP = "keep"
    MURMUR2 = "murmur2"


class Timestamps(Enum):
    KEEP = "keep"
    NOW = "now"
    """The time when the round began. Topics with a retention by time delete older records as they come."""


class LakeFile(NamedTuple):
    """A Parquet file. `path` is relative to the lake's root. A file of another size is another file."""

    path: str
    size_bytes: Int64


class FilePiece(NamedTuple):
    """Rows of some files: of one file in its order, of several in the order of their offsets.

    `partition`: the one that the rows had, NO_PARTITION where only the files' column can tell.
    """

    files: tuple[LakeFile, ...]
    partition: Annotated[int, Meta(ge=NO_PARTITION, le=INT32_MAX)]
    records: Annotated[int, Meta(ge=1, le=INT64_MAX)]


class ReplayRange(NamedTuple):
    """Offsets `start_offset` to `end_offset` (exclusive) of a partition of another cluster."""

    topic: str
    partition: Int32
    start_offset: Int64
    end_offset: Int64

    @property
    def records(self) -> int:
        """Records at most: compaction may have left fewer."""
        return self.end_offset - self.start_offset

    @property
    def range(self) -> PartitionRange:
        return PartitionRange(*self)


Piece = FilePiece | ReplayRange
Stream = tuple[Piece, ...]
"""Pieces whose order is kept."""
Round = tuple[tuple[Piece, ...], ...]
"""The pieces of each task, by its index; perhaps none."""


_Time = Annotated[int, Meta(ge=NO_TIME, le=INT64_MAX)]
_Count = Annotated[int, Meta(ge=1, le=INT32_MAX)]


class ReplaySettings(Struct, frozen=True, kw_only=True, rename="camel", tag_field="kind", tag="replay"):
    """Settings that all tasks of a replay have in common.

    source: where records come from, for people and to tell replays apart; source_topic: "" if none was given.
    from_ms, until_ms: only records whose timestamp is in between (until_ms itself is not), or NO_TIME.
    source_topic_id: of a topic of a cluster, "" if it is not known: its offsets mean nothing in one that is
    made again.
    partition_count: the target's when the replay was planned; keys are spread over so many to the end.
    """

    run_id: str
    source: str
    source_topic: str = ""
    topic: str
    topic_id: str
    partition_count: _Count
    partitioning: Partitioning
    timestamps: Timestamps = Timestamps.KEEP
    from_ms: _Time = NO_TIME
    until_ms: _Time = NO_TIME
    batch_bytes: _Count = 1_000_000
    batch_records: _Count = 2**16
    planned_ms: Int64 = 0
    source_topic_id: str = ""

    def identity(self) -> Mapping[str, str]:
        """Return what makes a second run the same replay, by the names of the command line."""
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
class ReplayPlan:
    settings: ReplaySettings
    rounds: tuple[Round, ...]

    @property
    def records(self) -> int:
        """Records at most: rows outside the times that were asked for are counted."""
        return sum(records_of(one) for one in self.rounds)

    @property
    def tasks(self) -> int:
        return max(map(len, self.rounds), default=0)


def records_of(one: Round) -> int:
    return sum(piece.records for task in one for piece in task)


def plan_rounds(
    streams: Iterable[Stream], *, tasks: int, records_per_task: int = RECORDS_PER_TASK
) -> tuple[Round, ...]:
    """Return rounds that hold every piece once, streams in order. A task's part of a round has at most
    `records_per_task` records, or one piece. Raises ReplayError for numbers that no plan can be made of."""
    if not 1 <= tasks <= TASKS_MAX:
        raise ReplayError(f"{tasks} tasks: 1 to {TASKS_MAX} are possible")
    if records_per_task < 1:
        raise ReplayError(f"{records_per_task} records a task: at least one is needed")
    whole = list(streams)
    count = sum(_parts(piece, records_per_task) for stream in whole for piece in stream)
    if count > PIECES_MAX:
        raise ReplayError(
            f"a plan of {count} pieces is too large (at most {PIECES_MAX})",
            "Raise --records-per-task, or replay a part: a folder, or a span of time.",
        )
    wanted = [cut(stream, records_per_task) for stream in whole]
    queues = [deque(queue) for queue in spread([one for one in wanted if one], tasks) if queue]
    rounds: list[Round] = []
    while any(queues):
        rounds.append(tuple(_take(queue, records_per_task) for queue in queues))
    return tuple(rounds)


def cut(stream: Stream, records_max: int) -> Stream:
    """Return the stream without empty pieces, and ranges of a log in parts of at most so many offsets."""
    parts: list[Piece] = []
    for piece in stream:
        if isinstance(piece, ReplayRange):
            parts.extend(
                piece._replace(start_offset=first, end_offset=min(first + records_max, piece.end_offset))
                for first in range(piece.start_offset, piece.end_offset, records_max)
            )
        elif piece.records:
            parts.append(piece)
    return tuple(parts)


def _parts(piece: Piece, records_max: int) -> int:
    """Return how many pieces `cut` makes of one."""
    if isinstance(piece, ReplayRange):
        return len(range(piece.start_offset, piece.end_offset, records_max))
    return min(piece.records, 1)


def spread(streams: Sequence[Stream], tasks: int) -> list[list[Piece]]:
    """Give whole streams to tasks, the largest first, each to the task that has least (Graham's LPT): no task
    has more than 4/3 of what it must have, or its one stream."""
    sizes = [sum(piece.records for piece in stream) for stream in streams]
    loads = [0] * min(tasks, len(streams))
    chosen: list[list[int]] = [[] for _ in loads]
    for index in sorted(range(len(streams)), key=lambda index: (-sizes[index], index)):
        least = min(range(len(loads)), key=loads.__getitem__)
        loads[least] += sizes[index]
        chosen[least].append(index)
    return [[piece for index in sorted(indices) for piece in streams[index]] for indices in chosen]


def _take(queue: deque[Piece], records_max: int) -> tuple[Piece, ...]:
    """Take the next pieces: as many as fit, at least one if there is one."""
    taken: list[Piece] = []
    room = records_max
    while queue and (not taken or queue[0].records <= room):
        taken.append(queue.popleft())
        room -= taken[-1].records
    return tuple(taken)
