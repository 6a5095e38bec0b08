"""Bugs of a coordinator around its shard: what it opens with, whom it answers, and what it believes was
written; and of the controller that gives the shard to it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from controller.contract.partition_state import PartitionKey
from controller.core import coordinators, shards
from controller.core.draft import Draft
from coordinator.core.machine import StepOutcome
from coordinator.core.replay import NO_WRITER
from coordinator.core.shard import ShardPhase, ShardRuntime
from coordinator.core.shard_ports import BatchAnswered, WriterNamed
from coordinator.core.writer import ShardWriter
from springtide.wire.errors import ErrorCode
from tests.simulation.planted.plant import Patches, plant


@plant(breaks="I27", seen="an opening takes up the writer that the log knows already", coordinators=2)
def writer_used_again() -> Patches:
    original = ShardRuntime._on_writer

    def on_writer(self: ShardRuntime, event: WriterNamed) -> None:
        known = self._replay.writer
        self._replay.writer = NO_WRITER
        is_first = known == NO_WRITER
        original(self, event if is_first else dataclasses.replace(event, writer=known))
        self._replay.writer = known

    return [(ShardRuntime, "_on_writer", on_writer)]


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
        original(self, dataclasses.replace(outcome, replies=()))

    return [(ShardRuntime, "_take", take)]


@plant(breaks="I28", seen="an append without an answer counts as refused", coordinators=2)
def unknown_counts_as_refused() -> Patches:
    original = ShardWriter.on_answer
    known = {ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER}

    def on_answer(self: ShardWriter, answer: BatchAnswered) -> Any:
        if answer.error not in known:
            answer = dataclasses.replace(answer, error=ErrorCode.NOT_ENOUGH_REPLICAS)
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
