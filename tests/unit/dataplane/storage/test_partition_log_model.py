"""PartitionLog against a list of batches, under every operation in any order, crashes included."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from dataplane.core.log_port import LogPort
from dataplane.core.producer_state import ProducerStates
from dataplane.core.transactions import marker_in
from dataplane.storage.partition_log import PartitionLog
from dataplane.storage.recovery import open_partition_log
from springtide.contract.epochs import LeaderEpoch
from springtide.contract.session import ShutdownKind
from springtide.wire.markers import Outcome
from springtide.wire.record_batch import BatchHeader
from tests.kit.dataplane.storage import (
    DIRECTORY,
    PARTITION,
    SMALL,
    append,
    batch,
    content,
    header_of,
    marker,
    opened,
    read_all,
    settings_for,
)
from tests.kit.memory.disk import MemoryDisk

PRODUCERS = 3


class LogMachine(RuleBasedStateMachine):
    """`batches` is the truth; `flushed` how far it was fsynced; `stored_*` what the checkpoints would say."""

    @initialize(has_tail=st.booleans())
    def create(self, has_tail: bool) -> None:
        self.disk = MemoryDisk()
        self.disk.mkdir(DIRECTORY)
        self.disk.fsync_dir("")
        self.disk.fsync_dir("/data")
        self.options = (
            SMALL if has_tail else type(SMALL)(segment_bytes=600, index_interval_bytes=150, tail_bytes_max=0)
        )
        self.batches: list[bytes] = []
        self.leader_epoch = 0
        self.sequences = dict.fromkeys(range(PRODUCERS), 0)
        self.stored_recovery_point = 0
        self.stored_log_start = 0
        self.start = 0
        self.end = 0
        self.now_ms = 1000
        self.log: PartitionLog = self._open(ShutdownKind.FIRST_START)

    def _open(self, kind: ShutdownKind) -> PartitionLog:
        def persist() -> None:
            self.stored_recovery_point = min(self.stored_recovery_point, self.log.recovery_point)
            self.stored_log_start = min(self.stored_log_start, self.log.log_start_offset)

        settings_ = replace(settings_for(self.disk, options=self.options), on_lowered=persist)
        return opened(
            open_partition_log(
                settings_,
                DIRECTORY,
                partition=PARTITION,
                last_shutdown=kind,
                recovery_point=self.stored_recovery_point,
                high_watermark=0,
                log_start_offset=self.stored_log_start,
                now_ms=self.now_ms,
            )
        )

    @rule(
        shapes=st.lists(
            st.tuples(
                st.integers(1, 3),  # records
                st.integers(-1, PRODUCERS - 1),
                st.integers(0, 2),  # gap before it
                st.sampled_from([1, 40, 300]),  # value bytes
                st.sampled_from([None, None, "transactional", Outcome.ABORT, Outcome.ABORT, Outcome.COMMIT]),
            ),
            min_size=1,
            max_size=3,
        )
    )
    def append_batches(self, shapes: list[tuple[int, int, int, int, str | Outcome | None]]) -> None:
        new = []
        for records, producer, gap, size, kind in shapes:
            base = self.end + (gap if gap == 2 else 0)
            if producer >= 0 and isinstance(kind, Outcome):
                new.append(
                    marker(base, producer, kind, leader_epoch=self.leader_epoch, timestamp=self.now_ms)
                )
                self.end = base + 1
                continue
            new.append(
                batch(
                    base,
                    records=records,
                    leader_epoch=self.leader_epoch,
                    producer_id=producer,
                    base_sequence=self.sequences[producer] if producer >= 0 else -1,
                    value=bytes([base % 251]) * size,
                    timestamp=self.now_ms,
                    is_transactional=producer >= 0 and kind is not None,
                )
            )
            if producer >= 0:
                self.sequences[producer] += records
            self.end = header_of(new[-1]).next_offset
        self.now_ms += 10
        append(self.log, *new, now_ms=self.now_ms)
        self.batches += new

    @rule()
    def begin_epoch(self) -> None:
        self.leader_epoch += 1
        self.log.begin_leader_epoch(LeaderEpoch(self.leader_epoch))

    @rule(back=st.integers(0, 12))
    def truncate(self, back: int) -> None:
        cut = max(self.end - back, self.start)
        self.log.truncate_to(cut)
        kept = [b for b in self.batches if header_of(b).next_offset <= cut]
        dropped = self.batches[len(kept) :]
        if dropped:
            cut = min(cut, header_of(dropped[0]).base_offset)
        self.batches = kept
        self.end = max(cut, self.start)
        self._resume_sequences()

    @rule(ahead=st.integers(0, 5))
    def restart(self, ahead: int) -> None:
        target = self.end + ahead
        self.log.restart_at(target)
        self.batches = []
        self.start = self.end = target
        self._resume_sequences()

    @rule(part=st.integers(0, 100))
    def advance_start(self, part: int) -> None:
        self.start += (self.end - self.start) * part // 100
        self.log.advance_log_start(self.start)
        self.log.unlink_detached(self.log.detach_old_segments())

    @rule(keep_bytes=st.integers(0, 2000))
    def retention(self, keep_bytes: int) -> None:
        paths = self.log.apply_retention(
            now_ms=self.now_ms,
            expiry_ms=None,
            retention_ms=-1,
            retention_bytes=keep_bytes,
            high_watermark=self.end,
        )
        self.log.unlink_detached(paths)
        assert self.start <= self.log.log_start_offset <= self.end
        self.start = self.log.log_start_offset

    @rule()
    def roll(self) -> None:
        self.log.roll(now_ms=self.now_ms)

    @rule(include_active=st.booleans(), is_stored=st.booleans())
    def flush(self, include_active: bool, is_stored: bool) -> None:
        recovery_point = self.log.durability.flush(include_active=include_active, now_ms=self.now_ms)
        if is_stored:
            self.stored_recovery_point = recovery_point

    @rule()
    def clean_restart(self) -> None:
        self.log.close_cleanly()
        self.stored_recovery_point = self.log.recovery_point
        self.stored_log_start = self.log.log_start_offset
        self.disk.crash_machine(Random(0))  # a clean stop needs no luck
        self.log = self._open(ShutdownKind.CLEAN)
        self._forget_end_gap()

    @rule(torn_bytes=st.integers(0, 80))
    def process_crash(self, torn_bytes: int) -> None:
        self.stored_log_start = self.log.log_start_offset
        if torn_bytes:
            name = f"{DIRECTORY}/{self.log.segments[-1].base_offset:020d}.log"
            unfinished = batch(self.end, records=3, leader_epoch=self.leader_epoch, value=b"x" * 30)
            self.disk.content(name).extend(unfinished[:torn_bytes])
        self.disk.crash_process()
        self.log = self._open(ShutdownKind.PROCESS_CRASH)
        self._forget_end_gap()

    @rule(seed=st.integers(0, 2**32))
    def machine_crash(self, seed: int) -> None:
        flushed = self.stored_recovery_point
        self.stored_log_start = min(self.stored_log_start, self.start)
        self.disk.crash_machine(Random(seed))
        self.log = self._open(ShutdownKind.MACHINE_CRASH)
        # What had been flushed is there; what follows is a prefix of what was appended, or of an epoch
        # that a truncation had dropped and that its label still tells from the truth.
        end = self.log.log_end_offset
        if self.batches:
            assert end >= min(flushed, header_of(self.batches[-1]).next_offset)
        self._adopt()

    def _forget_end_gap(self) -> None:
        """A gap at the very end has no bytes, so a restart does not know of it."""
        last = header_of(self.batches[-1]).next_offset if self.batches else self.log.segments[0].base_offset
        assert self.log.log_end_offset == max(last, self.start) or not self.batches
        self.end = self.log.log_end_offset
        self.batches = [
            b for b in self.batches if header_of(b).next_offset > self.log.segments[0].base_offset
        ]

    def _adopt(self) -> None:
        """After a power cut, the log's own content is the truth if it is sound."""
        found = []
        raw = read_all(self.log, start=self.log.log_start_offset)
        while raw:
            size = header_of(raw).size_bytes
            found.append(raw[:size])
            raw = raw[size:]
        mine = [b for b in self.batches if header_of(b).next_offset > self.log.log_start_offset]
        flushed = [b for b in mine if header_of(b).next_offset <= self.stored_recovery_point]
        assert found[: len(flushed)] == flushed
        self.batches = found
        self.start = self.log.log_start_offset
        self.end = self.log.log_end_offset
        self.leader_epoch = max(self.leader_epoch, self.log.epochs.latest)
        self._resume_sequences()

    def _resume_sequences(self) -> None:
        """Producers go on where the log says; a replay from the log's start is the oracle below."""
        for view in self.log.producers.active_producers():
            self.sequences[view.producer_id] = max(view.last_sequence + 1, 0)

    # ---- what must hold after each step

    @invariant()
    def offsets_are_in_order(self) -> None:
        assert isinstance(self.log, PartitionLog)
        port: LogPort = self.log
        assert port.log_start_offset == self.start
        assert port.log_end_offset == self.end
        assert port.log_start_offset <= port.log_end_offset
        assert self.log.recovery_point <= max(self.end, self.start)

    @invariant()
    def it_reads_back_what_was_appended(self) -> None:
        readable = [b for b in self.batches if header_of(b).next_offset > self.start]
        assert read_all(self.log, max_bytes=250) == b"".join(readable)
        for encoded in readable:
            header = header_of(encoded)
            piece = self.log.read(
                max(header.base_offset, self.start), max_bytes=1, end_offset=header.next_offset
            )
            assert (content(piece), piece.next_offset) == (encoded, header.next_offset)
            assert not self.log.read(
                max(header.base_offset, self.start),
                max_bytes=header.size_bytes - 1,
                end_offset=self.end,
                at_least_one=False,
            ).parts

    @invariant()
    def sizes_add_up(self) -> None:
        assert self.log.size_bytes == sum(segment.size_bytes for segment in self.log.segments)

    @invariant()
    def epochs_fit_the_batches(self) -> None:
        entries = self.log.epochs.entries
        assert list(entries) == sorted(set(entries))
        headers: list[BatchHeader] = [header_of(b) for b in self.batches]
        for header in headers:
            if header.base_offset >= self.start:
                assert self.log.epochs.epoch_at(header.base_offset) == header.leader_epoch
        assert all(entry.start_offset <= self.end for entry in entries)

    @invariant()
    def producers_are_what_a_replay_of_the_log_says(self) -> None:
        """It may have begun in the middle: then the log knows where a transaction began, and it does not."""
        replayed = ProducerStates()
        aborted = []
        for encoded in self.batches:
            header = header_of(encoded)
            found = replayed.update(header, now_ms=0, marker=marker_in(header, encoded))
            aborted += [found] if found is not None else []
        first = header_of(self.batches[0]).base_offset if self.batches else self.end
        seen = {view.producer_id: view for view in self.log.producers.active_producers()}
        for view in replayed.active_producers():
            begun, mine = view.current_txn_start_offset, seen[view.producer_id].current_txn_start_offset
            assert mine == begun or (0 <= mine < first <= begun)
            assert seen[view.producer_id].producer_epoch == view.producer_epoch
            assert view.last_sequence in (-1, seen[view.producer_id].last_sequence)
        known = {(entry.producer_id, entry.last_offset): entry for entry in self.log.aborted_in(0, self.end)}
        for entry in aborted:
            if entry.last_offset < self.start:
                continue
            mine_ = known.pop((entry.producer_id, entry.last_offset))
            assert mine_ == entry or mine_.first_offset < first or mine_.last_stable_offset < first
        assert all(entry.last_offset < self.start or entry.first_offset < first for entry in known.values())
        firsts = [entry.first_offset for entry in self.log.aborted_in(0, self.end)]
        assert firsts == sorted(firsts)

    @invariant()
    def the_first_timestamp_is_found(self) -> None:
        readable = [h for h in map(header_of, self.batches) if h.base_offset >= self.start]
        if readable:
            middle = readable[len(readable) // 2]
            hit = self.log.find_timestamp(middle.base_timestamp, end_offset=self.end)
            assert hit is not None
            assert hit.offset <= middle.base_offset
            assert hit.timestamp_ms >= middle.base_timestamp


TestLogMachine = LogMachine.TestCase
TestLogMachine.settings = settings(
    max_examples=120, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
