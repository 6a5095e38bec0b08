"""Verdicts against a model that knows the truth: many partitions through elections that lose records, all of
them compared at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from pipeline.salvage.identity import IDENTITY_SCHEMA
from pipeline.salvage.report import MISSING, PRESENT, REPEATED, SUPERSEDED
from pipeline.salvage.spark_tasks import IDENTITIES
from pipeline.salvage.verdicts import hits_of, latest_keys_of, runs_of, verdicts
from tests.unit.salvage_world import PLAIN, World

pytestmark = [pytest.mark.timeout(300)]
STEPS = 60

Row = tuple[Any, ...]


def frame_of(spark: Any, rows: Sequence[Row]) -> Any:
    if not rows:
        return spark.createDataFrame([], IDENTITIES)
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, kind.type) for column, kind in zip(columns, IDENTITY_SCHEMA, strict=True)]
    return spark.createDataFrame(pa.Table.from_arrays(arrays, schema=IDENTITY_SCHEMA))


class Judged:
    """What Spark says of some partitions, `target` by `target`."""

    def __init__(self, spark: Any, cut: Sequence[Row], live: Sequence[Row], *, keys: bool = False) -> None:
        cut_frame, live_frame = (frame_of(spark, rows) for rows in (cut, live))
        latest = latest_keys_of(live_frame) if keys else None
        frame = verdicts(cut_frame, hits_of(cut_frame, live_frame), latest).cache()
        self.rows = {(row.target, row.leader_epoch, row.offset): row for row in frame.collect()}
        self._verdicts: dict[int, dict[tuple[int, int], str]] = {}
        for (target, *place), one in self.rows.items():
            self._verdicts.setdefault(target, {})[place[0], place[1]] = one.verdict
        self.runs = [tuple(row) for row in runs_of(frame).collect()]
        frame.unpersist()

    def verdict(self, target: int) -> dict[tuple[int, int], str]:
        """By (leader epoch, offset)."""
        return self._verdicts.get(target, {})

    def missing(self, target: int) -> list[tuple[int, int]]:
        return sorted(place for place, verdict in self.verdict(target).items() if verdict == MISSING)


def worlds_judged(spark: Any, worlds: Sequence[World], *, keys: bool = False) -> Judged:
    cut = [(target, *row) for target, world in enumerate(worlds) for row in world.cut_rows(keys=keys)]
    live = [(target, *row) for target, world in enumerate(worlds) for row in world.live(keys=keys)]
    return Judged(spark, cut, live, keys=keys)


def check_truth(judged: Judged, worlds: Sequence[World]) -> Counter[str]:
    """Raises AssertionError for a partition where what is missing is not the truth.

    Of a plain producer's event that was stored twice, once may be kept and once cut off: that nobody can tell
    from two equal events, and it counts as missing.
    """
    seen: Counter[str] = Counter()
    for target, world in enumerate(worlds):
        held = {
            (entry.leader_epoch, cut.first_offset + place): entry.event
            for cut in world.cuts
            for place, entry in enumerate(cut.entries)
        }
        verdict = judged.verdict(target)
        assert verdict.keys() == held.keys(), f"seed {world.seed}: each entry has a verdict"
        missing = Counter(held[place].number for place in judged.missing(target))
        numbered = {number for number in missing if world.events[number].producer != PLAIN}
        truth = world.truth()
        assert truth <= missing.keys(), f"seed {world.seed}: missed {truth - missing.keys()}"
        assert numbered <= truth, f"seed {world.seed}: {numbered - truth} are there"
        assert all(missing[number] == 1 for number in numbered), f"seed {world.seed}: one would come twice"
        seen.update(verdict.values())
    return seen


@pytest.mark.parametrize("count", [40, pytest.param(400, marks=pytest.mark.proof)])
def test_what_is_missing_is_the_truth_and_once_it_is_merged_nothing_is_missing(
    spark: Any, count: int
) -> None:
    worlds = [World(seed) for seed in range(count)]
    for world in worlds:
        world.run(STEPS)
    judged = worlds_judged(spark, worlds)
    seen = check_truth(judged, worlds)
    assert min(seen[verdict] for verdict in (PRESENT, REPEATED, MISSING)) > count, seen

    for target, world in enumerate(worlds):
        world.merge(judged.missing(target))
    again = worlds_judged(spark, worlds)
    assert check_truth(again, worlds)[MISSING] == 0

    for world in worlds:  # what was merged is lost again, with other things
        world.run(STEPS)
    later = worlds_judged(spark, worlds)
    seen = check_truth(later, worlds)
    assert seen[MISSING] > count
    for target, world in enumerate(worlds):
        world.merge(later.missing(target))
    assert check_truth(worlds_judged(spark, worlds), worlds)[MISSING] == 0


def row(
    offset: int,
    *,
    epoch: int,
    content: bytes = b"c",
    time: int = 1,
    producer: tuple[int, int, int] = (-1, -1, -1),
    copy: int = -1,
    first: int = -1,
    committed: bool = True,
    key: bytes | None = None,
    marked: bool = False,
) -> Row:
    return (0, copy, first, committed, epoch, offset, *producer, content, time, key, marked)


def cut(offset: int, *, first: int = 5, copy: int = 0, epoch: int = 1, **columns: Any) -> Row:
    return row(offset, epoch=epoch, copy=copy, first=first, **columns)


def judge(spark: Any, cut_off: Sequence[Row], live: Sequence[Row] = (), *, keys: bool = False) -> list[str]:
    """Verdicts in the order of (leader epoch, offset)."""
    found = Judged(spark, cut_off, live, keys=keys).verdict(0)
    return [found[place] for place in sorted(found)]


def test_retries_under_another_identity_count_as_often_as_they_are_there(spark: Any) -> None:
    three = [cut(5, producer=(1, 0, 5)), cut(6, producer=(1, 0, 6)), cut(7, producer=(1, 0, 7))]
    assert judge(spark, three) == [MISSING] * 3
    assert judge(spark, three, [row(5, epoch=2, producer=(9, 0, 0))]) == [PRESENT, MISSING, MISSING]
    # One is there under its own name: only what that leaves counts for the others.
    exact = [row(5, epoch=2, producer=(1, 0, 7))]
    assert judge(spark, three, exact) == [MISSING, MISSING, PRESENT]
    assert judge(spark, three, [*exact, row(6, epoch=2)]) == [PRESENT, MISSING, PRESENT]


def test_a_record_that_the_log_kept_uses_up_none_that_came_later(spark: Any) -> None:
    """Two equal ones of one leader were lost; its log came back with the first, and the second was merged."""
    lost = [cut(5, producer=(1, 0, 5)), cut(8, producer=(1, 0, 8))]
    kept = row(5, epoch=1, producer=(1, 0, 5))
    assert judge(spark, lost, [kept]) == [PRESENT, MISSING]
    assert judge(spark, lost, [kept, row(6, epoch=2, producer=(2, 0, 0))]) == [PRESENT, PRESENT]


def test_another_time_or_another_content_is_another_record(spark: Any) -> None:
    live = [
        row(5, epoch=2, time=2),
        row(6, epoch=2, content=b"d"),
        row(7, epoch=2, content=b"d", producer=(1, 0, 5)),
    ]
    assert judge(spark, [cut(5, producer=(1, 0, 5))], live) == [MISSING]


def test_what_the_log_kept_from_before_the_cut_is_no_retry(spark: Any) -> None:
    kept = [row(3, epoch=1), row(4, epoch=0)]
    assert judge(spark, [cut(5)], kept) == [MISSING]
    assert judge(spark, [cut(5)], [row(3, epoch=2)]) == [PRESENT], (
        "the log was cut deeper since, and it came again"
    )
    assert judge(spark, [cut(5, epoch=2)], [row(6, epoch=1)]) == [PRESENT], "an older leader's log came back"


def test_one_entry_in_several_copies_is_one_record(spark: Any) -> None:
    found = Judged(
        spark, [cut(5, copy=1), cut(5, copy=0, committed=False), cut(6, copy=1, committed=False)], []
    )
    assert {place: (one.copy, one.is_committed) for place, one in found.rows.items()} == {
        (0, 1, 5): (0, True),
        (0, 1, 6): (1, False),
    }
    assert found.missing(0) == [(1, 5), (1, 6)], "and one leader's two entries are two"


def test_what_several_leaders_lost_comes_back_once_from_its_last_place(spark: Any) -> None:
    lost = [cut(5, producer=(1, 0, 5)), cut(9, epoch=3, copy=1, first=8, producer=(1, 1, 0))]
    assert judge(spark, lost) == [REPEATED, MISSING]
    merged = [row(12, epoch=4, producer=(2**62 + 1, 0, 0), marked=True)]
    assert judge(spark, lost, merged) == [PRESENT, PRESENT]


def test_of_a_table_only_what_no_later_record_replaces_is_missing(spark: Any) -> None:
    cut_off = [cut(5, key=b"a", content=b"1"), cut(6, key=b"b", content=b"2"), cut(7, content=b"3")]
    live = [
        row(2, epoch=1, key=b"a", content=b"0"),
        row(5, epoch=2, key=b"a", content=b"4"),
        row(6, epoch=2, key=b"b", content=b"5", marked=True),
    ]
    assert judge(spark, cut_off, live, keys=True) == [SUPERSEDED, MISSING, MISSING]
    assert judge(spark, cut_off, live) == [MISSING] * 3


def test_neighbours_make_runs_in_the_order_of_leaders(spark: Any) -> None:
    offsets = [cut(offset, content=b"%d" % offset, committed=offset < 8) for offset in (5, 6, 7, 8, 10, 11)]
    other = cut(2, epoch=0, copy=1, first=2, content=b"z")
    assert Judged(spark, [*offsets, other], [row(5, epoch=2, content=b"6")]).runs == [
        (0, 1, 0, True, 2, 2),
        (0, 0, 1, True, 5, 5),
        (0, 0, 1, True, 7, 7),
        (0, 0, 1, False, 8, 8),
        (0, 0, 1, False, 10, 11),
    ]
