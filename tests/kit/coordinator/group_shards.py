"""Handlers of a coordinator in front of real group machines, one a shard, without a connection."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from types import SimpleNamespace
from typing import Any

from coordinator.core.groups.options import GroupOptions
from coordinator.core.groups.requests import Request
from coordinator.core.machine import RequestReply
from coordinator.handlers.table import HANDLERS
from springtide.contract.epochs import LeaderEpoch, PartitionEpoch
from springtide.contract.partition_state import PartitionState, TopicState
from springtide.contract.updates import UpdateBatch
from springtide.node.authorization import ClientRights
from springtide.node.cluster_view import ClusterView
from springtide.node.sharding import GROUPS_TOPIC
from springtide.wire.errors import ErrorCode
from tests.kit.coordinator.group_desk import GroupDesk
from tests.kit.springtide.asking import answers_of

SHARDS = 4


class AnsweringDesk(GroupDesk):
    """A desk that answers who asked."""

    def __init__(self, options: GroupOptions) -> None:
        self.answered: dict[int, Callable[[object], None]] = {}
        super().__init__(options)

    def send(self, replies: list[RequestReply] | tuple[RequestReply, ...]) -> None:
        super().send(replies)
        for reply in replies:
            self.answered.pop(reply.token)(reply.message)


class GroupShards:
    """The shards of a process. errors: what a shard answers in place of its machine."""

    def __init__(self, owned: Iterable[int], options: GroupOptions) -> None:
        self.desks = {shard: AnsweringDesk(options) for shard in owned}
        self.errors: dict[int, ErrorCode] = {}

    def owned(self) -> Sequence[int]:
        return tuple(self.desks)

    def submit(self, shard: int, make: Callable[[int], Request], answered: Callable[[object], None]) -> None:
        desk = self.desks.get(shard)
        if desk is None or shard in self.errors:
            answered(self.errors.get(shard, ErrorCode.NOT_COORDINATOR))
            return
        token = desk.token()
        desk.answered[token] = answered
        desk.ask(make(token))


class Coordinator:
    """A coordinator as clients see it. topics: name -> partitions, beside the topic of groups."""

    def __init__(self, *, owned: Iterable[int] = range(SHARDS), **options: Any) -> None:
        self.shards = GroupShards(owned, GroupOptions(**options))
        self.view = ClusterView()
        suffixes = (f"suffix-{number}" for number in itertools.count(1))
        self.context = SimpleNamespace(
            view=self.view, shards=self.shards, new_member_suffix=lambda: next(suffixes)
        )
        self.has_topic(GROUPS_TOPIC, SHARDS)

    def has_topic(self, name: str, partitions: int, *, topic_id: str = "") -> str:
        """Let a topic exist; return its id."""
        topic_id = topic_id or name[0] * 21 + "A"
        states = tuple(
            PartitionState(
                topic_id=topic_id,
                topic=name,
                partition=number,
                replicas=(1,),
                leader=1,
                leader_epoch=LeaderEpoch(1),
                partition_epoch=PartitionEpoch(1),
                isr=(1,),
                min_insync_replicas=1,
            )
            for number in range(partitions)
        )
        topic = TopicState(topic_id=topic_id, topic=name, partitions=partitions, replication_factor=1)
        self.view.apply(UpdateBatch(topics=(topic,), partitions=states), now_ms=0)
        return topic_id

    def lacks_topic(self, topic_id: str) -> None:
        self.view.apply(UpdateBatch(deleted_topics=(topic_id,)), now_ms=0)

    def start(
        self,
        key: int,
        version: int,
        client_id: str | None = "client",
        rights: ClientRights | None = None,
        **fields: Any,
    ) -> list[Any]:
        """Send a request; return a list that gets its answer. rights: its client's; None: all."""
        return answers_of(
            HANDLERS[key], key, version, fields, context=self.context, client_id=client_id, rights=rights
        )

    def ask(self, key: int, version: int, **fields: Any) -> Any:
        """Return what is answered at once."""
        (answer,) = self.start(key, version, **fields)
        return answer

    def wait(self, duration_ms: int) -> None:
        for desk in self.shards.desks.values():
            desk.wait(duration_ms)
