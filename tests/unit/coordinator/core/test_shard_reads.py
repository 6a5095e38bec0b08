"""What a shard reads of its log, when it is level, and how its own opening is found: each read is answered by
the test, as a leader would."""

from __future__ import annotations

import pytest

from coordinator.core.machine import ShardRecord
from coordinator.core.opening import opening_record
from coordinator.core.shard import ShardPhase, ShardRuntime
from coordinator.core.shard_ports import (
    AppendBatch,
    AskWriter,
    BatchAnswered,
    LeaderKnown,
    LogWasRead,
    ReadLog,
    RequestCame,
    SetTimer,
    ShardEffect,
    ShardEvent,
    ShardGiven,
    ShardTaken,
    ShardTimer,
    TimerFired,
    WriterNamed,
)
from springtide.contract.epochs import LeaderEpoch
from springtide.wire.errors import ErrorCode
from springtide.wire.records import NewRecord, encode_batch
from tests.kit.coordinator.counter import CounterMachine, Increment
from tests.kit.coordinator.shard_desk import ControllerOfOne

PAUSE_MS = 50


def batch(*records: ShardRecord, at: int, writer: int = 7, is_control: bool = False) -> bytes:
    return encode_batch(
        [NewRecord(*record) for record in records],
        base_offset=at,
        producer_id=writer,
        producer_epoch=0,
        base_sequence=0,
        is_control=is_control,
    )


def rows(count: int, *, at: int, writer: int = 7) -> bytes:
    return batch(*(ShardRecord(b"row %d" % (at + n), b"x") for n in range(count)), at=at, writer=writer)


class Reader:
    """A shard's runtime, each of whose reads is answered by hand. named: the writer that it was told last."""

    def __init__(self, *, leader_epoch: int = 0) -> None:
        self.runtime = ShardRuntime(CounterMachine, read_pause_ms=PAUSE_MS, is_current=lambda now_ms: True)
        self.controller = ControllerOfOne()
        self.now_ms = 1_000
        self.effects: list[ShardEffect] = []
        self.reading: ReadLog | None = None
        self.step(LeaderKnown(LeaderEpoch(leader_epoch), -1))

    def step(self, event: ShardEvent) -> list[ShardEffect]:
        found = self.runtime.step(event, now_ms=self.now_ms, wall_ms=self.now_ms)
        self.effects += found
        for effect in found:
            if isinstance(effect, ReadLog):
                self.reading = effect
        return found

    def read(self, batches: bytes, high_watermark: int, *, floor: int = 0) -> list[ShardEffect]:
        return self.answer(ErrorCode.NONE, batches, high_watermark, floor=floor)

    def answer(
        self, error: ErrorCode, batches: bytes = b"", high_watermark: int = -1, *, floor: int = 0
    ) -> list[ShardEffect]:
        assert self.reading is not None
        read, self.reading = self.reading.read, None
        return self.step(LogWasRead(read, error, high_watermark, batches, floor))

    def name(self) -> list[ShardEffect]:
        """The controller answers the last question for a writer."""
        ask = [effect.ask for effect in self.effects if isinstance(effect, AskWriter)][-1]
        self.named = self.controller.name()
        return self.step(WriterNamed(ask, self.named, b"nonce"))

    def open_at(self, offset: int) -> None:
        """Its opening record is written there, and it reads for it."""
        self.step(ShardGiven())
        self.name()
        self.commit(offset)
        assert self.runtime.phase is ShardPhase.READING

    def commit(self, offset: int) -> None:
        append = [effect for effect in self.effects if isinstance(effect, AppendBatch)][-1]
        self.step(BatchAnswered(append.attempt, ErrorCode.NONE, offset))

    def opening(self, *, at: int) -> bytes:
        return batch(opening_record(b"nonce"), at=at, writer=self.named.producer_id)


LATER = SetTimer(ShardTimer.READ, 1_000 + PAUSE_MS)


# Following.


