"""Questions that several of our clients ask, by the names of their fields, and what the answers say. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

from .errors import ErrorCode, error_code
from .fetch_request import CONSUMER_ID

Place = tuple[str, int]
"""A topic's name and a partition's number."""
P = TypeVar("P", bound=Place)


def by_topic(
    rows: Mapping[P, Mapping[str, object]], *, topic: str = "name", partition: str = "partition_index"
) -> tuple[dict[str, object], ...]:
    """Return the topics of a request, in the order of each topic's first place, with the rows of their
    partitions. topic, partition: what the API calls these two."""
    found: dict[str, list[Mapping[str, object]]] = {}
    for (name, number), row in rows.items():
        found.setdefault(name, []).append({partition: number, **row})
    return tuple({topic: name, "partitions": tuple(of_topic)} for name, of_topic in found.items())


class ListedOffset(NamedTuple):
    """A place in a log, if the error is NONE. timestamp: Unix milliseconds, or -1 for none."""

    error: ErrorCode
    offset: int
    timestamp: int
    leader_epoch: int


def list_offsets(asked: Mapping[P, int], *, isolation_level: int = 0) -> dict[str, object]:
    """Return the request for the offsets at these times, or at the ends that negative ones mean (KIP-79)."""
    rows = {place: {"current_leader_epoch": -1, "timestamp": at} for place, at in asked.items()}
    return {"replica_id": CONSUMER_ID, "isolation_level": isolation_level, "topics": by_topic(rows)}


def listed_offsets(answer: Any) -> dict[Place, ListedOffset]:
    """Return what an answer says, in version 4 or later."""
    return {
        (topic.name, one.partition_index): ListedOffset(
            error_code(int(one.error_code)), one.offset, one.timestamp, one.leader_epoch
        )
        for topic in answer.topics
        for one in topic.partitions
    }
