"""The option matrix of Spark's Kafka source, read by `format("springtide")`: the same rows, offsets and
refusals.

The logs hold tombstones, null keys, headers, gaps, control batches, an aborted transaction and a truncated
beginning (tests/pipeline_proof/contract/world.py); what is right comes from the documentation's rules
(rules.py).
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from dataplane.wire.records import NewRecord
from tests.pipeline_proof.contract.cases import SUBSCRIPTIONS, Options, batch_cases, stream_cases
from tests.pipeline_proof.contract.rules import Reading, Refused, Undocumented, expected
from tests.pipeline_proof.contract.world import Where, World, make_world
from tests.pipeline_proof.part import proving

pytestmark = [pytest.mark.timeout(600)]
SEED = 20_261_122
DRAWN = 80
Row = tuple[str, int, int, bytes | None, bytes | None, int, int, object]


@pytest.fixture
def world() -> Iterator[World]:
    made = make_world()
    with made.server:
        yield made


def rows_of(reading: Reading, *, has_headers: bool) -> list[Row]:
    return sorted(
        (
            *where,
            one.offset,
            one.record.key,
            one.record.value,
            one.record.timestamp,
            0,
            headers_of(one.record),
        )
        if has_headers
        else (*where, one.offset, one.record.key, one.record.value, one.record.timestamp, 0, None)
        for where, records in reading.rows.items()
        for one in records
    )


def headers_of(record: NewRecord) -> object:
    """None where there are none, as the official source has it."""
    return [(name, value) for name, value in record.headers] or None


def rows_in(frame: Any) -> list[Row]:
    return sorted(
        (
            row["topic"],
            row["partition"],
            row["offset"],
            row["key"] if row["key"] is None else bytes(row["key"]),
            row["value"] if row["value"] is None else bytes(row["value"]),
            round(row["timestamp"].timestamp() * 1000),
            row["timestampType"],
            None if "headers" not in row else headers_in(row["headers"]),
        )
        for row in frame.collect()
    )


def headers_in(headers: Any) -> object:
    return headers and [(one["key"], one["value"] and bytes(one["value"])) for one in headers]


def judge(
    world: World, options: Mapping[str, str], read: Any, *, is_streaming: bool
) -> tuple[str, list[str]]:
    """What was promised of these options (`rows`, `refused` or `nothing`), and what is wrong with what
    came."""
    try:
        wanted = expected(world, options, is_streaming=is_streaming)
    except Undocumented:
        return "nothing", []
    except Refused as refused:
        try:
            rows = read()
        except Exception as error:
            told = str(error).lower()
            heard = any(word.lower() in told for word in refused.words)
            return "refused", [] if heard else [f"refused with other words than {refused.words}: {error}"]
        return "refused", [f"{len(rows)} rows instead of a refusal ({refused.words})"]
    try:
        rows = read()
    except Exception as error:
        return "rows", [f"refused: {str(error).strip().splitlines()[-1][:300]}"]
    right = rows_of(wanted, has_headers="includeHeaders" in options)
    return "rows", [] if rows == right else [difference(rows, right)]


def difference(rows: list[Row], right: list[Row]) -> str:
    wrong = [pair for pair in itertools.zip_longest(rows, right) if pair[0] != pair[1]]
    return f"{len(rows)} rows, {len(right)} expected; first difference: {wrong[0]}"


def batch_read(spark: Any, world: World, options: Options) -> Any:
    reader = spark.read.format("springtide").option("kafka.bootstrap.servers", world.bootstrap)
    return lambda: rows_in(reader.options(**options).load())


class Stream:
    """Runs of one query until it has what there is, each appending to the same files."""

    def __init__(self, spark: Any, world: World, options: Options, place: Path) -> None:
        self.spark, self.world, self.options, self.place = spark, world, options, place

    def run(self) -> list[Row]:
        reader = self.spark.readStream.format("springtide")
        frame = reader.options(**{"kafka.bootstrap.servers": self.world.bootstrap, **self.options}).load()
        query = (
            frame.writeStream.format("parquet")
            .option("checkpointLocation", str(self.place / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(self.place / "rows"))
        )
        try:
            query.awaitTermination(120)
        finally:
            query.stop()
        return rows_in(self.spark.read.schema(frame.schema).parquet(str(self.place / "rows")))

    def checkpointed(self) -> Mapping[str, Mapping[str, int]]:
        """The offset of the last micro-batch, as its file in the checkpoint has it."""
        files = [path for path in (self.place / "checkpoint" / "offsets").iterdir() if path.name.isdigit()]
        last = max(files, key=lambda path: int(path.name))
        told: Mapping[str, Mapping[str, int]] = json.loads(last.read_text().splitlines()[-1])
        return told


def as_json(offsets: Mapping[Where, int]) -> dict[str, dict[str, int]]:
    told: dict[str, dict[str, int]] = {}
    for (topic, number), offset in sorted(offsets.items()):
        told.setdefault(topic, {})[str(number)] = offset
    return told


@pytest.mark.proof
def test_some_of_the_matrix(spark: Any, world: World, tmp_path: Path) -> None:
    cases = list(batch_cases(world, seed=SEED, drawn=DRAWN).items())
    wrong = []
    for name, options in cases[:: len(cases) // 12]:
        _, found = judge(world, options, batch_read(spark, world, options), is_streaming=False)
        wrong += [f"{name}: {one}" for one in found]
    assert not wrong
    stream = Stream(spark, world, {**SUBSCRIPTIONS["pattern"], "startingOffsets": "earliest"}, tmp_path)
    assert judge(world, stream.options, stream.run, is_streaming=True) == ("rows", [])


@pytest.mark.proof
def test_what_retention_takes_in_the_middle_of_a_read_is_a_loss_or_passed_over(
    spark: Any, world: World
) -> None:
    log = world.topics["orders-a"][0]
    world.on_fetch = lambda: log.retain_from(14)
    options = {"subscribe": "orders-a", "includeHeaders": "true"}
    with pytest.raises(Exception, match="failOnDataLoss"):
        batch_read(spark, world, options)()
    log.start = 0
    rows = batch_read(spark, world, {**options, "failOnDataLoss": "false"})()
    right = expected(world, {**options, "failOnDataLoss": "false"}, is_streaming=False)
    assert rows == rows_of(right, has_headers=True)
    assert min(offset for _, partition, offset, *_ in rows if partition == 0) == 14


@pytest.mark.proof
@pytest.mark.timeout(900)
def test_the_matrix(spark: Any, tmp_path: Path) -> None:
    with proving(1, "contract") as part:
        counted = dict.fromkeys(("rows", "refused", "nothing"), 0)
        world = make_world()
        with world.server:
            batches, streams = batch_cases(world, seed=SEED, drawn=DRAWN), stream_cases(world)
            for name, options in batches.items():
                promised, wrong = judge(world, options, batch_read(spark, world, options), is_streaming=False)
                counted[promised] += 1
                for one in wrong:
                    part.fail(f"batch, {name}: {one}")
        moved_on = 0
        for number, name in enumerate(streams):
            world = make_world()
            with world.server:
                stream = Stream(spark, world, streams[name], tmp_path / str(number))
                promised, wrong = judge(world, stream.options, stream.run, is_streaming=True)
                counted[promised] += 1
                if promised == "rows" and not wrong:
                    moved_on += 1
                    wrong = goes_on(world, stream)
                for one in wrong:
                    part.fail(f"stream, {name}: {one}")
        part.figures |= {
            "batch queries": len(batches),
            "streams": len(streams),
            "streams that went on after a restart": moved_on,
            "queries whose rows were promised": counted["rows"],
            "queries whose refusal was promised": counted["refused"],
            "queries of which nothing is documented": counted["nothing"],
        }
        part.not_compared(
            "Spark's Kafka source itself, and checkpoints handed over to it: its jar is not at hand; what it "
            "promises comes from its documentation"
        )
        assert not part.failures


def goes_on(world: World, stream: Stream) -> list[str]:
    """The checkpoint tells the ends in the official form; what is appended is read by the next run, and
    only it."""
    first = expected(world, stream.options, is_streaming=True)
    ends = {where: world.log(where).end for where in first.start}
    wrong = []
    if stream.checkpointed() != as_json(ends):
        wrong.append(f"the checkpoint holds {stream.checkpointed()}, not {as_json(ends)}")
    for where in ends:
        world.log(where).append([NewRecord(b"late", b"%d" % n, 1_800_000_000_000 + n) for n in range(3)])
    rows = stream.run()
    committed = stream.options.get("kafka.isolation.level") == "read_committed"
    right = Reading(
        first.start,
        {},
        {
            where: [
                one
                for one in world.log(where).truth
                if one.offset >= start and not (committed and one.is_aborted)
            ]
            for where, start in first.start.items()
        },
    )
    wanted = rows_of(right, has_headers="includeHeaders" in stream.options)
    if rows != wanted:
        wrong.append(f"after a restart: {difference(rows, wanted)}")
    return wrong
