"""The records and effects that one step has written so far.

Rules write through a draft: each record is replayed onto the machine's image at once, so that the next rule
of the same step sees its effect (KAFKA-13173: a second broker expiring in the same step must not be elected
by the first one's expiry), and is kept in order for the shell to persist.
"""

from __future__ import annotations

import msgspec

from controller.core.effects import Effect, Note
from controller.core.floor import Floors
from controller.core.full_disks import FullDisks
from controller.core.image import ClusterImage
from controller.core.in_force import forbids
from controller.core.records import (
    ACTOR_CONTROLLER,
    Cause,
    Change,
    Member,
    MemberKind,
    MemberRecord,
    PartitionRecord,
    Record,
)
from springtide.contract.partition_state import NO_LEADER, PartitionState


class Draft:
    """Records and effects of one step, in order. `wall_ms` stamps its changes. floors: what the controller
    has heard to be committed, which weighs on elections. is_watched: whether `forbids` is to be found out.
    full_disks: what it has heard of disks, which weighs on placement."""

    __slots__ = ("effects", "floors", "forbids", "full_disks", "image", "is_watched", "records", "wall_ms")

    def __init__(
        self,
        image: ClusterImage,
        *,
        wall_ms: int,
        floors: Floors,
        is_watched: bool = False,
        full_disks: FullDisks | None = None,
    ) -> None:
        self.image = image
        self.full_disks = full_disks or FullDisks(set(), set())
        self.floors = floors
        self.wall_ms = wall_ms
        self.is_watched = is_watched
        #: Whether a record of a watched step has forbidden something (in_force.py).
        self.forbids = False
        self.records: list[Record] = []
        self.effects: list[Effect] = []

    def change(self, cause: Cause, *, actor: str = ACTOR_CONTROLLER, reason: str | None = None) -> Change:
        return Change(cause=cause, at_ms=self.wall_ms, actor=actor, reason=reason)

    def write(self, record: Record) -> None:
        if self.is_watched and not self.forbids:
            self.forbids = forbids(self.image, record)
        self.image.replay(record)
        self.records.append(record)

    def write_partition(self, state: PartitionState, change: Change) -> None:
        """Write the next state of a partition that there is."""
        before = self.image.partitions[state.topic_id, state.partition]
        assert state.partition_epoch == before.partition_epoch + 1, "I6"
        assert state.leader_epoch >= before.leader_epoch, "I7"
        # The next controller has heard of nothing.
        floor = self.floors.of(state) if state.elr or state.leader == NO_LEADER else 0
        if floor != state.high_watermark_floor:
            state = msgspec.structs.replace(state, high_watermark_floor=floor)
        self.write(PartitionRecord(state=state, change=change))

    def unproven(self, state: PartitionState, *, out: int | None = None) -> tuple[int, ...]:
        """Return the members of its ELR that may not be elected (floor.py), once `out` has no seat."""
        return self.floors.unproven(self.image, state, out=out)

    def awaits_word(self, state: PartitionState) -> bool:
        """Return whether a live member of its ELR has yet to tell of its log (floor.py)."""
        return self.floors.awaits(self.image, state)

    def write_member(self, registration: Member, change: Change) -> None:
        self.write(MemberRecord(registration=registration, change=change))

    def note(self, code: str, detail: str, **fields: str | int) -> None:
        self.effects.append(Note(code=code, detail=detail, fields=fields))


def actor_of(member_id: int, kind: MemberKind = MemberKind.BROKER) -> str:
    return f"{kind}:{member_id}"
