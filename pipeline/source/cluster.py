"""The source's questions to a cluster: which partitions there are, and where positions lie in their logs.

offsets.py decides what to ask and what the answers mean. A topic that is subscribed by name must exist when a
query begins; later its absence is a loss, which the caller judges.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType

from pipeline.client.client import Client
from pipeline.client.errors import ConnectionLost, TopicUnknown
from pipeline.client.values import EARLIEST, LATEST, ClusterMetadata, FoundOffset, TopicPartition
from pipeline.errors import InvalidOption
from pipeline.source.offset_json import Offsets, TopicIds
from pipeline.source.offsets import (
    check_within,
    clamp,
    fill_latest,
    made_again,
    questions,
    raise_losses,
    resolve,
    unfilled,
)
from pipeline.source.options import Assignment, SourceOptions, TopicPattern, Topics
from pipeline.source.positions import AtOffsets, LogEnd, Position
from springtide.wire.errors import ErrorCode
from springtide.wire.fetch_response import EpochEnd

_ABSENT = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


class SourceCluster:
    """The cluster's answers of now, except for those that are passed in."""

    def __init__(self, options: SourceOptions, client: Client) -> None:
        self._options = options
        self._client = client

    def metadata(self) -> ClusterMetadata:
        """Return metadata of every topic that the subscription may mean."""
        return self._client.metadata(_names(self._options))

    def partitions(
        self,
        *,
        must_exist: bool,
        known: Collection[TopicPartition] = (),
        known_ids: Mapping[str, str] = MappingProxyType({}),
    ) -> list[TopicPartition]:
        """Return the subscribed partitions that exist, in order.

        A broker may not know a new topic yet, and one that has just started knows none: so `known`
        partitions, and those that must exist, are asked for again within the budget for unknown topics. So
        are topics whose ids are not the `known_ids`, until all brokers agree: one alone may know the topic
        before that one only.
        Raises InvalidOption if a subscribed topic or assigned partition that must exist does not.
        """
        deadline = self._client.deadline(self._client.config.unknown_topic_budget_ms)
        while True:
            metadata = self.metadata()
            found = subscribed(self._options, metadata)
            missing = missing_partitions(self._options, metadata) if must_exist else []
            again = made_again(known_ids, self.topic_ids())
            if not missing and set(known) <= set(found) and (not again or self._is_agreed(again)):
                return found
            absent = f"the cluster does not know {', '.join(missing)}"
            reason = absent if missing else "a broker knows other topics, or fewer partitions, than before"
            if not deadline.pause(reason):
                break
        if missing:
            raise InvalidOption(absent)
        return found

    def _is_agreed(self, topics: Collection[str]) -> bool:
        """Return whether every broker tells the ids of these topics that were told last."""
        ids = self.topic_ids()
        try:
            told = [one.topics for one in self._client.metadata_of_each(sorted(topics))]
        except ConnectionLost:
            return False
        return all(name in one and one[name].topic_id == ids[name] for one in told for name in topics)

    def topic_ids(self) -> TopicIds:
        """Return the ids of topics in the metadata that was read last. Ask before the offsets that belong to
        them: a topic that is made again between the two is then found to be another one later."""
        return {
            name: topic.topic_id
            for name, topic in self._client.known_metadata().topics.items()
            if topic.topic_id
        }

    def ends(self, partitions: Iterable[TopicPartition], edge: LogEnd) -> dict[TopicPartition, FoundOffset]:
        return self._client.list_offsets(
            dict.fromkeys(partitions, edge.value), isolation_level=self._options.isolation.value
        )

    def resolve(
        self, position: Position, partitions: Sequence[TopicPartition], *, latest: Offsets | None = None
    ) -> Offsets:
        """Return real offsets of a position. `latest`: logs' ends that were fixed before. Raises
        DataLossError for offsets that users gave and the logs don't hold, or takes the nearest ones."""
        asked = questions(position, partitions)
        offsets = resolve(position, partitions, self._find(asked, latest))
        offsets = fill_latest(offsets, self._find(unfilled(offsets), latest))
        if isinstance(position, AtOffsets):
            offsets = self._within(position, offsets, partitions, latest)
        return offsets

    def span(self) -> tuple[Offsets, Offsets, TopicIds]:
        """Return where a batch query begins and ends, and the ids of the topics that it is about. Raises
        InvalidOption, DataLossError, or the client's errors."""
        try:
            return self._span()
        except TopicUnknown:  # deleted after the first question: it is told as one deleted before
            return self._span()

    def _span(self) -> tuple[Offsets, Offsets, TopicIds]:
        partitions = self.partitions(must_exist=True)
        topic_ids = self.topic_ids()
        start = self.resolve(self._options.starting, partitions)
        return start, self.resolve(self._options.ending, partitions), topic_ids

    def _find(
        self, asked: dict[TopicPartition, int], latest: Offsets | None
    ) -> dict[TopicPartition, FoundOffset]:
        known: dict[TopicPartition, FoundOffset] = {}
        if latest is not None:
            known = {
                where: FoundOffset(latest[where])
                for where, mark in asked.items()
                if mark == LATEST and where in latest
            }
        rest = {where: mark for where, mark in asked.items() if where not in known}
        if rest:
            known |= self._client.list_offsets(rest, isolation_level=self._options.isolation.value)
        return known

    def _within(
        self,
        position: AtOffsets,
        offsets: Offsets,
        partitions: Sequence[TopicPartition],
        fixed: Offsets | None,
    ) -> Offsets:
        earliest = self._offsets(partitions, EARLIEST)
        latest = {**self._offsets(partitions, LATEST), **(fixed or {})}
        told = check_within(position.option, offsets, earliest=earliest, latest=latest)
        if told and self._options.fail_on_data_loss:
            known = self.topic_ids()
            self.partitions(must_exist=True)  # a topic that was deleted meanwhile is the plainer reason
            if again := sorted(made_again(known, self.topic_ids())):
                raise InvalidOption(
                    f"topic {again[0]!r} was deleted and created again while the query was planned, so "
                    f"'{position.option}' says nothing of the new one"
                )
            raise_losses(told)
        return clamp(offsets, earliest=earliest, latest=latest)

    def _offsets(self, partitions: Sequence[TopicPartition], mark: int) -> Offsets:
        found = self._client.list_offsets(
            dict.fromkeys(partitions, mark), isolation_level=self._options.isolation.value
        )
        return {where: one.offset for where, one in found.items()}

    def epoch_ends(self, epochs: dict[TopicPartition, int]) -> dict[TopicPartition, EpochEnd]:
        return self._client.epoch_ends(epochs)


