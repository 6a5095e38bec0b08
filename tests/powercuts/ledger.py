"""What the storage engine has promised so far, and what else a crash may leave.

The workload writes down what it is about to do before it does it, and what was promised after it. So at any
moment between two operations of the disk the ledger says:

- which batches must be there after a power cut (fsynced, by a flush that returned) and after the death of the
  process (every write that returned);
- which logs there may be at all: any prefix of anything that one log has held, but never a mixture of two
  of its pasts. That is a tree: each batch under the one it was appended behind. What a pass of compaction
  leaves is another branch of it: a log is the one before the pass or the one after, record for record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from dataplane.core.leader_epochs import EpochStart
from dataplane.core.producer_state import ProducerStates
from dataplane.core.transactions import AbortedEntry, marker_in
from dataplane.storage.checkpoints import PartitionKey
from dataplane.storage.log_settings import PartitionId
from springtide.contract.session import ShutdownKind
from springtide.wire.record_batch import BatchHeader, decode_header

T = TypeVar("T")


class Node:
    """One appended batch. parent: the batch before it, or None if it was the first since `beginning` (the log
    begins once when it is made and again with each restart_at). original: what a compaction made it of."""

    __slots__ = ("batch", "beginning", "children", "header", "original", "parent")

    def __init__(self, batch: bytes, parent: Node | None, beginning: int) -> None:
        self.batch = batch
        self.header: BatchHeader = decode_header(batch)
        self.parent = parent
        self.beginning = beginning
        self.children: dict[bytes, Node] = {}
        self.original: Node | None = None

    def history(self) -> list[Node]:
        """Everything from the beginning to this batch, as it was before any compaction."""
        found: list[Node] = []
        node: Node | None = self
        while node is not None:
            while node.original is not None:
                node = node.original
            found.append(node)
            node = node.parent
        return found[::-1]


def replayed(nodes: Iterable[Node], *, now_ms: int = 0) -> tuple[ProducerStates, list[AbortedEntry]]:
    """Return what these batches tell of producers, and which transactions are aborted."""
    states = ProducerStates()
    entries = [
        states.update(node.header, now_ms=now_ms, marker=marker_in(node.header, node.batch)) for node in nodes
    ]
    return states, [entry for entry in entries if entry is not None]


class Incarnation:
    """One log, from its creation to its deletion; a partition that is made again has another one.

    chain: what it holds now. pending: what is being appended. compacting: what it holds if the pass that is
    being committed is. passes: committed. flushed: below it, all of `chain` is durable.
    start_max: its log start is not beyond this. whole_from: told by a leader before records of it were
    copied, so that no later process may know less. epochs: as of the last operation that returned;
    epochs_durable: as of the last that fsynced them; epochs_known: all that were ever true of it.
    """

    def __init__(self, partition: PartitionId) -> None:
        self.partition = partition
        self.chain: list[Node] = []
        self.pending: list[Node] = []
        self.compacting: list[Node] | None = None
        self.passes = 0
        self.flushed = 0
        self.start_max = 0
        self.whole_from = 0
        self.high_watermark = 0
        self.high_watermark_max = 0
        self.epochs: tuple[EpochStart, ...] = ()
        self.epochs_durable: tuple[EpochStart, ...] = ()
        self.epochs_known: set[EpochStart] = set()
        self.beginning = 0
        self.beginnings_possible = {0}
        self._first: dict[tuple[int, bytes], Node] = {}
        self._by_batch: dict[bytes, list[Node]] = {}

    def appending(self, batches: Sequence[bytes]) -> None:
        last = self.chain[-1] if self.chain else None
        if batches and (last is None or last.header.leader_epoch != decode_header(batches[0]).leader_epoch):
            self.writing_epochs(decode_header(batches[0]).base_offset)
        self.pending = []
        for batch in batches:
            end_offset = decode_header(batch).base_offset if last is None else last.header.next_offset
            last = self._node(batch, last)
            self.pending.append(last)
            header = last.header
            self.epochs_known.add(EpochStart(header.leader_epoch, header.base_offset))
            self.epochs_known.add(EpochStart(header.leader_epoch, end_offset))

    def appended(self, epochs: Sequence[EpochStart]) -> None:
        self.chain += self.pending
        self.pending = []
        self.epochs = tuple(epochs)

    def committing(self, left: Sequence[bytes]) -> None:
        """A pass of compaction that leaves these batches may be committed from now on."""
        originals = {node.header.base_offset: node for node in self.chain}
        self.compacting = []
        for batch in left:
            node = self._node(batch, self.compacting[-1] if self.compacting else None)
            original = originals[node.header.base_offset]
            if node is not original and node.original is None:
                node.original = original
            self.compacting.append(node)

    def committed(self, *, applied_at: int) -> None:
        """It is. What replaces the records that are gone is durable, up to the round's record."""
        assert self.compacting is not None
        self.chain, self.compacting = self.compacting, None
        self.passes += 1
        self.flushed = max(self.flushed, applied_at + 1)

    def cutting(self, cut_offset: int) -> None:
        """Down to whole batches below it. What goes may come back until the next flush, as it was. A batch
        that spans the offset goes whole, and what takes its place below the offset is not flushed yet."""
        kept = [node for node in self.chain if node.header.next_offset <= cut_offset]
        for gone in self.chain[len(kept) : len(kept) + 1]:
            cut_offset = min(cut_offset, gone.header.base_offset)
        self.chain = kept
        self.flushed = min(self.flushed, cut_offset)
        self.high_watermark = min(self.high_watermark, cut_offset)
        self.writing_epochs(cut_offset)

    def reopened(self, recovery_point: int) -> None:
        """By the next process. A gap at the very end of a log is forgotten with the process that knew of it,
        so what is appended next may lie below what had been flushed."""
        last = self.chain[-1].header.next_offset if self.chain else 0
        self.flushed = min(max(self.flushed, recovery_point), last)

    def writing_epochs(self, log_offset: int) -> None:
        """Something begins or goes at an offset. The file is replaced without an fsync, so until the next one
        a power cut may leave the batches as the only evidence (5.3, the epoch history)."""
        self.epochs = tuple(entry for entry in self.epochs if entry.start_offset < log_offset)
        self.epochs_durable = ()

    def restarting(self, log_offset: int) -> None:
        self.chain = []
        self.flushed = self.whole_from = 0
        self.epochs = self.epochs_durable = ()
        self.beginning += 1
        self.beginnings_possible.add(self.beginning)
        self.start_max = max(self.start_max, log_offset)

    def restarted(self, log_offset: int) -> None:
        self.beginnings_possible = {self.beginning}
        self.start_max = log_offset
        self.high_watermark = log_offset
        self.high_watermark_max = max(self.high_watermark_max, log_offset)

    def places(self, batch: bytes, beginnings: frozenset[int]) -> list[Node]:
        """Where in the tree a log may begin with this batch: retention may have cut off what was before."""
        return [node for node in self._by_batch.get(batch, ()) if node.beginning in beginnings]

    def _node(self, batch: bytes, parent: Node | None) -> Node:
        node = self._first.get((self.beginning, batch)) if parent is None else parent.children.get(batch)
        if node is None:
            node = Node(batch, parent, self.beginning)
            if parent is None:
                self._first[self.beginning, batch] = node
            else:
                parent.children[batch] = node
            self._by_batch.setdefault(batch, []).append(node)
        return node


