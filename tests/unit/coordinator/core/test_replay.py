"""A replay ends with what its log says, whatever it reads at once and however far it goes."""

from __future__ import annotations

from typing import cast

import hypothesis.strategies as st
import pytest
from hypothesis import given

from coordinator.core import replay
from coordinator.core.machine import Machine, ShardRecord
from coordinator.core.opening import opening_record
from coordinator.core.replay import APPLIED_MAX, ShardReplay
from coordinator.core.shard import ShardPhase, ShardRuntime
from coordinator.core.shard_ports import LeaderKnown, LogWasRead, ReadLog
from springtide.contract.epochs import LeaderEpoch
from springtide.contract.partition_state import WriterId
from springtide.wire.errors import ErrorCode
from springtide.wire.record_batch import CorruptBatch
from springtide.wire.records import NewRecord, encode_batch

KEYS = [b"a", b"b", b"c", b"d", b"e"]
RECORDS = st.lists(
    st.tuples(st.sampled_from(KEYS), st.none() | st.binary(max_size=2)), min_size=1, max_size=9
)


class Tape:
    """What a machine is told. Records come by rising offset, and none after its offset is committed."""

    def __init__(self) -> None:
        self.state: dict[bytes, bytes] = {}
        self.applied: list[int] = []
        self.committed_offset = 0

    def apply(self, record: ShardRecord, offset: int) -> None:
        assert not self.applied or offset > self.applied[-1]
        assert offset >= self.committed_offset
        self.applied.append(offset)
        if record.value is None:
            self.state.pop(record.key, None)
        else:
            self.state[record.key] = record.value

    def committed(self, offset: int) -> None:
        assert offset >= self.committed_offset
        self.committed_offset = offset


def batch(records: list[tuple[bytes, bytes | None]], base_offset: int, *, writer: int = 7) -> bytes:
    new = [NewRecord(key, value) for key, value in records]
    return encode_batch(new, producer_id=writer, producer_epoch=0, base_sequence=0, base_offset=base_offset)


@given(st.lists(RECORDS, max_size=9), st.data())
def test_the_newest_of_each_key_is_applied_in_the_logs_order(
    log: list[list[tuple[bytes, bytes | None]]], data: st.DataObject
) -> None:
    tape = Tape()
    found = ShardReplay(cast(Machine, tape))
    expected: dict[bytes, bytes | None] = {}
    offset = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replay, "WAITING_MAX", data.draw(st.integers(0, 6)))
        for records in log:
            found.read(batch(records, offset))
            offset += len(records)
            expected.update(records)
            assert found.position == offset
            if data.draw(st.booleans()):
                found.apply(data.draw(st.integers(0, 3)))
        found.apply(None)
    assert found.is_applied
    assert tape.state == {key: value for key, value in expected.items() if value is not None}
    assert tape.committed_offset == found.position == offset


def test_many_rewrites_of_a_key_are_applied_once() -> None:
    tape = Tape()
    found = ShardReplay(cast(Machine, tape))
    for number in range(100):
        found.read(batch([(b"a", b"%d" % number)], number))
    found.apply()
    assert (tape.state, tape.applied) == ({b"a": b"99"}, [99])


def test_what_waits_is_bounded_and_the_oldest_of_it_is_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "WAITING_MAX", 3)
    tape = Tape()
    found = ShardReplay(cast(Machine, tape))
    found.read(batch([(b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"c", b"4"), (b"d", None)], 0))
    assert (tape.applied, tape.committed_offset) == ([1], 2), "b; a has come again since"
    assert not found.is_applied
    found.apply(2)
    assert (tape.applied, tape.committed_offset) == ([1, 2, 3], 4)
    found.apply()
    assert (tape.applied, tape.committed_offset, found.is_applied) == ([1, 2, 3, 4], 5, True)
    assert tape.state == {b"b": b"2", b"a": b"3", b"c": b"4"}


def test_lag_is_what_is_still_to_be_read_and_applied() -> None:
    found = ShardReplay(cast(Machine, Tape()))
    found.read(batch([(b"a", b"1"), (b"a", b"2"), (b"b", b"3")], 0))
    assert (found.lag(7), found.lag(3), found.lag(0)) == (4 + 2, 2, 2)
    found.apply()
    assert (found.lag(7), found.lag(3), found.lag(0)) == (4, 0, 0)