def _names(options: SourceOptions) -> list[str] | None:
    match options.subscription:
        case Topics(names=names):
            return list(names)
        case Assignment(partitions=partitions):
            return sorted({where.topic for where in partitions})
        case TopicPattern():
            return None


def subscribed(options: SourceOptions, metadata: ClusterMetadata) -> list[TopicPartition]:
    """Return the subscribed partitions that exist in this cluster, in order."""
    existing = {
        TopicPartition(name, number)
        for name, topic in metadata.topics.items()
        if topic.error not in _ABSENT
        for number in topic.partitions
    }
    match options.subscription:
        case Topics(names=names):
            wanted = set(names)
            return sorted(where for where in existing if where.topic in wanted)
        case TopicPattern() as pattern:
            return sorted(
                where
                for where in existing
                if pattern.matches(where.topic) and not metadata.topics[where.topic].is_internal
            )
        case Assignment(partitions=partitions):
            return sorted(existing.intersection(partitions))


def missing_partitions(options: SourceOptions, metadata: ClusterMetadata) -> list[str]:
    """Return the topics and partitions that are subscribed by name and don't exist, for people to read."""
    there = subscribed(options, metadata)
    match options.subscription:
        case Topics(names=names):
            topics = {where.topic for where in there}
            return [f"topic {name!r}" for name in names if name not in topics]
        case Assignment(partitions=partitions):
            held = set(there)
            return [f"partition {where}" for where in partitions if where not in held]
        case TopicPattern():
            return []
