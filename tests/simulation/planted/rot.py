"""Bugs of 5.7, scrubbing."""

from __future__ import annotations

from typing import Any

from controller.core import election, machine
from dataplane.core.effects import NO_EFFECTS, Effects
from dataplane.core.fetch_session import FetchPosition
from dataplane.core.follower import Follower
from dataplane.core.log_port import LogError, LogPort, SuspectBytes
from dataplane.core.role import ReplicaRole
from springtide.contract.epochs import LeaderEpoch
from springtide.wire.errors import ErrorCode
from tests.kit.memory.log import MemoryLog
from tests.simulation import scrubbing
from tests.simulation.planted.plant import Patches, plant


@plant(
    breaks="5.7",
    seen="a scrub reads what the page cache remembers of a disk that rots",
    scenario="S59",
    family="rot",
)
def scrub_believes_the_page_cache() -> Patches:
    def read_at_rest(self: MemoryLog, base_offset: int) -> bytes:
        return self.batches[self._bases.index(base_offset)].data

    return [(MemoryLog, "read_at_rest", read_at_rest)]


@plant(
    breaks="5.7", seen="a repair copies from a replica that is itself damaged", scenario="S60", family="rot"
)
def mended_range_not_compared() -> Patches:
    def fitting_bytes(records: memoryview, **hole: Any) -> tuple[int, int]:
        return hole["size_bytes"], hole["next_offset"]

    return [(scrubbing, "fitting_bytes", fitting_bytes)]


@plant(
    breaks="5.7",
    seen="a replica known to be damaged stays electable",
    scenario="S59",
    seeds_max=120,
    family="rot",
)
def rotten_keeps_its_seat() -> Patches:
    original = election.vacate_seat

    def vacate_seat(*args: Any, only_if_led: bool = False) -> bool:
        return False if only_if_led else original(*args)

    return [(machine, "vacate_seat", vacate_seat)]


@plant(
    breaks="5.7",
    seen="taking the seat of the only copy makes a partition of good records unreadable",
    scenario="S61",
    family="rot",
)
def last_copy_gives_its_seat_up() -> Patches:
    original = election.vacate_seat

    def vacate_seat(*args: Any, only_if_led: bool = False) -> bool:
        del only_if_led
        return original(*args)

    return [(machine, "vacate_seat", vacate_seat)]


@plant(
    breaks="5.7",
    seen="damage that a reader meets takes the replica offline, also when it is the last copy",
    scenario="S76",
)
def damage_met_by_a_reader_ends_the_log() -> Patches:
    original = ReplicaRole._on_read_error

    def on_read_error(self: ReplicaRole, error: LogError) -> tuple[ErrorCode, Effects]:
        if isinstance(error, SuspectBytes):
            return ErrorCode.CORRUPT_MESSAGE, self._replica.go_offline(str(error))
        return original(self, error)

    return [(ReplicaRole, "_on_read_error", on_read_error)]


@plant(
    breaks="5.7",
    seen="a replica mends only what its leader knows to be committed, and the leader commits only with it",
    scenario="S77",
)
def mends_as_a_consumer_only() -> Patches:
    def refused(log: LogPort, first_offset: int, leader_epoch: int) -> FetchPosition:
        return FetchPosition(
            first_offset, LeaderEpoch(-1), LeaderEpoch(leader_epoch - 1), log.log_start_offset
        )

    return [(scrubbing, "mend_position", refused)]


@plant(
    breaks="5.7",
    seen="what a compaction made of the others' bytes never fits what has rotted here",
    family="rot",
    compacted=True,
)
def rot_below_a_round_waits_for_ever() -> Patches:
    return [(Follower, "on_unfit", lambda self, fetched, **kwargs: NO_EFFECTS)]
