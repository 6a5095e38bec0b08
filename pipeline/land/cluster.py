"""The lander's questions to a cluster, asked through the source: subscription, positions, ends, epochs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pipeline.client.client import Client
from pipeline.client.values import EARLIEST, FoundOffset, TopicPartition
from pipeline.errors import LandError
from pipeline.land.planning import LandProgress, Observed, remembered_epochs
from pipeline.source.cluster import SourceCluster
from pipeline.source.offset_json import Offsets
from pipeline.source.options import SourceOptions
from pipeline.source.positions import AtOffsets, AtTimestamps, LogEnd, Position


class LandCluster:
    """`options`: the topics, where to begin, where to end. Methods may raise InvalidOption, LandError, or the
    client's errors.

    The end is resolved once: later records belong to the next run. `is_endless`: there is no end.
    """

    def __init__(self, options: SourceOptions, client: Client, *, is_endless: bool = False) -> None:
        self._options = options
        self._client = client
        self._source = SourceCluster(options, client)
        self._is_endless = is_endless
        self._goals: Offsets | None = None
        self._latest: Offsets = {}

    def cluster_id(self) -> str:
        return self._client.metadata([]).cluster_id or ""

    def check_topics(self) -> None:
        """Raise InvalidOption for topics that don't exist."""
        self._source.partitions(must_exist=True)

    def topic_ids(self, topics: Iterable[str]) -> Mapping[str, str]:
        found = self._client.metadata(sorted(topics)).topics
        return {name: one.topic_id for name, one in found.items() if one.topic_id}

    def observe(self, progress: LandProgress) -> Observed:
        """Return the cluster's state for a table that has `progress`."""
        partitions = self._source.partitions(must_exist=True)
        metadata = self._client.known_metadata()
        earliest = {
            where: one.offset for where, one in self._source.ends(partitions, LogEnd.EARLIEST).items()
        }
        ends = self._source.ends(partitions, LogEnd.LATEST)
        epochs = remembered_epochs(progress, partitions)
        return Observed(
            topic_ids={name: topic.topic_id for name, topic in metadata.topics.items() if topic.topic_id},
            earliest=earliest,
            ends=ends,
            starts=self._starts(progress, partitions, earliest, ends),
            goals=self._frozen_goals(partitions, ends),
            epoch_ends=self._source.epoch_ends(epochs) if epochs else {},
        )

    def _starts(
        self,
        progress: LandProgress,
        partitions: list[TopicPartition],
        earliest: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, FoundOffset],
    ) -> Offsets:
        """Return where to begin in partitions that the table does not know: in new topics where the options
        say, in new partitions of a known topic at their first record."""
        known_topics = {where.topic for where in progress.partitions}
        fresh = [where for where in partitions if where not in progress.partitions]
        asked = [where for where in fresh if where.topic not in known_topics]
        starts = {where: earliest[where] for where in fresh if where.topic in known_topics}
        if asked:
            latest = {where: one.offset for where, one in ends.items()}
            position = _of_those(self._options.starting, asked)
            starts |= self._source.resolve(position, asked, latest=latest)
        return starts

    def _frozen_goals(
        self, partitions: list[TopicPartition], ends: Mapping[TopicPartition, FoundOffset]
    ) -> Offsets | None:
        if self._is_endless:
            return None
        if self._goals is None:
            latest = {where: one.offset for where, one in ends.items()}
            self._goals = self._source.resolve(self._options.ending, partitions, latest=latest)
        return self._goals


def _of_those(position: Position, asked: list[TopicPartition]) -> Position:
    """Return the position for some partitions only. Raises LandError if it does not name one of them."""
    match position:
        case AtOffsets(option=option, offsets=offsets):
            return AtOffsets(option, _some(offsets, asked, option))
        case AtTimestamps(option=option, timestamps=dict() as timestamps, or_latest=or_latest):
            return AtTimestamps(option, _some(timestamps, asked, option), or_latest)
        case _:
            return position


def _some(given: Mapping[TopicPartition, int], asked: list[TopicPartition], option: str) -> Offsets:
    missing = [str(where) for where in asked if where not in given]
    if missing:
        raise LandError(
            f"{option} does not say where to begin in {', '.join(missing)}",
            f"Name every partition that the table does not have yet; {EARLIEST} is the earliest offset.",
        )
    return {where: given[where] for where in asked}
