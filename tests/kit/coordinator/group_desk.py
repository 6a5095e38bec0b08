"""A group machine on a desk, and its clients."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from coordinator.core.groups.machine import GroupMachine
from coordinator.core.groups.options import GroupOptions
from coordinator.core.groups.requests import (
    CommitOffsets,
    CommitPendingOffsets,
    DeleteGroups,
    DeleteGroupsReply,
    DeleteOffsets,
    DescribedGroup,
    DescribeGroups,
    DescribeGroupsReply,
    EndPendingOffsets,
    FetchOffsets,
    FetchOffsetsReply,
    GroupOffsets,
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
    MustVerify,
    OffsetPlace,
    OffsetsReply,
    OffsetToCommit,
    PendingOffsetsEnded,
    Request,
    SyncGroup,
    SyncGroupReply,
)
from coordinator.core.groups.store import GroupStore
from springtide.wire.errors import ErrorCode
from springtide.wire.markers import Outcome
from tests.kit.coordinator.machine_desk import MachineDesk

GROUP = "g"
SESSION_MS = 10_000
REBALANCE_MS = 60_000


def subscription(*topics: str, rest: bytes = b"") -> bytes:
    """Return a consumer's metadata: version 0, its topics, and what is the assignor's."""
    names = b"".join(len(topic).to_bytes(2) + topic.encode() for topic in topics)
    return bytes(2) + len(topics).to_bytes(4) + names + rest


RANGE = (JoinProtocol("range", subscription("t")),)


class GroupDesk(MachineDesk[GroupMachine]):
    """replay: of the first `replayed` records, as check_replay (group_walk.py) last left it."""

    def __init__(
        self, options: GroupOptions | None = None, machine: type[GroupMachine] = GroupMachine
    ) -> None:
        self.options = options or GroupOptions()
        self.replay = GroupStore()
        self.replayed = 0
        super().__init__(lambda: machine(self.options))

    # --- clients -----------------------------------------------------------------------------------

    def ask(self, request: Request) -> int:
        self.step(request)
        return request.token

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

    def start_pending(
        self, producer: tuple[int, int], *offsets: OffsetToCommit, is_verified: bool = True, **fields: Any
    ) -> int:
        """Let a producer (id, epoch) commit in its transaction; return the token of the last request.
        is_verified: where it must be verified, it is."""
        request = CommitPendingOffsets(
            token=self.token(),
            producer_id=producer[0],
            producer_epoch=producer[1],
            offsets=offsets or (OffsetToCommit(OffsetPlace("t", 0), 7),),
            **({"group_id": GROUP} | fields),
        )
        self.ask(request)
        reply = self.replies.get(request.token)
        if isinstance(reply, MustVerify) and is_verified:
            return self.ask(replace(request, token=self.token(), guard=reply.guard))
        return request.token

    def commit_pending(
        self, producer: tuple[int, int], *offsets: OffsetToCommit, **fields: Any
    ) -> OffsetsReply:
        return self.answer(self.start_pending(producer, *offsets, **fields), OffsetsReply)

    def start_end(
        self,
        producer: tuple[int, int],
        outcome: Outcome = Outcome.COMMIT,
        *,
        coordinator_epoch: int = 1,
        version: int = 1,
        attempt: int = -1,
    ) -> int:
        """Deliver a marker."""
        return self.ask(
            EndPendingOffsets(
                token=self.token(),
                producer_id=producer[0],
                producer_epoch=producer[1],
                coordinator_epoch=coordinator_epoch,
                outcome=outcome,
                transaction_version=version,
                attempt=attempt,
            )
        )

    def end(self, producer: tuple[int, int], outcome: Outcome = Outcome.COMMIT, **fields: int) -> ErrorCode:
        return self.answer(self.start_end(producer, outcome, **fields), PendingOffsetsEnded).error

    def fetched(
        self, *places: OffsetPlace, group_id: str = GROUP, requires_stable: bool = False
    ) -> GroupOffsets:
        asked = (GroupPlaces(group_id, places or None),)
        request = FetchOffsets(token=self.token(), groups=asked, requires_stable=requires_stable)
        (group,) = self.answer(self.ask(request), FetchOffsetsReply).groups
        return group

    def fetch(self, *places: OffsetPlace, group_id: str = GROUP) -> dict[tuple[str, int], int | None]:
        """Return the offsets of a group at some places, at all if none is named."""
        return {
            (place.topic, place.partition): None if value is None else value.offset
            for place, value in self.fetched(*places, group_id=group_id).offsets
        }

    def unstable(self, *places: OffsetPlace, group_id: str = GROUP) -> set[tuple[str, int]]:
        found = self.fetched(*places, group_id=group_id, requires_stable=True).unstable
        return {(place.topic, place.partition) for place in found}

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
