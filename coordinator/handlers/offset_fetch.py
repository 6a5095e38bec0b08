"""OffsetFetch: what groups have committed: of one group, or from v8 on of several (KIP-709).

From v10 on topics are named by id. Who requires stable offsets is refused those that an open transaction is
about to replace, and asks again (KIP-447): UNSTABLE_OFFSET_COMMIT.
A group is named once a request: what is answered is then no more than what is stored. Offsets of topics that
the client may not describe are refused by name, and left out of all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple
from uuid import UUID

from coordinator.core.group_records import CommittedOffset
from coordinator.core.groups.requests import FetchOffsets, GroupOffsets, GroupPlaces, OffsetPlace
from coordinator.handlers.asking import GROUPS, ask_group, ask_named
from coordinator.handlers.context import CoordinatorContext
from coordinator.handlers.topics import TOPIC_ID_SINCE, TopicName, find_topic, place_in, refusal
from springtide.node.cluster_view import ClusterView
from springtide.node.handlers.context import Request
from springtide.node.handlers.group_refusals import no_offset
from springtide.node.topic_ids import topic_id_uuid
from springtide.security.acls.model import Operation, ResourceType
from springtide.wire.errors import ErrorCode
from springtide.wire.messages import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

SEVERAL_SINCE = 8


class _AskedTopic(NamedTuple):
    """A topic of a request. places: by partition; None where it is refused. error: why."""

    name: TopicName
    places: dict[int, OffsetPlace | None]
    error: ErrorCode


class _AskedGroup(NamedTuple):
    """topics: None asks for all that the group has committed."""

    group_id: str
    topics: tuple[_AskedTopic, ...] | None
    member_id: str | None = None
    member_epoch: int = -1

    @property
    def to_fetch(self) -> GroupPlaces:
        member = self.member_id, self.member_epoch
        if self.topics is None:
            return GroupPlaces(self.group_id, None, *member)
        places = (place for topic in self.topics for place in topic.places.values() if place is not None)
        return GroupPlaces(self.group_id, tuple(dict.fromkeys(places)), *member)


class _FoundTopic(NamedTuple):
    """A topic of an answer. id: None where it is not known."""

    name: str | None
    topic_id: UUID | None
    partitions: tuple[OffsetFetchResponsePartition, ...]


def handle(context: CoordinatorContext, request: Request, message: OffsetFetchRequest) -> None:
    if request.api_version >= SEVERAL_SINCE:
        _fetch_of_several(context, request, message)
        return
    named = None if message.topics is None else [(TopicName(one.name), one) for one in message.topics]
    asked = _asked(context.view, request, message.group_id, named)

    def make(token: int) -> FetchOffsets:
        return FetchOffsets(token=token, groups=(asked.to_fetch,), requires_stable=message.require_stable)

    def topic(found: _FoundTopic) -> OffsetFetchResponseTopic:
        return OffsetFetchResponseTopic(name=found.name or "", partitions=found.partitions)

    ask_group(
        context,
        request,
        message,
        make,
        lambda reply: request.reply(
            OffsetFetchResponse(
                topics=tuple(map(topic, _topics(context.view, request, asked, reply.groups[0])))
            )
        ),
        operation=Operation.DESCRIBE,
    )


def _fetch_of_several(context: CoordinatorContext, request: Request, message: OffsetFetchRequest) -> None:
    by_id = request.api_version >= TOPIC_ID_SINCE
    times = Counter(group.group_id for group in message.groups)
    groups = []
    for group in message.groups:
        if times[group.group_id] == 1:
            named = None
            if group.topics is not None:
                named = [(TopicName(None if by_id else one.name, one.topic_id), one) for one in group.topics]
            asked = _asked(context.view, request, group.group_id, named)
            groups.append(asked._replace(member_id=group.member_id, member_epoch=group.member_epoch))

    def done(found: Sequence[GroupOffsets | ErrorCode]) -> None:
        told = {
            asked.group_id: _group(context.view, request, asked, entry)
            for asked, entry in zip(groups, found, strict=True)
        }
        request.reply(
            OffsetFetchResponse(
                groups=tuple(
                    told.get(group.group_id)
                    or OffsetFetchResponseGroup(group_id=group.group_id, error_code=ErrorCode.INVALID_REQUEST)
                    for group in message.groups
                )
            )
        )

    ask_named(
        context,
        request,
        groups,
        kind=GROUPS,
        name_of=lambda asked: asked.group_id,
        make=lambda token, of_shard: FetchOffsets(
            token=token,
            groups=tuple(asked.to_fetch for asked in of_shard),
            requires_stable=message.require_stable,
        ),
        entries=lambda reply: reply.groups,
        done=done,
    )


def _asked(
    view: ClusterView,
    request: Request,
    group_id: str,
    named: Iterable[tuple[TopicName, OffsetFetchRequestTopic | OffsetFetchRequestTopics]] | None,
) -> _AskedGroup:
    """Return what is asked of one group."""
    if named is None:
        return _AskedGroup(group_id, None)
    topics: dict[object, _AskedTopic] = {}
    for name, entry in named:
        topic = find_topic(view, name)
        error = refusal(request, Operation.DESCRIBE, topic, name)
        key = name.topic_id if name.name is None else name.name
        asked = topics.setdefault(key, _AskedTopic(name, {}, error))
        for partition in entry.partition_indexes:
            if error is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                asked.places[partition] = None
            elif topic is not None:
                asked.places[partition] = place_in(topic, partition)
            else:  # what is stored under a name is told, whether or not it is a topic now
                asked.places[partition] = None if name.name is None else OffsetPlace(name.name, partition)
    return _AskedGroup(group_id, tuple(topics.values()))


def _group(
    view: ClusterView, request: Request, asked: _AskedGroup, found: GroupOffsets | ErrorCode
) -> OffsetFetchResponseGroup:
    if isinstance(found, ErrorCode) or found.error:
        error = found if isinstance(found, ErrorCode) else found.error
        return OffsetFetchResponseGroup(group_id=asked.group_id, error_code=error)
    topics = tuple(
        OffsetFetchResponseTopics(
            name=topic.name or "",
            topic_id=topic.topic_id,
            partitions=tuple(
                OffsetFetchResponsePartitions(
                    partition_index=one.partition_index,
                    committed_offset=one.committed_offset,
                    committed_leader_epoch=one.committed_leader_epoch,
                    metadata=one.metadata,
                    error_code=one.error_code,
                )
                for one in topic.partitions
            ),
        )
        for topic in _topics(view, request, asked, found)
    )
    return OffsetFetchResponseGroup(group_id=asked.group_id, topics=topics)


def _topics(
    view: ClusterView, request: Request, asked: _AskedGroup, found: GroupOffsets
) -> list[_FoundTopic]:
    if asked.topics is None:
        return _all_topics(view, request, found)
    offsets = dict(found.offsets)

    def partition(number: int, place: OffsetPlace) -> OffsetFetchResponsePartition:
        return _partition(number, offsets[place], is_unstable=place in found.unstable)

    return [
        _FoundTopic(
            *topic.name,
            tuple(
                no_offset(number, topic.error) if place is None else partition(number, place)
                for number, place in topic.places.items()
            ),
        )
        for topic in asked.topics
    ]


def _all_topics(view: ClusterView, request: Request, found: GroupOffsets) -> list[_FoundTopic]:
    """Return all that is stored for topics that exist; offsets of deleted topics are left out."""
    topics: dict[str, list[OffsetFetchResponsePartition]] = {}
    ids: dict[str, UUID] = {}
    for place, value in found.offsets:
        topic = view.topic_by_name(place.topic)
        if topic is not None and request.may(
            Operation.DESCRIBE, ResourceType.TOPIC, place.topic, is_filter=True
        ):
            topic_id = topic_id_uuid(topic.topic_id)
            if place.topic_id in (None, topic_id):
                ids[place.topic] = topic_id
                is_unstable = place in found.unstable
                partition = _partition(place.partition, value, is_unstable=is_unstable)
                topics.setdefault(place.topic, []).append(partition)
    return [_FoundTopic(name, ids[name], tuple(partitions)) for name, partitions in topics.items()]


def _partition(
    number: int, value: CommittedOffset | None, *, is_unstable: bool
) -> OffsetFetchResponsePartition:
    if is_unstable:
        return no_offset(number, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    if value is None:
        return no_offset(number)
    return OffsetFetchResponsePartition(
        partition_index=number,
        committed_offset=value.offset,
        committed_leader_epoch=value.leader_epoch,
        metadata=value.metadata,
    )
