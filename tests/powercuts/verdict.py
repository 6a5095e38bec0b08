"""Opens what a crash has left with the real recovery, and says what must not be.

Each finding begins with the rule that it breaks:

    damaged    recovery refuses a log although nothing but the crash happened to it
    absent     a log is gone, or one is back that was deleted
    kind       the directory says of itself what is not so (clean stop, broker epoch), or forgets a crash that
               it has told nobody of
    lost       a promised batch is not there, byte for byte
    chain      the log is no prefix of anything it ever held: an unknown batch, or a mixture of two pasts
    start      the log start is beyond what was ever deleted, or the high watermark beyond what was committed
    epochs     the leader epochs contradict the batches, or a promised one is gone, or one never was
    rounds     a round of compaction that is to be applied is not known, or one that is not; or what a leader
               told of its own log
    producers  a stored batch would be stored again, or a retry be answered for bytes that are gone; or a
               transaction is open that has ended, or the reverse
    aborted    a record is told to be aborted that is not, or one is not told that is
    again      a second recovery of the same bytes, or a crash after the first, comes to something else
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dataplane.core.compaction.known import KnownRounds, PlacedRound
from dataplane.core.leader_epochs import EpochStart
from dataplane.core.log_port import LogError
from dataplane.core.producer_state import Duplicate, ProducerStates
from dataplane.core.transactions import AbortedRanges
from dataplane.storage.checkpoints import PartitionKey
from dataplane.storage.disk import Disk
from dataplane.storage.log_dir import QUARANTINE, LogDir, StrayDirectory, open_log_dir
from dataplane.storage.log_dir_identity import LogDirRefused
from dataplane.storage.partition_log import PartitionLog
from dataplane.storage.recovery import DamagedLog
from springtide.contract.session import ShutdownKind
from springtide.wire.errors import ErrorCode
from springtide.wire.framing import FileChunk
from springtide.wire.record_batch import crc_is_valid, decode_header, iter_headers
from tests.kit.dataplane.log_dirs import load_all
from tests.powercuts.ledger import Expected, ExpectedLog, Node, replayed
from tests.powercuts.workload import BOOT_ID, BROKER_ID, OPTIONS

READ_BYTES = 1500
"""Small, so that many reads begin in the middle of a segment."""
NOW_MS = 10_000_000


@dataclass(frozen=True, slots=True)
class RecoveredLog:
    """aborted: where the batches begin of whose records a reader is told that they are aborted."""

    start_offset: int
    end_offset: int
    batches: tuple[bytes, ...]
    epochs: tuple[EpochStart, ...]
    producers: tuple[object, ...]
    aborted: tuple[int, ...]
    rounds: tuple[PlacedRound, ...]
    applied_below: int
    whole_from: int


@dataclass(slots=True)
class Recovered:
    """What a start after the crash has found. problems: it did not come so far."""

    kind: ShutdownKind
    broker_epoch: int
    logs: dict[PartitionKey, RecoveredLog]
    states: dict[PartitionKey, ProducerStates]
    high_watermarks: dict[PartitionKey, int]
    problems: list[str]


def recover(disk: Disk, path: str, *, is_power_cut: bool, is_same_boot: bool = False) -> Recovered:
    """A start of the storage engine, up to its registration, which does not come. is_same_boot: the power cut
    was that of a volume, which was detached and attached again, and the kernel has gone on."""
    boot_id = f"after {BOOT_ID}" if is_power_cut and not is_same_boot else BOOT_ID
    found = Recovered(ShutdownKind.FIRST_START, -1, {}, {}, {}, [])
    try:
        log_dir = open_log_dir(
            disk, path, broker_id=BROKER_ID, new_dir_id="dir-2", boot_id=boot_id, options=OPTIONS
        )
    except (LogDirRefused, LogError) as error:
        found.problems.append(f"damaged: the directory is refused: {error}")
        return found
    try:
        found.kind, found.broker_epoch = log_dir.claim.last_shutdown, log_dir.claim.previous_broker_epoch
        aside = _names_aside(disk, path)
        for entry in load_all(log_dir, now_ms=NOW_MS):
            if isinstance(entry, DamagedLog):
                found.problems.append(f"damaged: {entry.directory}: {entry.reason}")
            elif isinstance(entry, StrayDirectory) and _names_aside(disk, path) != aside:
                found.problems.append(f"damaged: {entry.name} is stray, with data: {entry.reason}")
        for key, log in log_dir.logs.items():
            _take(found, log_dir, key, log)
        log_dir.claim.on_registering("successor")
    except LogError as error:
        found.problems.append(f"damaged: {error}")
    except Exception as error:  # whatever it is: a start must not end so
        found.problems.append(f"damaged: {type(error).__name__}: {error}")
    finally:
        log_dir.abandon()
    return found


def judge(found: Recovered, expected: Expected, *, is_power_cut: bool) -> list[str]:
    """Everything that is wrong with it; empty when all holds."""
    wrong = list(found.problems)
    wrong += _judge_identity(found, expected, is_power_cut=is_power_cut)
    is_clean = found.kind is ShutdownKind.CLEAN
    for key in sorted({*found.logs, *expected.logs}):
        log = found.logs.get(key)
        candidates = expected.logs.get(key, [])
        if log is None:
            if key not in expected.absent:
                wrong.append(f"absent: {key} is gone")
        elif not candidates:
            wrong.append(f"absent: {key} is back, which was deleted")
        else:
            verdicts = [
                _judge_log(
                    log,
                    found.states[key],
                    found.high_watermarks[key],
                    each,
                    is_whole=is_clean or not is_power_cut,
                )
                for each in candidates
            ]
            wrong += [f"{line} ({key})" for line in min(verdicts, key=len)]
    return wrong


def differences(first: Recovered, again: Recovered, expected: Expected) -> list[str]:
    """Of two recoveries that should have come to the same; but what need not be there may be there once."""
    wrong = [f"again: {problem}" for problem in again.problems if not first.problems]
    for key in sorted({*first.logs, *again.logs}):
        one, other = first.logs.get(key), again.logs.get(key)
        if one is None or other is None:
            if key in expected.absent:
                continue
            wrong.append(f"again: {key} is there only once")
        else:
            wrong += [
                f"again: {key}: {name} was {getattr(one, name)!r:.200}, is {getattr(other, name)!r:.200}"
                for name in RecoveredLog.__slots__
                if getattr(one, name) != getattr(other, name)
            ]
    return wrong


def _take(found: Recovered, log_dir: LogDir, key: PartitionKey, log: PartitionLog) -> None:
    batches: list[bytes] = []
    aborted: list[int] = []
    log_offset = log.log_start_offset
    while log_offset < log.log_end_offset:
        piece = log.read(log_offset, max_bytes=READ_BYTES, end_offset=log.log_end_offset)
        if not piece.size_bytes:
            break
        told = AbortedRanges(log.aborted_in(log_offset, piece.next_offset))
        for part in piece.parts:
            data = (
                part.source.pread(part.length, part.position) if isinstance(part, FileChunk) else bytes(part)
            )
            for position, header in iter_headers(data):
                batch = data[position : position + header.size_bytes]
                if not crc_is_valid(memoryview(batch), header):
                    found.problems.append(f"chain: {key}: CRC at offset {header.base_offset}")
                batches.append(batch)
                if header.record_count and told.hold(header):
                    aborted.append(header.base_offset)
        log_offset = piece.next_offset
    found.logs[key] = RecoveredLog(
        log.log_start_offset,
        log.log_end_offset,
        tuple(batches),
        log.epochs.entries,
        _remembered(log.producers),
        tuple(aborted),
        log.rounds.pending,
        _applied_below(log),
        log.rounds.whole_from,
    )
    found.states[key] = log.producers
    found.high_watermarks[key] = log_dir.stored_high_watermark(key)


def _names_aside(disk: Disk, path: str) -> list[str]:
    return disk.listdir(f"{path}/{QUARANTINE}") if disk.exists(f"{path}/{QUARANTINE}") else []


def _remembered(states: ProducerStates) -> tuple[object, ...]:
    """All but when each was last heard of: a recovery hears of everybody at once."""
    return tuple(
        (
            producer_id,
            producer.producer_epoch,
            producer.run,
            producer.batches,
            states.transactions.first_offset_of(producer_id),
        )
        for producer_id, producer in sorted(states._producers.items())
    )


def _judge_identity(found: Recovered, expected: Expected, *, is_power_cut: bool) -> list[str]:
    crash = ShutdownKind.MACHINE_CRASH if is_power_cut else ShutdownKind.PROCESS_CRASH
    possible = {
        kind
        for kind in expected.kinds
        if kind in (ShutdownKind.CLEAN, ShutdownKind.FIRST_START) or kind is crash
    }
    if not expected.is_mount_marked and crash in possible:
        possible.add(ShutdownKind.MACHINE_CRASH)  # what can't be proved costs a seat
    wrong = []
    if found.kind not in possible:
        wrong.append(f"kind: {found.kind} where only {sorted(possible)} can be")
    if found.broker_epoch not in expected.broker_epochs:
        wrong.append(f"kind: broker epoch {found.broker_epoch}, not {sorted(expected.broker_epochs)}")
    return wrong


def _judge_log(
    log: RecoveredLog,
    states: ProducerStates,
    high_watermark: int,
    expected: ExpectedLog,
    *,
    is_whole: bool,
) -> list[str]:
    wrong = []
    if log.start_offset > expected.start_max:
        wrong.append(f"start: {log.start_offset}, beyond {expected.start_max}")
    if high_watermark > expected.high_watermark_max:
        wrong.append(f"start: high watermark {high_watermark}, beyond {expected.high_watermark_max}")
    promised = expected.after_kill if is_whole else expected.after_power_cut
    kept = tuple(node.batch for node in promised if node.header.next_offset > log.start_offset)
    if log.batches[: len(kept)] != kept:
        have = [node.header.base_offset for node in promised]
        wrong.append(f"lost: of the promised batches at {have} up to {len(log.batches)} are there")
    path = _path(log, expected)
    if path is None:
        wrong.append(f"chain: {_describe(log.batches)} was never this log")
        return wrong
    wrong += _judge_epochs(log, path, expected, is_whole=is_whole)
    wrong += _judge_rounds(log, expected)
    if path:
        wrong += _judge_producers(log, path, states)
    return wrong


def _path(log: RecoveredLog, expected: ExpectedLog) -> list[Node] | None:
    """The log as a way through everything that it ever held."""
    if not log.batches:
        return []
    for node in expected.incarnation.places(log.batches[0], expected.beginnings):
        path = [node]
        for batch in log.batches[1:]:
            following = path[-1].children.get(batch)
            if following is None:
                break
            path.append(following)
        else:
            return path
    return None


def _judge_epochs(
    log: RecoveredLog, path: Sequence[Node], expected: ExpectedLog, *, is_whole: bool
) -> list[str]:
    wrong = []
    entries = log.epochs
    if list(entries) != sorted(set(entries)):
        wrong.append(f"epochs: {entries} do not rise")
    for node in path:
        reigning = [entry for entry in entries if entry.start_offset <= node.header.base_offset]
        if node.header.base_offset >= log.start_offset and (
            not reigning or reigning[-1].leader_epoch != node.header.leader_epoch
        ):
            wrong.append(f"epochs: {entries} do not know {node.header.leader_epoch} of a batch")
            break
    for entry in entries:
        if entry.start_offset > log.start_offset and entry not in expected.incarnation.epochs_known:
            wrong.append(f"epochs: {entry} never was")
    promised = expected.epochs_after_kill if is_whole else expected.epochs_after_power_cut
    for entry in promised:
        if log.start_offset < entry.start_offset <= log.end_offset and entry not in entries:
            wrong.append(f"epochs: {entry} was promised and is not among {entries}")
    return wrong


def _applied_below(log: PartitionLog) -> int:
    """Return the offset below which no round is to be applied any more, by the manifest."""
    manifest = log.compacted
    if manifest is None:
        return 0
    return manifest.applied_at + (manifest.reaches >= manifest.round_.end_offset)


def _judge_rounds(log: RecoveredLog, expected: ExpectedLog) -> list[str]:
    """By the batches: each round above the applied one, which tells no more of itself."""
    replay = KnownRounds()
    for batch in log.batches:
        header = decode_header(batch)
        if header.is_control and header.base_offset >= log.applied_below:
            replay.on_appended(header, memoryview(batch))
    wrong = []
    found = {placed for placed in log.rounds if placed.offset >= log.start_offset}
    due = {placed for placed in replay.pending if placed.offset >= log.start_offset}
    if found != due:
        wrong.append(f"rounds: {found} are to be applied, by the log {due}")
    if log.whole_from < expected.whole_from:
        wrong.append(f"rounds: whole from {log.whole_from}, {expected.whole_from} was told")
    return wrong


def _judge_producers(log: RecoveredLog, path: Sequence[Node], states: ProducerStates) -> list[str]:
    """Against a replay of all that was ever in this log, deleted or not: a retry of what is stored must not
    be stored again, and only what is stored may be answered as a duplicate."""
    replay, entries = replayed(path[-1].history(), now_ms=NOW_MS)
    due = AbortedRanges(entries)
    wrong = []
    aborted = tuple(
        node.header.base_offset for node in path if node.header.record_count and due.hold(node.header)
    )
    if aborted != log.aborted:
        wrong.append(f"aborted: {log.aborted}, by the log {aborted}")
    # A marker alone tells no sequence, and a transaction whose first records were deleted begins at the next.
    kept: dict[int, list[int]] = {}
    for node in path:
        if node.header.base_offset >= log.start_offset and not node.header.is_control:
            kept.setdefault(node.header.producer_id, []).append(node.header.base_offset)
    views = {view.producer_id: view for view in states.active_producers()}
    for view in replay.active_producers():
        offsets, found = kept.get(view.producer_id, []), views.get(view.producer_id)
        if not offsets:
            continue
        began = view.current_txn_start_offset
        if found is not None and 0 <= began < log.start_offset and found.current_txn_start_offset in offsets:
            view = view._replace(current_txn_start_offset=offsets[0])  # noqa: PLW2901
        if found != view:
            wrong.append(f"producers: {found}, by the log {view}")
    for node in path:
        header = node.header
        if header.producer_id < 0 or header.is_control or header.base_offset < log.start_offset:
            continue
        should, does = replay.check(header), states.check(header)
        # Where compaction took later batches, the five that are remembered reach back to this one: its own
        # place is as true an answer as none.
        true = (should, Duplicate(header.base_offset, header.last_offset, header.max_timestamp))
        if does is ErrorCode.NONE or (
            isinstance(does, Duplicate) and isinstance(should, Duplicate) and does not in true
        ):
            wrong.append(f"producers: a retry of offset {header.base_offset} is {does}, should be {should}")
    return wrong


def _describe(batches: Sequence[bytes]) -> str:
    return " ".join(
        f"{header.base_offset}-{header.last_offset}e{header.leader_epoch}"
        for batch in batches
        for _, header in iter_headers(batch)
    )
