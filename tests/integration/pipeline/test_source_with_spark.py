"""`format("springtide")` read by Spark from brokers that are processes."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from localcluster.cluster import LocalCluster
from pipeline.client.client import Client
from pipeline.client.values import TopicPartition
from springtide.wire.compression import Compression
from springtide.wire.records import NewRecord, encode_batch

FIRST_MS = 1_700_000_000_123
CODECS = [Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD]

pytestmark = [pytest.mark.timeout(300)]


class Log:
    """A topic, what was written to it, and how to read it."""

    def __init__(self, spark: Any, cluster: LocalCluster, client: Client, topic: str) -> None:
        self.spark = spark
        self.servers = cluster.bootstrap_servers
        self.client = client
        self.topic = topic
        self.written: dict[int, list[bytes]] = {}

    def write(self, partition: int, count: int, *, compression: Compression = Compression.NONE) -> None:
        held = self.written.setdefault(partition, [])
        values = [b"%d:%d" % (partition, len(held) + n) for n in range(count)]
        records = [NewRecord(b"k%d" % n, value, FIRST_MS + len(held) + n) for n, value in enumerate(values)]
        batch = encode_batch(records, compression=compression)
        self.client.produce({TopicPartition(self.topic, partition): batch})
        held += values

    def frame(self, **options: str) -> Any:
        reader = self.spark.read.format("springtide").option("kafka.bootstrap.servers", self.servers)
        return reader.option("subscribe", self.topic).options(**options).load()

    def stream(self, **options: str) -> Any:
        reader = self.spark.readStream.format("springtide").option("kafka.bootstrap.servers", self.servers)
        return reader.option("subscribe", self.topic).options(**options).load()


@pytest.fixture
def make_log(
    spark: Any, running_cluster: LocalCluster, client: Client, make_topic: Callable[..., str]
) -> Callable[..., Log]:
    return lambda **options: Log(spark, running_cluster, client, make_topic("spark", **options))


def values(frame: Any) -> dict[int, list[bytes]]:
    got: dict[int, list[tuple[int, bytes]]] = {}
    for row in frame.select("partition", "offset", "value").collect():
        got.setdefault(row["partition"], []).append((row["offset"], bytes(row["value"])))
    for rows in got.values():
        assert [offset for offset, _ in rows] == sorted({offset for offset, _ in rows}), "once, in order"
    return {partition: [value for _, value in rows] for partition, rows in got.items()}


def tasks_of(frame: Any) -> int:
    """How many tasks had rows. (A frame's `rdd` would tell without reading, but Connect has none.)"""
    from pyspark.sql.functions import spark_partition_id

    count: int = frame.select(spark_partition_id()).distinct().count()
    return count


# --- batch ----------------------------------------------------------------------------------------------


def test_every_record_is_a_row_as_in_the_official_source(make_log: Callable[..., Log]) -> None:
    log = make_log(partitions=3)
    for codec in CODECS:
        log.write(0, 50, compression=codec)
    log.write(1, 7)
    frame = log.frame()
    assert frame.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,"
        "timestampType:int>"
    )
    assert values(frame) == log.written
    row = frame.where("partition = 0 and offset = 1").collect()[0].asDict()
    moment = datetime.datetime.fromtimestamp((FIRST_MS + 1) / 1000)
    assert row == {
        "key": bytearray(b"k1"),
        "value": bytearray(b"0:1"),
        "topic": log.topic,
        "partition": 0,
        "offset": 1,
        "timestamp": moment,
        "timestampType": 0,
    }


def test_nulls_and_headers_come_through(make_log: Callable[..., Log]) -> None:
    log = make_log()
    records = [
        NewRecord(None, b"v", FIRST_MS, (("h", b"1"), ("h", None))),
        NewRecord(b"k", None, FIRST_MS),
        NewRecord(b"", b"", FIRST_MS, (("é", b""),)),
    ]
    log.client.produce({TopicPartition(log.topic, 0): encode_batch(records)})
    rows = log.frame(includeHeaders="true").orderBy("offset").collect()
    assert [(row["key"], row["value"]) for row in rows] == [(None, b"v"), (b"k", None), (b"", b"")]
    headers = [None if row["headers"] is None else [tuple(one) for one in row["headers"]] for row in rows]
    assert headers[0] == [("h", bytearray(b"1")), ("h", None)]
    assert not headers[1]
    assert headers[2] == [("é", bytearray(b""))]


