"""What Spark's Kafka source says a query reads: written down from its documentation, apart from our source.

Structured Streaming + Kafka Integration Guide, Spark 4: the tables of options, the notes on timestamp options
and on `failOnDataLoss`. Where it promises a refusal, a query is `Refused`, and `words` are in its message.
Nothing of pipeline/ is used here: this is what that is compared with.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tests.pipeline_proof.contract.world import Truth, Where, World

EARLIEST, LATEST = -2, -1


class Refused(Exception):
    """The query fails. The message must hold one of `words`, without regard to case."""

    def __init__(self, *words: str) -> None:
        super().__init__(*words)
        self.words = words


class Undocumented(Exception):
    """What happens then is said nowhere."""


@dataclass(frozen=True, slots=True)
class Reading:
    """From and to which offsets each partition is read, and the records there."""

    start: Mapping[Where, int]
    end: Mapping[Where, int]
    rows: Mapping[Where, list[Truth]]


def expected(world: World, options: Mapping[str, str], *, is_streaming: bool) -> Reading:
    """Of a batch query; or of a stream's first run with Trigger.AvailableNow. Raises Refused."""
    partitions = subscribed(world, options)
    found: list[dict[Where, int]] = []
    words: list[str] = []
    for edge_of in (starting, ending):
        try:
            found.append(edge_of(world, options, partitions, is_streaming=is_streaming))
        except Refused as refused:
            words += refused.words
    if words:  # which of two reasons is told is nobody's promise
        raise Refused(*words)
    start, end = found
    is_inverted = any(end[where] < start[where] for where in partitions)
    skips = options.get("failOnDataLoss", "true") == "false"
    if is_inverted and not is_streaming:  # said nowhere but in what Spark's source answers
        raise Refused("begins after its end", *([] if skips else ["failOnDataLoss"]))
    for where in partitions:
        log = world.log(where)
        if not skips and not (log.start <= start[where] <= log.end and end[where] <= log.end):
            raise Refused("failOnDataLoss")
    if is_inverted:
        raise Undocumented("a stream that begins beyond the end of a log")
    if skips:
        start, end = within(world, start), within(world, end)
    committed = options.get("kafka.isolation.level") == "read_committed"
    rows = {
        where: [
            one
            for one in world.log(where).truth
            if start[where] <= one.offset < end[where] and not (committed and one.is_aborted)
        ]
        for where in partitions
    }
    return Reading(start, end, rows)


def within(world: World, offsets: Mapping[Where, int]) -> dict[Where, int]:
    """The nearest offsets that the logs hold."""
    return {
        where: min(max(offset, world.log(where).start), world.log(where).end)
        for where, offset in offsets.items()
    }


def subscribed(world: World, options: Mapping[str, str]) -> list[Where]:
    given = [name for name in ("assign", "subscribe", "subscribePattern") if name in options]
    if len(given) != 1:
        raise Refused("only one of the options" if given else "must be given")
    if "assign" in options:
        found = [(topic, n) for topic, numbers in json.loads(options["assign"]).items() for n in numbers]
    elif "subscribe" in options:
        names = [name.strip() for name in options["subscribe"].split(",")]
        if any(name not in world.topics for name in names):
            raise Refused("does not know")
        found = [where for where in world.partitions if where[0] in names]
    else:
        found = [where for where in world.partitions if re.fullmatch(options["subscribePattern"], where[0])]
    return sorted(found)


def starting(
    world: World, options: Mapping[str, str], partitions: list[Where], *, is_streaming: bool
) -> dict[Where, int]:
    """`startingTimestamp` comes before `startingOffsetsByTimestamp`, that before `startingOffsets`."""
    or_latest = options.get("startingOffsetsByTimestampStrategy", "error") == "latest"
    by_time = times(options, "starting", partitions)
    if by_time is not None:
        return at_times(world, by_time, or_latest=or_latest)
    text = options.get("startingOffsets", "latest" if is_streaming else "earliest")
    if not is_streaming and (text == "latest" or f": {LATEST}" in text):
        raise Refused("can't be latest for batch queries")
    return at_offsets(world, text, partitions)


def ending(
    world: World, options: Mapping[str, str], partitions: list[Where], *, is_streaming: bool
) -> dict[Where, int]:
    """Batch queries only. A partition without so late a record is read to its end."""
    names = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
    if is_streaming and any(name in options for name in names):
        raise Refused("not valid in streaming queries")
    by_time = times(options, "ending", partitions)
    if by_time is not None:
        return at_times(world, by_time, or_latest=True)
    text = options.get("endingOffsets", "latest")
    if text == "earliest" or f": {EARLIEST}" in text:
        raise Refused("can't be earliest for batch queries")
    return at_offsets(world, text, partitions)


def times(options: Mapping[str, str], end: str, partitions: list[Where]) -> dict[Where, int] | None:
    if f"{end}Timestamp" in options:
        return dict.fromkeys(partitions, int(options[f"{end}Timestamp"]))
    if f"{end}OffsetsByTimestamp" in options:
        return named(options[f"{end}OffsetsByTimestamp"], partitions)
    return None


def at_times(world: World, by_time: Mapping[Where, int], *, or_latest: bool) -> dict[Where, int]:
    """Of each the first record that is as late; none is an error or the log's end."""
    found = {}
    for where, moment in by_time.items():
        late = [one.offset for one in world.log(where).truth if one.record.timestamp >= moment]
        if not late and not or_latest:
            raise Refused("no record at or after")
        found[where] = late[0] if late else world.log(where).end
    return found


def at_offsets(world: World, text: str, partitions: list[Where]) -> dict[Where, int]:
    edges: dict[int, Callable[[Where], int]] = {
        EARLIEST: lambda where: world.log(where).start,
        LATEST: lambda where: world.log(where).end,
    }
    if text in ("earliest", "latest"):
        edge = edges[EARLIEST if text == "earliest" else LATEST]
        return {where: edge(where) for where in partitions}
    return {
        where: edges[offset](where) if offset < 0 else offset
        for where, offset in named(text, partitions).items()
    }


def named(text: str, partitions: list[Where]) -> dict[Where, int]:
    """`{"topic": {"0": 23}}`, which must name exactly the partitions that are read."""
    found = {
        (topic, int(number)): value
        for topic, values in json.loads(text).items()
        for number, value in values.items()
    }
    if sorted(found) != partitions:
        raise Refused("must name exactly the partitions")
    return found
