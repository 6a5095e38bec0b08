"""The topics and partitions that requests about offsets name: by name, or, in the newest versions, by id."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from coordinator.core.groups.requests import OffsetPlace
from springtide.contract.partition_state import TopicState
from springtide.node.cluster_view import ClusterView
from springtide.node.handlers.context import Request
from springtide.node.handlers.group_refusals import Fields, topic_fields
from springtide.node.topic_ids import topic_id_text, topic_id_uuid
from springtide.security.acls.model import Operation, ResourceType
from springtide.wire.errors import ErrorCode


def find_topic(view: ClusterView, asked: Any) -> TopicState | None:
    """Return the topic that an entry of a request names, None if there is none."""
    if hasattr(asked, "name"):
        topic = view.topic_by_name(asked.name)
    else:
        topic_id: UUID | None = asked.topic_id
        topic = None if topic_id is None else view.topic_by_id(topic_id_text(topic_id.bytes))
    return None if topic is None or topic.deleting else topic


def absence(asked: Any) -> ErrorCode:
    """Return the error of a topic that `find_topic` does not find."""
    by_name = hasattr(asked, "name")
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if by_name else ErrorCode.UNKNOWN_TOPIC_ID


def refusal(request: Request, operation: Operation, topic: TopicState | None, asked: Any) -> ErrorCode:
    """Return why a topic, as `find_topic` has found it, can't be answered about, or NONE.

    By its name a topic is refused that the client has no right to, whether or not it exists."""
    name: str | None = getattr(asked, "name", None) if topic is None else topic.topic
    if name is not None and not request.may(operation, ResourceType.TOPIC, name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return absence(asked) if topic is None else ErrorCode.NONE


def place_in(topic: TopicState, partition: int) -> OffsetPlace:
    return OffsetPlace(topic.topic, partition, topic_id_uuid(topic.topic_id))


class NamedPartitions:
    """The partitions of a request that changes offsets. What does not exist, or what the client may not read,
    is refused here.

    known: each partition that exists, with the request's entry for it.
    """

    __slots__ = ("_errors", "_topics", "known")

    def __init__(self, view: ClusterView, request: Request, topics: Iterable[Any]) -> None:
        self._topics = tuple(topics)
        self._errors: list[ErrorCode] = []
        self.known: list[tuple[OffsetPlace, Any]] = []
        for asked in self._topics:
            topic = find_topic(view, asked)
            of_topic = refusal(request, Operation.READ, topic, asked)
            for entry in asked.partitions:
                error = of_topic
                if topic is not None and error is ErrorCode.NONE:
                    if view.state(topic.topic_id, entry.partition_index) is None:
                        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    else:
                        self.known.append((place_in(topic, entry.partition_index), entry))
                self._errors.append(error)

    def answer(self, errors: Iterable[ErrorCode]) -> list[Fields]:
        """Return the topics of the answer. errors: one for each of `known`, in order."""
        of_known, of_all = iter(errors), iter(self._errors)

        def partition(entry: Any) -> Fields:
            error = next(of_all)
            return {
                "partition_index": entry.partition_index,
                "error_code": next(of_known) if error is ErrorCode.NONE else error,
            }

        return [
            topic_fields(asked, [partition(entry) for entry in asked.partitions]) for asked in self._topics
        ]