def test_positions_bound_a_batch_query(make_log: Callable[..., Log]) -> None:
    log = make_log(partitions=2)
    log.write(0, 100)
    log.write(1, 10)
    both = json.dumps({log.topic: {"0": 20, "1": -2}})
    until = json.dumps({log.topic: {"0": 30, "1": -1}})
    got = values(log.frame(startingOffsets=both, endingOffsets=until))
    assert got == {0: log.written[0][20:30], 1: log.written[1]}
    got = values(log.frame(startingTimestamp=str(FIRST_MS + 5), endingTimestamp=str(FIRST_MS + 8)))
    assert got == {0: log.written[0][5:8], 1: log.written[1][5:8]}
    assert values(log.frame(startingTimestamp=str(FIRST_MS + 5))) == {
        0: log.written[0][5:],
        1: log.written[1][5:],
    }


def test_a_topic_may_be_matched_or_assigned(make_log: Callable[..., Log]) -> None:
    log = make_log(partitions=2)
    log.write(0, 5)
    log.write(1, 5)
    reader = log.spark.read.format("springtide").option("kafka.bootstrap.servers", log.servers)
    matched = reader.option("subscribePattern", log.topic[:-1] + ".").load()
    assert values(matched) == log.written
    reader = log.spark.read.format("springtide").option("kafka.bootstrap.servers", log.servers)
    assigned = reader.option("assign", json.dumps({log.topic: [1]})).load()
    assert values(assigned) == {1: log.written[1]}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingOffsets": "latest"}, "starting offset can't be latest"),
        ({"startingOffset": "earliest"}, "is 'startingOffsets' meant"),
        ({"startingOffsets": '{"x":{"0":1}}'}, "must name exactly the partitions"),
        ({"startingTimestamp": "4000000000000"}, "has no record at or after"),
        ({"kafka.ssl.truststore.location": "ca.pem"}, r"kafka\.security\.protocol is needed"),
    ],
)
def test_what_can_not_be_read_says_why(
    make_log: Callable[..., Log], options: dict[str, str], message: str
) -> None:
    log = make_log()
    log.write(0, 1)
    with pytest.raises(Exception, match=message):
        log.frame(**options).collect()


def test_offsets_that_are_not_there_are_an_error_or_passed_over(make_log: Callable[..., Log]) -> None:
    log = make_log()
    log.write(0, 10)
    beyond = json.dumps({log.topic: {"0": 50}})
    with pytest.raises(Exception, match="failOnDataLoss"):
        log.frame(endingOffsets=beyond).collect()
    assert values(log.frame(endingOffsets=beyond, failOnDataLoss="false")) == log.written


def test_a_topic_without_records_has_no_rows(make_log: Callable[..., Log]) -> None:
    log = make_log(partitions=2)
    assert values(log.frame()) == {}
    assert log.frame(view="batches").count() == 0


def test_large_ranges_are_split_and_small_ones_packed(make_log: Callable[..., Log]) -> None:
    log = make_log(partitions=8)
    for partition in range(8):
        log.write(partition, 100)
    assert tasks_of(log.frame()) == 1
    assert tasks_of(log.frame(coalesce="false")) == 8
    split = log.frame(minPartitions="16")
    assert tasks_of(split) == 16
    assert values(split) == log.written
    assert values(log.frame(maxRecordsPerPartition="30", columns="value,partition,offset")) == log.written


