"""The fetching machine, stepped with values: what it asks, what it hands out, when it gives up."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.client.batch_walk import BATCH_BYTES_MIN, walk_batches
from pipeline.client.config import ClientConfig
from pipeline.client.errors import BrokerError, MalformedAnswer, UnsupportedBroker
from pipeline.client.fetching import BYTES_MIN, PARTITIONS_PER_REQUEST_MAX, RangeFetching
from pipeline.client.values import (
    PartitionRange,
    TopicPartition,
)
from springtide.wire.errors import ErrorCode
from tests.kit.pipeline.fetching import answer, asked, batch, cluster, head_of, offsets

CONFIG = ClientConfig(bootstrap=(("b", 1),), retry_budget_ms=1_000, unknown_topic_budget_ms=300)
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_a_range_is_read_to_its_end_and_no_further() -> None:
    fetching = RangeFetching([PartitionRange("t", 0, 5, 20)], CONFIG)
    metadata = cluster({0: 1})
    (wanted,) = asked(fetching, metadata).values()
    assert offsets(wanted) == [(0, 5)]
    assert asked(fetching, metadata) == {}, "one request at a time"

    first = batch(0, 10) + batch(10, 5)
    progress = fetching.on_answer(wanted, [answer(T0, first)], now_ms=1)
    assert [(one.start_offset, one.next_offset, bytes(one.records)) for one in progress.fetched] == [
        (5, 15, first)
    ]

    (wanted,) = asked(fetching, metadata).values()
    assert offsets(wanted) == [(0, 15)]
    second = batch(15, 10)
    progress = fetching.on_answer(wanted, [answer(T0, second + batch(25, 10))], now_ms=2)
    assert [(one.next_offset, bytes(one.records)) for one in progress.fetched] == [(20, second)]
    assert fetching.is_done


def test_offsets_that_were_compacted_away_at_the_end_are_no_reason_to_wait() -> None:
    fetching = RangeFetching([PartitionRange("t", 0, 5, 20)], CONFIG)
    (wanted,) = asked(fetching, cluster({0: 1})).values()
    progress = fetching.on_answer(wanted, [answer(T0, batch(30, 5))], now_ms=1)
    assert [(one.start_offset, one.next_offset, len(one.records)) for one in progress.fetched] == [(5, 20, 0)]
    assert fetching.is_done


def test_each_leader_is_asked_for_its_own() -> None:
    fetching = RangeFetching([PartitionRange("t", number, 0, 10) for number in range(4)], CONFIG)
    requests = asked(fetching, cluster({0: 1, 1: 2, 2: 1, 3: 2}))
    assert {broker: offsets(wanted) for broker, wanted in requests.items()} == {
        1: [(0, 0), (2, 0)],
        2: [(1, 0), (3, 0)],
    }


def test_those_that_got_nothing_are_named_first_next_time() -> None:
    fetching = RangeFetching([PartitionRange("t", number, 0, 100) for number in range(3)], CONFIG)
    metadata = cluster({0: 1, 1: 1, 2: 1})
    (wanted,) = asked(fetching, metadata).values()
    got = [answer(T0, batch(0, 10)), answer(T1), answer(TopicPartition("t", 2))]
    fetching.on_answer(wanted, got, now_ms=1)
    (wanted,) = asked(fetching, metadata).values()
    assert offsets(wanted) == [(1, 0), (2, 0), (0, 10)]


def test_a_request_names_a_bounded_number_of_partitions() -> None:
    count = PARTITIONS_PER_REQUEST_MAX + 7
    fetching = RangeFetching([PartitionRange("t", number, 0, 1) for number in range(count)], CONFIG)
    metadata = cluster(dict.fromkeys(range(count), 1))
    (wanted,) = asked(fetching, metadata).values()
    assert len(wanted) == PARTITIONS_PER_REQUEST_MAX
    fetching.on_answer(wanted, [answer(TopicPartition.of(one), batch(0, 1)) for one in wanted], now_ms=1)
    (wanted,) = asked(fetching, metadata).values()
    assert len(wanted) == 7


def test_a_small_range_asks_for_little_and_learns_how_large_records_are() -> None:
    fetching = RangeFetching([PartitionRange("t", 0, 0, 140), PartitionRange("t", 1, 0, 10**9)], CONFIG)
    metadata = cluster({0: 1, 1: 1})
    (wanted,) = asked(fetching, metadata).values()
    small, large = wanted
    assert BYTES_MIN <= small.max_bytes < 200_000
    assert large.max_bytes == CONFIG.max_partition_fetch_bytes
    fetching.on_answer(wanted, [answer(T0, batch(0, 40, size=400_000)), answer(T1)], now_ms=1)
    (wanted,) = asked(fetching, metadata).values()
    assert offsets(wanted) == [(1, 0), (0, 40)]
    assert wanted[1].max_bytes == int(100 * 10_000 * 1.25)


def test_a_batch_larger_than_asked_for_is_asked_for_whole() -> None:
    fetching = RangeFetching([PartitionRange("t", 0, 0, 10)], CONFIG)
    metadata = cluster({0: 1})
    (wanted,) = asked(fetching, metadata).values()
    large = head_of(0, 10, size=50_000_000) + bytes(1_000)
    assert fetching.on_answer(wanted, [answer(T0, large)], now_ms=1).fetched == []
    (wanted,) = asked(fetching, metadata).values()
    assert wanted[0].max_bytes == 50_000_000
    fetching.on_answer(wanted, [answer(T0, head_of(0, 10, size=2**31 - 1) + bytes(1_000))], now_ms=1)
    (wanted,) = asked(fetching, metadata).values()
    assert wanted[0].max_bytes <= CONFIG.answer_max_bytes


def test_a_leader_that_moved_is_found_after_a_pause() -> None:
    fetching = RangeFetching([PartitionRange("t", 0, 0, 10)], CONFIG)
    (wanted,) = asked(fetching, cluster({0: 1})).values()
    refused = answer(T0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert fetching.on_answer(wanted, [refused], now_ms=50).is_stale
    assert asked(fetching, cluster({0: 2}), 51) == {}
    assert fetching.wake_ms(now_ms=51) == 50 + CONFIG.retry_backoff_ms
    assert list(asked(fetching, cluster({0: 2}), 150)) == [2]


def test_pauses_double_and_patience_ends() -> None:
    fetching = RangeFetching([PartitionRange("t", 0, 0, 10)], CONFIG)
    metadata = cluster({0: 1})
    now, wakes = 0, []
    while fetching.stalled(now_ms=now) is None:
        (wanted,) = asked(fetching, metadata, now).values()
        fetching.on_lost(wanted, "hung up", now_ms=now)
        wake = fetching.wake_ms(now_ms=now)
        assert wake is not None
        wakes.append(wake - now)
        now = wake
    assert wakes == [100, 200, 400, 800]
    stalled = fetching.stalled(now_ms=now)
    assert stalled is not None
    assert (stalled.where, stalled.offset, stalled.reason) == (T0, 0, "hung up")


def test_progress_restores_patience() -> None:
    fetching = RangeFetching([PartitionRange("t", 0, 0, 100)], CONFIG)
    metadata = cluster({0: 1})
    for start in range(0, 90, 10):
        now = start * 100
        (wanted,) = asked(fetching, metadata, now).values()
        fetching.on_lost(wanted, "hung up", now_ms=now)
        (wanted,) = asked(fetching, metadata, now + 900).values()
        fetching.on_answer(wanted, [answer(T0, batch(start, 10))], now_ms=now + 900)
        assert fetching.stalled(now_ms=now + 10**6) is None


def test_waiting_in_line_costs_no_patience() -> None:
    fetching = RangeFetching([PartitionRange("t", number, 0, 10**6) for number in range(2)], CONFIG)
    metadata = cluster({0: 1, 1: 1})
    for turn in range(50):
        (wanted,) = asked(fetching, metadata, turn * 1_000).values()
        # Whoever is named first gets everything; the other is answered, but empty.
        first, second = wanted
        records = batch(first.fetch_offset, 10)
        got = [answer(TopicPartition.of(first), records), answer(TopicPartition.of(second))]
        fetching.on_answer(wanted, got, now_ms=turn * 1_000)
        assert fetching.stalled(now_ms=turn * 1_000 + 999) is None


def test_an_end_that_never_comes_is_a_stall_with_the_watermark() -> None:
    fetching = RangeFetching([PartitionRange("t", 0, 7, 10)], CONFIG)
    metadata = cluster({0: 1})
    for now in (0, 500):
        (wanted,) = asked(fetching, metadata, now).values()
        fetching.on_answer(wanted, [answer(T0, high_watermark=7)], now_ms=now)
        assert fetching.stalled(now_ms=now) is None
    stalled = fetching.stalled(now_ms=1_000)
    assert stalled is not None
    assert (stalled.high_watermark, stalled.end_offset, stalled.offset) == (7, 10, 7)
    fetching.on_lost(asked(fetching, metadata, 1_000)[1], "hung up", now_ms=1_000)
    stalled = fetching.stalled(now_ms=1_000)
    assert stalled is not None
    assert stalled.high_watermark == -1, "a broker that hangs up says nothing of what was lost"


def test_an_unknown_topic_is_given_less_time() -> None:
    fetching = RangeFetching([PartitionRange("t", 0, 0, 10)], CONFIG)
    (wanted,) = asked(fetching, cluster({0: 1})).values()
    fetching.on_answer(wanted, [answer(T0, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)], now_ms=0)
    assert fetching.stalled(now_ms=299) is None
    stalled = fetching.stalled(now_ms=300)
    assert stalled is not None
    assert stalled.is_unknown_topic


def test_a_partition_nobody_leads_pauses_and_is_told_of() -> None:
    fetching = RangeFetching([PartitionRange("t", 0, 0, 10), PartitionRange("t", 1, 0, 10)], CONFIG)
    metadata = cluster({0: 1, 1: -1})
    assert fetching.without_leader(metadata, now_ms=0) == [T1]
    fetching.on_no_leader(T1, "no leader", is_unknown=False, now_ms=0)
    assert fetching.without_leader(metadata, now_ms=0) == []
    assert list(asked(fetching, metadata)) == [1]


def test_an_offset_out_of_range_is_the_callers_to_decide() -> None:
    fetching = RangeFetching([PartitionRange("t", 0, 3, 10)], CONFIG)
    metadata = cluster({0: 1})
    (wanted,) = asked(fetching, metadata).values()
    refused = answer(T0, error_code=ErrorCode.OFFSET_OUT_OF_RANGE, log_start_offset=7, high_watermark=9)
    (gone,) = fetching.on_answer(wanted, [refused], now_ms=0).gone
    assert gone == (T0, 3, 7, 9)
    fetching.skip_to(T0, 7)
    (wanted,) = asked(fetching, metadata).values()
    assert offsets(wanted) == [(0, 7)]
    fetching.skip_to(T0, 10)
    assert fetching.is_done


def test_an_error_that_stays_is_raised() -> None:
    fetching = RangeFetching([PartitionRange("t", 0, 3, 10)], CONFIG)
    (wanted,) = asked(fetching, cluster({0: 1})).values()
    with pytest.raises(BrokerError, match=r"t-0 at offset 3: TOPIC_AUTHORIZATION_FAILED \(29\)"):
        fetching.on_answer(wanted, [answer(T0, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)], now_ms=0)


def test_a_wanted_replica_is_asked_while_it_is_in_sync_and_the_leader_after_its_first_error() -> None:
    ranges = [PartitionRange("t", 0, 0, 10)]
    assert list(asked(RangeFetching(ranges, CONFIG, replica_id=2), cluster({0: 1}, replicas=(1,)))) == [1]
    fetching = RangeFetching(ranges, CONFIG, replica_id=2)
    ((broker, wanted),) = asked(fetching, cluster({0: 1})).items()
    assert broker == 2
    assert wanted[0].leader_epoch == 5, "a follower answers only those who know its leader"
    fetching.on_answer(wanted, [answer(T0, error_code=ErrorCode.OFFSET_OUT_OF_RANGE)], now_ms=0)
    ((broker, wanted),) = asked(fetching, cluster({0: 1})).items()
    assert (broker, wanted[0].leader_epoch) == (1, -1)


def test_a_leader_that_names_a_nearer_replica_is_followed() -> None:
    fetching = RangeFetching([PartitionRange("t", 0, 0, 10)], CONFIG)
    (wanted,) = asked(fetching, cluster({0: 1})).values()
    fetching.on_answer(wanted, [answer(T0, preferred_read_replica=2)], now_ms=0)
    assert list(asked(fetching, cluster({0: 1}))) == [2]


def test_nothing_of_a_malformed_answer_is_taken() -> None:
    fetching = RangeFetching([PartitionRange("t", 0, 0, 10), PartitionRange("t", 1, 5, 10)], CONFIG)
    metadata = cluster({0: 1, 1: 1})
    (wanted,) = asked(fetching, metadata).values()
    with pytest.raises(MalformedAnswer, match="offsets 0 to 1 where 5 was the next"):
        fetching.on_answer(wanted, [answer(T0, batch(0, 10)), answer(T1, batch(0, 2))], now_ms=0)
    fetching.on_lost(wanted, "malformed", now_ms=0)
    (wanted,) = asked(fetching, metadata, 100).values()
    assert offsets(wanted) == [(0, 0), (1, 5)]


def test_a_partition_the_answer_forgets_is_asked_again_for_a_while() -> None:
    fetching = RangeFetching([PartitionRange("t", 0, 0, 10)], CONFIG)
    (wanted,) = asked(fetching, cluster({0: 1})).values()
    fetching.on_answer(wanted, [answer(T1, batch(0, 10))], now_ms=0)
    assert asked(fetching, cluster({0: 1}), 99) == {}
    assert list(asked(fetching, cluster({0: 1}), 100)) == [1]
    assert fetching.stalled(now_ms=1_000) is not None


def test_ranges_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="twice"):
        RangeFetching([PartitionRange("t", 0, 0, 10), PartitionRange("t", 0, 10, 20)], CONFIG)
    with pytest.raises(ValueError, match="offset -1"):
        RangeFetching([PartitionRange("t", 0, -1, 10)], CONFIG)
    assert RangeFetching([PartitionRange("t", 0, 10, 10)], CONFIG).is_done


def test_an_old_format_is_refused_for_good() -> None:
    with pytest.raises(UnsupportedBroker, match="format 1"):
        walk_batches(memoryview(batch(0, 1, magic=1)), start_offset=0, end_offset=10)


@pytest.mark.parametrize(
    "records",
    [
        struct.pack(">qi", 0, -1) + bytes(60),
        struct.pack(">qi", 0, 10) + bytes(60),
        batch(-5, 10),
        batch(0, 5) + batch(3, 5),
        batch(5, 5) + batch(0, 5),
        batch(0, 0),
        batch(0, -(2**31) + 1),
    ],
)
def test_batches_that_would_lead_astray_are_refused(records: bytes) -> None:
    with pytest.raises(MalformedAnswer):
        walk_batches(memoryview(records), start_offset=0, end_offset=2**62)


@settings(deadline=None)
@given(st.binary(max_size=400), st.integers(0, 100), st.integers(101, 10**6))
def test_any_bytes_are_walked_or_refused(records: bytes, start: int, end: int) -> None:
    try:
        walk = walk_batches(memoryview(records), start_offset=start, end_offset=end)
    except (MalformedAnswer, UnsupportedBroker):
        return
    assert 0 <= walk.whole_bytes <= len(records)
    assert walk.next_offset == -1 or walk.next_offset > start


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(1, 20), st.integers(BATCH_BYTES_MIN, 200)), min_size=1),
    st.integers(0, 300),
)
def test_every_cut_of_whole_batches_walks_to_the_last_whole_one(
    shapes: list[tuple[int, int, int]], cut: int
) -> None:
    data, ends, offset = b"", [(0, -1)], 0
    for gap, count, size in shapes:
        offset += gap
        data += batch(offset, count, size=size)
        offset += count
        ends.append((len(data), offset))
    data = data[: len(data) - cut % (len(data) + 1)]
    whole = max((end for end in ends if end[0] <= len(data)), key=lambda end: end[0])
    walk = walk_batches(memoryview(data), start_offset=0, end_offset=2**62)
    assert (walk.whole_bytes, walk.next_offset) == whole
    assert bool(walk.torn_batch_bytes) == (walk.whole_bytes < len(data))
