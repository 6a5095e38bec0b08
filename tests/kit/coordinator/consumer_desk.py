"""A group machine on a desk that knows topics, and members of `consumer` groups."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

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
from coordinator.core.groups.requests import JoinGroupReply, JoinProtocol, SyncGroupReply
from coordinator.core.groups.subscription import read_assignment, write_assignment
from coordinator.core.groups.telling import told_of
from coordinator.core.machine import RequestReply, StepOutcome
from coordinator.core.topic_partitions import PartitionsByTopic, TopicIdPartition, by_topic
from springtide.contract.groups import GroupRebalance
from springtide.wire.errors import ErrorCode
from tests.kit.coordinator.group_desk import GROUP, GroupDesk

REBALANCE_MS = 60_000
NOTHING: PartitionsByTopic = {}


def topic(name: str, partitions: int, number: int = 0) -> KnownTopic:
    """Return a topic. number: of its incarnations under this name."""
    return KnownTopic(name, UUID(int=(number << 64) + int.from_bytes(name.encode())), partitions)


def some(of: KnownTopic, *partitions: int) -> PartitionsByTopic:
    return {of.topic_id: partitions}


def every(*topics: KnownTopic) -> PartitionsByTopic:
    return {one.topic_id: tuple(range(one.partitions)) for one in topics}


def grouped(partitions: Iterable[TopicIdPartition]) -> PartitionsByTopic:
    return by_topic((one.topic_id, (one.partition,)) for one in partitions)


def metadata(*topics: str, owned: Iterable[tuple[str, int]] = (), version: int = 3) -> bytes:
    """Return the metadata of a classic member. owned: what it still consumes, by the topic's name."""
    names = b"".join(len(name).to_bytes(2) + name.encode() for name in topics)
    out = version.to_bytes(2) + len(topics).to_bytes(4) + names + b"\xff\xff\xff\xff"
    if version >= 1:
        out += write_assignment(owned, 0)[2:-4]
    if version >= 2:
        out += b"\xff\xff\xff\xff"
    return out + b"\xff\xff" if version >= 3 else out


class ConsumerDesk(GroupDesk):
    """topics: what the machine is told, again after each opening. is_thinking: questions wait in `questions`;
    else they are answered at once. denied: topics that principals may not DESCRIBE. answered_ms: when each
    request was. assigned: by token, the partitions that an answer names; the names may stand for others
    later. spread: the topics' partitions when a member last assigned them: its successor knows that."""

    def __init__(self, *topics: KnownTopic, options: GroupOptions | None = None) -> None:
        self.topics = {one.name: one for one in topics}
        self.group_configs: dict[str, dict[str, str]] = {}
        self.is_thinking = False
        self.denied: set[tuple[str, str]] = set()
        self.answered_ms: dict[int, int] = {}
        self.assigned: dict[int, PartitionsByTopic] = {}
        self.spread: dict[str, int] = {}
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

    def _carry_out(self, outcome: StepOutcome) -> None:
        for reply in outcome.replies:
            if isinstance(reply.message, SyncGroupReply) and read_assignment(reply.message.assignment):
                self.assigned[reply.token] = self.told(reply.message)
        super()._carry_out(outcome)

    def send(self, replies: Iterable[RequestReply]) -> None:
        replies = list(replies)
        self.answered_ms.update((reply.token, self.now_ms) for reply in replies)
        super().send(replies)

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

    # --- members of the classic protocol -----------------------------------------------------------

    def start_join_classic(
        self,
        member_id: str = "",
        *topics: str,
        owned: PartitionsByTopic = NOTHING,
        name: str = "range",
        **said: Any,
    ) -> int:
        said_of_it = metadata(*(topics or ("t",)), owned=self.named(owned))
        return self.start_join(member_id, protocols=(JoinProtocol(name, said_of_it),), **said)

    def join_classic(
        self, member_id: str = "", *topics: str, owned: PartitionsByTopic = NOTHING, **said: Any
    ) -> JoinGroupReply:
        return self.joined(self.start_join_classic(member_id, *topics, owned=owned, **said))

    def form_classic(self, assignments: dict[str, PartitionsByTopic], **said: Any) -> int:
        """Bring a stable classic group about whose members are assigned these partitions; return its
        generation."""
        tokens = [self.start_join_classic(new_id=name, **said) for name in assignments]
        while not all(token in self.replies for token in tokens):
            self.wait(self.options.initial_delay_ms)
        generation_id = self.joined(tokens[0]).generation_id
        told = {name: write_assignment(self.named(one), 3) for name, one in assignments.items()}
        for name in (*list(told)[1:], next(iter(told))):
            self.start_sync(name, generation_id, told)
        return generation_id

    def sync_classic(self, member_id: str, generation_id: int, **said: Any) -> PartitionsByTopic:
        reply = self.synced(self.start_sync(member_id, generation_id, **said))
        assert reply.error is ErrorCode.NONE, reply.error
        return self.told(reply)

    def told(self, reply: SyncGroupReply) -> PartitionsByTopic:
        """Return what a member is told to consume."""
        assignment = read_assignment(reply.assignment)
        assert assignment is not None
        return by_topic((self.topics[name].topic_id, (number,)) for name, number in assignment.partitions)

    def named(self, partitions: PartitionsByTopic) -> list[tuple[str, int]]:
        names = {one.topic_id: one.name for one in self.topics.values()}
        known = ((names[topic_id], own) for topic_id, own in partitions.items() if topic_id in names)
        return [(name, partition) for name, own in known for partition in own]

    # --- the group ---------------------------------------------------------------------------------

    @property
    def group(self) -> ConsumerGroup:
        group = self.machine.registry.consumers.store.latest(GROUP)
        assert group is not None
        return group

    def member(self, member_id: str) -> Member:
        return self.group.members[member_id]

    def target(self, member_id: str) -> PartitionsByTopic:
        return self.member(member_id).target

    def assigned_to(self, member_id: str) -> PartitionsByTopic:
        return by_topic(self.member(member_id).current.assigned.items())

    def revoking(self, member_id: str) -> PartitionsByTopic:
        return by_topic(self.member(member_id).current.revoking.items())

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
