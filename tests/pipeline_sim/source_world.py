"""A topic that is deleted and made again under a query that reads it, as the client of the query sees it.

Something may happen before every answer: records arrive, the topic goes, one of the same name is made, a
leader is elected, the driver dies. A broker that is asked for metadata may know the topic before this one
only; it learns the rest well within the client's budget for unknown topics. A leader answers for the topic
that there is.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from uuid import UUID

from pipeline.client.config import ClientConfig
from pipeline.client.errors import ConnectionLost, OffsetsGone, RetriesExhausted
from pipeline.client.values import (
    EARLIEST,
    BrokerAddress,
    ClusterMetadata,
    FoundOffset,
    PartitionMetadata,
    PartitionRange,
    TopicMetadata,
    TopicPartition,
)
from springtide.wire.errors import ErrorCode
from springtide.wire.fetch_response import EpochEnd

TOPIC = "t"
PARTITIONS_MAX = 3
ROWS_MAX = 8
"""Records that arrive in a partition at a time."""
CHUNK_MAX = 5
"""Rows of one fetch."""
LAG_MS, BUDGET_MS = 300, 1_000
"""A broker knows what happened to topics after so long; a client goes on asking for longer."""
STRIKES = ("produce", "make again", "delete", "elect", "driver")

Row = tuple[int, int, int]
"""Which topic of the name, partition, offset."""


class DriverDied(Exception):
    """The driver of the query is gone; the checkpoint is left."""


class Topic:
    """One of the topics that had the name. `ends`: of its logs; `epoch_starts`: where leader epochs began."""

    def __init__(self, number: int, partitions: int) -> None:
        self.number = number
        self.topic_id = str(UUID(int=number + 1))
        self.ends = [0] * partitions
        self.epoch_starts = [[0] for _ in range(partitions)]

    def metadata(self) -> TopicMetadata:
        return TopicMetadata(
            topic_id=self.topic_id,
            partitions={
                p: PartitionMetadata(1, len(starts) - 1) for p, starts in enumerate(self.epoch_starts)
            },
        )


class World:
    """`topics`: all that there were. The last one is there unless `is_deleted`."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.now_ms = 1_000
        self.topics = [Topic(0, rng.randint(1, PARTITIONS_MAX))]
        self.is_deleted = False
        self.changed_ms = -LAG_MS
        self.rate = rng.choice((0.05, 0.15, 0.3))
        self.is_calm = False
        self.marks: Counter[str] = Counter()
        self.produce(self.topics[0])

    @property
    def topic_before(self) -> Topic | None:
        """The topic as a broker may know it that lags."""
        if self.now_ms - self.changed_ms >= LAG_MS:
            return self.topic
        return self.topics[-1 if self.is_deleted else -2]

    @property
    def topic(self) -> Topic | None:
        return None if self.is_deleted else self.topics[-1]

    def happen(self) -> None:
        """Let something happen, or not. Raises DriverDied."""
        self.now_ms += 1
        if self.is_calm or self.rng.random() > self.rate:
            return
        strike = self.rng.choice(STRIKES)
        topic = self.topic
        if strike == "driver":
            self.marks[strike] += 1
            raise DriverDied
        if strike == "make again" or topic is None:
            if self.rng.random() < 0.3:
                self.make_again()
        elif strike == "delete":
            if self.rng.random() < 0.1:
                self.is_deleted, self.changed_ms = True, self.now_ms
        elif strike == "elect":
            p = self.rng.randrange(len(topic.ends))
            topic.epoch_starts[p].append(topic.ends[p])
        else:
            self.produce(topic)

    def produce(self, topic: Topic) -> None:
        for p in range(len(topic.ends)):
            topic.ends[p] += self.rng.randint(0, ROWS_MAX)

    def make_again(self) -> None:
        """Make the topic anew, often with as many records at once as the old one had, or more."""
        old = self.topics[-1]
        new = Topic(old.number + 1, self.rng.randint(1, PARTITIONS_MAX))
        for p in range(len(new.ends)):
            if self.rng.random() < 0.7:
                least = old.ends[p] if p < len(old.ends) else 0
                new.ends[p] = max(0, least + self.rng.randint(-ROWS_MAX, ROWS_MAX))
        self.topics.append(new)
        self.is_deleted, self.changed_ms = False, self.now_ms
        self.marks["make again"] += 1

    def be_calm(self) -> None:
        self.is_calm = True
        if self.is_deleted:
            self.make_again()
        self.now_ms += LAG_MS

    def read(self, one: PartitionRange, topic_id: str, *, skip_gone: bool) -> Iterator[Row]:
        """Yield a task's rows as FetchStream has them: of the topic with this id, or if it is "" of whichever
        has the name."""
        offset = one.start_offset
        while offset < one.end_offset:
            self.happen()
            topic = self.topic
            end = 0 if topic is None or one.partition >= len(topic.ends) else topic.ends[one.partition]
            if topic is None or topic_id not in ("", topic.topic_id) or end <= offset:
                if skip_gone:
                    return
                raise OffsetsGone("gone", topic=TOPIC, partition=one.partition, offset=offset)
            end = min(one.end_offset, end, offset + self.rng.randint(1, CHUNK_MAX))
            for at in range(offset, end):
                yield topic.number, one.partition, at
            offset = end


