"""Bugs of what survives a restart: logs, histories, and what a broker says of them."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from controller.core import registration, sessions
from dataplane.core import applying, shutdown
from dataplane.core.leader_epochs import LeaderEpochs
from dataplane.core.producer_state import ProducerStates
from dataplane.core.shutdown import ShutdownStep
from springtide.contract.partition_state import PartitionState
from springtide.contract.session import ShutdownKind
from springtide.wire.record_batch import HEADER_BYTES, decode_header
from tests.kit.memory import log as memory_log
from tests.kit.memory.log import MemoryLog, StoredBatch
from tests.simulation.broker_link import BrokerLink
from tests.simulation.broker_node import BrokerNode
from tests.simulation.disk import Disk
from tests.simulation.planted.plant import Patches, plant


@plant(
    breaks="I20",
    seen="KAFKA-7415: a leader's epoch without records leaves no trace",
    seeds_max=400,
    scenario="S5",
)
def epoch_start_not_recorded() -> Patches:
    return [(MemoryLog, "begin_leader_epoch", lambda self, leader_epoch: None)]


@plant(breaks="I1", seen="KAFKA-1647, 3.8: a lost log is created anew, empty", scenario="S1")
def missing_log_created() -> Patches:
    def may_create(state: PartitionState, broker_id: int, *, is_known_lost: bool = False) -> bool:
        return True

    vouches = [
        (module, "vouches_for_seats", lambda before, request: True) for module in (registration, sessions)
    ]
    return [(applying, "may_create", may_create), *vouches]


@plant(breaks="I14", seen="KAFKA-7415: the epoch history is not on the disk", seeds_max=120, scenario="S34")
def epoch_history_lost_at_restart() -> Patches:
    original = MemoryLog.recover

    def recover(self: MemoryLog, *, is_clean: bool = False) -> None:
        original(self, is_clean=is_clean)
        self._epochs = LeaderEpochs()

    return [(MemoryLog, "recover", recover)]


@plant(breaks="I23", seen="producer state is not rebuilt at start", scenario="S23", seeds_max=120)
def producers_lost_at_restart() -> Patches:
    original = MemoryLog.recover

    def recover(self: MemoryLog, *, is_clean: bool = False) -> None:
        original(self, is_clean=is_clean)
        self._producers = ProducerStates()

    return [(MemoryLog, "recover", recover)]


@plant(
    breaks="I11",
    seen="a power cut is taken for a killed process: the boot id is not compared (3.8)",
    scenario="S2",
)
def boot_id_not_compared() -> Patches:
    original = Disk.shutdown_kind

    def shutdown_kind(self: Disk) -> Any:
        kind = original(self)
        return ShutdownKind.PROCESS_CRASH if kind is ShutdownKind.MACHINE_CRASH else kind

    return [(Disk, "shutdown_kind", shutdown_kind)]


@plant(
    breaks="I11",
    seen="a volume that was detached and attached again is taken for a killed process: the boot id alone is "
    "believed (3.8)",
    seeds_max=400,  # what its stored high watermark tells of a shorter log hides most of it
    family="disk",
)
def boot_id_alone_believed() -> Patches:
    original = Disk.shutdown_kind

    def shutdown_kind(self: Disk) -> Any:
        kind = original(self)
        is_same_kernel = self.last_boot_id == self.boot_id
        return ShutdownKind.PROCESS_CRASH if kind is ShutdownKind.MACHINE_CRASH and is_same_kernel else kind

    return [(Disk, "shutdown_kind", shutdown_kind)]


@plant(
    breaks="I1",
    seen="boot and mount are believed where an older copy was put over the files: `cp` keeps inodes (3.8)",
    scenario="S90",
)
def copy_in_place_believed() -> Patches:
    original = Disk.shutdown_kind

    def shutdown_kind(self: Disk) -> Any:
        with patch.object(self, "is_written_over", False):
            return original(self)

    return [(Disk, "shutdown_kind", shutdown_kind)]


@plant(
    breaks="I11",
    seen="a log that ends below the high watermark its broker stored opens without a word (5.4)",
    family="disk",
    seeds_max=240,
)
def short_log_opened() -> Patches:
    return [(BrokerNode, "_held_against_high_watermarks", lambda self, kind: kind)]


@plant(
    breaks="I11",
    seen="what proves that only a process died is written down before the controller has heard how the last "
    "one stopped: one that dies between makes a lost volume forgotten (3.8)",
    seeds_max=400,
    family="disk",
)
def proof_written_before_registration() -> Patches:
    original = BrokerLink.register

    def register(self: BrokerLink) -> None:
        disk = self.node.disk
        disk.last_boot_id = disk.boot_id
        disk.has_mount_mark = True
        original(self)

    return [(BrokerLink, "register", register)]


@plant(
    breaks="I11",
    seen="the clean marker of an earlier stop is still believed (3.8)",
    seeds_max=120,
    scenario="S2",
)
def clean_marker_left_behind() -> Patches:
    original = Disk.shutdown_kind

    def shutdown_kind(self: Disk) -> Any:
        return original(self) if self.broker_epoch < 0 else ShutdownKind.CLEAN

    return [(Disk, "shutdown_kind", shutdown_kind)]


@plant(breaks="I13", seen="KAFKA-15653: a torn last batch is kept at recovery", scenario="S11", seeds_max=60)
def torn_batch_kept() -> Patches:
    original = MemoryLog.recover

    def recover(self: MemoryLog, *, is_clean: bool = False) -> None:
        torn, self._torn = self._torn, b""
        if len(torn) >= HEADER_BYTES:
            # Zeros where the rest of the batch should be, and nobody looks at the CRC.
            size = decode_header(torn).size_bytes
            data = torn.ljust(size, b"\0")
            self._batches.append(StoredBatch(decode_header(data), data))
        with patch.object(memory_log, "crc_is_valid", lambda batch, header: True):
            self._is_tail_lost = self._is_tail_lost or bool(torn)
            original(self, is_clean=is_clean)

    return [(MemoryLog, "recover", recover)]


@plant(breaks="I1", seen="3.9: a sealed log vouches for what its seal does not cover", scenario="S63")
def vouched_beyond_the_seal() -> Patches:
    return [(MemoryLog, "vouched_end_offset", property(lambda self: self.log_end_offset))]


@plant(breaks="I1", seen="3.9: a seal of another incarnation's disk is believed", scenario="S64")
def seal_of_an_older_copy_believed() -> Patches:
    return [(sessions, "continues_chain", lambda before, request: True)]


@plant(
    breaks="3.8",
    seen="logs are closed, and the stop called clean, while a fetcher still appends",
    seeds_max=40,
)
def logs_are_closed_first() -> Patches:
    order = (ShutdownStep.CLOSE_LOGS, *shutdown.SHUTDOWN[:-1])
    return [(shutdown, "SHUTDOWN", order)]
