"""Offsets as the JSON that users write and that checkpoints hold: `{"topic":{"0":23,"1":-2}}`.

The form is that of Spark's Kafka source, so a checkpoint can move between the two. -2 and -1 stand for the
earliest and latest offset in what users write; a checkpoint holds real offsets only.

A checkpoint also holds the id of each topic, because offsets mean nothing in another topic of the same name:
`{"topic":{"0":23},"topic#5f0c...":{}}`. No topic's name has a "#", and an entry without partitions means
nothing to Spark's Kafka source or to earlier releases of this one, so they read such a checkpoint too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from pipeline.client.values import EARLIEST, TopicPartition
from pipeline.errors import InvalidOption

Offsets = dict[TopicPartition, int]
"""The offset to read next, or a mark, by partition."""

TopicIds = dict[str, str]
"""The UUID's text by topic name, of topics whose id is known."""

_ID_MARK = "#"
INT64_MAX = 2**63 - 1
PARTITION_MAX = 2**31 - 1


def offsets_to_json(
    offsets: Mapping[TopicPartition, int], topic_ids: Mapping[str, str] | None = None
) -> dict[str, dict[str, int]]:
    """Return topics by name, partitions by number, and the ids of these topics. Spark compares texts, and
    equal offsets of equal topics make equal text."""
    told: dict[str, dict[str, int]] = {}
    for where in sorted(offsets):
        told.setdefault(where.topic, {})[str(where.partition)] = offsets[where]
    known = topic_ids or {}
    return told | {f"{topic}{_ID_MARK}{known[topic]}": {} for topic in told if known.get(topic)}


def offsets_from_json(told: object) -> Offsets:
    """Return what `offsets_to_json`, or Spark's Kafka source, wrote. Raises InvalidOption for anything
    else."""
    return _map(told, "the checkpoint's offset", lambda value: _number(value, 0))


def topic_ids_from_json(told: object) -> TopicIds:
    """Return the ids that `offsets_to_json` wrote; none where an earlier release, or Spark's Kafka source,
    wrote. Raises InvalidOption if a topic has two."""
    ids: TopicIds = {}
    for name in told if isinstance(told, dict) else ():
        topic, mark, topic_id = name.partition(_ID_MARK)
        if not mark:
            continue
        if topic in ids:
            raise InvalidOption(f"the checkpoint's offset: {topic!r} has two ids")
        try:
            ids[topic] = str(UUID(topic_id))
        except ValueError as error:
            raise InvalidOption(f"the checkpoint's offset: {topic_id!r} of {topic!r} is no id") from error
    return ids


def parse_offsets(text: str, option: str) -> Offsets:
    """`{"topic":{"0":23,"1":-2}}` of a user; values may be -1 and -2. Raises InvalidOption."""
    return _map(_parse(text, option), f"option '{option}'", lambda value: _number(value, EARLIEST))


def parse_timestamps(text: str, option: str) -> Offsets:
    """`{"topic":{"0":1700000000000}}`: milliseconds since 1970 by partition. Raises InvalidOption."""
    return _map(
        _parse(text, option),
        f"option '{option}'",
        lambda value: _number(value, 0),
        no_meaning=f"is no time in milliseconds since 1970. {offsets_have_marks(option)}",
    )


def offsets_have_marks(option: str) -> str:
    """Return what to write for a mark in an option of timestamps: Kafka's own clients take it for a time."""
    name = "endingOffsets" if option.startswith("ending") else "startingOffsets"
    return f"Only in '{name}' does -1 stand for the latest and -2 for the earliest offset"


def parse_assignment(text: str, option: str) -> tuple[TopicPartition, ...]:
    """`{"topic":[0,1]}` as partitions in order. Raises InvalidOption."""
    told = _parse(text, option)
    if not isinstance(told, dict):
        raise InvalidOption(f"option '{option}' must be an object of topics, like {{\"topicA\":[0,1]}}")
    found: set[TopicPartition] = set()
    for topic, numbers in told.items():
        if not isinstance(numbers, list):
            raise InvalidOption(f"option '{option}': {topic!r} must have a list of partition numbers")
        for number in numbers:
            if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= PARTITION_MAX:
                raise InvalidOption(f"option '{option}': {number!r} of {topic!r} is no partition number")
            found.add(TopicPartition(topic, number))
    return tuple(sorted(found))


def _parse(text: str, option: str) -> object:
    try:
        return json.loads(text, object_pairs_hook=_without_duplicates, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise InvalidOption(f"option '{option}' is no JSON of topics and partitions: {error}") from error


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    told = dict(pairs)
    if len(told) != len(pairs):
        raise ValueError("a name is there twice")
    return told


def _no_constant(text: str) -> object:
    raise ValueError(f"{text} is no number")


def _map(
    told: object,
    what: str,
    value_of: Callable[[object], int | None],
    *,
    no_meaning: str = "has no meaning here",
) -> Offsets:
    if not isinstance(told, dict):
        raise InvalidOption(f'{what} must be an object of topics, like {{"topicA":{{"0":23,"1":-1}}}}')
    offsets: Offsets = {}
    for topic, by_partition in told.items():
        if not isinstance(topic, str) or not isinstance(by_partition, dict):
            raise InvalidOption(f"{what}: {topic!r} must have an object of partitions")
        for name, value in by_partition.items():
            if not isinstance(name, str) or not name.isascii() or not name.isdigit() or len(name) > 10:
                raise InvalidOption(f"{what}: {name!r} of {topic!r} is no partition number")
            number = value_of(value)
            where = TopicPartition(topic, int(name))
            if number is None or where.partition > PARTITION_MAX or where in offsets:
                raise InvalidOption(f"{what}: {value!r} of {topic}-{name} {no_meaning}")
            offsets[where] = number
    return offsets


def _number(value: object, least: int) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if least <= value <= INT64_MAX else None
