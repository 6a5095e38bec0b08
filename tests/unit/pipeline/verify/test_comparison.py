"""Replicas side by side: what is wrong is found where it is, and nothing else is."""

from __future__ import annotations

import gzip
import random
import struct
from collections.abc import Callable
from itertools import pairwise

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.verify.findings import EVERY_REPLICA, Flaw
from pipeline.verify.log_order import OrderRules
from pipeline.verify.replica_stream import End
from springtide.wire.record_batch import BATCH_LENGTH_MIN, CRC_START, HEADER_BYTES
from tests.kit.pipeline.verify_world import (
    Batch,
    Replica,
    batch,
    data_of,
    flipped,
    log_of,
    read_range,
    with_epoch,
)

PAYLOAD_BIT = 8 * 70
GZIP = 1
COUNTS = st.lists(st.integers(1, 5), min_size=1, max_size=30)


@settings(deadline=None)
@given(
    COUNTS,
    st.integers(1, 3),
    st.integers(0, 2**32),
    st.booleans(),
    st.sampled_from([1, 100, 300, 10_000]),
)
def test_equal_replicas_are_equal_however_their_answers_are_cut(
    counts: list[int], copies: int, seed: int, is_torn: bool, fetch_bytes: int
) -> None:
    log = log_of(counts, first=7)
    replicas = {number: Replica(list(log), log_start_offset=7, is_torn=is_torn) for number in range(copies)}
    seen = read_range(replicas, start=7, fetch_bytes=fetch_bytes, rng=random.Random(seed))
    assert seen.kinds == []
    assert (seen.order.first_offset, seen.order.next_offset) == (7, 7 + sum(counts))
    assert (seen.order.batches, seen.order.records) == (len(counts), sum(counts))
    assert seen.compared_bytes == copies * len(data_of(log)) == copies * seen.order.size_bytes
    assert set(seen.ends.values()) == {End.WHOLE}


