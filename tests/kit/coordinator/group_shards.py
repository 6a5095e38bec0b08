"""Handlers of a coordinator in front of real machines, one a shard, without a connection."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from types import SimpleNamespace
from typing import Any, Generic, TypeVar

from coordinator.core.groups.consumer.requests import TopicsKnown
from coordinator.core.groups.machine import GroupMachine
from coordinator.core.groups.options import GroupOptions
from coordinator.core.machine import Machine, RequestReply
from coordinator.core.offsets_question import OffsetsQuestion
from coordinator.core.transactions.machine import TransactionMachine
from coordinator.core.transactions.options import TransactionOptions
from coordinator.handlers.context import MakeRequest
from coordinator.handlers.table import HANDLERS
from coordinator.shell.known_topics import KnownTopics
from springtide.contract.epochs import LeaderEpoch, PartitionEpoch
from springtide.contract.partition_state import PartitionState, TopicState
from springtide.contract.updates import UpdateBatch
from springtide.levels import NEWEST
from springtide.node.authorization import ClientRights
from springtide.node.cluster_view import ClusterView
from springtide.node.producer_ids import OnProducerId
from springtide.node.sharding import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from springtide.wire.errors import ErrorCode
from tests.kit.coordinator.group_desk import GroupDesk
from tests.kit.coordinator.machine_desk import MachineDesk
from tests.kit.springtide.asking import answers_of

SHARDS = 4

M = TypeVar("M", bound=Machine)


class Answering(MachineDesk[M]):
    """A desk that answers who asked."""

    answered: dict[int, Callable[[object], None]]

    def open(self) -> None:
        self.answered = {}
        super().open()

    def send(self, replies: list[RequestReply] | tuple[RequestReply, ...]) -> None:
        super().send(replies)
        for reply in replies:
            self.answered.pop(reply.token)(reply.message)


class AnsweringGroups(Answering[GroupMachine], GroupDesk):
    pass


D = TypeVar("D", bound=Answering[Any])


class DeskShards(Generic[D]):
    """The shards of one topic in a process. errors: what a shard answers in place of its machine."""

    def __init__(self, owned: Iterable[int], make: Callable[[], D]) -> None:
        self.desks = {shard: make() for shard in owned}
        self.errors: dict[int, ErrorCode] = {}

    def owned(self) -> Sequence[int]:
        return tuple(self.desks)

    def submit(self, shard: int, make: MakeRequest, answered: Callable[[object], None]) -> None:
        desk = self.desks.get(shard)
        if desk is None or shard in self.errors:
            answered(self.errors.get(shard, ErrorCode.NOT_COORDINATOR))
            return
        token = desk.token()
        desk.answered[token] = answered
        desk.step(make(token))


class FreshIds:
    """Producer ids, one after another from 1000. count: that are left."""

    def __init__(self) -> None:
        self.count = 1_000_000
        self._next = itertools.count(1000)

    def take(self, on_id: OnProducerId) -> None:
        self.count -= 1
        on_id(next(self._next) if self.count >= 0 else None)


class OffsetsLink:
    """Other coordinators, asked about transactions' offsets. asked: by whom. error: what they answer."""

    def __init__(self) -> None:
        self.asked: list[OffsetsQuestion] = []
        self.error = ErrorCode.NONE

    def ask(self, question: OffsetsQuestion, done: Callable[[ErrorCode], None]) -> None:
        self.asked.append(question)
        done(self.error)


class Coordinator:
    """A coordinator as clients see it, which owns the same shards of groups and of transactions."""

    def __init__(self, *, owned: Iterable[int] = range(SHARDS), **options: Any) -> None:
        owned, group_options = tuple(owned), GroupOptions(**options)
        self.shards = DeskShards(owned, lambda: AnsweringGroups(group_options))
        self.transactions = DeskShards(
            owned, lambda: Answering(lambda: TransactionMachine(TransactionOptions()))
        )
        self.producer_ids = FreshIds()
        self.link = OffsetsLink()
        self.level = NEWEST
        self.is_view_complete = True
        self.view = ClusterView()
        self._known_topics = KnownTopics()
        self._apply(UpdateBatch(full=True))
        suffixes = (f"suffix-{number}" for number in itertools.count(1))
        self.context = SimpleNamespace(
            view=self.view,
            shards=self.shards,
            group_options=group_options,
            transactions=self.transactions,
            transaction_link=self.link,
            producer_ids=self.producer_ids,
            level=lambda: self.level,
            is_view_complete=lambda: self.is_view_complete,
            new_member_suffix=lambda: next(suffixes),
        )
        self.has_topic(GROUPS_TOPIC, SHARDS)
        self.has_topic(TRANSACTIONS_TOPIC, SHARDS, topic_id="t" * 21 + "A")

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
        self._apply(UpdateBatch(topics=(topic,), partitions=states))
        return topic_id

    def lacks_topic(self, topic_id: str) -> None:
        self._apply(UpdateBatch(deleted_topics=(topic_id,)))

    def _apply(self, batch: UpdateBatch) -> None:
        self.view.apply(batch, now_ms=0)
        if (topics := self._known_topics.take(batch)) is not None:
            for desk in self.shards.desks.values():
                desk.step(TopicsKnown(topics))

    def start(
        self,
        key: int,
        version: int,
        client_id: str | None = "client",
        rights: ClientRights | None = None,
        connection_number: int = 1,
        **fields: Any,
    ) -> list[Any]:
        """Send a request; return a list that gets its answer, or None if its connection is closed. rights: of
        its client; None: all."""
        return answers_of(
            HANDLERS[key],
            key,
            version,
            fields,
            context=self.context,
            client_id=client_id,
            rights=rights,
            connection_number=connection_number,
        )

    def ask(self, key: int, version: int, **fields: Any) -> Any:
        """Return what is answered at once."""
        (answer,) = self.start(key, version, **fields)
        return answer

    def wait(self, duration_ms: int) -> None:
        for shards in (self.shards, self.transactions):
            for desk in shards.desks.values():
                desk.wait(duration_ms)
