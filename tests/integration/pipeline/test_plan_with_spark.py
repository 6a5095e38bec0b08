"""Load history read by Spark, and `pipeline plan` against brokers that are processes."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from localcluster.cluster import LocalCluster
from localcluster.rest import ControllerApi
from pipeline.client.client import Client
from pipeline.client.values import TopicPartition
from pipeline.jobs.cli import main
from pipeline.plan.history import LoadHistory
from pipeline.plan.report import HistoryRead
from pipeline.plan.request import PartitionRates
from pipeline.plan.samples import PARTITIONS, TOPICS
from pipeline.plan.spark_history import read_loads
from pipeline.plan.spark_windows import (
    TOPIC_COLUMNS,
    consumed_intervals,
    partition_intervals,
    partition_loads,
    window_rates,
)
from pipeline.records.encode import BatchOptions, PartitionEncoder
from tests.pipeline_proof.part import proving

pa = pytest.importorskip("pyarrow")
pytestmark = [pytest.mark.timeout(300)]

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
NOON_MS = int(NOON.timestamp() * 1000)
OPTIONS = BatchOptions()


def told(
    second: int, number: int, end: int | None, *, size: int | None = None, **fields: Any
) -> dict[str, Any]:
    """A sample of partition `number` of topic t, `second` seconds after noon; 100 bytes a record, led by
    broker 1."""
    return {
        "sampled_at": NOON + timedelta(seconds=second),
        "cluster": "c",
        "topic": "t",
        "topic_id": "id",
        "partition": number,
        "leader": 1,
        "leader_epoch": 0,
        "replicas": [1, 2],
        "log_start_offset": 0,
        "log_end_offset": end,
        "size_bytes": size if size is not None or end is None else 100 * end,
    } | fields


def counted(second: int, bytes_out: int, *, broker_id: int = 1) -> dict[str, Any]:
    at = NOON + timedelta(seconds=second)
    return {
        "sampled_at": at,
        "cluster": "c",
        "broker_id": broker_id,
        "topic": "t",
        "bytes_in": 0,
        "bytes_out": bytes_out,
    }


def kept(
    tmp_path: Path, partitions: list[dict[str, Any]], topics: list[dict[str, Any]] | None = None
) -> LoadHistory:
    """Two files each, neither in order, as two collectors leave them."""
    history = LoadHistory(str(tmp_path / "load"))
    for name, rows, schema in (("partitions", partitions, PARTITIONS), ("topics", topics or [], TOPICS)):
        for half in (rows[1::2], rows[::2]):
            batch = pa.RecordBatch.from_pylist(half[::-1], schema=schema)
            history.append(name, [batch], first_ms=NOON_MS, last_ms=NOON_MS)
    return history


def test_bytes_between_samples_are_what_logs_grew_by_or_records_times_their_size(spark: Any) -> None:
    samples = [
        told(0, 0, 100),
        told(10, 0, 200),  # grew by 10,000
        told(20, 0, 300, log_start_offset=150, size=30_000),  # retention: 100 records of 200 bytes
        told(30, 0, 300, log_start_offset=160, size=28_000),  # retention alone
        told(40, 0, None, size=None),  # its leader has not reported
        told(60, 0, 400, log_start_offset=160, size=9_600),  # compaction: 100 records of 40 bytes
        told(60, 0, 400, log_start_offset=160, size=9_600),  # another collector's
        told(70, 0, 250, log_start_offset=160, size=9_000),  # cut by an unclean election
        told(400, 0, 300, log_start_offset=160, size=14_000),  # too far apart
        told(500, 0, 300, log_start_offset=300, size=0),  # emptied
        told(0, 1, 5),
    ]
    frame = spark.createDataFrame(
        [
            (
                r["sampled_at"],
                r["topic"],
                r["topic_id"],
                r["partition"],
                r["leader"],
                r["log_start_offset"],
                r["log_end_offset"],
                r["size_bytes"],
            )
            for r in samples
        ],
        "sampled_at TIMESTAMP, topic STRING, topic_id STRING, partition INT, leader INT, "
        "log_start_offset BIGINT, log_end_offset BIGINT, size_bytes BIGINT",
    )
    rows = partition_intervals(frame, gap_s_max=100.0).orderBy("ended_at").collect()
    assert [(r["partition"], r["seconds"], r["records_in"], r["bytes_in"]) for r in rows] == [
        (0, 10.0, 100, 10_000.0),
        (0, 10.0, 100, 20_000.0),
        (0, 10.0, 0, 0.0),
        (0, 30.0, 100, 4_000.0),
        (0, 100.0, 0, 0.0),
    ]


def test_a_counter_that_went_back_began_again(spark: Any) -> None:
    samples = [counted(0, 100), counted(10, 300), counted(20, 50), counted(20, 50), counted(500, 80)]
    frame = spark.createDataFrame(
        [(r["sampled_at"], r["broker_id"], r["topic"], r["bytes_out"]) for r in samples],
        "sampled_at TIMESTAMP, broker_id INT, topic STRING, bytes_out BIGINT",
    )
    rows = consumed_intervals(frame, gap_s_max=100.0).orderBy("ended_at").collect()
    assert [(r["seconds"], r["bytes_out"]) for r in rows] == [(10.0, 200.0), (10.0, 50.0)]


def test_windows_become_one_rate_by_mean_by_quantile_or_by_the_highest(spark: Any, tmp_path: Path) -> None:
    """Twenty-one windows of a minute: one with 600 records a minute, twenty with 60."""
    ends, end = [], 0
    for minute in range(21):
        end += 600 if minute == 7 else 60
        ends.append(told(60 * (minute + 1) + 1, 0, end))
    history = kept(
        tmp_path, [told(1, 0, 0), *ends, told(1, 3, 9, cluster="other"), told(9, 3, 99, cluster="other")]
    )
    samples = spark.read.parquet(history.table("partitions")).where("cluster = 'c'")
    intervals = partition_intervals(samples, gap_s_max=100.0)
    nothing = spark.createDataFrame([], TOPIC_COLUMNS)
    consumed = consumed_intervals(nothing, gap_s_max=100.0)
    (row,) = partition_loads(window_rates(intervals, consumed, window_s=60)).collect()
    assert row["windows"] == 21
    assert row["in_rate_avg"] == pytest.approx(1800 * 100 / (21 * 60))
    assert (row["in_rate_max"], row["in_rate_p95"]) == (1000.0, pytest.approx(100.0))
    assert (row["out_rate_avg"], row["out_rate_max"], row["out_rate_p95"]) == (0.0, 0.0, 0.0)
    read, rates = read_loads(
        spark, history, cluster="c", last_s=300.0, window_s=60, gap_s_max=100.0, statistic="max"
    )
    assert rates == {("id", 0): PartitionRates(bytes_in=100.0)}  # the busy window is longer ago
    assert read == HistoryRead(
        6, "2026-11-22T12:16:01+00:00", "2026-11-22T12:21:01+00:00", window_s=60, statistic="max"
    )


def test_what_consumers_read_is_shared_out_by_what_was_written(spark: Any, tmp_path: Path) -> None:
    partitions = [
        *(
            told(second, number, end)
            for second, number, end in ((0, 0, 0), (10, 0, 30), (0, 1, 0), (10, 1, 10))
        ),
        # Led by broker 2, which nobody wrote to: shared out evenly.
        *(told(second, number, 5, leader=2) for second in (0, 10) for number in (2, 3)),
    ]
    topics = [counted(0, 0), counted(10, 8000), counted(0, 0, broker_id=2), counted(10, 1000, broker_id=2)]
    _, rates = read_loads(
        spark,
        kept(tmp_path, partitions, topics),
        cluster="c",
        last_s=1e6,
        window_s=60,
        gap_s_max=100.0,
        statistic="avg",
    )
    assert {number: rate for (_, number), rate in rates.items()} == {
        0: PartitionRates(300.0, 600.0),
        1: PartitionRates(100.0, 200.0),
        2: PartitionRates(0.0, 50.0),
        3: PartitionRates(0.0, 50.0),
    }


class Skewed(NamedTuple):
    cluster: LocalCluster
    topic: str
    leader: int


@pytest.fixture
def skewed(running_cluster: LocalCluster, make_topic: Callable[..., str]) -> Skewed:
    """A topic all of whose six partitions are led by one broker."""
    name, api = running_cluster.name, running_cluster.api
    topic = make_topic("skew", partitions=6)
    first = api.partitions(name, topic)[0].replicas[0]
    assignments = []
    for view in api.partitions(name, topic):
        others = [broker for broker in view.replicas if broker != first]
        assignments.append({"topic": topic, "partition": view.partition, "replicas": [first, *others]})
    plan = api.post(
        f"/clusters/{name}/plans", {"goal": {"kind": "assign", "assignments": assignments}}
    ).json()
    api.wait_for_operation(api.post(f"/clusters/{name}/plans/{plan['id']}:execute", {}))
    return Skewed(running_cluster, topic, first)


def test_a_skewed_cluster_is_measured_planned_and_evened_out(
    spark: Any, skewed: Skewed, client: Client, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One of three brokers leads all that is written to; the plan hands leaderships over, copies nothing,
    and is carried out by the controller."""
    running_cluster, topic, first = skewed
    name, api = running_cluster.name, running_cluster.api
    before = plan_ids(running_cluster)
    shared = ["plan", str(tmp_path / "load"), "--url", ",".join(running_cluster.controller_urls)]
    shared += ["--cluster", name, "--output", "json"]
    metrics = [
        word
        for broker_id, broker in running_cluster.brokers.items()
        for word in ("--broker-metrics", f"{broker_id}={broker.address}:{broker.metrics_port}")
    ]
    for written in (300, 600):
        assert main([*shared, "--collect", "--every", "1s", "--for", "1s", *metrics], spark=spark) == 0
        told_now = json.loads(capsys.readouterr().out)
        assert (told_now["samples"], told_now["missed"]) == (2, 0)
        for number in range(6):
            write(client, TopicPartition(topic, number), records=300)
        # Reports come within a second or two. The next samples must have all of them: partitions whose last
        # records are not in yet would look half as busy, and could not be evened out.
        running_cluster.wait_until("leaders have reported", partial(have_told, api, name, topic, written))
    assert main([*shared, "--collect", "--every", "1s", "--for", "1s"], spark=spark) == 0
    capsys.readouterr()

    wanted = [*shared, "--loads", "leader_bytes_in", "--window", "1h", "--bytes-max", "0"]
    assert main(wanted, spark=spark) == 0
    proposed = json.loads(capsys.readouterr().out)
    with proving(row=11, part="recorded") as part:
        for when in ("before", "after"):
            ratio = proposed[when]["leader_bytes_in"]["highest_over_mean"]
            part.figures[f"leaders' bytes in on three brokers, highest/mean {when}"] = ratio
        part.figures["bytes copied, at most 0"] = proposed["bytes"]
    assert proposed["before"]["leader_bytes_in"]["broker_id"] == first
    assert proposed["before"]["leader_bytes_in"]["highest_over_mean"] > 2.5
    assert proposed["after"]["leader_bytes_in"]["highest_over_mean"] <= 1.1
    assert (proposed["reached"], proposed["bytes"], proposed["controller"]["plan_id"]) == (True, 0, None)
    assert proposed["controller"]["moves"] == len(proposed["moves"]) == 4
    assert proposed["eta"]["operations"] >= 1  # the one that skewed it
    assert plan_ids(running_cluster) == before  # judged, and forgotten

    assert main([*wanted, "--apply", "--reason", "evening"], spark=spark) == 0
    applied = json.loads(capsys.readouterr().out)["controller"]["plan_id"]
    assert plan_ids(running_cluster) - before == {applied}
    api.wait_for_operation(api.post(f"/clusters/{name}/plans/{applied}:execute", {}))
    led = [view.leader for view in api.partitions(name, topic)]
    assert sorted(led.count(broker) for broker in running_cluster.brokers) == [2, 2, 2]

    assert main([word for word in wanted if word not in ("--output", "json")], spark=spark) == 0
    assert "nothing to move" in capsys.readouterr().out


