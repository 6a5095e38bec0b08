"""From positions to offsets, and the ranges between two offsets of one query. Pure.

A position is resolved in two steps: `questions` returns what to ask the cluster (ListOffsets' timestamps by
partition), `resolve` makes offsets of the answers.

An offset is one of a topic with an id. A topic that was deleted and created again under its name has other
records at the same offsets (KIP-516), so what was read of the old one is not counted in the new one.

Invariants: resolved offsets name exactly the partitions that were asked about; the ranges between two offsets
depend only on these, so a repeated micro-batch reads what the first attempt read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from pipeline.client.offset_words import log_ends, log_holds, read_until
from pipeline.client.values import EARLIEST, LATEST, FoundOffset, PartitionRange, TopicPartition
from pipeline.errors import HOW_TO_SKIP, DataLossError, InvalidOption
from pipeline.source.offset_json import Offsets
from pipeline.source.positions import AtOffsets, AtTimestamps, LogEnd, Position

NOTHING_FOUND = -1
FIRST_OFFSET = 0
"""Start in a partition that was added after the query began: its first record."""


def questions(position: Position, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Return what to ask ListOffsets; real offsets need no question. Raises InvalidOption for a position that
    names other partitions than these."""
    wanted = sorted(partitions)
    match position:
        case LogEnd():
            return dict.fromkeys(wanted, position.value)
        case AtOffsets():
            _check_names(position.option, position.offsets, wanted)
            return {where: mark for where, mark in position.offsets.items() if mark < 0}
        case AtTimestamps(timestamps=int(timestamp)):
            return dict.fromkeys(wanted, timestamp)
        case AtTimestamps():
            assert isinstance(position.timestamps, dict)
            _check_names(position.option, position.timestamps, wanted)
            return dict(position.timestamps)


def resolve(
    position: Position, partitions: Iterable[TopicPartition], found: Mapping[TopicPartition, FoundOffset]
) -> Offsets:
    """Return offsets of the answers to `questions`. LATEST stands for a timestamp that found no record, if
    the latest offset may take its place: ask for it, and `fill_latest`. Raises InvalidOption if it may
    not."""
    wanted = sorted(partitions)
    if isinstance(position, AtOffsets):
        given = position.offsets
        return {where: found[where].offset if given[where] < 0 else given[where] for where in wanted}
    offsets: Offsets = {}
    for where in wanted:
        offset = found[where].offset
        if offset == NOTHING_FOUND:
            assert isinstance(position, AtTimestamps), "every log has ends"
            if not position.or_latest:
                raise InvalidOption(
                    f"option '{position.option}': {where} has no record at or after its timestamp; set "
                    "'startingOffsetsByTimestampStrategy' to 'latest' to begin at its end"
                )
            offset = LATEST
        offsets[where] = offset
    return offsets


