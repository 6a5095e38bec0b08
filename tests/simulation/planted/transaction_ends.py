"""Bugs of transactions at their coordinators and at leaders of partitions: what is decided, who is told, what
readers of committed records see. Seeds of the family hunt them (kinds_transactions.py)."""

from __future__ import annotations

from functools import partial
from typing import Any

from msgspec.structs import replace

from coordinator.core.machine import StepOutcome
from coordinator.core.transaction_records import StoredTransaction
from coordinator.core.transactions import ends, init, machine, state, timeouts
from coordinator.core.transactions.machine import TransactionMachine
from coordinator.core.transactions.markers import MarkerBook
from coordinator.core.transactions.registry import TransactionTurn
from dataplane.core import leader
from dataplane.core.compaction import deciding
from dataplane.core.compaction.known import KnownRounds
from dataplane.core.compaction.rounds import Dirt
from dataplane.core.effects import Effects
from dataplane.core.leader import Leader
from dataplane.core.producer_state import ProducerStates
from dataplane.core.replica import Replica
from dataplane.core.transactions import AbortedEntry, AbortedRanges, MarkerToWrite, PartitionTransactions
from springtide.wire.errors import ErrorCode
from springtide.wire.markers import Marker, Outcome
from springtide.wire.record_batch import BatchHeader
from tests.kit.memory.log import MemoryLog
from tests.simulation.planted.plant import Patches, plant

_plant = partial(plant, family="transactions", coordinators=2, breaks="I32", seeds_max=60)
_lasting = partial(plant, family="transactions", coordinators=2, breaks="I34", seeds_max=60)
_stable = partial(plant, family="transactions", coordinators=2, breaks="I33", seeds_max=60)
_compacted = partial(plant, family="transactions", coordinators=2, compacted=True, seeds_max=60)

DECIDE_ROUND = Leader.decide_round
_markers = partial(plant, walks="markers", breaks="I32", seeds_max=10)

FENCED = state.fenced
PREPARED = state.prepared
CHECK_MARKER = ProducerStates.check_marker
WRITE_MARKER = Leader.write_marker
ON_MARKER = PartitionTransactions.on_marker
STRIKE = MarkerBook.strike
CHECK_BUMPING = ends._check_bumping
ABORTED_IN = MemoryLog.aborted_in


# --- coordinators ----------------------------------------------------------------------------------


@_lasting(seen="redpanda: the next coordinator does not go on with an end that is decided")
def markers_are_not_sent_again_by_the_next_coordinator() -> Patches:
    def opened(self: TransactionMachine, now_ms: int, wall_ms: int) -> StepOutcome:
        turn = TransactionTurn(now_ms, wall_ms)
        timeouts.begin_timeouts(self.registry, turn)
        return turn.outcome()

    return [(TransactionMachine, "opened", opened)]


@_lasting(seen="an end is complete with its first marker")
def one_marker_is_taken_for_all() -> Patches:
    def strike(self: MarkerBook, transactional_id: str, end: Any, places: Any) -> int:
        left = STRIKE(self, transactional_id, end, places)
        return 0 if left > 0 else left

    return [(MarkerBook, "strike", strike)]


@_lasting(seen="redpanda#8566: expired transactions are never aborted")
def an_overdue_transaction_is_never_aborted() -> Patches:
    return [(machine, "on_timeout_timer", lambda registry, turn: None)]


@_plant(seen="a transaction is aborted in its time, and its producer goes on in the next one unfenced")
def an_abort_by_the_coordinator_fences_nobody() -> Patches:
    def fenced(stored: StoredTransaction, **how: Any) -> StoredTransaction:
        return replace(FENCED(stored, **how), producer_epoch=stored.producer_epoch, version=1)

    return [(timeouts, "fenced", fenced), (init, "fenced", fenced)]


@_plant(seen="KAFKA-17754, under version 2: what is late of one transaction ends the next")
def an_end_of_version_2_raises_no_epoch() -> Patches:
    def prepared(stored: StoredTransaction, *, version: int, **how: Any) -> StoredTransaction:
        made = PREPARED(stored, version=1, **how)
        return replace(made, last_producer_epoch=stored.producer_epoch)

    return [(ends, "prepared", prepared), (ends, "_comes_again", lambda stored, told: False)]


@_plant(seen="a commit that comes again is told success, and the transaction aborted")
def a_commit_that_comes_again_is_always_a_success() -> Patches:
    return [(ends, "_check_again", lambda stored, request: ErrorCode.NONE)]


@_plant(seen="the outcome of a decided end is changed by a late request")
def a_decided_end_is_decided_again() -> Patches:
    def check(stored: StoredTransaction, request: Any) -> ErrorCode | None:
        is_decided = stored.state in state.PREPARED
        return None if is_decided else CHECK_BUMPING(stored, request)

    predecessors = {**state.PREDECESSORS}
    for prepare in state.PREPARED:
        predecessors[prepare] = predecessors[prepare] | state.PREPARED
    return [(ends, "_check_bumping", check), (state, "PREDECESSORS", predecessors)]