Damage = Callable[[list[Batch], int], list[Batch]]
DAMAGES: dict[str, tuple[Damage, Flaw]] = {
    "a flipped bit": (
        lambda log, at: [*log[:at], flipped(log[at], PAYLOAD_BIT), *log[at + 1 :]],
        Flaw.CRC_MISMATCH,
    ),
    "a dropped batch": (lambda log, at: [*log[:at], *log[at + 1 :]], Flaw.BATCH_MISSING),
    "a batch twice": (lambda log, at: [*log[: at + 1], *log[at:]], Flaw.OFFSETS_GO_BACK),
    "another batch": (
        lambda log, at: [
            *log[:at],
            batch(log[at].base_offset, log[at].next_offset - log[at].base_offset, text="other"),
            *log[at + 1 :],
        ],
        Flaw.BATCH_DIFFERS,
    ),
    "another leader epoch": (
        lambda log, at: [*log[:at], with_epoch(log[at], 77), *log[at + 1 :]],
        Flaw.BATCH_DIFFERS,
    ),
    "no batch": (
        lambda log, at: [*log[:at], flipped(log[at], 8 * 16 + 1), *log[at + 1 :]],
        Flaw.MALFORMED_BATCH,
    ),
    "another base offset": (
        lambda log, at: [*log[:at], flipped(log[at], 8 * 5), *log[at + 1 :]],
        Flaw.MALFORMED_BATCH,
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
@pytest.mark.parametrize("who", [1, 2, 3])
@settings(deadline=None, max_examples=30)
@given(st.data())
def test_damage_of_one_replica_is_found_there_and_nowhere_else(
    name: str, who: int, data: st.DataObject
) -> None:
    counts = data.draw(st.lists(st.integers(1, 5), min_size=4, max_size=30))
    log = log_of(counts)
    at = data.draw(st.integers(1, len(log) - 3))
    damage, kind = DAMAGES[name]
    replicas = {number: Replica(list(log)) for number in (1, 2, 3)}
    replicas[who] = Replica(damage(log, at), high_watermark=log[-1].next_offset)
    seen = read_range(
        replicas,
        fetch_bytes=data.draw(st.sampled_from([1, 200, 10_000])),
        rng=random.Random(data.draw(st.integers(0, 2**32))),
    )
    assert seen.kinds == [(kind, who, log[at].base_offset, log[at].next_offset - 1)]
    assert (seen.order.batches, seen.order.records) == (len(log), sum(counts)), "checked as if it were whole"


@settings(deadline=None, max_examples=200)
@given(st.integers(0, 2**32), st.integers(0, 2**32), st.integers(1, 3))
def test_no_bit_of_a_batch_can_flip_unseen(seed: int, bit: int, who: int) -> None:
    rng = random.Random(seed)
    log = log_of([rng.randint(1, 4) for _ in range(12)])
    at = rng.randrange(len(log))
    replicas = {number: Replica(list(log)) for number in (1, 2, 3)}
    damaged = [*log[:at], flipped(log[at], bit), *log[at + 1 :]]
    replicas[who] = Replica(damaged, high_watermark=log[-1].next_offset)
    seen = read_range(replicas, rng=rng, fetch_bytes=rng.choice([1, 500]))
    assert {one.broker_id for one in seen.findings} == {who} or seen.ends[who] is End.UNREADABLE
    assert seen.order.records == log[-1].next_offset


def test_with_two_replicas_the_one_with_the_sound_batch_is_right() -> None:
    log = log_of([2] * 6)
    for who in (1, 2):
        replicas = {number: Replica(list(log)) for number in (1, 2)}
        replicas[who].batches[3] = flipped(log[3], PAYLOAD_BIT)
        assert read_range(replicas).kinds == [(Flaw.CRC_MISMATCH, who, 6, 7)]


def test_of_two_sound_batches_the_leaders_is_right_if_there_is_no_majority() -> None:
    log = log_of([2] * 6)
    replicas = {number: Replica(list(log)) for number in (1, 2)}
    replicas[1].batches[3] = batch(6, 2, text="leader's")
    assert [one[:2] for one in read_range(replicas).kinds if one[1] >= 0] == [(Flaw.BATCH_DIFFERS, 2)]


def test_a_leader_that_lost_a_batch_is_not_right_because_it_leads() -> None:
    log = log_of([2] * 6)
    replicas = {number: Replica(list(log)) for number in (1, 2)}
    del replicas[1].batches[3]
    assert read_range(replicas).kinds == [(Flaw.BATCH_MISSING, 1, 6, 7)]


def test_the_last_batch_missing_on_one_replica_is_found() -> None:
    log = log_of([2] * 6)
    replicas = {number: Replica(list(log)) for number in (1, 2, 3)}
    replicas[2] = Replica(log[:-1], high_watermark=12)
    assert read_range(replicas).kinds == [(Flaw.BATCH_MISSING, 2, 10, 11)]


def test_a_divergent_suffix_is_one_finding() -> None:
    log = log_of([2] * 50)
    other = [*log[:30], *(batch(2 * n, 2, leader_epoch=9, text="other") for n in range(30, 50))]
    replicas = {1: Replica(list(log)), 2: Replica(list(log)), 3: Replica(other)}
    seen = read_range(replicas)
    assert seen.kinds == [(Flaw.BATCH_DIFFERS, 3, 60, 99)]
    assert seen.findings[0].batches == 20
    assert "leader epoch 9" in seen.findings[0].detail


def test_other_batch_boundaries_are_found_and_do_not_hide_what_follows() -> None:
    log = log_of([2] * 8)
    other = [*log[:3], batch(6, 4, text="p"), *log[5:]]
    other[6] = flipped(other[6], PAYLOAD_BIT)
    replicas = {1: Replica(list(log)), 2: Replica(list(log)), 3: Replica(other)}
    found = read_range(replicas).kinds
    assert {one[:2] for one in found} >= {(Flaw.BATCH_DIFFERS, 3), (Flaw.CRC_MISMATCH, 3)}
    assert {one[1] for one in found} == {3}


def test_what_every_replica_has_alike_is_nobodys_fault() -> None:
    log = log_of([2] * 6, producers=1)
    log[2] = flipped(log[2], PAYLOAD_BIT)
    del log[4]
    replicas = {number: Replica(list(log)) for number in (1, 2, 3)}
    assert read_range(replicas).kinds == [
        (Flaw.CRC_MISMATCH, EVERY_REPLICA, 4, 5),
        (Flaw.OFFSET_GAP, EVERY_REPLICA, 8, 9),
        (Flaw.SEQUENCE_GAP, EVERY_REPLICA, 10, 11),
    ]


def test_a_batch_that_overlaps_the_log_is_one_too_many() -> None:
    log = log_of([2] * 6)
    replicas = {number: Replica(list(log)) for number in (1, 2, 3)}
    replicas[3].batches[2:3] = [batch(4, 1, text="p"), batch(5, 1, text="p")]
    found = read_range(replicas).kinds
    assert found[0][:3] == (Flaw.BATCH_DIFFERS, 3, 4)
    assert (Flaw.BATCH_EXTRA, 3, 5, 5) in found
    assert {one[1] for one in found} == {3}


# --- replicas that are not there ------------------------------------------------------------------------


def test_a_replica_that_is_behind_and_does_not_move_is_stale_and_compared_as_far_as_it_goes() -> None:
    log = log_of([2] * 20)
    stale = log[:10]
    stale[4] = flipped(stale[4], PAYLOAD_BIT)
    seen = read_range({1: Replica(list(log)), 2: Replica(stale)}, in_sync=(1,))
    assert seen.kinds == [(Flaw.CRC_MISMATCH, 2, 8, 9)]
    assert seen.ends == {1: End.WHOLE, 2: End.STALE}
    assert seen.order.records == 40


def test_a_replica_that_catches_up_while_we_look_is_waited_for() -> None:
    log = log_of([2] * 20)
    behind = Replica(list(log), high_watermark=10)

    def commit(turn: int) -> None:
        behind.high_watermark = min(10 + 2 * (turn // 3), 40)

    seen = read_range({1: Replica(list(log)), 2: behind}, on_turn=commit)
    assert (seen.kinds, seen.ends[2]) == ([], End.WHOLE)


def test_one_out_of_sync_that_moves_is_not_waited_for_to_the_end() -> None:
    log = log_of([2] * 400)
    behind = Replica(list(log), high_watermark=10)

    def commit(turn: int) -> None:
        behind.high_watermark = 10 + 2 * (turn // 3)

    seen = read_range({1: Replica(list(log)), 2: behind}, in_sync=(1,), on_turn=commit)
    assert (seen.kinds, seen.ends[2]) == ([], End.CATCHING_UP)


def test_retention_while_we_read_is_no_finding() -> None:
    log = log_of([2] * 40)
    replicas = {number: Replica(list(log)) for number in (1, 2, 3)}

    def retain(turn: int) -> None:
        for number, at in ((1, 4), (2, 9), (3, 15)):
            if turn == at:
                replicas[number].log_start_offset = 41
                replicas[number].batches = [one for one in log if one.next_offset > 41]

    seen = read_range(replicas, fetch_bytes=1, rng=random.Random(1), on_turn=retain)
    assert seen.kinds == []
    assert set(seen.ends.values()) == {End.WHOLE}


def test_a_log_that_begins_within_a_batch_is_looked_at_from_that_batch_on() -> None:
    log = log_of([4] * 5)
    replicas = {number: Replica(list(log), log_start_offset=6) for number in (1, 2)}
    seen = read_range(replicas, start=6, takes_head=True)
    assert (seen.kinds, seen.order.first_offset) == ([], 4)
    replicas[2].batches[1] = flipped(log[1], PAYLOAD_BIT)
    assert read_range(replicas, start=6, takes_head=True).kinds == [(Flaw.CRC_MISMATCH, 2, 4, 7)]
    assert read_range(replicas, start=6).kinds == [], "it belongs to the range before"


def test_compaction_makes_holes_that_are_none() -> None:
    log = log_of([2] * 6)
    del log[2]
    seen = read_range({1: Replica(log)}, rules=OrderRules(is_dense=False))
    assert seen.kinds == []


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 40), st.integers(1, 6))
def test_ranges_of_one_log_are_its_batches_each_once(seed: int, batches: int, parts: int) -> None:
    rng = random.Random(seed)
    log = log_of([rng.randint(1, 5) for _ in range(batches)])
    end = log[-1].next_offset
    cuts = [0, *sorted(rng.randrange(end + 1) for _ in range(parts)), end]
    count = 0
    for start, following in pairwise(cuts):
        if start < following:
            replicas = {number: Replica(list(log)) for number in (1, 2)}
            seen = read_range(replicas, start=start, end=following, rng=rng, fetch_bytes=rng.choice([1, 400]))
            assert seen.kinds == []
            count += seen.order.records
    assert count == end


def compressed(one: Batch, level: int) -> Batch:
    """Return the batch, compressed with gzip."""
    payload = gzip.compress(one.data[HEADER_BYTES:], level, mtime=0)
    covered = struct.pack(">h", GZIP) + one.data[CRC_START + 2 : HEADER_BYTES] + payload
    length = struct.pack(">i", BATCH_LENGTH_MIN + len(payload))
    head = one.data[:8] + length + one.data[12:17]
    return one._replace(data=head + struct.pack(">I", crc32c(covered)) + covered)


def test_batches_that_were_compressed_anew_are_equal_in_a_compacted_topic_only() -> None:
    log = [batch(offset, 20, text="text" * 20) for offset in range(0, 200, 20)]
    one, other = ([compressed(some, level) for some in log] for level in (1, 9))
    assert one != other
    assert read_range({1: Replica(one), 2: Replica(other)}, is_compacted=True).kinds == []
    seen = read_range({1: Replica(one), 2: Replica(other)})
    assert seen.kinds == [(Flaw.BATCH_DIFFERS, 2, 0, 199)]
    other[3] = compressed(batch(60, 20, text="other"), 9)
    seen = read_range({1: Replica(one), 2: Replica(other)}, is_compacted=True)
    assert seen.kinds == [(Flaw.BATCH_DIFFERS, 2, 60, 79)]