def test_batches_and_offsets_have_views(make_log: Callable[..., Log]) -> None:
    log = make_log(partitions=2)
    for codec in CODECS:
        log.write(0, 10, compression=codec)
    rows = log.frame(view="batches", minPartitions="3").orderBy("base_offset").collect()
    assert [(row["base_offset"], row["last_offset"]) for row in rows] == [
        (n, n + 9) for n in range(0, 50, 10)
    ]
    assert all(row["crc"] == row["computed_crc"] for row in rows)
    assert [row["attributes"] & 7 for row in rows] == [int(codec) for codec in CODECS]
    ends = log.frame(view="offsets").orderBy("partition").collect()
    assert [(row["earliest"], row["latest"]) for row in ends] == [(0, 50), (0, 0)]
    assert sorted(ends[0]["isr"]) == [1, 2, 3]


# --- streams --------------------------------------------------------------------------------------------


@pytest.fixture
def ran(tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Runs a stream into a Parquet folder until it has all there is; what the folder holds then."""
    started: list[Any] = []

    def run(frame: Any, name: str = "q", **trigger: Any) -> Any:
        query = (
            frame.writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / name / "checkpoint"))
            .trigger(**(trigger or {"availableNow": True}))
            .start(str(tmp_path / name / "rows"))
        )
        started.append(query)
        query.awaitTermination(120)
        assert not query.isActive
        return frame.sparkSession.read.schema(frame.schema).parquet(str(tmp_path / name / "rows"))

    yield run
    for query in started:
        query.stop()


def sorted_values(frame: Any) -> dict[int, list[bytes]]:
    return values(frame.orderBy("partition", "offset"))


def test_a_stream_takes_what_is_there_and_goes_on_where_it_ended(
    make_log: Callable[..., Log], ran: Callable[..., Any]
) -> None:
    log = make_log(partitions=3)
    log.write(0, 100)
    log.write(1, 50)
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "60"}
    assert sorted_values(ran(log.stream(**options))) == log.written
    log.write(1, 30)
    log.write(2, 5)
    assert sorted_values(ran(log.stream(**options))) == log.written


def test_a_stream_from_latest_misses_nothing_after_it_was_first_started(
    make_log: Callable[..., Log], ran: Callable[..., Any]
) -> None:
    log = make_log()
    log.write(0, 100)
    assert sorted_values(ran(log.stream())) == {}
    log.write(0, 40)
    assert sorted_values(ran(log.stream())) == {0: log.written[0][100:]}


def told(offset: Any) -> Any:
    """An offset in a query's progress: JSON, or what it stands for. Without the entries that tell ids."""
    found = json.loads(offset) if isinstance(offset, str) else offset
    return {topic: partitions for topic, partitions in found.items() if partitions}


def test_progress_tells_the_lag(make_log: Callable[..., Log], tmp_path: Path) -> None:
    log = make_log()
    log.write(0, 100)
    query = (
        log.stream(startingOffsets="earliest", maxOffsetsPerTrigger="30")
        .writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path))
        .start()
    )
    try:
        query.processAllAvailable()
        sources = [progress.sources[0] for progress in query.recentProgress if progress.numInputRows]
        ends = [(told(source["endOffset"]), told(source["latestOffset"])) for source in sources]
        behind = [on_the_page()["offsets_behind"](source) for source in sources]
    finally:
        query.stop()
    assert [source["numInputRows"] for source in sources] == [30, 30, 30, 10]
    assert ends == [({log.topic: {"0": end}}, {log.topic: {"0": 100}}) for end in (30, 60, 90, 100)]
    assert [one["max"] for one in behind] == [70, 40, 10, 0]
    # What Spark has for no Python source, as the page says.
    assert all("PythonMicroBatchStream" in source["description"] for source in sources)
    assert not any(source["metrics"] for source in sources)
    assert behind[0] == {"min": 70, "max": 70, "avg": 70.0}


def on_the_page() -> dict[str, Any]:
    """The function that docs/pipeline-from-kafka.md gives."""
    page = Path(__file__).parents[3] / "docs/pipeline-from-kafka.md"
    shown = page.read_text(encoding="utf-8").split("### Lag\n")[1].split("```")[1]
    names: dict[str, Any] = {"json": json}
    exec(shown.removeprefix("python"), names)
    return names
