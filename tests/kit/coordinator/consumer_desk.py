"""A group machine on a desk that knows topics, and members of `consumer` groups."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from coordinator.core.consumer_group_records import Partitions, TopicPartition
from coordinator.core.groups.consumer.assigning import KnownTopic, TargetQuestion
from coordinator.core.groups.consumer.groups import LiveGroup
from coordinator.core.groups.consumer.patterns import Pattern, PatternQuestion
from coordinator.core.groups.consumer.requests import (
    ConsumerHeartbeat,
    ConsumerHeartbeatReply,
    DescribeConsumerGroups,
    DescribeConsumerGroupsReply,
    DescribedConsumerGroup,
    TopicsKnown,
)
from coordinator.core.groups.consumer.state import ConsumerGroup, Member
from coordinator.core.groups.consumer.targets import answer_to
from coordinator.core.groups.options import GroupOptions
from coordinator.core.groups.telling import told_of
from springtide.contract.groups import GroupRebalance
from springtide.wire.errors import ErrorCode
from tests.kit.coordinator.group_desk import GROUP, GroupDesk

REBALANCE_MS = 60_000
NOTHING: Partitions = frozenset()


def topic(name: str, partitions: int, number: int = 0) -> KnownTopic:
    """Return a topic. number: of its incarnations under this name."""
    return KnownTopic(name, UUID(int=(number << 64) + int.from_bytes(name.encode())), partitions)


def some(of: KnownTopic, *partitions: int) -> Partitions:
    return frozenset(TopicPartition(of.topic_id, partition) for partition in partitions)


class ConsumerDesk(GroupDesk):
    """topics: what the machine is told, again after each opening. is_thinking: questions wait in `questions`;
    else they are answered at once. denied: topics that principals may not DESCRIBE."""

    def __init__(self, *topics: KnownTopic, options: GroupOptions | None = None) -> None:
        self.topics = {one.name: one for one in topics}
        self.group_configs: dict[str, dict[str, str]] = {}
        self.is_thinking = False
        self.denied: set[tuple[str, str]] = set()
        super().__init__(options)

    def open(self) -> None:
        super().open()
        self.know(*self.topics.values())

    def step(self, event: object) -> None:
        super().step(event)
        while self.questions and not self.is_thinking:
            question = self.questions.pop(0)
            self.hear(question, self.answer_of(question))

    def answer_of(self, question: TargetQuestion | PatternQuestion) -> object:
        """Return what the shell would answer."""
        if isinstance(question, TargetQuestion):
            return answer_to(question)
        return {
            pattern: tuple(
                name
                for name in filter(Pattern(pattern).matches, question.names)
                if all((one.principal, name) not in self.denied for one in who)
            )
            for pattern, who in question.asked.items()
        }

    def know(self, *topics: KnownTopic) -> None:
        self.topics = {one.name: one for one in topics}
        self.step(TopicsKnown(self.topics, self.group_configs))

    def start_beat(self, member_id: str, epoch: int, **said: Any) -> int:
        request = ConsumerHeartbeat(
            token=self.token(),
            group_id=GROUP,
            member_id=member_id,
            member_epoch=epoch,
            client_id="client",
            client_host="/10.0.0.1",
            **said,
        )
        return self.ask(request)

    def beat(self, member_id: str, epoch: int, **said: Any) -> ConsumerHeartbeatReply:
        return self.answer(self.start_beat(member_id, epoch, **said), ConsumerHeartbeatReply)

    def error(self, member_id: str, epoch: int, **said: Any) -> ErrorCode:
        return self.beat(member_id, epoch, **said).error

    def start_join_consumers(self, member_id: str, *topics: str, **said: Any) -> int:
        return self.start_beat(
            member_id,
            0,
            owned=NOTHING,
            **{"topics": topics or ("t",), "rebalance_timeout_ms": REBALANCE_MS, **said},
        )

    def join(self, member_id: str, *topics: str, **said: Any) -> ConsumerHeartbeatReply:
        token = self.start_join_consumers(member_id, *topics, **said)
        return self.answer(token, ConsumerHeartbeatReply)

    @property
    def group(self) -> ConsumerGroup:
        group = self.machine.registry.consumers.store.latest(GROUP)
        assert group is not None
        return group

    def member(self, member_id: str) -> Member:
        return self.group.members[member_id]

    @property
    def live(self) -> LiveGroup:
        return self.machine.registry.consumers.live_group(GROUP)

    @property
    def rebalance(self) -> GroupRebalance:
        """Return the last rebalance as the controller is told of it."""
        last = self.machine.registry.history.last(GROUP)
        assert last is not None
        return told_of(self.machine.registry, last)

    def described(self) -> DescribedConsumerGroup:
        request = DescribeConsumerGroups(token=self.token(), group_ids=(GROUP,))
        (group,) = self.answer(self.ask(request), DescribeConsumerGroupsReply).groups
        return group
