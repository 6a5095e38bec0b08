"""Honest clients of a `consumer` group: what they consume is what they were told, and they say so."""

from __future__ import annotations

from itertools import count
from typing import Any

from coordinator.core.groups.consumer.requests import JOINING, LEAVING, ConsumerHeartbeatReply
from coordinator.core.groups.consumer.state import AWAY
from coordinator.core.topic_partitions import PartitionsByTopic, TopicIdPartition, each_partition
from springtide.wire.errors import ErrorCode
from tests.kit.coordinator.consumer_desk import REBALANCE_MS, ConsumerDesk, grouped

BEAT_MS = 5_000


class ConsumerClient:
    """A client that makes up its member ids (version 1).

    owned: what it consumes. told: what it was last told that it has. shown: what it last said that it
    consumes, since that changed. It says so again only then and after an answer that is none, as Java's does.
    giving_up: of that, what it was asked to give up and has not yet. told_ms: when it was asked. is_slow: it
    takes its time over that.
    asked: the token of a heartbeat without an answer. must_say_all: it does not know what got through.
    is_terse: it repeats what was not answered as it was, as librdkafka does; Java's client says all again.
    was_sent_ms, last_ok_ms: when it sent its last heartbeat, and the last one that was answered with success.
    is_down: it is not there.
    """

    def __init__(
        self, desk: ConsumerDesk, name: str, *, is_static: bool = False, is_terse: bool = False
    ) -> None:
        self.desk = desk
        self.name = self.principal = name
        self.instance_id = f"i-{name}" if is_static else None
        self.numbers = count(1)
        self.topics: tuple[str, ...] = ("t", "u")
        self.pattern = ""
        self.assignor: str | None = None
        self.is_slow = False
        self.is_down = False
        self.is_terse = is_terse
        self.start()

    def start(self) -> None:
        """Begin as a new process."""
        self.is_down = False
        self.member_id = f"{self.name}-{next(self.numbers)}"
        self.asked: int | None = None
        self.was_sent_ms = 0
        self.old_requests: list[tuple[int, dict[str, Any]]] = []
        self._forget()

    def _forget(self) -> None:
        self.epoch = JOINING
        self.owned: set[TopicIdPartition] = set()
        self.told: set[TopicIdPartition] | None = None
        self.shown: PartitionsByTopic | None = None
        self._shown_before: PartitionsByTopic | None = None
        self.giving_up: set[TopicIdPartition] = set()
        self.told_ms = 0
        self.last_ok_ms = 0
        self.must_say_all = True

    @property
    def believes(self) -> set[TopicIdPartition]:
        """Return what it consumes: nothing once its session may be over, or the time within which it was to
        give something up."""
        now_ms = self.desk.now_ms
        if self.is_down or now_ms - self.last_ok_ms >= self.desk.options.consumer_session_ms:
            return set()
        is_over = bool(self.giving_up) and now_ms - self.told_ms >= REBALANCE_MS
        return set() if is_over else set(self.owned)

    def act(self, *, twice: bool = False, is_lost: bool = False) -> None:
        """Take an answer in, or send a heartbeat if one is due. is_lost: the answer to that."""
        if self.is_down:
            self.start()
        if self.asked is not None and self.asked in self.desk.replies:
            self.hear(self.desk.replies[self.asked])
        if self.asked is not None:
            return
        if self.last_ok_ms and not self.believes and self.owned:
            self._forget()
        if not self.is_slow and self.giving_up:
            self.owned -= self.giving_up
            self.giving_up = set()
        self._shown_before = self.shown
        said = self._said()
        self.old_requests.append((self.epoch, said))
        self.was_sent_ms = self.desk.now_ms
        self.asked = self.desk.start_beat(self.member_id, self.epoch, **said)
        if twice:
            self.desk.start_beat(self.member_id, self.epoch, **said)
        if is_lost:
            self.lose_the_answer()
        elif self.asked in self.desk.replies:
            self.hear(self.desk.replies[self.asked])

    def _said(self) -> dict[str, Any]:
        said: dict[str, Any] = {
            "instance_id": self.instance_id,
            "principal": self.principal,
            "topics": () if self.pattern else self.topics,
            "pattern": self.pattern,
            "assignor": self.assignor,
        }
        if self.must_say_all:
            said["rebalance_timeout_ms"] = REBALANCE_MS
        owned = grouped(self.owned)
        if self.must_say_all or owned != self.shown:
            said["owned"] = self.shown = owned
        return said

    def hear(self, reply: object) -> None:
        self.asked = None
        if not isinstance(reply, ConsumerHeartbeatReply):
            self.must_say_all = True
            return
        if reply.error in (
            ErrorCode.FENCED_MEMBER_EPOCH,
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.GROUP_ID_NOT_FOUND,
        ):
            self._forget()
        elif reply.error is not ErrorCode.NONE:
            self.must_say_all = True
        else:
            self.must_say_all = False
            self.epoch = reply.member_epoch
            self.last_ok_ms = self.was_sent_ms
            if reply.assigned is not None:
                self._take({*each_partition(reply.assigned)})

    def _take(self, assigned: set[TopicIdPartition]) -> None:
        if not self.giving_up and self.owned - assigned:
            self.told_ms = self.desk.now_ms
        self.giving_up = self.owned - assigned
        self.owned |= assigned
        if assigned != self.told:
            self.told, self.shown = assigned, None

    def lose_the_answer(self) -> None:
        self.asked = None
        self.shown = self._shown_before
        self.must_say_all |= not self.is_terse

    def repeat_an_old_request(self) -> None:
        """Let a request come again that was sent at an earlier epoch. (One of the present epoch that comes
        late can't be told from a new one: the protocol's weakness.)"""
        late = [
            (epoch, said) for epoch, said in self.old_requests if 0 < epoch < self.epoch and "owned" in said
        ]
        if late:
            self.desk.start_beat(self.member_id, late[-1][0], **late[-1][1])

    def crash(self) -> None:
        self.is_down = True

    def leave(self, *, for_a_while: bool = False) -> None:
        if not self.is_down:
            epoch = AWAY if for_a_while and self.instance_id is not None else LEAVING
            self.desk.start_beat(self.member_id, epoch, instance_id=self.instance_id)
            self.crash()
