"""Client groups in memory, behind the port through which REST asks for them."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Mapping

from controller.shell.client_groups import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    CommittedPlace,
    DeletionNotStored,
    GroupAbsent,
    GroupBusy,
    GroupDetail,
    GroupListing,
    GroupsUnavailable,
    LogPosition,
    MemberDetail,
    Place,
)
from controller.shell.outcomes import OutcomeUnknown
from springtide.contract.epochs import LeaderEpoch


class MemoryGroups:
    """down: no coordinator answers. loses_answers: writes are made, and their answers are lost. unset: why a
    commit leaves a partition out. deleting: runs before records are deleted; unstored: a replica does not
    store it in time. logs: the offset of each log's first record, and its records' timestamps in
    milliseconds."""

    def __init__(self) -> None:
        self.down = False
        self.loses_answers = False
        self.deleting: Callable[[Place, int], Awaitable[None]] | None = None
        self.unstored = False
        self.unset: dict[Place, str] = {}
        self.unanswered: list[str] = []
        self.groups: dict[str, GroupDetail] = {}
        self.offsets: dict[str, dict[Place, CommittedPlace]] = {}
        self.logs: dict[Place, tuple[int, tuple[int, ...]]] = {}

    def add(self, group_id: str, *members: MemberDetail, **offsets: int) -> None:
        """Add a group; without members it is empty. offsets: of partitions 0 by topic."""
        self.groups[group_id] = GroupDetail(
            group_id=group_id,
            state="stable" if members else "empty",
            protocol_type="consumer",
            assignor="range" if members else "",
            coordinator_id=1001,
            endpoint="desk1:9092",
            members=members,
        )
        places = {
            (topic, 0): CommittedPlace(offset=at, leader_epoch=LeaderEpoch(3))
            for topic, at in offsets.items()
        }
        self.offsets[group_id] = places

    def stop(self, group_id: str) -> None:
        """The group's members leave."""
        self.groups[group_id] = dataclasses.replace(self.groups[group_id], state="empty", members=())

    async def listed(self, cluster: str) -> tuple[list[GroupListing], list[str]]:
        self._check()
        return list(self.groups.values()), self.unanswered

    async def described(self, cluster: str, group_id: str) -> GroupDetail:
        self._check()
        if group_id not in self.groups:
            raise GroupAbsent("its coordinator does not know it")
        return self.groups[group_id]

    async def committed(self, cluster: str, group_id: str) -> dict[Place, CommittedPlace]:
        self._check()
        return dict(self.offsets.get(group_id, {}))

    async def log_offsets(self, cluster: str, wanted: Mapping[Place, int]) -> dict[Place, LogPosition]:
        return {
            place: self._position(*self.logs[place], at) for place, at in wanted.items() if place in self.logs
        }

    def _position(self, start: int, times: tuple[int, ...], at: int) -> LogPosition:
        end = start + len(times)
        match at:
            case _ if at == EARLIEST:
                return LogPosition(offset=start)
            case _ if at == LATEST:
                return LogPosition(offset=end)
            case _ if at == MAX_TIMESTAMP:
                newest = max(times)
                return LogPosition(offset=start + times.index(newest), timestamp_ms=newest)
        found = [start + number for number, time in enumerate(times) if time >= at]
        return LogPosition(offset=found[0] if found else -1)

    async def record_times(self, cluster: str, wanted: Mapping[Place, int]) -> dict[Place, int]:
        found = {}
        for place, offset in wanted.items():
            start, times = self.logs[place]
            if offset < start + len(times):
                found[place] = times[max(0, offset - start)]
        return found

    async def commit(self, cluster: str, group_id: str, offsets: Mapping[Place, int]) -> dict[Place, str]:
        self._check_empty(group_id)
        if group_id not in self.groups:
            self.add(group_id)
        kept = {place: at for place, at in offsets.items() if place not in self.unset}
        self.offsets[group_id] |= {place: CommittedPlace(offset=at) for place, at in kept.items()}
        self._answer()
        return {place: why for place, why in self.unset.items() if place in offsets}

    async def delete(self, cluster: str, group_id: str) -> None:
        self._check_empty(group_id)
        del self.groups[group_id], self.offsets[group_id]
        self._answer()

    async def delete_records(self, cluster: str, place: Place, before_offset: int) -> None:
        if self.deleting is not None:
            await self.deleting(place, before_offset)
        start, times = self.logs[place]
        self.logs[place] = (before_offset, times[before_offset - start :])
        if self.unstored:
            raise DeletionNotStored("Broker: Request timed out")
        self._answer()

    def _check(self) -> None:
        if self.down:
            raise GroupsUnavailable("no coordinator answered within 5 s")

    def _check_empty(self, group_id: str) -> None:
        self._check()
        if group_id in self.groups and self.groups[group_id].members:
            raise GroupBusy("Broker: The group is not empty")

    def _answer(self) -> None:
        if self.loses_answers:
            raise OutcomeUnknown("no coordinator answered within 5 s")
