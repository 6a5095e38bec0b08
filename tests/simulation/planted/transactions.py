"""Bugs of transactions. Those of the offsets that a transaction commits, and of what a shard of transactions
takes back: random walks hunt them (tests/kit/coordinator/pending_walk.py, transaction_walk.py)."""

from __future__ import annotations

from functools import partial
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

from coordinator.core.group_records import OffsetKey, PendingKey, encode_offset, encode_offset_key
from coordinator.core.groups import admin, machine, offsets, transactions
from coordinator.core.groups.pending import PendingOffsets
from coordinator.core.groups.registry import Registry, Turn
from coordinator.core.groups.requests import CommitPendingOffsets, EndPendingOffsets
from coordinator.core.pending_records import EndedTransaction, PendingOffset
from coordinator.core.transactions.store import TransactionStore
from springtide.wire.errors import ErrorCode
from springtide.wire.markers import Outcome
from tests.simulation.planted.plant import Patches, plant

_offsets = partial(plant, walks="pending offsets", breaks="I32", seeds_max=40)

JUDGE = transactions._judge
END = transactions._end
COMMIT_PENDING = transactions.commit_pending_offsets
OF_PRODUCER = PendingOffsets.of_producer
DELETE = admin._delete


@_offsets(seen="a marker that was sent twice ends the next transaction's offsets (version 1)")
def a_second_delivery_of_a_marker_counts() -> Patches:
    def judge(ended: EndedTransaction | None, request: EndPendingOffsets) -> tuple[ErrorCode, bool]:
        return JUDGE(ended, replace(request, attempt=-1))

    return [(transactions, "_judge", judge)]


@_offsets(seen="a coordinator that was replaced still ends transactions")
def a_former_coordinators_marker_counts() -> Patches:
    def judge(ended: EndedTransaction | None, request: EndPendingOffsets) -> tuple[ErrorCode, bool]:
        if ended is not None and request.coordinator_epoch < ended.coordinator_epoch:
            return ErrorCode.NONE, True
        return JUDGE(ended, request)

    return [(transactions, "_judge", judge)]


@_offsets(seen="KAFKA-19999: the coordinator's own marker, sent again, is refused for ever")
def a_marker_of_the_same_epoch_is_refused() -> Patches:
    def judge(ended: EndedTransaction | None, request: EndPendingOffsets) -> tuple[ErrorCode, bool]:
        error, is_new = JUDGE(ended, request)
        is_again = ended is not None and not is_new
        return (ErrorCode.INVALID_PRODUCER_EPOCH if is_again else error), is_new

    return [(transactions, "_judge", judge)]


@_offsets(seen="KAFKA-14402: a commit that arrives after the end hangs")
def a_late_commit_is_not_verified() -> Patches:
    return [(transactions, "_is_open", lambda registry, request: True)]


@_offsets(seen="a marker that was written while the coordinator was asked does not count")
def a_guard_never_becomes_stale() -> Patches:
    def commit(registry: Registry, turn: Turn, request: CommitPendingOffsets) -> None:
        if request.guard is not None:
            ended = registry.store.pending.ended.latest(request.producer_id)
            request = replace(request, guard=request.guard._replace(ended=ended))
        COMMIT_PENDING(registry, turn, request)

    return _on_request(CommitPendingOffsets, commit)


def _on_request(kind: type, handle: Any) -> Patches:
    return [(machine, "_ON_REQUEST", {**machine._ON_REQUEST, kind: handle})]


@_offsets(seen="a racing plain commit is lost to an older one of a transaction (redpanda#31483)")
def a_plain_commit_leaves_older_pending_offsets() -> Patches:
    return [(offsets, "drop_pending", lambda turn, keys: None)]


@_offsets(seen="the offsets of two transactions count in the order of their ends")
def an_older_transactions_offset_replaces_a_newer_one() -> Patches:
    return [(transactions, "_older", lambda pending, key, value: [])]


