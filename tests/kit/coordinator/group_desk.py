"""A group machine on a desk: its clients, its clock, and a log that commits at once unless it is held.

The desk does what a shard's runtime does (coordinator/core/shard.py): it applies records at once, answers
when they are committed, undoes what is refused. `fail_over` goes on with a new machine and what the log
holds.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import TypeVar

from coordinator.core.groups.machine import GroupMachine
from coordinator.core.groups.options import GroupOptions
from coordinator.core.groups.requests import (
    CommitOffsets,
    DeleteGroups,
    DeleteGroupsReply,
    DeleteOffsets,
    DescribedGroup,
    DescribeGroups,
    DescribeGroupsReply,
    FetchOffsets,
    FetchOffsetsReply,
    GroupPlaces,
    JoinGroup,
    JoinGroupReply,
    JoinProtocol,
    LeaveGroup,
    LeaveGroupReply,
    Leaver,
    ListGroups,
    ListGroupsReply,
    MemberHeartbeat,
    MemberHeartbeatReply,
    OffsetPlace,
    OffsetsReply,
    OffsetToCommit,
    Request,
    SyncGroup,
    SyncGroupReply,
)
from coordinator.core.machine import RequestReply, ShardRecord, StepOutcome, TimerDue
from springtide.wire.errors import ErrorCode

R = TypeVar("R")

GROUP = "g"
WALL_MS = 1_700_000_000_000
SESSION_MS = 10_000
REBALANCE_MS = 60_000


def subscription(*topics: str, rest: bytes = b"") -> bytes:
    """Return a consumer's metadata: version 0, its topics, and what is the assignor's."""
    names = b"".join(len(topic).to_bytes(2) + topic.encode() for topic in topics)
    return bytes(2) + len(topics).to_bytes(4) + names + rest


RANGE = (JoinProtocol("range", subscription("t")),)


@dataclass(slots=True)
class InFlight:
    first_offset: int
    records: list[ShardRecord] = field(default_factory=list)
    replies: list[RequestReply] = field(default_factory=list)
    works: list[Hashable] = field(default_factory=list)

    def hold(self, outcome: StepOutcome) -> None:
        """Let what the outcome has beside its records wait for the batch."""
        self.replies += outcome.replies
        if outcome.work is not None:
            self.works.append(outcome.work)


class GroupDesk:
    """records: what the log holds, committed. replies: by token; an ErrorCode where the runtime answered.
    is_holding: batches stay in flight until `commit` or `refuse`."""

    def __init__(
        self, options: GroupOptions | None = None, machine: type[GroupMachine] = GroupMachine
    ) -> None:
        self.options = options or GroupOptions()
        self.new_machine = machine
        self.records: list[ShardRecord] = []
        self.in_flight: list[InFlight] = []
        self.is_holding = False
        self.replies: dict[int, object] = {}
        self.timers: dict[Hashable, int] = {}
        self.now_ms = 0
        self.do_clocks_agree = True
        self.tokens = 0
        self.open()

    @property
    def wall_ms(self) -> int:
        return WALL_MS + self.now_ms

    # --- the runtime -------------------------------------------------------------------------------

    def open(self) -> None:
        self.machine = self.new_machine(self.options)
        for offset, record in enumerate(self.records):
            self.machine.apply(record, offset)
        self.machine.committed(len(self.records))
        self._carry_out(self.machine.opened(self.now_ms, self.wall_ms))

    def step(self, event: object) -> None:
        self._carry_out(self.machine.step(event, self.now_ms, self.wall_ms))

    def _carry_out(self, outcome: StepOutcome) -> None:
        for timer in outcome.timers:
            self.timers.pop(timer.key, None)
            if timer.at_ms is not None:
                self.timers[timer.key] = timer.at_ms
        if outcome.records:
            first = len(self.records) + sum(len(batch.records) for batch in self.in_flight)
            for offset, record in enumerate(outcome.records, first):
                self.machine.apply(record, offset)
            self.in_flight.append(InFlight(first, list(outcome.records)))
            self.in_flight[-1].hold(outcome)
            if not self.is_holding:
                self.commit()
        elif outcome.waits and self.in_flight:
            self.in_flight[-1].hold(outcome)
        else:
            self.send(outcome.replies)

    def send(self, replies: list[RequestReply] | tuple[RequestReply, ...]) -> None:
        for reply in replies:
            assert reply.token not in self.replies, "a request is answered once"
            self.replies[reply.token] = reply.message

    def commit(self, batches: int | None = None) -> None:
        """The oldest batches in flight are committed, all unless it is said how many."""
        for batch in self.in_flight[:batches]:
            self.in_flight.remove(batch)
            self.records += batch.records
            self.machine.committed(len(self.records))
            self.send(batch.replies)
            for work in batch.works:
                self._carry_out(self.machine.written(work, self.now_ms, self.wall_ms))

    def refuse(self, error: ErrorCode = ErrorCode.NOT_ENOUGH_REPLICAS) -> None:
        """All in flight is refused."""
        refused, self.in_flight = self.in_flight, []
        if refused:
            self.machine.undo(refused[0].first_offset)
        for batch in refused:
            self.send([RequestReply(reply.token, error) for reply in batch.replies])
        for batch in refused:
            for work in batch.works:
                self._carry_out(self.machine.refused(work, error, self.now_ms, self.wall_ms))

    def fail_over(self, *, written: int = 0) -> None:
        """Let another process take the shard over. `written` of the batches in flight reached the log."""
        waiting = [reply.token for batch in self.in_flight for reply in batch.replies]
        for token in (*self.machine.closed(), *waiting):
            self.send([RequestReply(token, ErrorCode.NOT_COORDINATOR)])
        for batch in self.in_flight[:written]:
            self.records += batch.records
        self.in_flight.clear()
        self.timers.clear()
        self.open()

    def wait(self, duration_ms: int) -> None:
        """Let time pass; timers fire in order."""
        until = self.now_ms + duration_ms
        while due := [(at_ms, number) for number, at_ms in enumerate(self.timers.values()) if at_ms <= until]:
            at_ms, number = min(due)
            key = list(self.timers)[number]
            del self.timers[key]
            self.now_ms = max(self.now_ms, at_ms)
            self.step(TimerDue(key, self.wall_ms if self.do_clocks_agree else None))
        self.now_ms = until

    # --- clients -----------------------------------------------------------------------------------

    def ask(self, request: Request) -> int:
        self.step(request)
        return request.token

    def answer(self, token: int, kind: type[R]) -> R:
        message = self.replies[token]
        assert isinstance(message, kind), message
        return message

    def token(self) -> int:
        self.tokens += 1
        return self.tokens

    def start_join(
        self,
        member_id: str = "",
        *,
        new_id: str = "",
        instance_id: str | None = None,
        protocols: tuple[JoinProtocol, ...] = RANGE,
        protocol_type: str = "consumer",
        group_id: str = GROUP,
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        requires_member_id: bool = False,
        may_skip: bool = True,
    ) -> int:
        """Send a JoinGroup; return its token. new_id: of a member without one, else it is made up."""
        token = self.token()
        return self.ask(
            JoinGroup(
                token=token,
                group_id=group_id,
                member_id=member_id,
                new_member_id=new_id or f"m-{token}",
                instance_id=instance_id,
                client_id="client",
                client_host="/10.0.0.1",
                session_timeout_ms=session_ms,
                rebalance_timeout_ms=rebalance_ms,
                protocol_type=protocol_type,
                protocols=protocols,
                requires_member_id=requires_member_id,
                may_skip_assignment=may_skip,
            )
        )

    def joined(self, token: int) -> JoinGroupReply:
        return self.answer(token, JoinGroupReply)

    def start_sync(
        self,
        member_id: str,
        generation_id: int,
        assignments: dict[str, bytes] | None = None,
        *,
        instance_id: str | None = None,
        protocol_type: str | None = None,
        protocol: str | None = None,
    ) -> int:
        return self.ask(
            SyncGroup(
                token=self.token(),
                group_id=GROUP,
                generation_id=generation_id,
                member_id=member_id,
                instance_id=instance_id,
                protocol_type=protocol_type,
                protocol=protocol,
                assignments=tuple((assignments or {}).items()),
            )
        )

    def synced(self, token: int) -> SyncGroupReply:
        return self.answer(token, SyncGroupReply)

    def heartbeat(self, member_id: str, generation_id: int, instance_id: str | None = None) -> ErrorCode:
        request = MemberHeartbeat(
            token=self.token(),
            group_id=GROUP,
            generation_id=generation_id,
            member_id=member_id,
            instance_id=instance_id,
        )
        return self.answer(self.ask(request), MemberHeartbeatReply).error

    def start_leave(self, *leavers: Leaver) -> int:
        return self.ask(LeaveGroup(token=self.token(), group_id=GROUP, leavers=leavers))

    def leave(self, *leavers: Leaver) -> list[ErrorCode]:
        token = self.start_leave(*leavers)
        return [error for _, error in self.answer(token, LeaveGroupReply).errors]

    def start_commit(
        self, member_id: str = "", generation_id: int = -1, *offsets: OffsetToCommit, **fields: object
    ) -> int:
        values = {"group_id": GROUP, "instance_id": None, "retention_ms": None} | fields
        request = CommitOffsets(
            token=self.token(),
            member_id=member_id,
            generation_id=generation_id,
            offsets=offsets or (OffsetToCommit(OffsetPlace("t", 0), 7),),
            **values,  # type: ignore[arg-type]
        )
        return self.ask(request)

    def commit_offsets(
        self, member_id: str = "", generation_id: int = -1, *offsets: OffsetToCommit, **fields: object
    ) -> OffsetsReply:
        return self.answer(self.start_commit(member_id, generation_id, *offsets, **fields), OffsetsReply)

    def fetch(self, *places: OffsetPlace, group_id: str = GROUP) -> dict[tuple[str, int], int | None]:
        """Return the offsets of a group at some places, at all if none is named."""
        request = FetchOffsets(token=self.token(), groups=(GroupPlaces(group_id, places or None),))
        (group,) = self.answer(self.ask(request), FetchOffsetsReply).groups
        return {
            (place.topic, place.partition): None if value is None else value.offset
            for place, value in group.offsets
        }

    def start_delete_offsets(self, *places: OffsetPlace, group_id: str = GROUP) -> int:
        return self.ask(DeleteOffsets(token=self.token(), group_id=group_id, places=places))

    def delete_offsets(self, *places: OffsetPlace, group_id: str = GROUP) -> OffsetsReply:
        return self.answer(self.start_delete_offsets(*places, group_id=group_id), OffsetsReply)

    def start_delete(self, *group_ids: str) -> int:
        return self.ask(DeleteGroups(token=self.token(), group_ids=group_ids))

    def delete(self, *group_ids: str) -> list[ErrorCode]:
        token = self.start_delete(*group_ids)
        return [error for _, error in self.answer(token, DeleteGroupsReply).errors]

    def describe(self, group_id: str = GROUP) -> DescribedGroup:
        request = DescribeGroups(token=self.token(), group_ids=(group_id,))
        (group,) = self.answer(self.ask(request), DescribeGroupsReply).groups
        return group

    def listed(self, *, states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> ListGroupsReply:
        request = ListGroups(token=self.token(), states=states, types=types)
        return self.answer(self.ask(request), ListGroupsReply)

    # --- whole turns -------------------------------------------------------------------------------

    def form(self, *members: str, statics: dict[str, str] | None = None) -> int:
        """Bring a stable group of these members about, static ones by their instance id, the first of all as
        its leader; return its generation. Each is assigned its own id."""
        instances = statics or {}
        names = [*members, *instances]
        tokens = [self.start_join(new_id=name, instance_id=instances.get(name)) for name in names]
        while not all(token in self.replies for token in tokens):
            self.wait(self.options.initial_delay_ms)
        generation_id = self.joined(tokens[0]).generation_id
        self.sync_all(generation_id, *names)
        return generation_id

    def sync_all(self, generation_id: int, leader: str, *others: str) -> None:
        tokens = [self.start_sync(name, generation_id) for name in others]
        assignments = {name: name.encode() for name in (leader, *others)}
        tokens.append(self.start_sync(leader, generation_id, assignments))
        assert [self.synced(token).assignment for token in tokens] == [n.encode() for n in (*others, leader)]

    @property
    def state(self) -> str:
        return self.describe().state
