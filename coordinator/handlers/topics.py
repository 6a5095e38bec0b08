"""The topics and partitions that requests about offsets name: by name, or, in the newest versions, by id."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar
from uuid import UUID

from coordinator.core.groups.requests import OffsetPlace
from springtide.contract.partition_state import TopicState
from springtide.node.cluster_view import ClusterView
from springtide.node.handlers.context import Request
from springtide.node.topic_ids import topic_id_text, topic_id_uuid
from springtide.security.acls.model import Operation, ResourceType
from springtide.wire.errors import ErrorCode

TOPIC_ID_SINCE = 10
"""The version of OffsetCommit and OffsetFetch that names topics by id."""


class TopicName(NamedTuple):
    """How a request names a topic. name: None where it is named by its id."""

    name: str | None
    topic_id: UUID | None = None


class NumberedEntry(Protocol):
    """A partition of a topic that a request names."""

    @property
    def partition_index(self) -> int: ...


E = TypeVar("E", bound=NumberedEntry)


def find_topic(view: ClusterView, asked: TopicName) -> TopicState | None:
    """Return the topic that a request names, None if there is none."""
    if asked.name is not None:
        topic = view.topic_by_name(asked.name)
    else:
        topic = None if asked.topic_id is None else view.topic_by_id(topic_id_text(asked.topic_id.bytes))
    return None if topic is None or topic.deleting else topic


def absence(asked: TopicName) -> ErrorCode:
    """Return the error of a topic that `find_topic` does not find."""
    return ErrorCode.UNKNOWN_TOPIC_ID if asked.name is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def refusal(request: Request, operation: Operation, topic: TopicState | None, asked: TopicName) -> ErrorCode:
    """Return why a topic, as `find_topic` has found it, can't be answered about, or NONE.

    By its name a topic is refused that the client has no right to, whether or not it exists."""
    name = asked.name if topic is None else topic.topic
    if name is not None and not request.may(operation, ResourceType.TOPIC, name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return absence(asked) if topic is None else ErrorCode.NONE


def place_in(topic: TopicState, partition: int) -> OffsetPlace:
    return OffsetPlace(topic.topic, partition, topic_id_uuid(topic.topic_id))


class NamedPartitions(Generic[E]):
    """The partitions of a request that changes offsets. What does not exist, or what the client may not read,
    is refused here.

    known: each partition that exists, with the request's entry for it.
    """

    __slots__ = ("_errors", "known")

    def __init__(
        self, view: ClusterView, request: Request, topics: Iterable[tuple[TopicName, Sequence[E]]]
    ) -> None:
        self._errors: list[list[tuple[int, ErrorCode]]] = []
        self.known: list[tuple[OffsetPlace, E]] = []
        for asked, entries in topics:
            topic = find_topic(view, asked)
            of_topic = refusal(request, Operation.READ, topic, asked)
            errors: list[tuple[int, ErrorCode]] = []
            for entry in entries:
                error = of_topic
                if topic is not None and error is ErrorCode.NONE:
                    if view.state(topic.topic_id, entry.partition_index) is None:
                        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    else:
                        self.known.append((place_in(topic, entry.partition_index), entry))
                errors.append((entry.partition_index, error))
            self._errors.append(errors)

    def answer(self, errors: Iterable[ErrorCode]) -> list[list[tuple[int, ErrorCode]]]:
        """Return number and error of each partition by topic. errors: one for each of `known`, in order."""
        of_known = iter(errors)
        return [
            [(number, next(of_known) if error is ErrorCode.NONE else error) for number, error in of_topic]
            for of_topic in self._errors
        ]