class Waiting:
    """A deadline that is later than any broker is behind."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._until_ms = world.now_ms + BUDGET_MS

    def pause(self, reason: str) -> bool:
        self._world.now_ms += self._world.rng.randint(1, LAG_MS)
        self._world.happen()
        return self._world.now_ms < self._until_ms


class WorldClient:
    """The part of pipeline.client.client.Client that the source's questions use."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.config = ClientConfig(bootstrap=(("memory", 1),))
        self._known = ClusterMetadata()

    def now_ms(self) -> int:
        return self.world.now_ms

    def deadline(self, budget_ms: int) -> Waiting:
        return Waiting(self.world)

    def known_metadata(self) -> ClusterMetadata:
        return self._known

    def metadata(self, topics: list[str] | None) -> ClusterMetadata:
        self._known = self._told(self._heard())
        return self._known

    def metadata_of_each(self, topics: list[str] | None) -> list[ClusterMetadata]:
        """One of them is never behind: what the source knows it has from one of them."""
        told = [self._told(self._heard()) for _ in range(2)]
        if self.world.rng.random() < 0.2:
            raise ConnectionLost("one of them has died")
        return [*told, self._told(self.world.topic)]

    def _heard(self) -> Topic | None:
        world = self.world
        world.happen()
        if world.rng.random() < 0.3 and world.topic_before is not world.topic:
            world.marks["metadata behind"] += 1
            return world.topic_before
        return world.topic

    def _told(self, topic: Topic | None) -> ClusterMetadata:
        absent = TopicMetadata(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return ClusterMetadata(
            "memory",
            {1: BrokerAddress(1, "memory", 1)},
            {TOPIC: absent if topic is None else topic.metadata()},
        )

    def list_offsets(
        self, asked: Mapping[TopicPartition, int], *, isolation_level: int = 0
    ) -> dict[TopicPartition, FoundOffset]:
        if self.world.rng.random() < 0.2:  # it had to ask again who leads
            self.metadata([TOPIC])
        found: dict[TopicPartition, FoundOffset] = {}
        for where, mark in asked.items():
            topic = self._topic_of(where)
            offset = 0 if mark == EARLIEST else topic.ends[where.partition]
            found[where] = FoundOffset(offset, -1, len(topic.epoch_starts[where.partition]) - 1)
        return found

    def epoch_ends(self, asked: Mapping[TopicPartition, int]) -> dict[TopicPartition, EpochEnd]:
        found = {}
        for where, epoch in asked.items():
            topic = self._topic_of(where)
            starts = topic.epoch_starts[where.partition]
            ends = [*starts[1:], topic.ends[where.partition]]
            known = min(epoch, len(starts) - 1)
            found[where] = EpochEnd(known, ends[known])
        return found

    def _topic_of(self, where: TopicPartition) -> Topic:
        self.world.happen()
        topic = self.world.topic
        if topic is None or where.partition >= len(topic.ends):
            raise RetriesExhausted("the cluster does not know it")
        return topic