def test_what_was_read_before_is_passed_over() -> None:
    """A leader answers with whole batches, and a compaction makes one of two."""
    tape = Tape()
    found = ShardReplay(cast(Machine, tape))
    first, second = batch([(b"a", b"1"), (b"b", b"1")], 0), batch([(b"c", b"1"), (b"d", b"1")], 2)
    found.read(first + second)
    found.apply()
    found.read(first)
    assert (found.position, found.is_applied) == (4, True)
    found.read(first + second)
    found.read(batch([(key, b"2") for key in KEYS], 0))
    found.apply()
    assert (found.position, tape.applied) == (5, [0, 1, 2, 3, 4])
    assert tape.state[b"a"] == b"1"


def test_deletions_that_are_gone_matter_to_a_replay_that_has_read_what_they_delete() -> None:
    found = ShardReplay(cast(Machine, Tape()))
    assert not found.has_missed_deletions(3), "it has read nothing yet"
    found.read(batch([(b"a", b"1"), (b"b", b"1")], 0))
    assert not found.has_missed_deletions(3), "known when it began"
    found.read(batch([(b"a", b"1"), (b"b", b"1"), (b"c", b"1")], 2))
    assert not found.has_missed_deletions(5), "it has read all of them"
    assert not found.has_missed_deletions(4)
    assert found.has_missed_deletions(6)


def test_keys_above_that_of_an_opening_are_the_machines() -> None:
    tape = Tape()
    found = ShardReplay(cast(Machine, tape))
    found.read(batch([(b"\xff\xff", b"1")], 0))
    found.apply()
    assert (found.opening, tape.state) == (None, {b"\xff\xff": b"1"})


def test_the_last_opening_and_the_highest_writer_are_known_before_anything_is_applied() -> None:
    tape = Tape()
    found = ShardReplay(cast(Machine, tape))
    for number, nonce in enumerate((b"one", b"two")):
        opening = opening_record(nonce)
        found.read(batch([(opening.key, opening.value)], number, writer=9 - number))
    assert found.opening == opening_record(b"two")
    assert found.writer == WriterId(9, 0)
    assert found.is_applied, "an opening is none of the machine's"


def test_a_batch_that_is_not_sound_is_not_taken_in() -> None:
    tape = Tape()
    found = ShardReplay(cast(Machine, tape))
    rotten = bytearray(batch([(b"a", b"2"), (b"b", b"2")], 1))
    rotten[-1] ^= 1
    with pytest.raises(CorruptBatch, match="CRC"):
        found.read(batch([(b"a", b"1")], 0) + bytes(rotten))
    found.apply()
    assert (tape.state, found.position) == ({b"a": b"1"}, 1)


def test_a_standby_is_level_once_all_is_applied_and_holds_its_loop_for_no_more_than_a_part() -> None:
    tape = Tape()
    runtime = ShardRuntime(lambda: cast(Machine, tape), read_pause_ms=50, is_current=lambda now_ms: True)
    count = 2 * APPLIED_MAX + 1
    assert runtime.lag(count) == count
    effects = runtime.step(LeaderKnown(LeaderEpoch(1), -1), now_ms=0, wall_ms=0)
    told = batch([(b"%d" % number, b"x") for number in range(count)], 0)
    for applied in (APPLIED_MAX, 2 * APPLIED_MAX, count):
        assert not runtime.is_level
        (read,) = [effect for effect in effects if isinstance(effect, ReadLog)]
        read_event = LogWasRead(read.read, ErrorCode.NONE, count, told)
        effects = runtime.step(read_event, now_ms=0, wall_ms=0)
        assert len(tape.applied) == applied
        assert runtime.lag(count) == count - applied, "what a takeover would still have to do"
        told = b""
    assert runtime.is_level
    assert runtime.phase is ShardPhase.FOLLOWING


def test_a_leader_that_refuses_a_read_is_not_asked_again_at_once() -> None:
    tape = Tape()
    runtime = ShardRuntime(lambda: cast(Machine, tape), read_pause_ms=50, is_current=lambda now_ms: True)
    (asked,) = runtime.step(LeaderKnown(LeaderEpoch(1), -1), now_ms=0, wall_ms=0)
    assert isinstance(asked, ReadLog)
    told = batch([(b"%d" % number, b"x") for number in range(APPLIED_MAX + 1)], 0)
    read_event = LogWasRead(asked.read, ErrorCode.NONE, APPLIED_MAX + 1, told)
    (asked,) = runtime.step(read_event, now_ms=0, wall_ms=0)
    assert isinstance(asked, ReadLog)
    refused = LogWasRead(asked.read, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    effects = runtime.step(refused, now_ms=0, wall_ms=0)
    assert not [effect for effect in effects if isinstance(effect, ReadLog)]