@pytest.mark.parametrize(
    ("batches", "high_watermark", "is_level", "reads_on"),
    [
        (b"", 0, True, False),
        (rows(3, at=0), 3, True, True),  # at once: whoever is level waits at the leader
        (rows(3, at=0), 9, False, True),
        (b"", 9, False, False),  # it could not read what there is: not again without a pause
        (batch(ShardRecord(b"round", b"1"), at=0, writer=-1, is_control=True), 3, False, True),
    ],
)
def test_a_shard_is_level_when_it_has_all_that_the_leader_told_of(
    batches: bytes, high_watermark: int, is_level: bool, reads_on: bool
) -> None:
    shard = Reader()
    effects = shard.read(batches, high_watermark)
    assert shard.runtime.is_level is is_level
    if reads_on:
        assert [type(effect) for effect in effects] == [ReadLog]
    else:
        assert effects == [LATER]


def test_nothing_is_applied_while_there_is_more_to_read() -> None:
    """What comes again and again is applied once (replay.py)."""
    shard = Reader()
    shard.read(rows(3, at=0), 9)
    assert shard.runtime.lag(9) == 6 + 3
    shard.read(rows(6, at=3), 9)
    assert shard.runtime.lag(9) == 0


def test_a_shard_that_is_given_opens_when_it_is_level_and_not_before() -> None:
    shard = Reader()
    shard.step(ShardGiven())
    shard.read(rows(3, at=0), 9)
    assert shard.runtime.phase is ShardPhase.FOLLOWING
    assert AskWriter(1) in shard.read(rows(6, at=3), 9)


@pytest.mark.parametrize(
    ("error", "floor"),
    [
        (ErrorCode.OFFSET_OUT_OF_RANGE, 0),  # the log was cut
        (ErrorCode.NONE, 9),  # deletions are gone that it had to see
    ],
)
def test_a_replay_that_begins_anew_is_not_level(error: ErrorCode, floor: int) -> None:
    shard = Reader()
    shard.read(rows(3, at=0), 3)
    assert shard.runtime.is_level
    shard.answer(error, b"", 9, floor=floor)
    assert (shard.runtime.is_level, shard.runtime.position) == (False, 0)
    if shard.reading is None:
        assert shard.effects[-1] == LATER
        shard.step(TimerFired(ShardTimer.READ, None))
    assert shard.reading is not None and shard.reading.offset == 0


# Elections.


def test_what_was_read_before_an_unclean_election_is_not_taken_in_after_it() -> None:
    """The answer of the leader before comes late, from a log that has been cut since."""
    shard = Reader()
    before = shard.reading
    assert before is not None
    shard.step(LeaderKnown(LeaderEpoch(1), 1))
    shard.step(LogWasRead(before.read, ErrorCode.NONE, 3, rows(3, at=0)))
    assert (shard.runtime.position, shard.runtime.is_level) == (0, False)
    shard.read(rows(1, at=0), 1)
    assert shard.runtime.position == 1


@pytest.mark.parametrize("first_epoch", [0, 5])
def test_each_unclean_election_ends_a_replay_once(first_epoch: int) -> None:
    shard = Reader(leader_epoch=first_epoch)
    shard.read(rows(3, at=0), 3)
    machine = shard.runtime.machine
    unclean = first_epoch + 1
    shard.step(LeaderKnown(LeaderEpoch(unclean), unclean))
    assert shard.runtime.machine is not machine
    shard.read(rows(2, at=0), 2)
    machine = shard.runtime.machine
    shard.step(LeaderKnown(LeaderEpoch(unclean + 1), unclean))  # an election that was clean
    assert shard.runtime.machine is machine and shard.runtime.position == 2


# Opening.


def test_a_shard_that_opens_is_no_level_standby_and_reads_nothing_until_its_opening_is_written() -> None:
    shard = Reader()
    shard.read(rows(3, at=0), 3)  # a read waits at the leader
    shard.step(ShardGiven())
    assert not shard.runtime.is_level
    assert shard.read(rows(1, at=3), 4) == []
    assert (shard.runtime.position, shard.runtime.phase) == (3, ShardPhase.ASKING)