@dataclass(frozen=True, slots=True)
class ExpectedLog:
    """after_power_cut, after_kill: batches that must be there, oldest first; epochs likewise. passes: so many
    have compacted it."""

    incarnation: Incarnation
    passes: int
    after_power_cut: tuple[Node, ...]
    after_kill: tuple[Node, ...]
    epochs_after_power_cut: tuple[EpochStart, ...]
    epochs_after_kill: tuple[EpochStart, ...]
    beginnings: frozenset[int]
    start_max: int
    whole_from: int
    high_watermark_max: int

    @property
    def identity(self) -> tuple[int, int]:
        return id(self.incarnation), self.passes

    def widened(self, later: ExpectedLog) -> ExpectedLog:
        return replace(
            self,
            after_power_cut=_common(self.after_power_cut, later.after_power_cut),
            after_kill=_common(self.after_kill, later.after_kill),
            epochs_after_power_cut=_common(self.epochs_after_power_cut, later.epochs_after_power_cut),
            epochs_after_kill=_common(self.epochs_after_kill, later.epochs_after_kill),
            beginnings=self.beginnings | later.beginnings,
            start_max=max(self.start_max, later.start_max),
            whole_from=min(self.whole_from, later.whole_from),
            high_watermark_max=max(self.high_watermark_max, later.high_watermark_max),
        )


