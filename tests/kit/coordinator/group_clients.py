"""Honest consumers of a group, and what they were told.

A client does one thing of the protocol at a time, when it is told to: take an answer, join, sync, send a
heartbeat. A leader spreads PARTITIONS over the members, in assignments that name this very computation.
"""

from __future__ import annotations

from collections.abc import Iterable

from coordinator.core.groups.registry import SessionTimer
from coordinator.core.groups.requests import (
    JoinGroupReply,
    Leaver,
    OffsetPlace,
    OffsetToCommit,
    SyncGroup,
    SyncGroupReply,
)
from coordinator.core.machine import RequestReply, TimerDue
from springtide.wire.errors import ErrorCode
from tests.kit.coordinator.group_desk import GROUP, SESSION_MS, GroupDesk

PARTITIONS = 4
GOES_ON = (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)
"""What a member is told that remains one."""
GROUP_KEY_TYPE = b"\x00\x02"


class WatchedDesk(GroupDesk):
    """Checks what members are told: it is committed, one generation has one computation, and a partition one
    owner in it.

    told: computation and owners by the group's life (a deleted group begins again) and generation.
    answered_ms: when each member was last answered. Until its session's timeout after that it is not given up
    for its silence, however long the answer took: it can't have known that it might go on.
    """

    def __init__(self) -> None:
        self.asked: dict[int, SyncGroup] = {}
        self.answered_ms: dict[str, int] = {}
        self.told: dict[tuple[int, int], tuple[str, dict[str, str]]] = {}
        super().__init__()

    def step(self, event: object) -> None:
        if isinstance(event, SyncGroup):
            self.asked[event.token] = event
        key = event.key if isinstance(event, TimerDue) else None
        silent = key.member_id if isinstance(key, SessionTimer) else ""
        was_member = self._is_member(silent)
        super().step(event)
        if was_member and not self._is_member(silent):
            since_ms = self.now_ms - self.answered_ms.get(silent, -SESSION_MS)
            assert since_ms >= SESSION_MS, f"{silent} was given up {since_ms} ms after it was answered"

    def _is_member(self, member_id: str) -> bool:
        group = self.machine.registry.live.get(GROUP)
        return group is not None and member_id in group.members

    def send(self, replies: Iterable[RequestReply]) -> None:
        replies = list(replies)
        for reply in replies:
            match reply.message:
                case JoinGroupReply(error=error, member_id=member_id) if error in GOES_ON:
                    self.answered_ms[member_id] = self.now_ms
                case SyncGroupReply(error=error, assignment=assignment) if error in GOES_ON:
                    sync = self.asked[reply.token]
                    self.answered_ms[sync.member_id] = self.now_ms
                    if assignment:
                        self._tell(sync, assignment)
        super().send(replies)

    @property
    def lives(self) -> int:
        """Return how often the group has been deleted."""
        return sum(record.value is None and record.key[:2] == GROUP_KEY_TYPE for record in self.records)

    @property
    def told_generation(self) -> int:
        """Return the latest generation of this life of the group that a member was told; -1: none."""
        lives = self.lives
        return max((generation for life, generation in self.told if life == lives), default=-1)

    def _tell(self, request: SyncGroup, assignment: bytes) -> None:
        stored = self.machine.registry.store.groups.committed(request.group_id)
        assert stored is not None
        kept = [one.assignment for one in stored.members if one.member_id == request.member_id]
        assert (stored.generation_id, kept) == (request.generation_id, [assignment]), "told and not committed"
        computation, _, partitions = assignment.decode().partition(":")
        generation = (self.lives, request.generation_id)
        seat = request.instance_id or request.member_id
        first, owners = self.told.setdefault(generation, (computation, {}))
        assert computation == first, f"generation {generation} was assigned twice"
        for partition in filter(None, partitions.split(",")):
            owner = owners.setdefault(partition, seat)
            assert owner == seat, f"{partition} has two owners in generation {generation}"


