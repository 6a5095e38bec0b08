"""Opening a partition's directory: what is believed, what is scanned, what is cut, and what is refused.

How the previous process stopped decides (ShutdownKind):

    CLEAN          everything was fsynced and the marker written after it: no scan. Anything that does not
                   fit is damage.
    PROCESS_CRASH  same kernel, so every completed write is still there. Scan from the recovery point. Only
                   the one append that the process died in may be torn, at the very end; it was never
                   acknowledged and is cut. Anything else is damage, for this replica will claim to hold all
                   that it ever acknowledged.
    MACHINE_CRASH  (and FIRST_START with data, which nothing vouches for) unflushed bytes may be gone. Scan
                   from the recovery point and cut at the first bad byte.

A log that was found damaged while it was in use says so in a file, and is refused without a scan.

A cut never reaches below the recovery point: bytes that had been fsynced and are gone or changed are
*damage*, answered as DamagedLog with the files left as they are. The shell takes such a replica out
(quarantine, out of the in-sync set, fetch again); cutting it and staying electable would be silent loss.

A log that lacks what it should have after such a stop, for one that ends below the high watermark its broker
had stored, also *refutes* how the process is said to have stopped: what is true of this log may be true of
those beside it (`DamagedLog.refutes`). After a machine crash it is only told (`RecoveryReport.missing`).

Of segments that a compaction has rewritten the manifest says where they end (manifest.py): a gap between
segments, or at the end of one, is legal there only.

The scan checks length, magic, CRC, and that offsets and leader epochs never go back; a tail of zeros is an
end, not a batch. What was scanned is fsynced before the recovery point moves up, by the directory for all of
its logs at once where the file system can do that. Epochs, producer states and
indexes of the scanned part come from the batches, never from files that may be younger or older than they.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from dataplane.core.compaction.known import KnownRounds, PlacedRound
from dataplane.core.compaction.rounds import encode_round
from dataplane.core.leader_epochs import (
    CHECKPOINT_BYTES_MAX,
    CorruptEpochCheckpoint,
    EpochStart,
    LeaderEpochs,
    decode_leader_epochs,
)
from dataplane.core.producer_state import ProducerStates
from dataplane.storage.aborted_index import (
    GUARD_SUFFIX,
    AbortedIndex,
    aborted_path,
    guard_path,
    open_aborted_index,
)
from dataplane.storage.aborted_index import SUFFIX as ABORTED_SUFFIX
from dataplane.storage.disk import DELETED_SUFFIX, Buffer, read_whole, stored_bytes
from dataplane.storage.epoch_file import EPOCHS_FILE
from dataplane.storage.health import DAMAGED_FILE, CorruptLog
from dataplane.storage.index import new_index
from dataplane.storage.log_settings import LogSettings, PartitionId
from dataplane.storage.manifest import (
    CLEANED_SUFFIX,
    CompactionManifest,
    RewrittenSegment,
    finish_pass,
)
from dataplane.storage.partition_log import PartitionLog
from dataplane.storage.round_file import StoredRounds, read_rounds, read_whole_from
from dataplane.storage.scan import ScanStop, SegmentScan
from dataplane.storage.seal import read_seal, remove_seal
from dataplane.storage.segment import (
    Segment,
    create_segment,
    index_path,
    log_path,
    open_segment,
    unlink_segment,
)
from dataplane.storage.snapshots import SUFFIX as SNAPSHOT_SUFFIX
from dataplane.storage.snapshots import ProducerSnapshots
from springtide.contract.session import ShutdownKind
from springtide.wire.record_batch import BatchHeader, decode_header

DAMAGED_BYTES_MAX = 64 * 1024
_OFFSET_DIGITS = 20
_LEFTOVER_SUFFIXES = (".tmp", DELETED_SUFFIX, CLEANED_SUFFIX)


@dataclass(slots=True)
class RecoveryReport:
    """The report of opening a log, for the log file and the controller.

    missing: after a machine crash, from the log's end to the high watermark that was stored: committed, and
        not here. scanned_bytes: read and checked by CRC. cut_bytes: dropped behind the last good batch, whole
        later segments included. cut_reason: why the scan stopped there. log_end_offset: after the cut.
    notes: everything else worth a line: files rebuilt, skipped, removed.
    """

    last_shutdown: ShutdownKind
    scanned_bytes: int = 0
    cut_bytes: int = 0
    cut_reason: ScanStop | None = None
    log_end_offset: int = 0
    missing: tuple[int, int] | None = None
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class OpenedLog:
    log: PartitionLog
    report: RecoveryReport


@dataclass(frozen=True, slots=True)
class DamagedLog:
    """Data that had been written whole is not what it was. Nothing was cut; the directory is as found.

    valid_end_offset: how far the log could be read; recovery_point: how far it had been fsynced;
    high_watermark: how far this broker knew it to be committed. refutes: bytes are not there that a clean
    stop or a dying process leaves. (Bytes that are there and are wrong have rotted, which says nothing of
    other logs.)
    """

    partition: PartitionId
    directory: str
    reason: str
    valid_end_offset: int
    recovery_point: int
    high_watermark: int = 0
    refutes: bool = False


class _Damage(Exception):
    def __init__(self, reason: str, valid_end_offset: int, *, refutes: bool = True) -> None:
        super().__init__(reason)
        self.reason = reason
        self.valid_end_offset = valid_end_offset
        self.refutes = refutes


def open_partition_log(
    settings: LogSettings,
    directory: str,
    *,
    partition: PartitionId,
    last_shutdown: ShutdownKind,
    recovery_point: int,
    high_watermark: int,
    log_start_offset: int,
    now_ms: int,
) -> OpenedLog | DamagedLog:
    """Open or recover the log in `directory`. The three offsets are the checkpoints', 0 if there are none.
    May take long (a scan, fsyncs): call it in a thread. Raises LogError if the disk fails, NewerFormat for a
    file of a later release, or a round of compaction in the log."""
    recovery = _Recovery(
        settings,
        directory,
        partition,
        last_shutdown,
        recovery_point=recovery_point,
        high_watermark=high_watermark,
        log_start_offset=log_start_offset,
        now_ms=now_ms,
    )
    try:
        return OpenedLog(recovery.run(), recovery.report)
    except _Damage as damage:
        reason, valid_end_offset, refutes = damage.reason, damage.valid_end_offset, damage.refutes
    except CorruptLog as error:
        reason, valid_end_offset, refutes = str(error), recovery.valid_end_offset, False
    except OSError as error:
        raise settings.health.fail(error, f"recovering {directory}") from error
    return DamagedLog(
        partition,
        directory,
        reason,
        valid_end_offset,
        recovery_point,
        high_watermark,
        refutes=refutes and last_shutdown.is_intact,
    )


@dataclass
class _Recovery:
    settings: LogSettings
    directory: str
    partition: PartitionId
    last_shutdown: ShutdownKind
    recovery_point: int
    high_watermark: int
    log_start_offset: int
    now_ms: int
    valid_end_offset: int = 0
    segments: list[Segment] = field(default_factory=list)
    epochs: LeaderEpochs = field(default_factory=LeaderEpochs)
    pending_epochs: list[EpochStart] = field(default_factory=list)
    are_epochs_rebuilt: bool = False
    manifest: CompactionManifest | None = None
    listed: dict[int, RewrittenSegment] = field(default_factory=dict)
    rounds: KnownRounds = field(default_factory=KnownRounds)
    is_new: bool = False
    #: The segments that have a file of aborted transactions, or have lost it.
    with_aborted: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.disk = self.settings.disk
        self.report = RecoveryReport(self.last_shutdown)

    def run(self) -> PartitionLog:
        path = f"{self.directory}/{DAMAGED_FILE}"
        damage = read_whole(self.disk, path, bytes_max=DAMAGED_BYTES_MAX)
        if damage is not None:
            raise _Damage(f"found while it was in use: {damage.decode(errors='replace')}", 0, refutes=False)
        self.stored_seal = read_seal(self.disk, self.directory)
        self.manifest = finish_pass(self.disk, self.directory)
        bases, snapshot_offsets = self._read_directory()
        self._check_listed(bases)
        is_clean = self.last_shutdown is ShutdownKind.CLEAN
        # Before the segment that contains the recovery point, all was flushed.
        first_scanned = (
            len(bases) if is_clean else max(sum(base <= self.recovery_point for base in bases) - 1, 0)
        )
        for base in bases[:first_scanned]:
            self._open_flushed(base)
        self._load_epochs(
            scan_start=bases[first_scanned] if first_scanned < len(bases) else self.valid_end_offset
        )
        self._load_rounds(
            scan_start=bases[first_scanned] if first_scanned < len(bases) else self.valid_end_offset
        )
        self._scan(bases[first_scanned:])
        if self.valid_end_offset < self.recovery_point and bases:
            raise _Damage("the log ends below its recovery point", self.valid_end_offset)
        log_end_offset = self._settle_start_and_end(bases)
        if log_end_offset < self.high_watermark:
            if self.last_shutdown.is_intact:
                raise _Damage(f"the log ends below its high watermark {self.high_watermark}", log_end_offset)
            self.report.missing = (log_end_offset, self.high_watermark)
        self._settle_epochs(log_end_offset)
        self._settle_rounds(log_end_offset, is_clean=is_clean)
        return self._build(
            log_end_offset,
            snapshot_offsets,
            snapshot_max=bases[first_scanned] if first_scanned < len(bases) else log_end_offset,
            is_clean=is_clean,
        )

    def _read_directory(self) -> tuple[list[int], list[int]]:
        """Base offsets of the segments and offsets of the snapshots; leftovers of a crash are removed."""
        bases, snapshots, indexes = [], [], []
        going: list[str] = []
        for name in self.disk.listdir(self.directory):
            stem, dot, suffix = name.partition(".")
            is_offset = len(stem) == _OFFSET_DIGITS and stem.isdecimal()
            if name.endswith(_LEFTOVER_SUFFIXES):
                going.append(name)
            elif is_offset and dot + suffix == ".log":
                bases.append(int(stem))
            elif is_offset and dot + suffix == ".index":
                indexes.append(int(stem))
            elif is_offset and dot + suffix == SNAPSHOT_SUFFIX:
                snapshots.append(int(stem))
            elif is_offset and dot + suffix in (ABORTED_SUFFIX, GUARD_SUFFIX):
                self.with_aborted.add(int(stem))
        for base in indexes:  # retention renames a segment's files in a row, the log first
            is_gone = bool(bases) and base < bases[0] and bases[0] > self.log_start_offset
            if is_gone and f"{base:020d}.log{DELETED_SUFFIX}" not in going:
                raise _Damage(f"segment {base} is lost, its index is there", self.log_start_offset)
        for base in self.with_aborted.difference(bases):
            path = aborted_path(self.directory, base)
            for each in (path, guard_path(path)):
                if self.disk.exists(each):
                    self.disk.unlink(each)
        for base in indexes:
            if base not in bases:
                self.disk.unlink(index_path(self.directory, base))
        for name in going:  # after the indexes: a log that is going explains an index without a log
            self.disk.unlink(f"{self.directory}/{name}")
            self.report.notes.append(f"removed leftover {name}")
        if not bases and self.recovery_point > self.log_start_offset:
            raise _Damage(f"no segment is left of a log flushed up to {self.recovery_point}", 0)
        if bases:
            self.valid_end_offset = bases[0]
        return bases, snapshots

    def _check_listed(self, bases: list[int]) -> None:
        """Raise _Damage unless the rewritten segments are there, in full, and others behind them. Retention
        deletes from the first one on."""
        if self.manifest is None:
            return
        self.listed = {each.base_offset: each for each in self.manifest.segments}
        for base, each in self.listed.items():
            if bases and base < bases[0]:
                continue
            path = log_path(self.directory, base)
            if base not in bases or base == bases[-1] or stored_bytes(self.disk, path) != each.size_bytes:
                raise _Damage(f"{path} is not what a compaction left", self.valid_end_offset)

    def _take_listed_end(self, segment: Segment) -> None:
        listed = self.listed.get(segment.base_offset)
        if listed is not None:
            segment.next_offset = self.valid_end_offset = listed.end_offset
            segment.crc = listed.crc

    def _continues(self, base: int) -> bool:
        """Return whether a segment of that name may follow: it begins where the one before it ends."""
        return not self.segments or base == self.valid_end_offset

    def _open_flushed(self, base: int) -> None:
        if not self._continues(base):
            raise _Damage(
                f"segment {base} does not begin where the one before it ends", self.valid_end_offset
            )
        segment = open_segment(
            self.disk,
            self.directory,
            base_offset=base,
            index_interval_bytes=self.settings.options.index_interval_bytes,
            now_ms=self.now_ms,
        )
        self._find_aborted(segment)
        self.segments.append(segment)
        self.valid_end_offset = segment.next_offset
        self._take_listed_end(segment)

    def _find_aborted(self, segment: Segment) -> None:
        """The segment's file of aborted transactions is believed, if there is one; one that is lost is built
        again."""
        if segment.base_offset in self.with_aborted:
            segment.aborted = open_aborted_index(self.disk, aborted_path(self.directory, segment.base_offset))

    def _load_epochs(self, *, scan_start: int) -> None:
        """Entries before the scan are believed; later ones must agree with the batches (see _take_epoch)."""
        path = f"{self.directory}/{EPOCHS_FILE}"
        encoded = read_whole(self.disk, path, bytes_max=CHECKPOINT_BYTES_MAX)
        entries: tuple[EpochStart, ...] = ()
        is_believed = False
        if encoded is not None:
            try:
                stored = decode_leader_epochs(encoded)
                entries = stored.entries
                self.epochs.reconcile(stored.reconciled)
                is_believed = True
            except CorruptEpochCheckpoint as error:
                self.report.notes.append(f"leader epochs rebuilt from the batches: {error}")
        self.are_epochs_rebuilt = not is_believed
        # Batches before the first entry: all of them if there is none; else what a log start that went back
        # (an old checkpoint) has uncovered.
        self._take_epochs_before(entries[0].start_offset if entries else scan_start)
        for entry in entries:
            if entry.start_offset >= scan_start:
                self.pending_epochs.append(entry)
            elif entry.leader_epoch > self.epochs.latest:
                self.epochs.assign(entry.leader_epoch, start_offset=entry.start_offset)

    def _take_epochs_before(self, log_offset: int) -> None:
        for segment in self.segments:
            end_offset = segment.base_offset
            for _, header in segment.walk():
                if header.base_offset >= log_offset:
                    return
                self._take_epoch(header, end_offset)
                end_offset = header.next_offset

    def _take_epoch(self, header: BatchHeader, end_offset: int) -> None:
        """A batch of the log, in order, behind one that ends at end_offset: there its epoch begins, if it is
        new (EpochFile.take_batches). An entry of the file that lies before it and can stand with it is an
        epoch in which nothing was written here; one that can't is left over from a truncation."""
        while self.pending_epochs and self.pending_epochs[0].start_offset <= header.base_offset:
            entry = self.pending_epochs.pop(0)
            if self.epochs.latest < entry.leader_epoch <= header.leader_epoch:
                self.epochs.assign(entry.leader_epoch, start_offset=entry.start_offset)
        if header.leader_epoch < self.epochs.latest:
            raise self.segments[-1].corrupt(-1, f"epoch goes back at offset {header.base_offset}")
        is_behind_all = end_offset > self.epochs.latest_start_offset
        start_offset = end_offset if is_behind_all else header.base_offset
        self.epochs.assign(header.leader_epoch, start_offset=start_offset)

    def _settle_epochs(self, log_end_offset: int) -> None:
        """Take what began at the end, where nothing was written yet. Beyond it, or within the last batch, an
        entry is left over from a truncation."""
        for entry in self.pending_epochs:
            if entry.start_offset == log_end_offset and entry.leader_epoch > self.epochs.latest:
                self.epochs.assign(entry.leader_epoch, start_offset=entry.start_offset)
        self.epochs.truncate_from_start(self.log_start_offset)

    def _load_rounds(self, *, scan_start: int) -> None:
        """The file is believed up to the scan, which finds the later ones. One that can't be read was torn by
        a power cut: then the batches tell."""
        manifest = self.manifest
        stored = read_rounds(self.disk, self.directory)
        found = stored or StoredRounds()
        self.rounds = KnownRounds.restored(
            None if manifest is None else PlacedRound(manifest.applied_at, manifest.round_),
            reaches=0 if manifest is None else manifest.reaches,
            floor=0 if manifest is None else manifest.tombstone_floor,
            floor_known=found.floor_known,
            whole_from=read_whole_from(self.disk, self.directory),
        )
        for placed in found.pending:
            if placed.offset < scan_start:
                self._take_round(placed.offset, encode_round(placed.round_, base_offset=placed.offset))
        if stored is None:
            self.report.notes.append("rounds of compaction found in the batches: their file was torn")
            for segment in self.segments:
                self._take_rounds(segment, segment.walk())

    def _take_rounds(self, segment: Segment, batches: Iterable[tuple[int, BatchHeader]]) -> None:
        for position, header in batches:
            if header.is_control:
                self._take_round(header.base_offset, segment.read_batch(position, header))

    def _take_round(self, log_offset: int, batch: Buffer) -> None:
        """Take in a control batch, unless a pass was made of it or of a later one."""
        if self.manifest is None or log_offset > self.manifest.applied_at:
            self.rounds.on_appended(decode_header(batch), memoryview(batch))

    def _settle_rounds(self, log_end_offset: int, *, is_clean: bool) -> None:
        if self.manifest is not None and self.manifest.applied_at >= log_end_offset:
            raise _Damage("the log ends below the round that was applied to it", log_end_offset)
        if not is_clean:
            self.rounds.on_cut(log_end_offset)

    def _scan(self, bases: list[int]) -> None:
        for index, base in enumerate(bases):
            if not self._continues(base):
                self._cut(bases[index:], ScanStop.CORRUPT, f"segment {base} does not continue the log")
                return
            segment = self._scan_segment(base)
            if self.report.cut_reason is not None:
                self.segments.append(segment)
                self._cut(bases[index + 1 :], self.report.cut_reason, f"{segment.base_offset:020d}.log")
                return
            self.segments.append(segment)

    def _scan_segment(self, base: int) -> Segment:
        """Read it batch by batch into a fresh index. A bad batch sets `cut_reason`; the file is not cut
        yet."""
        file = self.disk.open(log_path(self.directory, base))
        segment = Segment(
            self.disk,
            self.directory,
            base_offset=base,
            file=file,
            index=new_index(self.disk, index_path(self.directory, base)),
            index_interval_bytes=self.settings.options.index_interval_bytes,
            now_ms=self.now_ms,
        )
        if base in self.listed:
            self._find_aborted(segment)
        else:
            path = aborted_path(self.directory, base)
            segment.aborted = AbortedIndex(self.disk, path, has_file=base in self.with_aborted)
        scan = SegmentScan(file, next_offset=base, leader_epoch=self.epochs.latest)
        self.valid_end_offset = base
        for position, header in scan:
            segment.note_batch(header, position)
            self._take_epoch(header, self.valid_end_offset)
            self.valid_end_offset = header.next_offset
            if header.is_control:
                self._take_rounds(segment, [(position, header)])
        self.report.scanned_bytes += segment.size_bytes
        if scan.stop is not ScanStop.END:
            if base in self.listed:
                raise _Damage(
                    f"{base:020d}.log: {scan.stop.value}, rewritten", self.valid_end_offset, refutes=False
                )
            self.report.cut_reason = scan.stop
            self.report.cut_bytes += scan.size_bytes - scan.position
        self._take_listed_end(segment)
        return segment

    def _cut(self, later_bases: list[int], stop: ScanStop, where: str) -> None:
        """Drop what follows the last good batch, if that is this crash's doing; else raise the damage."""
        end_offset = self.valid_end_offset
        later_bytes = [stored_bytes(self.disk, log_path(self.directory, base)) for base in later_bases]
        if end_offset < self.recovery_point:
            is_rot = stop is ScanStop.CORRUPT
            raise _Damage(f"{where}: {stop.value} below the recovery point", end_offset, refutes=not is_rot)
        if self.last_shutdown is ShutdownKind.PROCESS_CRASH:
            if stop is not ScanStop.TORN or any(later_bytes):
                raise _Damage(f"{where}: {stop.value}, which no dying process leaves", end_offset)
            if end_offset < self.high_watermark:
                raise _Damage(f"{where}: {stop.value} below the high watermark", end_offset)
        self.report.cut_reason = stop
        self.report.cut_bytes += sum(later_bytes)
        self.report.notes.append(f"cut to offset {end_offset}: {where} {stop.value}")
        for base in reversed(later_bases):
            unlink_segment(self.disk, self.directory, base)
        if self.segments:
            self.segments[-1].file.truncate(self.segments[-1].size_bytes)

    def _settle_start_and_end(self, bases: list[int]) -> int:
        """Keep log_start_offset <= log_end_offset, also against the checkpoint."""
        if not bases:
            self.segments.append(
                create_segment(
                    self.disk,
                    self.directory,
                    base_offset=self.log_start_offset,
                    index_interval_bytes=self.settings.options.index_interval_bytes,
                    now_ms=self.now_ms,
                )
            )
            if not self.settings.is_synced_later:
                self.disk.fsync_dir(self.directory)
            self.valid_end_offset = self.log_start_offset
            self.is_new = self.last_shutdown is ShutdownKind.FIRST_START  # nothing was found to be settled
        self.log_start_offset = max(self.log_start_offset, self.segments[0].base_offset)
        if self.valid_end_offset >= self.log_start_offset:
            return self.valid_end_offset
        # All that is left had been deleted, and a gap in offsets (or a power cut) was the rest.
        self.report.notes.append(
            f"the log ended at {self.valid_end_offset}: begins again at its start {self.log_start_offset}"
        )
        return self.log_start_offset

    def _build(
        self, log_end_offset: int, snapshot_offsets: list[int], *, snapshot_max: int, is_clean: bool
    ) -> PartitionLog:
        settings = self.settings
        active = self.segments[-1]
        if is_clean or not active.index.is_in_memory:
            active.reopen_for_append()
        first = next((header for _, header in active.walk()), None)
        if first is not None and first.max_timestamp >= 0:  # so that a restart does not put off the roll
            active.first_append_ms = min(first.max_timestamp, self.now_ms)
        for segment in self.segments[:-1]:
            segment.close_index()
        snapshots = ProducerSnapshots(self.disk, self.directory, snapshot_offsets, self.report.notes.append)
        if self.manifest is not None:  # what it lists was not cut, and its snapshots know what is gone there
            snapshot_max = max(snapshot_max, self.manifest.end_offset)
        snapshots.delete_beyond(snapshot_max)  # younger ones may tell of a log that was truncated since
        if not is_clean:
            snapshots.distrust()
        log = PartitionLog(
            settings,
            self.directory,
            partition=self.partition,
            segments=self.segments,
            epochs=self.epochs,
            producers=ProducerStates(producers_max=settings.options.producers_max),
            snapshots=snapshots,
            log_start_offset=self.log_start_offset,
            log_end_offset=log_end_offset,
            recovery_point=self.recovery_point,
            now_ms=self.now_ms,
            rounds=self.rounds,
            manifest=self.manifest,
        )
        log.holes.load(log_start_offset=self.log_start_offset)
        log.rebuild_producers(is_recovery=not is_clean)
        for segment in self.segments[:-1]:
            segment.aborted.write()
        for name in log.check_aborted():
            self.report.notes.append(f"{name} was torn: built again from the batches")
        if not self.is_new and (not is_clean or self.are_epochs_rebuilt):
            log.durability.settle_after_recovery(log.producers)
            if not settings.is_synced_later:
                log.durability.flush()
        self._adopt_seal(log)
        self.report.log_end_offset = log_end_offset
        return log

    def _adopt_seal(self, log: PartitionLog) -> None:
        seal = self.stored_seal
        if seal is not None and seal.is_kept_by(log.epochs, log_end_offset=log.log_end_offset):
            log.seal.adopt(seal)
        else:
            remove_seal(self.disk, self.directory)
