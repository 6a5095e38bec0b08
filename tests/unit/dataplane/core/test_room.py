"""The reserve of a log directory: what leaders and followers take near the end of the disk."""

from __future__ import annotations

import pytest

from dataplane.core.effects import DATA_APPENDED, NO_EFFECTS, BackOff, Effects
from dataplane.core.fetch import ReplicaFetch
from dataplane.core.results import AppendResult, FetchResult, LeaderAnswer
from dataplane.core.room import Room, reserve_of
from springtide.contract.epochs import BrokerEpoch
from springtide.contract.partition_state import WRITER_IDS, Shard, WriterId
from springtide.wire.errors import ErrorCode
from tests.kit.dataplane.replica import Bench, batch_of, log_of

MIB = 1024 * 1024
NO_ROOM = AppendResult(ErrorCode.KAFKA_STORAGE_ERROR)


def room(*, free: int, reserve: int = 1_000) -> Room:
    made = Room()
    made.on_look(free_bytes=free, reserve_bytes=reserve)
    return made


@pytest.mark.parametrize(
    ("total_mib", "reserve_mib"),
    [(64, 3.2), (1024, 51.2), (10 * 1024, 256), (50 * 1024, 512), (4 * 1024 * 1024, 1024)],
)
def test_the_reserve_suits_the_file_system(total_mib: int, reserve_mib: float) -> None:
    assert reserve_of(total_mib * MIB) == int(reserve_mib * MIB)


def test_without_a_look_or_a_reserve_everything_is_taken() -> None:
    assert Room().admits(10**15)
    assert room(free=0, reserve=0).admits(10**15)


def test_what_is_appended_between_two_looks_counts() -> None:
    made = room(free=1_500)
    assert made.admits(300)
    made.on_appended(300)
    assert made.admits(200)
    made.on_appended(200)
    assert not made.admits(1)
    assert made.is_short


def test_it_is_short_until_a_quarter_more_than_the_reserve_is_free() -> None:
    made = room(free=999)
    assert not made.admits(0)
    made.on_look(free_bytes=1_249, reserve_bytes=1_000)
    assert not made.admits(0)
    made.on_look(free_bytes=1_250, reserve_bytes=1_000)
    assert made.admits(250)
    made.on_look(free_bytes=1_100, reserve_bytes=1_000)
    assert made.admits(0)


def test_half_of_the_reserve_is_for_coordinators_and_compaction() -> None:
    made = room(free=900)
    assert not made.admits(0)
    assert made.admits(400, is_internal=True)
    assert not made.admits(401, is_internal=True)


def test_the_words_name_the_bytes_and_the_setting() -> None:
    assert str(room(free=900)) == (
        "no space: 900 bytes free in the log directory, below the reserve of 1000 (log.dir.reserve.bytes); "
        "writes go on by themselves once 1250 are free"
    )


# Leaders.


def test_a_leader_below_the_reserve_refuses_writes_nothing_and_goes_on_when_there_is_room() -> None:
    bench = Bench()
    bench.log.room.on_look(free_bytes=999, reserve_bytes=1_000)
    bench.apply()
    for acks in (-1, 1, 0):
        assert bench.append(acks=acks) == (NO_ROOM, NO_EFFECTS)
    assert bench.log.log_end_offset == 0
    bench.log.room.on_look(free_bytes=2_000, reserve_bytes=1_000)
    assert bench.append()[1] == (DATA_APPENDED,)


def test_a_leader_below_the_reserve_still_acknowledges_what_it_has() -> None:
    bench = Bench()
    bench.apply()
    first = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    assert bench.append("a", **first)[0].is_waiting
    bench.log.room.on_look(free_bytes=0, reserve_bytes=1_000)
    again = bench.append("b", **first)[0]
    assert (again.error, again.base_offset, again.is_waiting) == (ErrorCode.NONE, 0, True)
    bench.fetch(2, 1)
    bench.fetch(3, 1)
    assert bench.high_watermark == 1


def test_a_producer_that_was_refused_for_want_of_room_goes_on_in_sequence() -> None:
    bench = Bench()
    bench.apply()
    producer = {"producer_id": 7, "producer_epoch": 0}
    bench.append(base_sequence=0, **producer)
    bench.log.room.on_look(free_bytes=0, reserve_bytes=1_000)
    assert bench.append(base_sequence=1, **producer)[0] == NO_ROOM
    bench.log.room.on_look(free_bytes=2_000, reserve_bytes=1_000)
    assert bench.append(base_sequence=1, **producer)[0].error is ErrorCode.NONE
    assert bench.log.log_end_offset == 2


