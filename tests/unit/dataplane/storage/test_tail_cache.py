"""The tail in memory: which batches it hands out, what it drops first, and what it costs."""

from __future__ import annotations

import pytest

from dataplane.storage import tail_cache
from dataplane.storage.tail_cache import (
    BATCH_OVERHEAD_BYTES,
    BLOCK_BYTES_MAX,
    BLOCK_BYTES_MIN,
    GATHER_BYTES_MAX,
    TailBudget,
    TailCache,
)
from tests.kit.dataplane.storage import batch, header_of


def add(cache: TailCache, *batches: bytes) -> None:
    cache.append([header_of(each) for each in batches], list(batches), sum(map(len, batches)))


def read(
    cache: TailCache, offset: int, end_offset: int, *, max_bytes: int = 1_000_000, at_least_one: bool = True
) -> tuple[bytes, int] | None:
    held = cache.read(offset, end_offset=end_offset, max_bytes=max_bytes, at_least_one=at_least_one)
    if held is None:
        return None
    views, size_bytes, next_offset = held
    data = b"".join(views)
    assert len(data) == size_bytes
    return data, next_offset


@pytest.mark.parametrize("value_bytes", [10, 3_000, 20_000])
def test_a_read_returns_the_batches_that_fit_between_its_offset_and_its_end(value_bytes: int) -> None:
    """In one block, over several, and in blocks of their own."""
    places = ((0, 1), (1, 3), (4, 1), (9, 2), (11, 1))  # with a gap from 5 to 8
    batches = {base: batch(base, records=records, value=b"v" * value_bytes) for base, records in places}
    cache = TailCache(TailBudget(), bytes_max=1_000_000)
    for each in batches.values():
        add(cache, each)

    def of(*bases: int) -> bytes:
        return b"".join(batches[base] for base in bases)

    assert read(cache, 0, 12) == (of(0, 1, 4, 9, 11), 12)
    assert [read(cache, offset, 12) for offset in (1, 2, 3)] == [(of(1, 4, 9, 11), 12)] * 3
    assert [read(cache, offset, 12) for offset in (5, 8, 9, 10)] == [(of(9, 11), 12)] * 4
    assert read(cache, 11, 12) == (of(11), 12)
    assert read(cache, 0, 10) == (of(0, 1, 4), 5)
    assert read(cache, 9, 10) == (b"", 9)
    assert read(cache, 12, 12) == (b"", 12)
    assert read(cache, 1, 12, max_bytes=1) == (of(1), 4)
    assert read(cache, 9, 12, max_bytes=1) == (of(9), 11)
    two = len(of(0, 1))
    assert [read(cache, 0, 12, max_bytes=limit) for limit in (two - 1, two, two + 1)] == [
        (of(0), 1),
        (of(0, 1), 4),
        (of(0, 1), 4),
    ]
    assert read(cache, 0, 12, max_bytes=1) == (of(0), 1)
    assert read(cache, 0, 12, max_bytes=1, at_least_one=False) == (b"", 0)
    assert read(cache, 0, 12, max_bytes=len(of(0)), at_least_one=False) == (of(0), 1)


@pytest.mark.parametrize("value_bytes", [10, 3_000, 20_000])
@pytest.mark.parametrize("end", range(5))
def test_after_a_cut_it_holds_what_is_left_and_what_follows(value_bytes: int, end: int) -> None:
    budget = TailBudget()
    cache = TailCache(budget, bytes_max=1_000_000)
    batches = [batch(offset, value=b"v" * value_bytes) for offset in range(4)]
    for each in batches:
        add(cache, each)
    used = budget.used_bytes
    cache.truncate_to(end)
    assert cache.first_offset == (0 if end else None)
    if end == 4:
        assert budget.used_bytes == used
    if value_bytes == 20_000:  # each in a block of its own
        assert budget.used_bytes == end * used // 4
    fresh = batch(end, leader_epoch=3, value=b"w" * value_bytes)
    add(cache, fresh)
    assert read(cache, 0, end + 1) == (b"".join(batches[:end]) + fresh, end + 1)
    cache.clear()
    assert budget.used_bytes == 0


def test_it_holds_no_more_than_its_bytes_with_the_cost_of_each_batch() -> None:
    size = 20_000
    encoded = [batch(offset, value=b"v" * size) for offset in range(6)]
    each = len(encoded[0]) + BATCH_OVERHEAD_BYTES
    for bytes_max, first in ((3 * each, 3), (3 * each - 1, 4), (each, 5)):
        budget = TailBudget()
        cache = TailCache(budget, bytes_max=bytes_max)
        for one in encoded:
            add(cache, one)
        assert (cache.first_offset, budget.used_bytes) == (first, (6 - first) * each)
        cache.clear()
        add(cache, encoded[0])
        assert cache.first_offset == 0
        for one in encoded[1:]:
            add(cache, one)
        assert (cache.first_offset, budget.used_bytes) == (first, (6 - first) * each)
    cache = TailCache(TailBudget(), bytes_max=each - 1)
    add(cache, encoded[0])
    assert cache.first_offset is None


def test_several_batches_of_one_append_are_charged_each() -> None:
    budget = TailBudget()
    cache = TailCache(budget, bytes_max=1_000_000)
    batches = [batch(offset, value=b"v" * 20_000) for offset in range(3)]
    add(cache, *batches)
    assert budget.used_bytes == sum(map(len, batches)) + 3 * BATCH_OVERHEAD_BYTES


