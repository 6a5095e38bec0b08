"""`pipeline replay` with Spark and brokers that are processes; the client reads what is stored."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from localcluster.cluster import LocalCluster
from pipeline.client.client import Client
from pipeline.client.values import EARLIEST, LATEST, PartitionRange, TopicPartition
from pipeline.jobs.cli import main
from pipeline.records.decode import decode_records
from springtide.wire.records import NewRecord, encode_batch

pytestmark = [pytest.mark.timeout(300)]
FIRST_MS = 1_700_000_000_123
COLUMNS = ("partition", "key", "value", "timestamp", "headers")


class Replays:
    """A cluster, and the command line."""

    def __init__(self, spark: Any, cluster: LocalCluster, client: Client, capsys: Any, path: Path) -> None:
        self.servers = cluster.bootstrap_servers
        self.client = client
        self.path = path
        self._spark = spark
        self._capsys = capsys

    def run(self, *words: str, status: int = 0, job: str = "replay") -> dict[str, Any]:
        """One run of the command; what it printed as JSON."""
        self._capsys.readouterr()
        told = main([job, *words, "--bootstrap-server", self.servers, "--output", "json"], spark=self._spark)
        out, err = self._capsys.readouterr()
        assert told == status, err
        return json.loads(out) if status == 0 else {"stderr": err}

    def write(self, topic: str, partition: int, count: int, *, first: int = 0) -> None:
        records = [
            NewRecord(
                b"k%d" % n,
                None if n % 7 == 3 else b"%d:%d" % (partition, n),
                FIRST_MS + n * 60_000,
                (("h", b"%d" % n),) if n % 2 else (),
            )
            for n in range(first, first + count)
        ]
        self.client.produce({TopicPartition(topic, partition): encode_batch(records)})

    def rows(self, topic: str, partitions: int) -> list[dict[str, Any]]:
        """All that is stored, by partition and in order."""
        where = [TopicPartition(topic, number) for number in range(partitions)]
        starts = self.client.list_offsets(dict.fromkeys(where, EARLIEST))
        ends = self.client.list_offsets(dict.fromkeys(where, LATEST))
        ranges = [PartitionRange(*each, starts[each].offset, ends[each].offset) for each in where]
        found: list[dict[str, Any]] = []
        with self.client.fetch([one for one in ranges if one.end_offset], in_order=True) as stream:
            for fetched in stream:
                for rows in decode_records(
                    fetched.records, topic=topic, partition=fetched.where.partition, columns=COLUMNS
                ):
                    found += rows.to_pylist()
        for row in found:
            row["headers"] = row["headers"] or None
        return found


@pytest.fixture
def replays(
    spark: Any, running_cluster: LocalCluster, client: Client, capsys: Any, tmp_path: Path
) -> Replays:
    return Replays(spark, running_cluster, client, capsys, tmp_path)


def test_what_was_landed_comes_back_as_it_was(replays: Replays, make_topic: Callable[..., str]) -> None:
    source, target = make_topic("landed", partitions=3), make_topic("replayed", partitions=3)
    for partition in range(3):
        replays.write(source, partition, 150)  # 150 minutes: three folders by hour
    lake, checkpoint = str(replays.path / "lake"), str(replays.path / "checkpoint")
    replays.run(source, lake, job="land")
    words = (lake, target, "--checkpoint", checkpoint, "--records-per-task", "100", "--tasks", "2")
    dry = replays.run(*words, "--dry-run")
    assert (dry["records_planned"], dry["records_stored"], dry["dry_run"]) == (450, 0, True)
    assert not Path(checkpoint).exists()
    assert replays.rows(target, 3) == []
    done = replays.run(*words)
    assert (done["records_stored"], done["partitioning"]) == (450, "keep")
    assert done["rounds"] > 1
    assert replays.rows(target, 3) == replays.rows(source, 3)
    again = replays.run(*words)
    assert (again["records_stored"], again["records_stored_now"]) == (450, 0)
    assert again["run_id"] == done["run_id"]
    assert len(replays.rows(target, 3)) == 450
    other = replays.run(lake, source, *words[2:], status=1)
    assert f"TOPIC was {target}, now {source}" in other["stderr"]


def test_another_clusters_topic_is_copied_and_spread_by_keys(
    replays: Replays, make_topic: Callable[..., str]
) -> None:
    source, target = make_topic("other", partitions=2), make_topic("spread", partitions=3)
    for partition in range(2):
        replays.write(source, partition, 80)
    words = (
        f"kafka://{replays.servers}/{source}",
        target,
        *("--checkpoint", str(replays.path / "checkpoint"), "--partitioning", "murmur2"),
        *("--starting-timestamp", str(FIRST_MS + 10 * 60_000), "--records-per-second", "1k"),
    )
    assert replays.run(*words)["records_stored"] == 140
    replays.write(source, 0, 5, first=200)
    assert replays.run(*words)["records_stored_now"] == 0, "the range was fixed by the plan"
    stored = replays.rows(target, 3)
    expected = [row for row in replays.rows(source, 2) if 10 <= int(row["key"][1:]) < 200]

    def content(rows: list[dict[str, Any]]) -> list[str]:
        return sorted(repr({name: row[name] for name in COLUMNS[1:]}) for row in rows)

    assert content(stored) == content(expected)
    by_key: dict[bytes, set[int]] = {}
    for row in stored:
        by_key.setdefault(row["key"], set()).add(row["partition"])
    assert all(len(partitions) == 1 for partitions in by_key.values())
    assert len(set.union(*by_key.values())) == 3


def test_any_parquet_of_records_is_a_source_and_what_is_none_is_refused(
    replays: Replays, make_topic: Callable[..., str]
) -> None:
    target = make_topic("parquet", partitions=2)
    lake = replays.path / "lake"
    lake.mkdir()
    pq.write_table(pa.table({"KEY": ["a", "b"], "value": ["1", "2"]}), lake / "x.parquet")
    words = (str(lake), target, "--checkpoint", str(replays.path / "checkpoint"))
    refused = replays.run(*words, "--partitioning", "keep", status=1)
    assert "--partitioning murmur2" in refused["stderr"]
    assert replays.run(*words)["records_stored"] == 2
    assert sorted((row["key"], row["value"]) for row in replays.rows(target, 2)) == [
        (b"a", b"1"),
        (b"b", b"2"),
    ]
    elsewhere = (str(lake), "nowhere", "--checkpoint", str(replays.path / "elsewhere"))
    assert "springtide topics create" in replays.run(*elsewhere, status=1)["stderr"]
    assert (
        "appended to itself"
        in replays.run(f"kafka://{replays.servers}/{target}", target, *words[2:], status=2)["stderr"]
    )
    assert "--checkpoint DIR is needed" in replays.run(*words[:2], status=2)["stderr"]
