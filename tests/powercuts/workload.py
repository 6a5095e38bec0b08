"""What the storage engine is made to do before the power goes: everything it can do, in a seeded order.

The engine is the real one, on whatever disk; before and after each of its operations the ledger hears what it
may have begun and what it has promised. The same seed does the same on every disk, to the single write.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from dataplane.core.compaction.known import PlacedRound
from dataplane.core.compaction.rewriting import Rewrite
from dataplane.core.compaction.rounds import Round, encode_round
from dataplane.core.leader_epochs import EpochStart
from dataplane.core.log_port import LogChanged
from dataplane.storage.checkpoints import PartitionKey
from dataplane.storage.compaction import CompactionPass
from dataplane.storage.divergent import NotWritten, copy_divergent
from dataplane.storage.log_dir import DIVERGENT, LogDir, open_log_dir
from dataplane.storage.log_settings import LogOptions, PartitionId
from dataplane.storage.partition_log import PartitionLog
from dataplane.storage.recovery import OpenedLog
from springtide.contract.epochs import BrokerEpoch, LeaderEpoch
from springtide.contract.session import ShutdownKind
from springtide.wire.fetch_response import Compacted
from springtide.wire.markers import Outcome, encode_marker
from springtide.wire.record_batch import decode_header
from springtide.wire.records import NewRecord, encode_batch
from tests.kit.dataplane.log_dirs import load_all
from tests.kit.memory.disk import SECTOR_BYTES, MemoryDisk
from tests.powercuts.ledger import Incarnation, Ledger, replayed
from tests.powercuts.reporting_disk import ReportingDisk

BROKER_ID = 1
BOOT_ID = "boot-1"
CLUSTER_ID = "cluster"
PARTITIONS_MAX = 3
PRODUCERS = 3
TRANSACTIONAL = range(1, PRODUCERS)
"""Producers that write in transactions only, but not where batches are whole sectors: a marker is none."""
OPTIONS = LogOptions(segment_bytes=4096, index_interval_bytes=900, tail_bytes_max=4096)
"""Small, so that everything that happens to a log happens within a few dozen operations."""

WEIGHTS = {
    "append": 40,
    "flush": 12,
    "checkpoint": 6,
    "begin_epoch": 5,
    "truncate": 6,
    "roll": 3,
    "retention": 4,
    "advance_start": 3,
    "restart_at": 1,
    "compact": 8,
    "hear_of_compaction": 2,
    "create": 3,
    "delete": 1,
    "unlink_deleted": 1,
    "quarantine": 1,
    "copy_divergent": 1,
    "stop_cleanly": 2,
    "die": 2,
}


KEYS = 5


@dataclass(slots=True)
class PassUnderWay:
    """A pass of compaction, between two of its steps. rewrite: what it should do, by the ledger."""

    under_way: CompactionPass
    applied_at: int
    first_offset: int
    rewrite: Rewrite
    is_written: bool = False
    is_committed: bool = False


class Workload:
    """In some of them every batch is a whole number of sectors, so that one that is lost leaves those around
    it readable."""

    def __init__(
        self, disk: MemoryDisk | ReportingDisk, path: str, seed: int, ledger: Ledger | None = None
    ) -> None:
        self.disk = disk
        self.path = path
        self.ledger = ledger or Ledger()
        self._random = Random(f"storage workload {seed}")
        self._has_whole_sectors = self._random.random() < 0.4
        # Drawn on every disk, so that one seed is one workload.
        disk.syncs_all = self._random.random() < 0.5
        self._sequences: dict[tuple[PartitionKey, int], int] = {}
        #: The producers with an open transaction.
        self._opened: dict[PartitionKey, set[int]] = {}
        self._created = 0
        self._deleted: list[tuple[PartitionKey, str]] = []
        self._quarantined: list[PartitionId] = []
        self._passes: dict[PartitionKey, PassUnderWay] = {}
        self._leader_epoch = 0
        self._broker_epoch = 0
        self._now_ms = 1_000
        self.log_dir: LogDir = self._open()

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.step()

    def step(self) -> None:
        (name,) = self._random.choices(list(WEIGHTS), weights=list(WEIGHTS.values()))
        self._now_ms += self._random.randint(1, 1_000)
        if name in _OF_DIRECTORY:
            _OF_DIRECTORY[name](self)
        elif not self.ledger.live:
            self.create()
        else:
            key = self._random.choice(sorted(self.ledger.live))
            _OF_LOG[name](self, self.log_dir.logs[key], self.ledger.live[key])

    # ---- one log

    def append(self, log: PartitionLog, known: Incarnation) -> None:
        batches: list[bytes] = []
        end_offset = log.log_end_offset
        for _ in range(self._random.choice((1, 1, 1, 2, 3))):
            gap = self._random.choice((0, 0, 0, 0, 2))
            batches.append(self._batch(known, end_offset + gap, max(log.epochs.latest, 0)))
            end_offset = decode_header(batches[-1]).next_offset
        known.appending(batches)
        log.append([decode_header(batch) for batch in batches], batches, now_ms=self._now_ms)
        known.appended(_epochs(log))
        if self._random.random() < 0.7:
            known.high_watermark = self._random.randint(known.high_watermark, log.log_end_offset)
            known.high_watermark_max = max(known.high_watermark_max, known.high_watermark)

    def flush(self, log: PartitionLog, known: Incarnation) -> None:
        if self._random.random() < 0.2:
            log.durability.persist_epochs()
        else:
            include_active = self._random.random() < 0.7
            known.flushed = max(
                known.flushed, log.durability.flush(include_active=include_active, now_ms=self._now_ms)
            )
        known.epochs = known.epochs_durable = _epochs(log)

    def begin_epoch(self, log: PartitionLog, known: Incarnation) -> None:
        self._leader_epoch += self._random.randint(1, 2)
        known.epochs_known.add(EpochStart(self._leader_epoch, log.log_end_offset))
        known.writing_epochs(log.log_end_offset)
        log.begin_leader_epoch(LeaderEpoch(self._leader_epoch))

    def truncate(self, log: PartitionLog, known: Incarnation) -> None:
        """What a follower does that finds another leader's log: cut, and in the next epoch fill in others,
        often the same records again (a producer's retry)."""
        lowest = max(known.high_watermark, log.log_start_offset)
        cut_offset = self._random.randint(lowest, log.log_end_offset)
        retried = [node.batch for node in known.chain if node.header.base_offset >= cut_offset]
        known.cutting(cut_offset)
        log.truncate_to(cut_offset)
        self._resume_sequences(log, known)
        if self._random.random() < 0.7:
            self.begin_epoch(log, known)
            if self._random.random() < 0.5 and retried and log.log_end_offset == cut_offset:
                batches = [_relabelled(batch, self._leader_epoch) for batch in retried]
                if decode_header(batches[0]).base_offset >= log.log_end_offset:
                    known.appending(batches)
                    log.append([decode_header(batch) for batch in batches], batches, now_ms=self._now_ms)
                    known.appended(_epochs(log))
                    self._resume_sequences(log, known)
            else:
                self.append(log, known)

    def roll(self, log: PartitionLog, _known: Incarnation) -> None:
        log.roll(now_ms=self._now_ms)

    def retention(self, log: PartitionLog, known: Incarnation) -> None:
        known.start_max = max(known.start_max, known.high_watermark)
        detached = log.apply_retention(
            now_ms=self._now_ms,
            expiry_ms=None,
            retention_ms=-1,
            retention_bytes=self._random.randint(0, 12_000),
            high_watermark=known.high_watermark,
        )
        self._start_advanced(log, known, detached)

    def advance_start(self, log: PartitionLog, known: Incarnation) -> None:
        target = self._random.randint(log.log_start_offset, max(known.high_watermark, log.log_start_offset))
        known.start_max = max(known.start_max, target)
        log.advance_log_start(target)
        self._start_advanced(log, known, log.detach_old_segments())

    def restart_at(self, log: PartitionLog, known: Incarnation) -> None:
        target = max(log.log_end_offset + self._random.randint(-20, 20), known.high_watermark)
        known.restarting(target)
        log.restart_at(target)
        known.restarted(target)
        self._resume_sequences(log, known)

    def compact(self, log: PartitionLog, known: Incarnation) -> None:
        """One step of a pass or several: other things happen in between."""
        key = (known.partition.topic_id, known.partition.partition)
        if key not in self._passes and not self._begin_pass(key, log, known):
            return
        at = self._passes[key]
        try:
            if not at.is_written:
                at.under_way.write()
                at.is_written = True
                known.flushed = max(known.flushed, log.recovery_point)
                known.epochs = known.epochs_durable = _epochs(log)
                if self._random.random() < 0.3:
                    return
            if not at.is_committed:
                known.committing(_left(at, known))
                at.under_way.commit()
                known.committed(applied_at=at.applied_at)
                at.is_committed = True
                if self._random.random() < 0.5:
                    return
        except LogChanged:
            known.compacting = None
        else:
            log.finish_compaction()
            at.under_way.release()
            if self._random.random() < 0.3:
                self.truncate(log, known)
        del self._passes[key]

    def _begin_pass(self, key: PartitionKey, log: PartitionLog, known: Incarnation) -> bool:
        """Append a round, which is committed at once, perhaps more behind it, and begin to apply it."""
        from_offset = 0 if log.compacted is None else log.compacted.reaches
        first_offset = max(from_offset, log.log_start_offset)
        stable = log.producers.transactions.last_stable_offset(log.log_end_offset)
        ends = [node.header.next_offset for node in known.chain]
        ends = [end_offset for end_offset in ends if first_offset < end_offset <= stable]
        if not ends:
            return False
        end_offset = self._random.choice(ends)
        round_ = Round(end_offset, self._now_ms, self._random.choice((0, end_offset)), producers_floor=0)
        applied_at = log.log_end_offset
        batch = encode_round(
            round_, leader_epoch=LeaderEpoch(max(log.epochs.latest, 0)), base_offset=applied_at
        )
        known.appending([batch])
        log.append([decode_header(batch)], [batch], now_ms=self._now_ms)
        known.appended(_epochs(log))
        committed = max(known.high_watermark, applied_at + 1)
        known.high_watermark_max = max(known.high_watermark_max, committed)
        if self._random.random() < 0.7:
            self.append(log, known)
        known.high_watermark = committed
        keys_max = self._random.choice((2, 1_000))
        _, aborted = replayed(known.chain)
        self._passes[key] = PassUnderWay(
            log.begin_compaction(PlacedRound(applied_at, round_), now_ms=self._now_ms, keys_max=keys_max),
            applied_at,
            log.segments[0].base_offset,
            Rewrite(round_, from_offset=from_offset, keys_max=keys_max, aborted=aborted),
        )
        return True

    def hear_of_compaction(self, log: PartitionLog, known: Incarnation) -> None:
        """As a follower, from a leader whose log lacks what is below an offset, perhaps above this log's
        end."""
        end_offset = log.log_end_offset + self._random.randint(-20, 20)
        log.note_compacted(Compacted(max(0, end_offset - 10), end_offset))
        if end_offset > log.log_end_offset:
            known.whole_from = max(known.whole_from, end_offset)

    def copy_divergent(self, log: PartitionLog, known: Incarnation) -> None:
        written = copy_divergent(
            self.disk,
            f"{self.path}/{DIVERGENT}",
            log,
            first_offset=self._random.randint(log.log_start_offset, log.log_end_offset),
            high_watermark=known.high_watermark,
            leader_epoch=LeaderEpoch(self._leader_epoch),
            reason="a workload",
            now_ms=self._now_ms,
            health=self.log_dir.health,
        )
        assert not isinstance(written, NotWritten), written

    # ---- the directory

    def checkpoint(self) -> None:
        if self._random.random() < 0.5:
            self.log_dir.offsets.checkpoint_recovery_points()
        else:
            self.log_dir.offsets.checkpoint_high_watermarks(self._high_watermarks())

    def create(self) -> None:
        if len(self.ledger.live) >= PARTITIONS_MAX:
            return
        if self._quarantined and self._random.random() < 0.7:
            partition = self._quarantined.pop()  # the same one again, as a learner
        else:
            partition = PartitionId(f"{self._created:022d}", "orders", self._created % 2)
            self._created += 1
        key = (partition.topic_id, partition.partition)
        self.ledger.creating(partition)
        self.log_dir.create(partition, now_ms=self._now_ms)
        self.ledger.created(key)
        for producer_id in range(PRODUCERS):
            self._sequences.pop((key, producer_id), None)
        self._opened.pop(key, None)

    def delete(self) -> None:
        key = self._any_key()
        if key is not None:
            partition = self.ledger.live[key].partition
            self._passes.pop(key, None)
            self.ledger.deleting(key)
            self._deleted.append((key, self.log_dir.delete(key)))
            if self._random.random() < 0.5:
                self._quarantined.append(partition)

    def unlink_deleted(self) -> None:
        if self._deleted:
            key, path = self._deleted.pop()
            self.log_dir.unlink_deleted([path])
            self.ledger.deleted_durably(key)

    def quarantine(self) -> None:
        key = self._any_key()
        if key is not None:
            self._quarantined.append(self.ledger.live[key].partition)
            self._passes.pop(key, None)
            self.ledger.deleting(key)
            self.log_dir.quarantine(key)
            self.ledger.deleted_durably(key)

    def stop_cleanly(self) -> None:
        """The whole shutdown protocol, and the next start."""
        self.ledger.kinds |= {ShutdownKind.CLEAN}
        assert self.log_dir.close_cleanly(self._high_watermarks())
        self.ledger.kinds = frozenset({ShutdownKind.CLEAN})
        for _, known in self.ledger.incarnations():
            known.flushed = max([known.flushed, *(node.header.next_offset for node in known.chain)])
        self.log_dir = self._open()

    def die(self) -> None:
        """The process is killed between two operations, and the next one starts on the same machine."""
        self.log_dir.abandon()
        self.log_dir = self._open()

    # ---- inside

    def _open(self) -> LogDir:
        ledger = self.ledger
        is_first = ShutdownKind.FIRST_START in ledger.kinds
        if not is_first:
            ledger.kinds |= CRASHED
        log_dir = open_log_dir(
            self.disk, self.path, broker_id=BROKER_ID, new_dir_id="dir-1", boot_id=BOOT_ID, options=OPTIONS
        )
        if not is_first:
            ledger.kinds = CRASHED
        entries = load_all(log_dir, now_ms=self._now_ms)
        assert all(isinstance(entry, OpenedLog) for entry in entries), entries
        for key in list(ledger.ghosts):
            ledger.deleted_durably(key)
        self._deleted.clear()
        self._passes.clear()
        self._broker_epoch += 1
        log_dir.claim.on_registering(f"incarnation-{self._broker_epoch}")
        ledger.kinds |= CRASHED
        ledger.broker_epochs |= {self._broker_epoch}
        log_dir.on_registered(cluster_id=CLUSTER_ID, broker_epoch=BrokerEpoch(self._broker_epoch))
        ledger.is_mount_marked = log_dir.claim.is_mount_marked
        ledger.kinds = CRASHED
        ledger.broker_epochs = frozenset({self._broker_epoch})
        for key, known in ledger.incarnations():
            known.reopened(log_dir.logs[key].recovery_point)
            self._resume_sequences(log_dir.logs[key], known)
        return log_dir

    def _start_advanced(self, log: PartitionLog, known: Incarnation, detached: list[str]) -> None:
        known.epochs_known.update(log.epochs.entries)
        if self._random.random() < 0.7:
            log.unlink_detached(detached)
        known.start_max = log.log_start_offset
        known.epochs = tuple(entry for entry in known.epochs if entry.start_offset > log.log_start_offset)

    def _any_key(self) -> PartitionKey | None:
        return self._random.choice(sorted(self.ledger.live)) if self.ledger.live else None

    def _high_watermarks(self) -> dict[PartitionKey, int]:
        return {key: known.high_watermark for key, known in self.ledger.incarnations()}

    def _batch(self, known: Incarnation, base_offset: int, leader_epoch: int) -> bytes:
        producer_id = self._random.randint(-1, PRODUCERS - 1)
        records = self._random.choice((1, 1, 2, 5))
        sequence = -1
        is_transactional = producer_id in TRANSACTIONAL and not self._has_whole_sectors
        if is_transactional:
            opened = self._opened.setdefault((known.partition.topic_id, known.partition.partition), set())
            if producer_id in opened and self._random.random() < 0.4:
                opened.remove(producer_id)
                return encode_marker(
                    self._random.choice(tuple(Outcome)),
                    coordinator_epoch=0,
                    producer_id=producer_id,
                    producer_epoch=0,
                    base_offset=base_offset,
                    leader_epoch=leader_epoch,
                    timestamp_ms=self._now_ms,
                )
            opened.add(producer_id)
        if producer_id >= 0:
            key = ((known.partition.topic_id, known.partition.partition), producer_id)
            sequence = self._sequences.get(key, 0)
            self._sequences[key] = sequence + records
        value_bytes = self._random.choice((1, 60, 300, 900))
        fill = self._random.choice(b"ab")
        record_key = b"key %d" % self._random.randrange(KEYS)

        def encoded(value_bytes: int) -> bytes:
            return encode_batch(
                [NewRecord(record_key, bytes([fill]) * value_bytes, self._now_ms)] * records,
                base_offset=base_offset,
                leader_epoch=leader_epoch,
                producer_id=producer_id,
                producer_epoch=0 if producer_id >= 0 else -1,
                base_sequence=sequence,
                is_transactional=is_transactional,
            )

        if not self._has_whole_sectors:
            return encoded(value_bytes)
        records = 1
        if producer_id >= 0:
            self._sequences[key] = sequence + records
        sectors = self._random.choice((1, 1, 2, 3))
        value_bytes = sectors * SECTOR_BYTES - 100
        while (missing := sectors * SECTOR_BYTES - len(encoded(value_bytes))) > 0:
            value_bytes += missing
        return encoded(value_bytes)

    def _resume_sequences(self, log: PartitionLog, known: Incarnation) -> None:
        """Producers go on where the log says. A gap at its very end does not survive a restart."""
        known.high_watermark = min(known.high_watermark, log.log_end_offset)
        key = (known.partition.topic_id, known.partition.partition)
        for producer_id in range(PRODUCERS):
            self._sequences[key, producer_id] = 0
        for view in log.producers.active_producers():
            self._sequences[key, view.producer_id] = view.last_sequence + 1
        self._opened[key] = set(log.producers.transactions.open)


CRASHED = frozenset({ShutdownKind.PROCESS_CRASH, ShutdownKind.MACHINE_CRASH})

_OF_LOG: dict[str, Callable[[Workload, PartitionLog, Incarnation], None]] = {
    name: getattr(Workload, name)
    for name in (
        "append",
        "flush",
        "begin_epoch",
        "truncate",
        "roll",
        "retention",
        "advance_start",
        "restart_at",
        "compact",
        "hear_of_compaction",
        "copy_divergent",
    )
}
_OF_DIRECTORY: dict[str, Callable[[Workload], None]] = {
    name: getattr(Workload, name)
    for name in ("checkpoint", "create", "delete", "unlink_deleted", "quarantine", "stop_cleanly", "die")
}


def _epochs(log: PartitionLog) -> tuple[EpochStart, ...]:
    """Without the one that only begins where it does because what was before it is deleted."""
    return tuple(entry for entry in log.epochs.entries if entry.start_offset > log.log_start_offset)


def _left(at: PassUnderWay, known: Incarnation) -> list[bytes]:
    """What the pass leaves of the log as the ledger knows it, batch for batch."""
    nodes = [node for node in known.chain if node.header.base_offset >= at.first_offset]
    for node in nodes:
        at.rewrite.read(memoryview(node.batch), node.header)
    left = [at.rewrite.rewritten(node.header, memoryview(node.batch).toreadonly) for node in nodes]
    return [bytes(batch) for batch in left if batch is not None]


def _relabelled(batch: bytes, leader_epoch: int) -> bytes:
    """The same records under another leader epoch, which the CRC does not cover."""
    return batch[:12] + leader_epoch.to_bytes(4, "big") + batch[16:]
