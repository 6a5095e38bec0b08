"""Verdicts against a model that knows the truth: many partitions through elections that lose records, all of
them compared at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from pipeline.salvage.identity import IDENTITY_SCHEMA, TransactionPart
from pipeline.salvage.report import MISSING, PRESENT, REPEATED, SUPERSEDED, UNCOMMITTED
from pipeline.salvage.spark_tasks import IDENTITIES
from pipeline.salvage.verdicts import hits_of, latest_keys_of, runs_of, verdicts
from tests.kit.pipeline.salvage_world import PLAIN, World

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
    """What Spark says of some partitions, `target` by `target`. runs: empty unless it is asked for them."""

    def __init__(
        self,
        spark: Any,
        cut: Sequence[Row],
        live: Sequence[Row],
        *,
        keys: bool = False,
        with_runs: bool = False,
    ) -> None:
        cut_frame, live_frame = (frame_of(spark, rows) for rows in (cut, live))
        latest = latest_keys_of(live_frame) if keys else None
        frame = verdicts(cut_frame, hits_of(cut_frame, live_frame), latest).cache()
        self.rows = {(row.target, row.leader_epoch, row.offset): row for row in frame.collect()}
        self._verdicts: dict[int, dict[tuple[int, int], str]] = {}
        for (target, *place), one in self.rows.items():
            self._verdicts.setdefault(target, {})[place[0], place[1]] = one.verdict
        self.runs = [tuple(row) for row in runs_of(frame).collect()] if with_runs else []
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
    content: bytes | None = b"c",
    time: int = 1,
    producer: tuple[int, int, int] = (-1, -1, -1),
    copy: int = -1,
    first: int = -1,
    committed: bool = True,
    key: bytes | None = None,
    marked: bool = False,
    transaction: TransactionPart = TransactionPart.NONE,
) -> Row:
    identity = (*producer, content, time, key, marked, int(transaction))
    return (0, copy, first, committed, epoch, offset, *identity)


def marker(row_of: Callable[..., Row], offset: int, outcome: TransactionPart, **columns: Any) -> Row:
    return row_of(offset, content=None, time=-1, producer=(1, 0, -1), transaction=outcome, **columns)


def cut(offset: int, *, first: int = 5, copy: int = 0, epoch: int = 1, **columns: Any) -> Row:
    return row(offset, epoch=epoch, copy=copy, first=first, **columns)


class Case(NamedTuple):
    """`verdicts`: in the order of (leader epoch, offset)."""

    cut: Sequence[Row]
    live: Sequence[Row]
    verdicts: Sequence[str]


THREE = [cut(5, producer=(1, 0, 5)), cut(6, producer=(1, 0, 6)), cut(7, producer=(1, 0, 7))]
ONE_OF_THREE = row(5, epoch=2, producer=(1, 0, 7))
# Two equal ones of one leader were lost; its log came back with the first.
TWO = [cut(5, producer=(1, 0, 5)), cut(8, producer=(1, 0, 8))]
FIRST_OF_TWO = row(5, epoch=1, producer=(1, 0, 5))
TWICE_LOST = [cut(5, producer=(1, 0, 5)), cut(9, epoch=3, copy=1, first=8, producer=(1, 1, 0))]
TABLE = [cut(5, key=b"a", content=b"1"), cut(6, key=b"b", content=b"2"), cut(7, content=b"3")]
TABLE_LATER = [
    row(2, epoch=1, key=b"a", content=b"0"),
    row(5, epoch=2, key=b"a", content=b"4"),
    row(6, epoch=2, key=b"b", content=b"5", marked=True),
]
COPIES = [cut(5, copy=1), cut(5, copy=0, committed=False), cut(6, copy=1, committed=False)]
NEIGHBOURS = [
    *[cut(offset, content=b"%d" % offset, committed=offset < 8) for offset in (5, 6, 7, 8, 10, 11)],
    cut(2, epoch=0, copy=1, first=2, content=b"z"),
]
IN_TRANSACTION = [
    cut(offset, producer=(1, 0, offset), content=b"%d" % offset, transaction=TransactionPart.RECORD)
    for offset in (5, 6, 8)
]
OPEN_AGAIN = [row(5, epoch=2, producer=(1, 0, 5), content=b"5", transaction=TransactionPart.RECORD)]

CASES = {
    "nothing came again": Case(THREE, [], [MISSING] * 3),
    "retries under another identity count as often as they are there": Case(
        THREE, [row(5, epoch=2, producer=(9, 0, 0))], [PRESENT, MISSING, MISSING]
    ),
    "who is there under its own name is not there for another": Case(
        THREE, [ONE_OF_THREE], [MISSING, MISSING, PRESENT]
    ),
    "who is there beside one under its own name is": Case(
        THREE, [ONE_OF_THREE, row(6, epoch=2)], [PRESENT, MISSING, PRESENT]
    ),
    "what the log kept is there": Case(TWO, [FIRST_OF_TWO], [PRESENT, MISSING]),
    "a record that the log kept uses up none that came later": Case(
        TWO, [FIRST_OF_TWO, row(6, epoch=2, producer=(2, 0, 0))], [PRESENT, PRESENT]
    ),
    "another time or another content is another record": Case(
        [cut(5, producer=(1, 0, 5))],
        [
            row(5, epoch=2, time=2),
            row(6, epoch=2, content=b"d"),
            row(7, epoch=2, content=b"d", producer=(1, 0, 5)),
        ],
        [MISSING],
    ),
    "what the log kept from before the cut is no retry": Case(
        [cut(5)], [row(3, epoch=1), row(4, epoch=0)], [MISSING]
    ),
    "the log was cut deeper since, and it came again": Case([cut(5)], [row(3, epoch=2)], [PRESENT]),
    "an older leader's log came back": Case([cut(5, epoch=2)], [row(6, epoch=1)], [PRESENT]),
    "what several leaders lost is missing once, from its last place": Case(
        TWICE_LOST, [], [REPEATED, MISSING]
    ),
    "what several leaders lost is there once it was merged": Case(
        TWICE_LOST, [row(12, epoch=4, producer=(2**62 + 1, 0, 0), marked=True)], [PRESENT, PRESENT]
    ),
    "a later record of the key replaces none where keys do not count": Case(
        TABLE, TABLE_LATER, [MISSING] * 3
    ),
    "one leader's two entries are two, in however many copies": Case(COPIES, [], [MISSING] * 2),
    "neighbours": Case(
        NEIGHBOURS,
        [row(5, epoch=2, content=b"6")],
        [MISSING, MISSING, PRESENT, MISSING, MISSING, MISSING, MISSING],
    ),
    "of a transaction that was cut off before its end nothing is missing": Case(
        IN_TRANSACTION, [], [UNCOMMITTED] * 3
    ),
    "a transaction that was committed before the cut is missing whole, and the next one is not": Case(
        [*IN_TRANSACTION, marker(cut, 7, TransactionPart.COMMIT)], [], [MISSING, MISSING, UNCOMMITTED]
    ),
    "a later leader's marker ends what was cut off": Case(
        [*IN_TRANSACTION, marker(cut, 7, TransactionPart.ABORT)],
        [marker(row, 9, TransactionPart.COMMIT, epoch=2)],
        [UNCOMMITTED, UNCOMMITTED, MISSING],
    ),
    "an earlier leader's marker ends nothing of a later one": Case(
        IN_TRANSACTION, [marker(row, 9, TransactionPart.COMMIT, epoch=0)], [UNCOMMITTED] * 3
    ),
    "what came again in a transaction that was aborted is not there": Case(
        [*IN_TRANSACTION[:1], marker(cut, 7, TransactionPart.COMMIT)],
        [*OPEN_AGAIN, marker(row, 6, TransactionPart.ABORT, epoch=2)],
        [MISSING],
    ),
    "what came again in a transaction that is open is not lost": Case(
        [*IN_TRANSACTION[:1], marker(cut, 7, TransactionPart.COMMIT)], OPEN_AGAIN, [PRESENT]
    ),
}
TARGETS = {name: target for target, name in enumerate(CASES)}


@pytest.fixture(scope="module")
def judged(spark: Any) -> Judged:
    """All cases, each a target: Spark's time is spent on the number of queries."""
    cut_off = [(target, *one[1:]) for name, target in TARGETS.items() for one in CASES[name].cut]
    live = [(target, *one[1:]) for name, target in TARGETS.items() for one in CASES[name].live]
    return Judged(spark, cut_off, live, with_runs=True)


