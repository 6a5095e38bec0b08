"""Queries of the matrix run by Spark, with `format("springtide")` or with Spark's own source, and judged."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from springtide.wire.records import NewRecord
from tests.pipeline_proof.contract.cases import Options, by_topic
from tests.pipeline_proof.contract.rules import Reading, Refused, Undocumented, expected
from tests.pipeline_proof.contract.world import World

OURS = "springtide"
IMPATIENCE = {
    "kafkaConsumer.pollTimeoutMs": "5000",
    "kafka.default.api.timeout.ms": "5000",
    "kafka.request.timeout.ms": "4000",
    "fetchOffset.retryIntervalMs": "10",
}
"""Spark's own source waits two minutes for records beyond the end of a log before it fails."""
Row = tuple[str, int, int, bytes | None, bytes | None, int, int, object]


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
    world: World, options: Mapping[str, str], read: Any, *, is_streaming: bool, has_our_words: bool = True
) -> tuple[str, list[str]]:
    """What was promised of these options (`rows`, `refused` or `nothing`), and what is wrong with what
    came. has_our_words: whether a refusal must be in words that the documentation has too."""
    try:
        wanted = expected(world, options, is_streaming=is_streaming)
    except Undocumented:
        return "nothing", []
    except Refused as refused:
        try:
            rows = read()
        except Exception as error:
            told = str(error).lower()
            heard = not has_our_words or any(word.lower() in told for word in refused.words)
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


def batch_read(spark: Any, world: World, options: Options, *, format_name: str = OURS) -> Any:
    given = reader_options(world, options, format_name)
    return lambda: rows_in(spark.read.format(format_name).options(**given).load())


def table_read(spark: Any, world: World, options: Options) -> Any:
    """A batch query of a table in Spark's catalog that has these options."""
    given = ", ".join(f"'{name}' '{value}'" for name, value in reader_options(world, options, OURS).items())

    def read() -> list[Row]:
        spark.sql(f"CREATE TABLE contract_log USING {OURS} OPTIONS ({given})")
        try:
            return rows_in(spark.table("contract_log"))
        finally:
            spark.sql("DROP TABLE contract_log")

    return read


def reader_options(world: World, options: Options, format_name: str) -> Options:
    patience = {} if format_name == OURS else IMPATIENCE
    return {"kafka.bootstrap.servers": world.bootstrap, **options, **patience}


def judge_batches(
    spark: Any, world: World, cases: Mapping[str, Options], *, format_name: str = OURS
) -> tuple[Counter[str], list[str]]:
    """How many were promised what, and a line for each thing that is wrong."""
    counted: Counter[str] = Counter()
    lines = []
    for name, options in cases.items():
        read = batch_read(spark, world, options, format_name=format_name)
        promised, wrong = judge(world, options, read, is_streaming=False, has_our_words=format_name == OURS)
        counted[promised] += 1
        lines += [f"batch, {name}: {one}" for one in wrong]
    return counted, lines


class Stream:
    """Runs of one query until it has what there is, each appending to the same files. `format_name` may be
    another one from a run to the next: the checkpoint is handed over then."""

    def __init__(
        self, spark: Any, world: World, options: Options, place: Path, *, format_name: str = OURS
    ) -> None:
        self.spark, self.world, self.options, self.place = spark, world, options, place
        self.format_name = format_name

    def run(self) -> list[Row]:
        given = reader_options(self.world, self.options, self.format_name)
        frame = self.spark.readStream.format(self.format_name).options(**given).load()
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


def goes_on(world: World, stream: Stream) -> list[str]:
    """The checkpoint tells the ends in the official form; what is appended is read by the next run, and
    only it."""
    first = expected(world, stream.options, is_streaming=True)
    ends = {where: world.log(where).end for where in first.start}
    wrong = []
    if stream.checkpointed() != by_topic(ends):
        wrong.append(f"the checkpoint holds {stream.checkpointed()}, not {by_topic(ends)}")
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