@_offsets(seen="KIP-447: the new owner of a partition reads the offset of before the last transaction")
def stable_offsets_are_judged_by_the_committed_view() -> Patches:
    def in_either_view(self: PendingOffsets, place: OffsetKey) -> Any:
        for key in self._keys_at(place):
            value = self.of.committed(key)
            if value is not None:
                yield value

    return [(PendingOffsets, "in_either_view", in_either_view)]


@_offsets(seen="an end that is not committed yet makes offsets stable")
def stable_offsets_are_judged_by_the_latest_view() -> Patches:
    def in_either_view(self: PendingOffsets, place: OffsetKey) -> Any:
        for _, value in self.at(place):
            yield value

    return [(PendingOffsets, "in_either_view", in_either_view)]


@_offsets(seen="KAFKA-19163: a group is deleted under an open transaction")
def a_group_is_deleted_beside_pending_offsets() -> Patches:
    def delete(registry: Registry, turn: Turn, group_id: str) -> ErrorCode:
        with patch.object(PendingOffsets, "places", lambda self, group_id: []):
            return DELETE(registry, turn, group_id)

    return [(admin, "_delete", delete)]


@_offsets(seen="pending offsets stand under Kafka's key, and an abort can't bring the old one back")
def a_pending_offset_stands_under_kafkas_key() -> Patches:
    def encode_key(key: PendingKey) -> bytes:
        return encode_offset_key(key.place)

    def encode(value: PendingOffset) -> bytes:
        return encode_offset(value.offset)

    return [(transactions, "encode_pending_key", encode_key), (transactions, "encode_pending", encode)]


@_offsets(seen="KAFKA-17507: an end is answered before its offsets are read")
def an_end_is_told_before_it_is_committed() -> Patches:
    def end(registry: Registry, turn: Turn, request: EndPendingOffsets) -> None:
        transactions.end_pending_offsets(registry, turn, request)
        turn.waits = False

    return _on_request(EndPendingOffsets, end)


@_offsets(seen="what was refused stays pending")
def a_refused_pending_offset_is_not_undone() -> Patches:
    return [(PendingOffsets, "undo", lambda self, offset: self.ended.undo(offset))]


@_offsets(seen="an end without offsets is not kept, and its marker comes again")
def an_end_of_nothing_is_not_remembered() -> Patches:
    def end(registry: Registry, turn: Turn, request: EndPendingOffsets) -> None:
        before = len(turn.records)
        END(registry, turn, request)
        if len(turn.records) == before + 1:
            turn.records.pop()

    return [(transactions, "_end", end)]


@_offsets(seen="half of a transaction's offsets count (redpanda#6019)")
def an_end_takes_the_first_offset_alone() -> Patches:
    def of_producer(self: PendingOffsets, producer_id: int) -> Any:
        return OF_PRODUCER(self, producer_id)[:1]

    return [(PendingOffsets, "of_producer", of_producer)]


@_offsets(seen="an aborted transaction's offsets count")
def an_abort_commits_offsets() -> Patches:
    def end(registry: Registry, turn: Turn, request: EndPendingOffsets) -> None:
        END(registry, turn, replace(request, outcome=Outcome.COMMIT))

    return [(transactions, "_end", end)]


@_offsets(seen="a lost abort: unstable for ever (redpanda#6423)")
def an_abort_leaves_offsets_pending() -> Patches:
    def end(registry: Registry, turn: Turn, request: EndPendingOffsets) -> None:
        before = len(turn.records)
        END(registry, turn, request)
        if request.outcome is Outcome.ABORT:
            del turn.records[before:-1]

    return [(transactions, "_end", end)]


@plant(
    walks="transactions",
    breaks="I31",
    seen="a refused step stays in memory, and the next one goes on from it",
    seeds_max=40,
)
def a_refused_step_of_a_transaction_is_not_undone() -> Patches:
    return [(TransactionStore, "undo", lambda self, offset: None)]