class GroupClient:
    """is_owner: it has its assignment of the generation. was_fenced: another process took its instance
    over. fenced: member ids of its earlier processes that can't come back: a later one has its assignment."""

    def __init__(self, desk: GroupDesk, name: str, *, instance_id: str | None = None) -> None:
        self.desk = desk
        self.name = name
        self.instance_id = instance_id
        self.ids = 0
        self.computations = 0
        self.member_id = ""
        self.fenced: list[str] = []
        self._former: list[str] = []
        self.restart()

    def restart(self) -> None:
        """Begin anew, as a process does that knows its instance id at most."""
        if self.member_id:
            self._former.append(self.member_id)
        self.was_fenced = False
        self.joining: int | None = None
        self.is_parked = False
        self.syncing: int | None = None
        self.assignments: dict[str, bytes] = {}
        self.forget()

    def forget(self) -> None:
        self.member_id = ""
        self.generation_id = -1
        self.must_join = True
        self.is_owner = False

    def act(self) -> None:
        """Do what is next."""
        if self.was_fenced:
            return
        if self.joining is not None:
            self._take_join()
        elif self.syncing is not None:
            self._take_sync()
        elif self.must_join:
            self._join()
        elif not self.is_owner:
            self.syncing = self.desk.start_sync(
                self.member_id, self.generation_id, self.assignments, instance_id=self.instance_id
            )
        else:
            self._heed(self.desk.heartbeat(self.member_id, self.generation_id, self.instance_id))

    def _join(self) -> None:
        self.ids += 1
        self.joining = self.desk.start_join(
            self.member_id,
            new_id=f"{self.name}-{self.ids}",
            instance_id=self.instance_id,
            requires_member_id=True,
        )
        self.is_parked = self.joining not in self.desk.replies

    def _take_join(self) -> None:
        reply = self.desk.replies.get(self.joining or 0)
        if reply is None:
            return
        self.joining = None
        if isinstance(reply, ErrorCode):
            return
        assert isinstance(reply, JoinGroupReply)
        if reply.error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = reply.member_id
        elif reply.error is not ErrorCode.NONE:
            is_evicted = self.is_parked and reply.error is ErrorCode.UNKNOWN_MEMBER_ID
            assert not is_evicted or self.generation_id < 0, "a member was evicted while it waited"
            self._heed(reply.error)
        else:
            self.member_id, self.generation_id = reply.member_id, reply.generation_id
            self.must_join = self.is_owner = False
            self.assignments = {} if reply.skip_assignment else self._spread(reply)

    def _spread(self, reply: JoinGroupReply) -> dict[str, bytes]:
        self.computations += 1
        members = [member.member_id for member in reply.members]
        shares = (range(place, PARTITIONS, len(members)) for place in range(len(members)))
        return {
            member: f"{self.name}-{self.computations}:{','.join(map(str, share))}".encode()
            for member, share in zip(members, shares, strict=True)
        }

    def _take_sync(self) -> None:
        reply = self.desk.replies.get(self.syncing or 0)
        if reply is None:
            return
        self.syncing = None
        if isinstance(reply, ErrorCode):
            self.must_join = True
            return
        assert isinstance(reply, SyncGroupReply)
        if reply.error is ErrorCode.NONE:
            self.is_owner = True
            self.fenced += [former for former in self._former if former != self.member_id]
            self._former = []
        else:
            self._heed(reply.error)

    def _heed(self, error: ErrorCode) -> None:
        match error:
            case ErrorCode.NONE:
                pass
            case ErrorCode.FENCED_INSTANCE_ID:
                self.was_fenced = True
            case ErrorCode.REBALANCE_IN_PROGRESS:
                self.must_join = True
            case ErrorCode.ILLEGAL_GENERATION:
                self.must_join, self.is_owner, self.generation_id = True, False, -1
            case _:
                assert error is ErrorCode.UNKNOWN_MEMBER_ID, error
                self.forget()

    def leave(self) -> None:
        if self.member_id and self.joining is None and self.syncing is None:
            self.desk.start_leave(Leaver(self.member_id, self.instance_id))
            self.forget()

    def start_commit(self, place: OffsetPlace, offset: int) -> int:
        return self.desk.start_commit(
            self.member_id, self.generation_id, OffsetToCommit(place, offset), instance_id=self.instance_id
        )
