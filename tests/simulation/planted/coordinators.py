"""Bugs of a coordinator around its shard: what it opens with, whom it answers, and what it believes was
written; and of the controller that gives the shard to it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import patch

from msgspec import structs

from controller.core import coordinators, shards
from controller.core.coordinators import CoordinatorSessions
from controller.core.draft import Draft
from coordinator.core.machine import StepOutcome
from coordinator.core.replay import NO_WRITER
from coordinator.core.shard import ShardPhase, ShardRuntime
from coordinator.core.shard_ports import BatchAnswered
from coordinator.core.writer import ShardWriter
from dataplane.core.fence import NO_WRITER as NO_BATCH
from dataplane.core.fence import Fence
from springtide.contract.partition_state import (
    WRITER_BATCHES_MAX,
    WRITER_IDS,
    PartitionKey,
    PartitionState,
    WriterId,
)
from springtide.wire.errors import ErrorCode
from springtide.wire.record_batch import BatchHeader
from springtide.wire.records import NewRecord, encode_batch
from tests.simulation.planted.plant import Patches, plant


@plant(breaks="I27", seen="an opening takes up the writer that the log knows already", coordinators=2)
def writer_used_again() -> Patches:
    original = ShardRuntime._open

    def open_(self: ShardRuntime, writer: WriterId, nonce: bytes) -> None:
        known = self._replay.writer
        original(self, writer if known == NO_WRITER else known, nonce)

    return [(ShardRuntime, "_open", open_)]


@plant(
    breaks="I31", seen="a standby serves once its opening is written, not once it has read it", coordinators=2
)
def served_before_it_is_level() -> Patches:
    original = ShardRuntime._read_on

    def read_on(self: ShardRuntime) -> None:
        if self.phase is not ShardPhase.READING:
            original(self)
            return
        self.phase = ShardPhase.SERVING
        self._take(self.machine.opened(self._now_ms, self._wall_ms))

    return [(ShardRuntime, "_read_on", read_on)]


@plant(breaks="I28", seen="a reply goes out before its record is committed", coordinators=2)
def answered_before_the_commit() -> Patches:
    original = ShardRuntime._take

    def take(self: ShardRuntime, outcome: StepOutcome) -> None:
        for reply in outcome.replies:
            self._answer(reply.token, reply.message)
        original(self, structs.replace(outcome, replies=()))

    return [(ShardRuntime, "_take", take)]


@plant(breaks="I28", seen="an append without an answer counts as refused", coordinators=2, family="metadata")
def unknown_counts_as_refused() -> Patches:
    original = ShardWriter.on_answer
    known = {ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER}

    def on_answer(self: ShardWriter, answer: BatchAnswered) -> Any:
        if answer.error not in known:
            answer = structs.replace(answer, error=ErrorCode.NOT_ENOUGH_REPLICAS)
        return original(self, answer)

    return [(ShardWriter, "on_answer", on_answer)]


@plant(breaks="I31", seen="what was refused stays in memory", coordinators=2)
def refused_and_not_undone() -> Patches:
    original = ShardRuntime._undo

    def undo(self: ShardRuntime) -> None:
        with patch.object(type(self.machine), "undo", lambda *_: None):
            original(self)

    return [(ShardRuntime, "_undo", undo)]


@plant(breaks="13.5", seen="a drain moves a shard to a coordinator that has not read its log", coordinators=2)
def moved_before_it_is_level() -> Patches:
    original = shards.assign_shards

    def assign_shards(draft: Draft, is_level: Callable[[int, PartitionKey], bool]) -> list[PartitionKey]:
        return original(draft, lambda standby, key: True)

    return [(coordinators, "assign_shards", assign_shards)]


@plant(breaks="13.5", seen="a coordinator that stops is trusted again by what it applies", coordinators=2)
def trusted_while_it_stops() -> Patches:
    original = CoordinatorSessions.unfence_if_ready

    def unfence_if_ready(self: CoordinatorSessions, draft: Draft, coordinator_id: int, now_ms: int) -> None:
        self._by_id[coordinator_id].shutdown_since_ms = None
        original(self, draft, coordinator_id, now_ms)

    return [(CoordinatorSessions, "unfence_if_ready", unfence_if_ready)]


@plant(
    breaks="I27",
    seen="the fence is producer state, which a new leader does not have: it takes any sequence",
    coordinators=2,
)
def fence_that_expires() -> Patches:
    original = Fence.judge

    def forget(self: Fence, last_batches: Sequence[BatchHeader]) -> None:
        self._batches = deque(maxlen=WRITER_BATCHES_MAX)

    def judge(self: Fence, header: BatchHeader, *, named: WriterId) -> Any:
        is_unknown = self.writer == NO_BATCH
        return ErrorCode.NONE if is_unknown else original(self, header, named=named)

    return [(Fence, "__init__", forget), (Fence, "judge", judge)]


@plant(breaks="I28", seen="what was not answered is sent again as something new", coordinators=2)
def retried_under_another_sequence() -> Patches:
    original = ShardWriter.send_again

    def send_again(self: ShardWriter) -> None:
        for batch in self._in_flight:
            batch.base_sequence = self._next_sequence
            self._next_sequence += len(batch.records)
            batch.data = encode_batch(
                [NewRecord(key, value, 0) for key, value in batch.records],
                producer_id=self._writer.producer_id,
                producer_epoch=self._writer.producer_epoch,
                base_sequence=batch.base_sequence,
            )
        original(self)

    return [(ShardWriter, "send_again", send_again)]


@plant(breaks="13.6", seen="the controller names a writer that was named before", coordinators=2)
def writer_named_again() -> Patches:
    original = shards._next_writer

    def next_writer(state: PartitionState) -> WriterId:
        shard = state.shard
        if shard is None or shard.writer.producer_id == WRITER_IDS.start:
            return original(state)
        return shard.writer

    return [(shards, "_next_writer", next_writer)]


@plant(
    breaks="L1",
    seen="an owner goes on answering after the shard went to another (KAFKA-4362)",
    coordinators=2,
)
def served_after_it_was_taken() -> Patches:
    original = ShardRuntime._finish

    def finish(self: ShardRuntime) -> None:
        if self.phase is not ShardPhase.SERVING:
            original(self)

    return [(ShardRuntime, "_finish", finish)]


@plant(
    breaks="13.8",
    seen="an owner that has not heard of its end tells offsets from memory: 5 where 9 was committed",
    scenario="S91",
    coordinators=2,
)
def reads_need_no_lease() -> Patches:
    original = ShardRuntime.__init__

    def init(self: ShardRuntime, *args: Any, **options: Any) -> None:
        original(self, *args, **options | {"is_current": lambda now_ms: True})

    return [(ShardRuntime, "__init__", init)]