def test_coordinators_write_into_the_upper_half_of_the_reserve() -> None:
    writer = WriterId(WRITER_IDS.start, 0)
    bench = Bench()
    bench.apply(shard=Shard(owner=1001, writer=writer))
    batch = {"producer_id": writer.producer_id, "producer_epoch": writer.producer_epoch}
    bench.log.room.on_look(free_bytes=900, reserve_bytes=1_000)
    assert bench.append(base_sequence=0, **batch)[0].error is ErrorCode.NONE
    bench.log.room.on_look(free_bytes=500, reserve_bytes=1_000)
    assert bench.append(base_sequence=1, **batch)[0] == NO_ROOM


def test_records_are_deleted_below_the_reserve() -> None:
    bench = Bench(log=log_of(1, 1, 1))
    bench.apply(leader_epoch=2)
    for replica_id in (2, 3):
        bench.fetch(replica_id, 3)
    bench.log.room.on_look(free_bytes=0, reserve_bytes=1_000)
    assert bench.delete(2)[0].error is ErrorCode.NONE
    assert bench.log.log_start_offset == 2


# Followers.


def following() -> Bench:
    bench = Bench(2)
    bench.apply(leader_epoch=5)
    return bench


def max_bytes(bench: Bench) -> int:
    position = bench.replica.next_fetch()
    assert position is not None
    return position.max_bytes


def test_a_follower_below_the_reserve_asks_for_no_records_and_hears_of_log_starts() -> None:
    bench = following()
    bench.fetched(LeaderAnswer(records=batch_of(leader_epoch=5), high_watermark=1))
    bench.log.room.on_look(free_bytes=999, reserve_bytes=1_000)
    assert max_bytes(bench) == 0
    bench.fetched(LeaderAnswer(high_watermark=1, log_start_offset=1))
    assert bench.log.log_start_offset == 1
    bench.log.room.on_look(free_bytes=2_000, reserve_bytes=1_000)
    assert max_bytes(bench) > 0


def test_a_follower_writes_nothing_of_an_answer_that_there_is_no_room_for() -> None:
    bench = following()
    bench.log.room.on_look(free_bytes=1_010, reserve_bytes=1_000)
    assert max_bytes(bench) > 0
    (back_off,) = bench.fetched(LeaderAnswer(records=batch_of(leader_epoch=5)))
    assert isinstance(back_off, BackOff)
    assert (bench.log.log_end_offset, max_bytes(bench)) == (0, 0)


def test_a_follower_deletes_by_an_answer_whose_records_it_has_no_room_for() -> None:
    bench = following()
    bench.fetched(LeaderAnswer(records=batch_of(leader_epoch=5), high_watermark=1))
    bench.log.room.on_look(free_bytes=0, reserve_bytes=1_000)
    more = batch_of(base_offset=1, leader_epoch=5)
    bench.fetched(LeaderAnswer(records=more, high_watermark=2, log_start_offset=1))
    assert (bench.log.log_start_offset, bench.log.log_end_offset, bench.high_watermark) == (1, 1, 1)


def fetch_from(leader: Bench, follower: Bench) -> tuple[FetchResult, Effects]:
    position = follower.replica.next_fetch()
    assert position is not None
    fetch = ReplicaFetch(2, BrokerEpoch(20), position, max_bytes=position.max_bytes)
    return leader.replica.role.on_replica_fetch(fetch, now_ms=leader.now_ms)


def test_a_leader_sends_no_record_to_a_follower_without_room_and_does_not_take_it_for_damage() -> None:
    leader, follower = Bench(), following()
    leader.apply(leader_epoch=5)
    leader.append()
    follower.log.room.on_look(free_bytes=0, reserve_bytes=1_000)
    for _ in range(5):
        result, effects = fetch_from(leader, follower)
        assert (result.records is None or result.records.size_bytes == 0, effects) == (True, NO_EFFECTS)
    follower.log.room.on_look(free_bytes=2_000, reserve_bytes=1_000)
    result, _ = fetch_from(leader, follower)
    assert result.records is not None
    assert result.records.size_bytes > 0


def test_a_follower_without_room_is_asked_out_of_the_in_sync_set_as_one_that_lags() -> None:
    leader, follower = Bench(lag_ms_max=1_000), following()
    leader.apply(leader_epoch=5)
    leader.append("a")
    follower.log.room.on_look(free_bytes=0, reserve_bytes=1_000)
    for _ in range(3):
        leader.now_ms += 500
        leader.fetch(3, 1)
        fetch_from(leader, follower)
    leader.tick(500)
    leading = leader.replica.leading
    assert leading is not None
    proposal = leading.due_proposal(leader.now_ms)
    assert proposal is not None
    assert [member.broker_id for member in proposal.isr] == [1, 3]
    leader.apply(leader_epoch=5, partition_epoch=2, isr=(1, 3))
    assert leader.high_watermark == 1