def have_told(api: ControllerApi, cluster: str, topic: str, records: int) -> bool:
    """Whether the leader of every partition has reported so many records."""
    return {view.document["log_end_offset"] for view in api.partitions(cluster, topic)} == {records}


def plan_ids(cluster: LocalCluster) -> set[str]:
    return {one["id"] for one in cluster.api.get(f"/clusters/{cluster.name}/plans?limit=1000")["items"]}


def write(client: Client, where: TopicPartition, *, records: int) -> None:
    encoder = PartitionEncoder(options=OPTIONS, timestamp_ms=NOON_MS)
    batches = encoder.add(pa.table({"value": [bytes(1000)] * records})) + encoder.finish()
    for batch in batches:
        client.produce({where: batch.data})


@pytest.mark.parametrize(
    "case",
    [
        ((), 1, "there is no history"),
        (("--collect", "--apply"), 2, "two things"),
        (("--moves-max", "0"), 2, "--moves-max"),
        (("--collect", "--for", "1s", "--cluster", "nobody"), 1, "cluster_not_found"),
        (("--collect", "--url", "http://127.0.0.1:1", "--timeout", "0"), 3, "127.0.0.1:1"),
    ],
)
def test_what_can_not_be_is_told_with_its_status(
    running_cluster: LocalCluster,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    case: tuple[tuple[str, ...], int, str],
) -> None:
    words, status, said = case
    options = ["--url", running_cluster.controller_urls[0], "--cluster", running_cluster.name]
    assert main(["plan", str(tmp_path / "load"), *options, *words]) == status
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