def unfilled(offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Return what to ask for the places that `resolve` left to the latest offset."""
    return {where: LATEST for where, offset in offsets.items() if offset == LATEST}


def fill_latest(offsets: Offsets, found: Mapping[TopicPartition, FoundOffset]) -> Offsets:
    return {where: found[where].offset if offset == LATEST else offset for where, offset in offsets.items()}


def check_within(
    option: str,
    offsets: Mapping[TopicPartition, int],
    *,
    earliest: Mapping[TopicPartition, int],
    latest: Mapping[TopicPartition, int],
) -> list[str]:
    """Return a message for each offset that users gave and the log does not hold, in order of partitions."""
    where_to = "end before" if option.startswith("ending") else "be read from"
    return [
        f"option '{option}': {where} was to {where_to} offset {offset}, "
        + log_holds(earliest[where], latest[where])
        for where, offset in sorted(offsets.items())
        if not earliest[where] <= offset <= latest[where]
    ]


def clamp(
    offsets: Mapping[TopicPartition, int],
    *,
    earliest: Mapping[TopicPartition, int],
    latest: Mapping[TopicPartition, int],
) -> Offsets:
    """Return the nearest offsets that the logs hold."""
    return {where: min(max(offset, earliest[where]), latest[where]) for where, offset in offsets.items()}


def _check_names(option: str, given: Mapping[TopicPartition, int], wanted: list[TopicPartition]) -> None:
    if given.keys() == set(wanted):
        return
    missing = ", ".join(map(str, sorted(set(wanted) - given.keys())))
    extra = ", ".join(map(str, sorted(given.keys() - set(wanted))))
    raise InvalidOption(
        f"option '{option}' must name exactly the partitions that are read (use {LATEST} for the latest and "
        f"{EARLIEST} for the earliest offset)"
        + (f"; missing: {missing}" if missing else "")
        + (f"; not read: {extra}" if extra else "")
    )


class Ranges(NamedTuple):
    """The ranges that a micro-batch reads, in order of partitions, and the losses that were found."""

    ranges: tuple[PartitionRange, ...]
    losses: tuple[str, ...]


def made_again(known: Mapping[str, str], now: Mapping[str, str]) -> set[str]:
    """Return the topics that were deleted and created again between these ids. Where one is not known,
    nothing is said."""
    return {topic for topic, one in known.items() if one and now.get(topic, one) not in ("", one)}


def of_new_topics(offsets: Mapping[TopicPartition, int], again: Collection[str]) -> Offsets:
    """Return the offsets, at the first one in topics that were made again: what was read of an old topic says
    nothing of the new one."""
    return {where: FIRST_OFFSET if where.topic in again else offset for where, offset in offsets.items()}


def told_made_again(
    start: Mapping[TopicPartition, int], known: Mapping[str, str], now: Mapping[str, str]
) -> list[str]:
    """Return a loss for each topic that was made again, in order."""
    return [
        f"topic {topic!r} was deleted and created again: the query has read {_read_until(start, topic)} of "
        f"the topic with id {known[topic]}, and now it has id {now[topic]}. What was not read of the old one "
        "is gone; with 'failOnDataLoss' 'false' the new one is read from its first record on"
        for topic in sorted(made_again(known, now))
    ]


def _read_until(start: Mapping[TopicPartition, int], topic: str) -> str:
    read = [f"{where} {read_until(start[where])}" for where in sorted(start) if where.topic == topic]
    return ", ".join(read[:3]) + (", ..." if len(read) > 3 else "") if read else "nothing"


def ranges_between(
    start: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
    *,
    known: Mapping[str, str] | None = None,
    now: Mapping[str, str] | None = None,
) -> Ranges:
    """Return ranges from one offset of a query to a later one. A partition that is only in the end was added,
    and is read from its first record. One that is only in the start is gone, and one whose offset went down
    lost its end: both are losses.

    `known` and `now`: topics' ids at the start and at the end. A topic that was made again between them is a
    loss, and is read from its first record.
    """
    known, now = known or {}, now or {}
    losses = told_made_again(start, known, now)
    again = made_again(known, now)
    start = of_new_topics(
        {where: at for where, at in start.items() if where in end or where.topic not in again}, again
    )
    losses += [
        f"{where} is gone; it was read {read_until(start[where])}" for where in sorted(start.keys() - end)
    ]
    ranges: list[PartitionRange] = []
    for where in sorted(end):
        first, last = start.get(where, FIRST_OFFSET), end[where]
        if last < first:
            losses.append(f"{where} was read {read_until(first)}, and {log_ends(last)}")
        elif last > first:
            ranges.append(PartitionRange(*where, first, last))
    return Ranges(tuple(ranges), tuple(losses))


def check_order(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> None:
    """Raise InvalidOption for a batch query that ends before it begins, as Spark's Kafka source does: nothing
    was lost."""
    wrong = [
        f"{where} from {first} to {end[where]}"
        for where, first in sorted(start.items())
        if end[where] < first
    ]
    if wrong:
        raise InvalidOption(
            f"the query begins after its end: {_first_of(wrong)}. Of starting and ending offsets or "
            "timestamps, one is too late or too early, or it lies beyond the log's end"
        )


def backlog(start: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int]) -> Offsets:
    """Return how many offsets each partition is behind, without those that are not."""
    behind = {where: last - start.get(where, FIRST_OFFSET) for where, last in sorted(latest.items())}
    return {where: count for where, count in behind.items() if count > 0}


def raise_losses(losses: Iterable[str]) -> None:
    told = list(losses)
    if told:
        raise DataLossError(f"{_first_of(told)}. {HOW_TO_SKIP}")


def _first_of(told: Sequence[str]) -> str:
    """Join as many as a message can hold."""
    return "; ".join(told[:10]) + ("; ..." if len(told) > 10 else "")


_UNRESOLVED = "startingFrom"


def unresolved_start(position: Position) -> dict[str, object]:
    """Return a query's first offset, before its position is resolved; no topic has a text for a value.

    Spark does not keep the initial offset of a Python source and asks for it again after a restart, when
    "latest" is another offset. So the initial offset tells what to resolve; the first micro-batch resolves it
    and is empty, and Spark keeps its end, the pinned start, before anything runs.
    """
    match position:
        case LogEnd():
            told = position.name.lower()
        case AtOffsets() | AtTimestamps():
            told = position.option
    return {_UNRESOLVED: told}


def is_unresolved(told: object) -> bool:
    """Return whether Spark's offset is one that `unresolved_start` made."""
    return isinstance(told, dict) and isinstance(told.get(_UNRESOLVED), str)