@_plant(seen="KAFKA-20090: epochs run over")
def epochs_are_never_used_up() -> Patches:
    return [(module, "is_exhausted", lambda epoch: False) for module in (ends, init)]


# --- leaders ---------------------------------------------------------------------------------------


@_lasting(seen="KIP-890: a leader verifies nothing")
def a_batch_opens_a_transaction_without_verification() -> Patches:
    return [(Leader, "_settle_transaction", lambda self, header, txn, now_ms: None)]


@_stable(seen="Inkless 495: the last stable offset does not wait for the marker to be replicated")
def a_marker_counts_before_it_is_committed() -> Patches:
    def last_stable_offset(self: PartitionTransactions, high_watermark: int) -> int:
        return min(high_watermark, next(iter(self.open.values()), high_watermark))

    return [(PartitionTransactions, "last_stable_offset", last_stable_offset)]


@_plant(seen="readers of committed records read what is open")
def readers_stop_at_the_high_watermark() -> Patches:
    return [(PartitionTransactions, "last_stable_offset", lambda self, high_watermark: high_watermark)]


@_plant(seen="KAFKA-13727: aborted data becomes committed")
def nothing_is_told_to_be_aborted() -> Patches:
    return [(MemoryLog, "aborted_in", lambda self, first_offset, end_offset: [])]


@_plant(seen="franz-go 1.21.4: an abort that began before another is left out")
def only_the_last_abort_is_told() -> Patches:
    def one(self: MemoryLog, first_offset: int, end_offset: int) -> list[AbortedEntry]:
        return ABORTED_IN(self, first_offset, end_offset)[-1:]

    return [(MemoryLog, "aborted_in", one)]


@_lasting(seen="KAFKA-19999: markers that are sent again are refused for ever")
def a_marker_that_comes_again_is_refused() -> Patches:
    def check(self: ProducerStates, marker: MarkerToWrite) -> ErrorCode | int:
        verdict = CHECK_MARKER(self, marker)
        return verdict if isinstance(verdict, ErrorCode) else ErrorCode.TRANSACTION_COORDINATOR_FENCED

    return [(ProducerStates, "check_marker", check)]


@_markers(seen="a marker that was sent again ends the next transaction when it arrives at last (version 1)")
def a_late_marker_ends_the_next_transaction() -> Patches:
    return [(ProducerStates, "is_late", lambda self, marker: False)]


@_markers(seen="a leader takes a late marker that another leadership had been sent (version 1)")
def a_marker_of_an_earlier_leadership_counts() -> Patches:
    def write_marker(self: Leader, marker: MarkerToWrite, **how: Any) -> Any:
        return WRITE_MARKER(self, replace(marker, leader_epoch=-1), **how)

    return [(Leader, "write_marker", write_marker)]


@_stable(seen="a commit marker is not known to end anything by replicas that read it")
def a_commit_marker_ends_nothing() -> Patches:
    def on_marker(self: PartitionTransactions, header: BatchHeader, marker: Marker) -> AbortedEntry | None:
        if marker.outcome is Outcome.COMMIT:
            return None
        return ON_MARKER(self, header, marker)

    return [(PartitionTransactions, "on_marker", on_marker)]


@_plant(seen="the marker of an aborted transaction says that it is committed")
def an_abort_is_taken_for_a_commit() -> Patches:
    def on_marker(self: PartitionTransactions, header: BatchHeader, marker: Marker) -> AbortedEntry | None:
        return ON_MARKER(self, header, marker._replace(outcome=Outcome.COMMIT))

    return [(PartitionTransactions, "on_marker", on_marker)]


# --- what goes, and what stays ---------------------------------------------------------------------


@_stable(seen="readers of committed records wait for ever for what DeleteRecords took")
def what_is_deleted_is_waited_for() -> Patches:
    def stable(self: Replica) -> int:
        return self.log.producers.transactions.last_stable_offset(self.watermark.offset)

    return [(Replica, "last_stable_offset", property(stable))]


@_compacted(breaks="I35", seen="a round takes a record for one that is aborted later")
def a_round_passes_the_last_stable_offset() -> Patches:
    def decide_round(self: Leader, dirt: Dirt, *, agreed_ms: int, **times: int) -> Effects:
        log: Any = self._log
        options = self._replica.options.compaction
        if options is not None:
            lag_ms = options.min_compaction_lag_ms
            dirt = log.dirt(self._replica.high_watermark, before_ms=agreed_ms - lag_ms)
        return DECIDE_ROUND(self, dirt, agreed_ms=agreed_ms, **times)

    def due(known: KnownRounds, found: Dirt, *args: Any, last_stable_offset: int, **others: Any) -> Any:
        end_offset = max(last_stable_offset, found.end_offset)
        return deciding.due_round(known, found, *args, last_stable_offset=end_offset, **others)

    return [(Leader, "decide_round", decide_round), (leader, "due_round", due)]


@_compacted(breaks="I35", seen="a record of an aborted transaction replaces an older one of its key")
def what_is_aborted_replaces_what_is_not() -> Patches:
    return [(AbortedRanges, "hold", lambda self, header: False)]