def test_only_the_answer_to_its_last_question_names_the_writer_and_only_once() -> None:
    shard = Reader()
    shard.read(b"", 0)
    shard.step(ShardGiven())
    shard.step(ShardTaken())
    shard.read(b"", 0)
    assert AskWriter(2) in shard.step(ShardGiven())
    assert shard.step(WriterNamed(1, shard.controller.name(), b"stale")) == []
    opened = shard.name()
    assert [type(effect) for effect in opened] == [AppendBatch]
    assert shard.step(WriterNamed(2, shard.controller.name(), b"nonce")) == []


def test_it_reads_until_it_finds_its_opening() -> None:
    """The leader's high watermark may have come as far as before the opening when it is read."""
    shard = Reader()
    shard.read(b"", 0)
    shard.open_at(3)
    shard.read(rows(2, at=0), 2)
    assert shard.runtime.phase is ShardPhase.READING and shard.reading is not None
    shard.read(rows(1, at=2), 3)
    assert shard.runtime.phase is ShardPhase.READING
    shard.read(b"", 3)
    assert (shard.runtime.phase, shard.effects[-1]) == (ShardPhase.READING, LATER)
    shard.step(TimerFired(ShardTimer.READ, None))
    shard.read(shard.opening(at=3), 4)
    assert shard.runtime.phase is ShardPhase.SERVING
    assert shard.controller.named == 1


def test_records_are_counted_behind_what_the_leader_wrote_itself() -> None:
    shard = Reader()
    shard.read(b"", 0)
    shard.open_at(0)
    own = batch(ShardRecord(b"round", b"1"), at=1, writer=-1, is_control=True)
    shard.read(shard.opening(at=0) + own, 2)
    shard.step(RequestCame(1, Increment(1, "a", 1, 1)))
    shard.step(TimerFired(ShardTimer.READ, None))
    shard.commit(2)
    machine = shard.runtime.machine
    assert isinstance(machine, CounterMachine)
    assert machine.committed_offset == 4
    assert machine.state.committed(b"counter") == b"1"


def test_a_later_writers_batch_ends_an_opening_though_it_stands_in_the_log() -> None:
    shard = Reader()
    shard.read(b"", 0)
    shard.open_at(0)
    first = shard.opening(at=0)
    shard.read(first + rows(1, at=1, writer=shard.named.producer_id + 1), 2)
    assert shard.runtime.phase is ShardPhase.FOLLOWING
    shard.controller.name()  # the other's
    assert AskWriter(2) in shard.read(b"", 2)
    shard.name()
    assert shard.runtime.phase is ShardPhase.OPENING


def test_an_opening_that_was_given_up_leaves_no_level_standby_behind() -> None:
    """Somebody else's record stands where its own was written; then the shard is taken."""
    shard = Reader()
    shard.read(b"", 0)
    shard.open_at(0)
    shard.read(rows(1, at=0), 1)
    assert shard.runtime.phase is ShardPhase.FOLLOWING
    assert not shard.runtime.is_level, "before the next read"
    shard.step(ShardTaken())
    shard.answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert not shard.runtime.is_level
    shard.step(TimerFired(ShardTimer.READ, None))
    shard.read(b"", 1)
    assert shard.runtime.is_level


@pytest.mark.parametrize(
    "error",
    [ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER],
)
def test_an_answer_to_an_opening_that_was_given_up_changes_nothing(error: ErrorCode) -> None:
    shard = Reader()
    shard.read(b"", 0)
    shard.step(ShardGiven())
    shard.name()
    late = shard.effects[-1]
    assert isinstance(late, AppendBatch)
    shard.step(ShardTaken())
    shard.read(b"", 0)
    assert shard.step(BatchAnswered(late.attempt, error, 0)) == []
    shard.step(ShardGiven())
    shard.name()
    assert shard.step(BatchAnswered(late.attempt, error, 0)) == []
    assert shard.runtime.phase is ShardPhase.OPENING


def test_a_shard_that_serves_is_given_once_more_and_serves_on() -> None:
    shard = Reader()
    shard.read(b"", 0)
    shard.open_at(0)
    shard.read(shard.opening(at=0), 1)
    assert shard.step(ShardGiven()) == []
    assert shard.runtime.phase is ShardPhase.SERVING
