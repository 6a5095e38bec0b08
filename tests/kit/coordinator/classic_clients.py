"""Honest consumers of the classic protocol that may meet members of the other one: eager ones, which give all
up before they join, and cooperative ones, which keep what they have until they are told otherwise (KIP-429).

The leader of a group of the classic protocol gives no partition to one member that another one still has.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from coordinator.core.groups.requests import (
    JoinedMember,
    JoinGroupReply,
    JoinProtocol,
    Leaver,
    MemberHeartbeat,
    MemberHeartbeatReply,
    SyncGroupReply,
)
from coordinator.core.groups.subscription import read_subscription, write_assignment
from coordinator.core.topic_partitions import TopicIdPartition, each_partition
from springtide.wire.errors import ErrorCode
from springtide.wire.questions import Place
from tests.kit.coordinator.consumer_desk import REBALANCE_MS, ConsumerDesk, grouped, metadata
from tests.kit.coordinator.group_desk import GROUP, SESSION_MS

JOIN, SYNC, STABLE = "join", "sync", "stable"


class ClassicClient:
    """owned: what it consumes. giving_up: of that, what it has to give up and has not yet; is_slow: it takes
    its time over that. step: what it sends next. called_ms: since when it has owed a JoinGroup or SyncGroup.
    asked: the token of a request without an answer. was_sent_ms, last_ok_ms: when its last request was sent,
    and from when on it has a session to go on. watched: the partitions of topics, as the leader
    last assigned them. assignor: of the other protocol."""

    def __init__(
        self, desk: ConsumerDesk, name: str, *, is_static: bool = False, is_eager: bool = False
    ) -> None:
        self.desk = desk
        self.name = name
        self.instance_id = f"i-{name}" if is_static else None
        self.is_eager = is_eager
        self.numbers = count(1)
        self.topics: tuple[str, ...] = ("t", "u")
        self.assignor: str | None = None
        self.is_slow = False
        self.start()

    def start(self) -> None:
        """Begin as a new process."""
        self.is_down = False
        self.asked: int | None = None
        self.was_sent_ms = 0
        self._forget()

    def _forget(self) -> None:
        self.member_id = ""
        self._lose()

    def _lose(self) -> None:
        """Drop its partitions, and join again."""
        self.epoch = -1
        self.owned: set[TopicIdPartition] = set()
        self.giving_up: set[TopicIdPartition] = set()
        self.step = JOIN
        self.called_ms: int | None = None
        self.last_ok_ms = 0
        self.said: tuple[str, ...] = ()
        self.watched: object = None
        self.assignments: dict[str, bytes] = {}

    @property
    def believes(self) -> set[TopicIdPartition]:
        """Return what it consumes: nothing once its session may be over, or the time for its next step. The
        rebalance may have begun a session before it heard of it. A JoinGroup that waits needs no session."""
        now_ms = self.desk.now_ms
        is_joining = self.step == JOIN and self.asked is not None and self.asked not in self.desk.replies
        is_silent = not is_joining and now_ms - self.last_ok_ms >= SESSION_MS
        is_late = self.called_ms is not None and now_ms - self.called_ms >= REBALANCE_MS - SESSION_MS
        topics = {one.topic_id for one in self.desk.topics.values()}
        found = {one for one in self.owned if one.topic_id in topics}
        return set() if self.is_down or is_silent or is_late else found

    def act(self, *, twice: bool = False) -> None:
        """Take an answer in, or send what is next."""
        if self.is_down:
            self.start()
        self._hear()
        if self.asked is not None:
            return
        if self.owned and not self.believes:
            self._lose()
        if not self.is_slow:
            self.owned -= self.giving_up
            self.giving_up = set()
        is_leader_late = self.watched is not None and self.watched != self._counts()
        if self.step == STABLE and (is_leader_late or self.said != self.topics):
            self._call()
            return
        for _ in range(1 + twice):
            self._send()
        self._hear()

    def _send(self) -> None:
        desk = self.desk
        if self.step == JOIN and not self.giving_up:
            self.said, self.called_ms = self.topics, None
            name = "range" if self.is_eager else "cooperative-sticky"
            said = metadata(*self.topics, owned=desk.named(grouped(self.owned)))
            token = desk.start_join(
                self.member_id,
                new_id=f"{self.name}-{next(self.numbers)}",
                instance_id=self.instance_id,
                protocols=(JoinProtocol(name, said),),
                requires_member_id=True,
            )
        elif self.step == SYNC:
            token = desk.start_sync(
                self.member_id, self.epoch, self.assignments, instance_id=self.instance_id
            )
        elif self.epoch >= 0:
            request = MemberHeartbeat(
                token=desk.token(),
                group_id=GROUP,
                generation_id=self.epoch,
                member_id=self.member_id,
                instance_id=self.instance_id,
            )
            token = desk.ask(request)
        else:
            return
        self.asked, self.was_sent_ms = token, desk.now_ms

    # --- answers -----------------------------------------------------------------------------------

    def _hear(self) -> None:
        if self.asked is None or self.asked not in self.desk.replies:
            return
        token, self.asked = self.asked, None
        reply, answered_ms = self.desk.replies[token], self.desk.answered_ms[token]
        match reply:
            case JoinGroupReply(error=ErrorCode.NONE):
                self.member_id, self.epoch = reply.member_id, reply.generation_id
                self.step, self.last_ok_ms, self.called_ms = SYNC, answered_ms, answered_ms
                leads = reply.leader == reply.member_id
                is_to_assign = leads and not reply.skip_assignment
                self.assignments = self._spread(reply.members) if is_to_assign else {}
                self.watched = self.desk.spread if leads else None
            case JoinGroupReply(error=ErrorCode.MEMBER_ID_REQUIRED):
                self.member_id = reply.member_id
            case SyncGroupReply(error=ErrorCode.NONE):
                self.last_ok_ms = answered_ms
                self._take({*each_partition(self.desk.assigned[token])})
            case MemberHeartbeatReply(error=ErrorCode.NONE):
                self.last_ok_ms = self.was_sent_ms
            case ErrorCode():  # of the runtime
                self.step = JOIN if self.step == SYNC else self.step
            case JoinGroupReply() | SyncGroupReply() | MemberHeartbeatReply():
                self._heed(reply.error)

    def _heed(self, error: ErrorCode) -> None:
        match error:
            case ErrorCode.UNKNOWN_MEMBER_ID | ErrorCode.FENCED_INSTANCE_ID:
                self._forget()
            case ErrorCode.ILLEGAL_GENERATION:
                self._lose()
            case ErrorCode.REBALANCE_IN_PROGRESS if self.step != JOIN:
                if self.step == STABLE:
                    self.last_ok_ms = self.was_sent_ms
                self._call()

    def _call(self) -> None:
        self.step = JOIN
        if self.called_ms is None:
            self.called_ms = self.desk.now_ms
        if self.is_eager:
            self.giving_up = set(self.owned)

    def _take(self, assigned: set[TopicIdPartition]) -> None:
        self.giving_up = self.owned - assigned
        self.owned |= assigned
        self.step, self.called_ms = STABLE, None
        if self.giving_up:
            self.step, self.called_ms = JOIN, self.desk.now_ms

    def _counts(self) -> dict[str, int]:
        return {one.name: one.partitions for one in self.desk.topics.values()}

    def _spread(self, members: Sequence[JoinedMember]) -> dict[str, bytes]:
        """Assign: what members have they keep, up to an equal share if they subscribe the same; the rest goes
        to others once it is free."""
        self.desk.spread = self._counts()
        subscriptions = {one.member_id: read_subscription(one.metadata) for one in members}
        known = {name: one for name, one in subscriptions.items() if one is not None}
        owners = {partition: name for name, one in known.items() for partition in one.owned}
        names = {name for said in known.values() for name in said.topics}
        topics = [one for one in self.desk.topics.values() if one.name in names]
        shared = [(one.name, number) for one in topics for number in range(one.partitions)]
        is_equal = len({said.topics for said in known.values()}) == 1
        quota, extras = divmod(len(shared), len(known)) if is_equal else (len(shared), 0)
        mine: dict[str, list[Place]] = {name: [] for name in known}
        for one in shared:
            owner = owners.get(one)
            if owner is None or one[0] not in known[owner].topics:
                continue
            is_extra = len(mine[owner]) == quota
            if len(mine[owner]) < quota or (is_extra and extras > 0):
                mine[owner].append(one)
                extras -= is_extra
        for one in shared:
            if one not in owners:
                speakers = [name for name, said in known.items() if one[0] in said.topics]
                mine[min(speakers, key=lambda name: (len(mine[name]), name))].append(one)
        return {name: write_assignment(own, 3) for name, own in mine.items()}

    # --- what befalls it ---------------------------------------------------------------------------

    def lose_the_answer(self) -> None:
        self.asked = None

    def repeat_an_old_request(self) -> None:
        """A JoinGroup that comes late can't be told from a new one: the protocol's weakness."""

    def crash(self) -> None:
        self.is_down = True

    def leave(self, *, for_a_while: bool = False) -> None:
        """Leave, but a static member: it closes without a word."""
        if not self.is_down and self.member_id and self.instance_id is None and not for_a_while:
            self.desk.start_leave(Leaver(self.member_id))
        self.crash()
