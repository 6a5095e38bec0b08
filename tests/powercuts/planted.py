"""Bugs planted in the storage engine on purpose, each a way in which a log on a disk has lost records: the
crash states must find them.

A plant replaces methods or functions of the product for the length of a `with` block; the product itself has
no switch.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from dataplane.core.producer_state import ProducerStates
from dataplane.core.transactions import PartitionTransactions
from dataplane.storage import (
    aborted_index,
    checkpoints,
    compaction,
    directory_claim,
    disk,
    epoch_file,
    health,
    log_dir_identity,
    manifest,
    recovery,
    rewritten_files,
    round_file,
    scan,
)
from dataplane.storage.aborted_index import AbortedIndex, TornAbortedIndex
from dataplane.storage.compaction import CompactionPass
from dataplane.storage.directory_claim import DirectoryClaim
from dataplane.storage.disk import replace_durably
from dataplane.storage.durability import Durability
from dataplane.storage.index import SparseIndex
from dataplane.storage.log_dir import LogDir
from dataplane.storage.manifest import RewrittenSegment
from dataplane.storage.partition_log import PartitionLog
from dataplane.storage.round_file import RoundFile
from dataplane.storage.segment import Segment
from dataplane.storage.segment_list import CutPlace, SegmentList
from dataplane.storage.snapshots import ProducerSnapshots
from dataplane.storage.stored_offsets import StoredOffsets
from tests.simulation.planted.plant import Patches


@dataclass(frozen=True, slots=True)
class Plant:
    """states_max: it must be found by the first so many crash states of a sweep from seed 0."""

    name: str
    breaks: str
    states_max: int
    patches: Callable[[], Patches]


PLANTS: list[Plant] = []


def plant(*, breaks: str, states_max: int = 20_000) -> Callable[[Callable[[], Patches]], Plant]:
    def add(patches: Callable[[], Patches]) -> Plant:
        made = Plant(patches.__name__, breaks, states_max, patches)
        PLANTS.append(made)
        return made

    return add


@plant(breaks="what a roll leaves behind is fsynced before the recovery point passes it")
def closed_segment_not_synced() -> Patches:
    return [(Segment, "fsync", lambda self: self.index.fsync())]


@plant(breaks="a flush that returned has fsynced the active segment")
def flush_without_fsync() -> Patches:
    original = Durability.flush

    def flush(self: Durability, *, include_active: bool = True, now_ms: int | None = None) -> int:
        reached = original(self, include_active=False, now_ms=now_ms)
        if include_active:
            reached = self.recovery_point.offset = max(reached, self._segments.active.next_offset)
        return reached

    return [(Durability, "flush", flush)]


@plant(breaks="the name of a fresh segment is durable before the recovery point passes it (KAFKA-3968)")
def directory_not_synced() -> Patches:
    original = Durability.flush

    def flush(self: Durability, *, include_active: bool = True, now_ms: int | None = None) -> int:
        with patch.object(type(self._disk), "fsync_dir", lambda _self, _path: None):
            return original(self, include_active=include_active, now_ms=now_ms)

    return [(Durability, "flush", flush)]


@plant(breaks="recovery believes no batch without its CRC")
def crc_unchecked_on_recovery() -> Patches:
    return [(scan, "crc_is_valid", lambda _view, _header: True)]


@plant(breaks="an index is cut with its log, and a hint that the log contradicts is not followed")
def index_outlives_truncation() -> Patches:
    return [
        (SparseIndex, "truncate_to_position", lambda _self, _position: None),
        (Segment, "agrees_with", lambda _self, _entry, _chunk=None: True),
    ]


@plant(breaks="the clean-shutdown marker is the last act, after every log is durable (KAFKA-10471)")
def marker_before_flush() -> Patches:
    original = LogDir.close_cleanly

    def close_cleanly(self: LogDir, high_watermarks: dict[tuple[str, int], int]) -> bool:
        marker = json.dumps({"broker_epoch": self.claim.meta.broker_epoch}).encode()
        replace_durably(self._disk, f"{self.path}/{directory_claim.MARKER_FILE}", marker)
        return original(self, high_watermarks)

    return [(LogDir, "close_cleanly", close_cleanly)]


@plant(breaks="the marker is gone, durably, before any log is read")
def marker_not_deleted_durably() -> Patches:
    original = directory_claim._identify_directory

    def identify(used: Any, path: str, **who: Any) -> Any:
        with patch.object(type(used), "fsync_dir", lambda _self, _path: None):
            return original(used, path, **who)

    return [(directory_claim, "_identify_directory", identify)]


@plant(breaks="a small file is replaced by bytes that are durable before the rename")
def rename_without_fsync() -> Patches:
    def replace_durably(used: Any, path: str, data: bytes) -> None:
        file = used.open(f"{path}.tmp", create=True)
        file.truncate(0)
        file.pwrite(data, 0)
        used.rename(f"{path}.tmp", path)
        used.fsync_dir(path.rpartition("/")[0])

    return [
        (owner, "replace_durably", replace_durably)
        for owner in (directory_claim, checkpoints, epoch_file, health)
    ]


@plant(breaks="a truncation lowers the recovery point on disk before it cuts")
def recovery_point_not_lowered() -> Patches:
    return [(StoredOffsets, "persist_lowered", lambda _self: None)]


@plant(breaks="a cut is fsynced before anything is written behind it", states_max=60_000)
def cut_not_synced() -> Patches:
    original = SegmentList.cut

    def cut(self: SegmentList, place: CutPlace) -> None:
        (kind,) = {type(each.file) for each in self.all}
        with patch.object(kind, "fsync", lambda _self: None):
            original(self, place)

    return [(SegmentList, "cut", cut)]


@plant(breaks="producer states are rolled back by a truncation (S22)")
def producers_outlive_truncation() -> Patches:
    original = ProducerSnapshots.load_newest

    def rebuild(self: PartitionLog, *, is_recovery: bool = False) -> None:
        if is_recovery:
            snapshot = original(self._segments.snapshots, offset_max=self.log_end_offset)
            if snapshot is not None:
                self.producers.replace_with(snapshot[0])

    return [(PartitionLog, "rebuild_producers", rebuild)]


@plant(breaks="a log that is made again does not meet its predecessor's checkpoints")
def checkpoints_of_a_predecessor() -> Patches:
    original = LogDir.create

    def create(self: LogDir, partition: Any, *, now_ms: int) -> PartitionLog:
        self.offsets._is_forgotten_stored = False
        return original(self, partition, now_ms=now_ms)

    return [(LogDir, "create", create)]


@plant(breaks="the page cache lived if the mount did, not if the kernel did (3.8)")
def boot_id_alone_believed() -> Patches:
    original = log_dir_identity.shutdown_kind

    def shutdown_kind(meta: Any, **evidence: Any) -> Any:
        return original(meta, **evidence | {"has_mount_mark": True})

    return [(directory_claim, "shutdown_kind", shutdown_kind)]


@plant(breaks="a machine crash that the controller has not heard of is not forgotten (3.8)")
def boot_id_written_before_registration() -> Patches:
    original = DirectoryClaim.on_registering

    def on_registering(self: DirectoryClaim, incarnation_id: str) -> None:
        self.meta = replace(self.meta, boot_id=self._boot_id)
        original(self, incarnation_id)
        self.mount_mark.set_mount_mark()

    return [(DirectoryClaim, "on_registering", on_registering)]


@plant(breaks="a volume that came back, of which the controller has not heard, is not forgotten (3.8)")
def mount_mark_set_before_registration() -> Patches:
    original = DirectoryClaim.on_registering

    def on_registering(self: DirectoryClaim, incarnation_id: str) -> None:
        original(self, incarnation_id)
        self.mount_mark.set_mount_mark()

    return [(DirectoryClaim, "on_registering", on_registering)]


@plant(breaks="many logs are made durable together before anybody relies on one of them")
def nothing_synced_together() -> Patches:
    return [(LogDir, "_sync_all", lambda _self: None)]


@plant(breaks="the files of a pass of compaction are durable before its manifest")
def rewritten_files_not_synced() -> Patches:
    original = CompactionPass.write

    def write(self: CompactionPass) -> None:
        self._durability.flush()
        with patch.object(Segment, "fsync", lambda _self: None):
            original(self)

    return [(CompactionPass, "write", write)]


@plant(breaks="the manifest of a pass is durable before the pass counts as committed")
def manifest_not_synced() -> Patches:
    original = manifest.write_manifest

    def write(used: Any, directory: str, written: Any) -> None:
        with patch.object(type(used), "fsync_dir", lambda _self, _path: None):
            original(used, directory, written)

    return [(compaction, "write_manifest", write)]


@plant(breaks="the rewritten segments take their places after the manifest, not before")
def swap_before_manifest() -> Patches:
    original = manifest.write_manifest

    def write(used: Any, directory: str, written: Any) -> None:
        manifest.take_places(used, directory, written)
        original(used, directory, written)

    return [(compaction, "write_manifest", write)]


@plant(breaks="a swap that a crash cut short is finished by the next start")
def swap_not_finished() -> Patches:
    return [(recovery, "finish_pass", manifest.read_manifest)]


@plant(breaks="a rewritten segment ends where the next one begins, not with its last batch")
def end_of_the_last_batch() -> Patches:
    def listed(self: Any) -> Any:
        ends = [header.next_offset for _, header in self.segment.walk()]
        end_offset = max(ends, default=self.segment.base_offset)
        return RewrittenSegment(self.segment.base_offset, end_offset, self.segment.size_bytes, self.crc)

    return [(rewritten_files._Output, "listed", property(listed))]


@plant(breaks="a log that is restarted says so in its manifest before a file goes")
def manifest_outlives_a_restart() -> Patches:
    original = SegmentList.restart

    def restart(self: SegmentList, base_offset: int, **settings: int) -> None:
        self.manifest = None
        original(self, base_offset, **settings)

    return [(SegmentList, "restart", restart)]


@plant(breaks="a rewritten segment leaves the manifest before it is cut")
def manifest_outlives_a_cut() -> Patches:
    return [(SegmentList, "_forget_listed_from", lambda _self, _base_offset: None)]


@plant(breaks="a round below the recovery point is in its file")
def rounds_not_synced() -> Patches:
    return [(RoundFile, "fsync", lambda _self: False), (RoundFile, "write", lambda _self: None)]


@plant(breaks="a round above the recovery point is found by the scan")
def rounds_not_scanned() -> Patches:
    return [(recovery._Recovery, "_take_rounds", lambda *_: None)]


@plant(breaks="what a leader's log lacks is durable before records of it are copied")
def told_not_synced() -> Patches:
    return [(round_file, "replace_durably", disk.replace)]


@plant(breaks="a record goes only when the newer one of its key is durable")
def nothing_flushed_before_a_pass() -> Patches:
    original = CompactionPass.write

    def write(self: CompactionPass) -> None:
        with patch.object(Durability, "flush", lambda durability: durability.recovery_point.offset):
            original(self)

    return [(CompactionPass, "write", write)]


@plant(breaks="a snapshot of producers keeps the transactions that are open (redpanda 30003)")
def snapshot_forgets_what_is_open() -> Patches:
    original = ProducerStates._encoded_transactions

    def encoded(self: ProducerStates) -> bytes:
        known = self.transactions
        self.transactions = PartitionTransactions((), known.ended)
        try:
            return original(self)
        finally:
            self.transactions = known

    return [(ProducerStates, "_encoded_transactions", encoded)]


@plant(breaks="what is aborted is durable with its segment, and told again where it is torn")
def aborted_lost_by_a_cut() -> Patches:
    original = aborted_index._read

    def read(used: Any, path: str) -> Any:
        try:
            return original(used, path)
        except TornAbortedIndex:
            return []

    return [(AbortedIndex, "fsync", lambda _self: None), (aborted_index, "_read", read)]


@plant(breaks="a start finds what is aborted in closed segments")
def aborted_not_found_by_a_start() -> Patches:
    return [(recovery._Recovery, "_find_aborted", lambda _self, _segment: None)]


@plant(breaks="a pass keeps what is aborted of a transaction that it has cleaned in part (KAFKA-13727)")
def aborted_lost_by_a_pass() -> Patches:
    original, replace_with = rewritten_files._Rewriting._close, AbortedIndex.replace

    def close(self: Any, output: Any, end_offset: int) -> None:
        with patch.object(AbortedIndex, "replace", lambda index, _entries: replace_with(index, [])):
            original(self, output, end_offset)

    return [(rewritten_files._Rewriting, "_close", close)]