@pytest.mark.parametrize("name", CASES)
def test_what_became_of_a_record(judged: Judged, name: str) -> None:
    found = judged.verdict(TARGETS[name])
    assert [found[place] for place in sorted(found)] == CASES[name].verdicts


def test_one_entry_in_several_copies_is_one_record_committed_where_any_knows_it(judged: Judged) -> None:
    target = TARGETS["one leader's two entries are two, in however many copies"]
    found = {place[1:]: one for place, one in judged.rows.items() if place[0] == target}
    assert {place: (one.copy, one.is_committed) for place, one in found.items()} == {
        (1, 5): (0, True),
        (1, 6): (1, False),
    }


def test_neighbours_make_runs_in_the_order_of_leaders(judged: Judged) -> None:
    target = TARGETS["neighbours"]
    assert [run[1:] for run in judged.runs if run[0] == target] == [
        (1, 0, True, 2, 2),
        (0, 1, True, 5, 5),
        (0, 1, True, 7, 7),
        (0, 1, False, 8, 8),
        (0, 1, False, 10, 11),
    ]


def test_of_a_table_the_newest_of_each_key_is_missing_and_no_older_one_once_it_is_merged(spark: Any) -> None:
    table = [
        cut(5, key=b"a", content=b"1"),
        cut(6, key=b"a", content=b"2"),
        cut(7, key=b"b", content=b"3"),
        cut(8, key=b"b", content=b"4", committed=False),  # --committed-only takes the one before
        cut(9, content=b"5"),
        cut(10, content=b"6"),
    ]
    found = Judged(spark, table, [], keys=True).verdict(0)
    assert [found[place] for place in sorted(found)] == [SUPERSEDED, *[MISSING] * 5]
    # All are merged, and compaction takes 3.
    merged = [
        row(place, epoch=2, key=key, content=content, marked=True)
        for place, (key, content) in enumerate(
            [(b"a", b"2"), (b"b", b"4"), (None, b"5"), (None, b"6")], start=12
        )
    ]
    found = Judged(spark, table, merged, keys=True).verdict(0)
    assert [found[place] for place in sorted(found)] == [SUPERSEDED, PRESENT, SUPERSEDED, *[PRESENT] * 3]


def test_of_a_table_only_what_no_later_record_replaces_is_missing(spark: Any) -> None:
    found = Judged(spark, TABLE, TABLE_LATER, keys=True).verdict(0)
    assert [found[place] for place in sorted(found)] == [SUPERSEDED, MISSING, MISSING]