def test_over_the_budget_the_oldest_blocks_go_whosever_they_are() -> None:
    encoded = batch(0, value=b"v" * 20_000)
    each = len(encoded) + BATCH_OVERHEAD_BYTES
    budget = TailBudget(3 * each)
    first, second = (TailCache(budget, bytes_max=1_000_000) for _ in range(2))
    for cache, offset in ((first, 0), (first, 1), (second, 0)):
        add(cache, batch(offset, value=b"v" * 20_000))
    assert (first.first_offset, second.first_offset, budget.used_bytes) == (0, 0, 3 * each)
    add(second, batch(1, value=b"v" * 20_000))
    assert (first.first_offset, second.first_offset, budget.used_bytes) == (1, 0, 3 * each)
    add(second, batch(2, value=b"v" * 20_000))
    assert (first.first_offset, second.first_offset) == (None, 0)
    add(second, batch(3, value=b"v" * 20_000))
    assert (second.first_offset, budget.used_bytes) == (1, 3 * each)
    assert read(second, 1, 4) is not None


def test_blocks_that_are_dropped_are_swept_out_of_the_budgets_queue() -> None:
    budget = TailBudget()
    old = TailCache(budget, bytes_max=1_000_000)
    add(old, batch(0, value=b"v" * 20_000))
    cache = TailCache(budget, bytes_max=50_000)
    for offset in range(1_000):
        add(cache, batch(offset, value=b"v" * 20_000))
    assert len(budget._queue) <= 70
    cache.clear()
    budget.bytes_max = 0
    budget.enforce()
    assert (old.first_offset, budget.used_bytes) == (None, 0)
    budget.enforce()


def test_blocks_for_gathering_grow_with_the_traffic_up_to_a_quarter_of_the_cache() -> None:
    budget = TailBudget()
    cache = TailCache(budget, bytes_max=40 * 1024)
    one = batch(0, value=b"v" * 900)
    capacities: list[int] = []
    for offset in range(32):
        before = len(cache._blocks)
        add(cache, batch(offset, value=b"v" * 900))
        if len(cache._blocks) > before:
            capacities.append(cache._blocks[-1].charged - BATCH_OVERHEAD_BYTES)
    assert capacities[:3] == [BLOCK_BYTES_MIN, 2 * BLOCK_BYTES_MIN, 10 * 1024]
    assert max(capacities) == 10 * 1024
    full = TailCache(TailBudget(), bytes_max=1_000_000)
    held = BLOCK_BYTES_MIN // len(one)
    for offset in range(held + 1):
        add(full, batch(offset, value=b"v" * 900))
    assert len(full._blocks) == 2
    for offset in range(held + 1, 300):
        add(full, batch(offset, value=b"v" * 900))
    assert max(len(block.view) for block in full._blocks) <= BLOCK_BYTES_MAX


def test_a_block_is_filled_to_its_last_byte() -> None:
    quarter = len(batch(0, value=b"v" * 954))
    assert quarter == BLOCK_BYTES_MIN // 4
    cache = TailCache(TailBudget(), bytes_max=1_000_000)
    for offset in range(5):
        add(cache, batch(offset, value=b"v" * 954))
        assert len(cache._blocks) == 1 + offset // 4
    assert read(cache, 3, 5) == (batch(3, value=b"v" * 954) + batch(4, value=b"v" * 954), 5)


def test_an_append_that_is_larger_than_a_block_has_one_of_its_own() -> None:
    cache = TailCache(TailBudget(), bytes_max=1_000_000)
    large = b"v" * (GATHER_BYTES_MAX - 200)
    add(cache, batch(0, value=large))
    add(cache, batch(1, value=b"v" * GATHER_BYTES_MAX))
    add(cache, batch(2, value=large))
    assert len(cache._blocks) == 3
    assert cache._blocks[0].charged == len(batch(0, value=large)) + BATCH_OVERHEAD_BYTES
    assert read(cache, 0, 3) == (
        batch(0, value=large) + batch(1, value=b"v" * GATHER_BYTES_MAX) + batch(2, value=large),
        3,
    )


@pytest.mark.parametrize(("part", "is_shared"), [(0.5, True), (0.49, False), (1.0, True)])
def test_a_view_is_kept_where_most_of_its_buffer_is_wanted_and_else_copied(
    part: float, is_shared: bool
) -> None:
    whole = bytes(40_000)
    view = memoryview(whole)[: int(part * len(whole))]
    assert (tail_cache._own(view).obj is whole) is is_shared
    assert tail_cache._own(memoryview(bytearray(whole))).readonly
    assert tail_cache._own(bytearray(whole)).readonly


def test_a_batch_of_which_a_part_is_dropped_is_not_held_any_more() -> None:
    budget = TailBudget(50_000)
    cache, other = (TailCache(budget, bytes_max=1_000_000) for _ in range(2))
    encoded = batch(0, value=b"v" * 40_000)
    cache.append([header_of(encoded)], [encoded[:20_000], encoded[20_000:]], len(encoded))
    assert cache.first_offset == 0
    add(other, batch(0, value=b"v" * 20_000))
    assert (cache.first_offset, other.first_offset) == (None, 0)
