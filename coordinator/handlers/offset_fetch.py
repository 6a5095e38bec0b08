"""OffsetFetch: what groups have committed: of one group, or from v8 on of several (KIP-709).

From v10 on topics are named by id. There are no transactions, so no offset is ever unstable (KIP-447).
A group is named once a request: what is answered is then no more than what is stored. Offsets of topics that
the client may not describe are refused by name, and left out of all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast
from uuid import UUID

from coordinator.core.group_records import CommittedOffset
from coordinator.core.groups.requests import FetchOffsets, GroupOffsets, GroupPlaces, OffsetPlace
from coordinator.handlers.asking import ask_group, ask_groups
from coordinator.handlers.context import CoordinatorContext
from coordinator.handlers.topics import find_topic, place_in, refusal
from springtide.node.cluster_view import ClusterView
from springtide.node.handlers.context import Request
from springtide.node.handlers.group_refusals import Fields, no_offset, topic_fields
from springtide.node.topic_ids import topic_id_uuid
from springtide.security.acls.model import Operation, ResourceType
from springtide.wire.errors import ErrorCode

SEVERAL_SINCE = 8


class _AskedTopic(NamedTuple):
    """A topic of a request. places: by partition; None where it is refused. error: why."""

    entry: Any
    places: dict[int, OffsetPlace | None]
    error: ErrorCode


class _AskedGroup(NamedTuple):
    """topics: None asks for all that the group has committed."""

    group_id: str
    topics: tuple[_AskedTopic, ...] | None

    @property
    def to_fetch(self) -> GroupPlaces:
        if self.topics is None:
            return GroupPlaces(self.group_id, None)
        places = (place for topic in self.topics for place in topic.places.values() if place is not None)
        return GroupPlaces(self.group_id, tuple(dict.fromkeys(places)))


def handle(context: CoordinatorContext, request: Request) -> None:
    message = cast(Any, request.decode())
    if request.api_version >= SEVERAL_SINCE:
        _fetch_of_several(context, request, message)
        return
    asked = _asked(context.view, request, message)

    def make(token: int) -> FetchOffsets:
        return FetchOffsets(token=token, groups=(asked.to_fetch,))

    ask_group(
        context,
        request,
        message,
        make,
        lambda reply: request.reply({"topics": _topics(context.view, request, asked, reply.groups[0])}),
        operation=Operation.DESCRIBE,
    )


def _fetch_of_several(context: CoordinatorContext, request: Request, message: Any) -> None:
    times = Counter(group.group_id for group in message.groups)
    groups = [_asked(context.view, request, group) for group in message.groups if times[group.group_id] == 1]

    def done(found: Sequence[GroupOffsets | ErrorCode]) -> None:
        told = {
            asked.group_id: _group(context.view, request, asked, entry)
            for asked, entry in zip(groups, found, strict=True)
        }
        twice = {"error_code": ErrorCode.INVALID_REQUEST}
        request.reply(
            {
                "groups": [
                    {"group_id": group.group_id, **told.get(group.group_id, twice)}
                    for group in message.groups
                ]
            }
        )

    ask_groups(
        context,
        request,
        groups,
        operation=Operation.DESCRIBE,
        group_of=lambda asked: asked.group_id,
        make=lambda token, of_shard: FetchOffsets(
            token=token, groups=tuple(asked.to_fetch for asked in of_shard)
        ),
        entries=lambda reply: reply.groups,
        done=done,
    )


def _asked(view: ClusterView, request: Request, group: Any) -> _AskedGroup:
    """Return what is asked of one group. group: an entry of v8 and later, or the whole message before."""
    if group.topics is None:
        return _AskedGroup(group.group_id, None)
    topics: dict[object, _AskedTopic] = {}
    for entry in group.topics:
        name: str | None = getattr(entry, "name", None)
        topic = find_topic(view, entry)
        error = refusal(request, Operation.DESCRIBE, topic, entry)
        asked = topics.setdefault(entry.topic_id if name is None else name, _AskedTopic(entry, {}, error))
        for partition in entry.partition_indexes:
            if error is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                asked.places[partition] = None
            elif topic is not None:
                asked.places[partition] = place_in(topic, partition)
            else:  # what is stored under a name is told, whether or not it is a topic now
                asked.places[partition] = None if name is None else OffsetPlace(name, partition)
    return _AskedGroup(group.group_id, tuple(topics.values()))


def _group(
    view: ClusterView, request: Request, asked: _AskedGroup, found: GroupOffsets | ErrorCode
) -> Fields:
    if isinstance(found, ErrorCode):
        return {"error_code": found}
    return {"error_code": ErrorCode.NONE, "topics": _topics(view, request, asked, found)}


def _topics(view: ClusterView, request: Request, asked: _AskedGroup, found: GroupOffsets) -> list[Fields]:
    if asked.topics is None:
        return _all_topics(view, request, found)
    offsets = dict(found.offsets)
    return [
        topic_fields(
            topic.entry,
            [
                no_offset(number, topic.error) if place is None else _partition(number, offsets[place])
                for number, place in topic.places.items()
            ],
        )
        for topic in asked.topics
    ]


def _all_topics(view: ClusterView, request: Request, found: GroupOffsets) -> list[Fields]:
    """Return all that is stored for topics that exist; offsets of deleted topics are left out."""
    topics: dict[str, list[Fields]] = {}
    ids: dict[str, UUID] = {}
    for place, value in found.offsets:
        topic = view.topic_by_name(place.topic)
        if topic is not None and request.may(
            Operation.DESCRIBE, ResourceType.TOPIC, place.topic, is_filter=True
        ):
            topic_id = topic_id_uuid(topic.topic_id)
            if place.topic_id in (None, topic_id):
                ids[place.topic] = topic_id
                topics.setdefault(place.topic, []).append(_partition(place.partition, value))
    return [
        {"name": name, "topic_id": ids[name], "partitions": partitions} for name, partitions in topics.items()
    ]


def _partition(number: int, value: CommittedOffset | None) -> Mapping[str, object]:
    if value is None:
        return no_offset(number)
    return {
        "partition_index": number,
        "committed_offset": value.offset,
        "committed_leader_epoch": value.leader_epoch,
        "metadata": value.metadata,
        "error_code": ErrorCode.NONE,
    }
