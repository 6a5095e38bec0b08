"""The source's questions to a cluster: which partitions there are, and where positions lie in their logs.

The network is the client's; what to ask and what answers mean is offsets.py's. A topic that is subscribed by
name must exist when a query begins; later its absence is a loss for the caller to judge.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from pipeline.client.client import Client
from pipeline.client.values import (
    EARLIEST,
    LATEST,
    ClusterMetadata,
    EpochEnd,
    FoundOffset,
    TopicPartition,
)
from pipeline.source.errors import HOW_TO_SKIP, InvalidOption
from pipeline.source.offset_json import Offsets
from pipeline.source.offsets import (
    check_within,
    clamp,
    fill_latest,
    questions,
    raise_losses,
    resolve,
    unfilled,
)
from pipeline.source.options import Assignment, SourceOptions, TopicPattern, Topics
from pipeline.source.positions import AtOffsets, Edge, Position
from springtide.wire.errors import ErrorCode

_ABSENT = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


class SourceCluster:
    """Answers from now, except where they are passed in."""

    def __init__(self, options: SourceOptions, client: Client) -> None:
        self._options = options
        self._client = client

    # --- partitions -----------------------------------------------------------------------------------

    def metadata(self) -> ClusterMetadata:
        """Of every topic that the subscription may mean."""
        return self._client.metadata(_names(self._options))

    def partitions(self, *, must_exist: bool, known: Collection[TopicPartition] = ()) -> list[TopicPartition]:
        """The partitions that are subscribed and exist, in order.

        A broker may not have heard of a new topic yet, and one that has just started knows of none: so what
        was `known` before, and what `must_exist`, is asked for again while the budget for news lasts.
        Raises InvalidOption if a subscribed topic or assigned partition that must exist does not.
        """
        deadline = self._client.deadline(self._client.config.unknown_topic_budget_ms)
        while True:
            metadata = self.metadata()
            found = subscribed(self._options, metadata)
            missing = missing_partitions(self._options, metadata) if must_exist else []
            if not missing and set(known) <= set(found):
                return found
            if not deadline.pause():
                break
        if missing:
            raise InvalidOption(f"the cluster does not know {', '.join(missing)}")
        return found

    # --- positions ------------------------------------------------------------------------------------

    def ends(self, partitions: Iterable[TopicPartition], edge: Edge) -> dict[TopicPartition, FoundOffset]:
        return self._client.list_offsets(
            dict.fromkeys(partitions, edge.value), isolation_level=self._options.isolation.value
        )

    def resolve(
        self, position: Position, partitions: Sequence[TopicPartition], *, latest: Offsets | None = None
    ) -> Offsets:
        """Real offsets of a position. `latest` stands for the logs' ends where they were fixed before.

        Offsets that users gave and the logs don't hold: DataLossError, or the nearest there are.
        """
        asked = questions(position, partitions)
        offsets = resolve(position, partitions, self._find(asked, latest))
        offsets = fill_latest(offsets, self._find(unfilled(offsets), latest))
        if isinstance(position, AtOffsets):
            offsets = self._within(position, offsets, partitions, latest)
        return offsets

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
            raise_losses(told, advice=HOW_TO_SKIP)
        return clamp(offsets, earliest=earliest, latest=latest)

    def _offsets(self, partitions: Sequence[TopicPartition], mark: int) -> Offsets:
        found = self._client.list_offsets(
            dict.fromkeys(partitions, mark), isolation_level=self._options.isolation.value
        )
        return {where: one.offset for where, one in found.items()}

    # --- leader epochs --------------------------------------------------------------------------------

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
    """What the subscription means in this cluster: partitions that exist, in order."""
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
            return sorted(where for where in existing if pattern.matches(where.topic))
        case Assignment(partitions=partitions):
            return sorted(existing.intersection(partitions))


def missing_partitions(options: SourceOptions, metadata: ClusterMetadata) -> list[str]:
    """Topics and partitions that are subscribed by name and don't exist, for people to read."""
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