def _common(one: tuple[T, ...], other: tuple[T, ...]) -> tuple[T, ...]:
    others = set(other)
    return tuple(each for each in one if each in others)


@dataclass(slots=True)
class Expected:
    """What may be found after a crash at one moment. logs: per partition, any one of these; `absent`: which
    partitions may have none."""

    logs: dict[PartitionKey, list[ExpectedLog]] = field(default_factory=dict)
    absent: set[PartitionKey] = field(default_factory=set)
    kinds: frozenset[ShutdownKind] = frozenset()
    broker_epochs: frozenset[int] = frozenset()
    is_mount_marked: bool = True

    def widened(self, later: Expected) -> Expected:
        """For an observer who knows that the moment lies between two."""
        logs: dict[PartitionKey, list[ExpectedLog]] = {}
        for key in {*self.logs, *later.logs}:
            merged = {log.identity: log for log in self.logs.get(key, [])}
            for log in later.logs.get(key, []):
                earlier = merged.get(log.identity)
                merged[log.identity] = log if earlier is None else earlier.widened(log)
            logs[key] = list(merged.values())
        only_one = {key for key in logs if key not in self.logs or key not in later.logs}
        return Expected(
            logs,
            self.absent | later.absent | only_one,
            self.kinds | later.kinds,
            self.broker_epochs | later.broker_epochs,
            self.is_mount_marked and later.is_mount_marked,
        )


class Ledger:
    """live: by partition. ghosts: deleted logs whose deletion need not be durable yet. unmade: being created.
    kinds: how a start after a crash now may say that this process stopped (a crash's kind depends on the
    crash). is_mount_marked: whether the mount mark stands, without which a kill can't be told from a power
    cut."""

    def __init__(self) -> None:
        self.live: dict[PartitionKey, Incarnation] = {}
        self.ghosts: dict[PartitionKey, list[Incarnation]] = {}
        self.unmade: set[PartitionKey] = set()
        self.kinds = frozenset({ShutdownKind.FIRST_START})
        self.broker_epochs = frozenset({-1})
        self.is_mount_marked = False

    def creating(self, partition: PartitionId) -> Incarnation:
        key = (partition.topic_id, partition.partition)
        self.live[key] = incarnation = Incarnation(partition)
        self.unmade.add(key)
        return incarnation

    def created(self, key: PartitionKey) -> None:
        self.unmade.discard(key)
        self.ghosts.pop(key, None)  # the directory's fsync took the old name with it

    def deleting(self, key: PartitionKey) -> None:
        self.ghosts.setdefault(key, []).append(self.live.pop(key))

    def deleted_durably(self, key: PartitionKey) -> None:
        self.ghosts.pop(key, None)

    def expected(self) -> Expected:
        logs = {key: _expected_logs(incarnation) for key, incarnation in self.live.items()}
        absent = set(self.unmade)
        for key, ghosts in self.ghosts.items():
            absent.update({key} - self.live.keys())
            logs.setdefault(key, []).extend(map(_ghost, ghosts))
        return Expected(logs, absent, self.kinds, self.broker_epochs, self.is_mount_marked)

    def incarnations(self) -> Iterator[tuple[PartitionKey, Incarnation]]:
        return iter(sorted(self.live.items()))


def _expected_logs(incarnation: Incarnation) -> list[ExpectedLog]:
    """As it is and, while a pass is being committed, as the pass leaves it."""
    found = [_expected_log(incarnation, incarnation.chain, incarnation.passes)]
    if incarnation.compacting is not None:
        found.append(_expected_log(incarnation, incarnation.compacting, incarnation.passes + 1))
    return found


def _expected_log(incarnation: Incarnation, chain: Sequence[Node], passes: int) -> ExpectedLog:
    flushed = incarnation.flushed
    return ExpectedLog(
        incarnation,
        passes,
        tuple(node for node in chain if node.header.next_offset <= flushed),
        tuple(chain),
        incarnation.epochs_durable,
        incarnation.epochs,
        frozenset(incarnation.beginnings_possible),
        incarnation.start_max,
        incarnation.whole_from,
        incarnation.high_watermark_max,
    )


def _ghost(incarnation: Incarnation) -> ExpectedLog:
    """Nothing of it is promised any more."""
    return replace(
        _expected_log(incarnation, (), incarnation.passes),
        after_power_cut=(),
        after_kill=(),
        epochs_after_power_cut=(),
        epochs_after_kill=(),
        whole_from=0,
    )
