"""Jobs on a topic that brokers compact while they run: gaps, empty batches, replicas at different rounds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from localcluster.cluster import LocalCluster
from pipeline.client.client import Client
from pipeline.client.config import ClientConfig, parse_bootstrap
from pipeline.client.values import EARLIEST, LATEST, PartitionRange, TopicPartition
from pipeline.jobs import cli
from pipeline.land.latest import read_latest
from pipeline.land.reading import dataset
from pipeline.records.decode import decode_records
from springtide.wire.compression import Compression
from springtide.wire.records import NewRecord, encode_batch

pytestmark = [pytest.mark.proof, pytest.mark.timeout(300)]

COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": "4096",
    "min.cleanable.dirty.ratio": "0.1",
    "delete.retention.ms": "0",
}
FIRST_MS = 1_700_000_000_000
KEYS = 20
WHERE = TopicPartition("state", 0)
Table = dict[bytes, bytes]
Row = tuple[int, bytes, bytes | None]


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Its brokers look for something to compact all the time."""
    with LocalCluster(broker_config={"log.cleaner.backoff.ms": "50"}) as cluster:
        cluster.form()
        cluster.create_topic(WHERE.topic, configs=COMPACTED)
        yield cluster


class State:
    """The topic, and the table that it stands for. Each tenth record is a tombstone."""

    def __init__(self, spark: Any, cluster: LocalCluster, client: Client) -> None:
        self.spark = spark
        self.cluster = cluster
        self.client = client
        self.table: Table = {}
        self.written = 0

    def write(self, batches: int, *, count: int = 7) -> None:
        for _ in range(batches):
            records = []
            for number in range(self.written, self.written + count):
                key = b"key %d" % (number * 7 % KEYS)
                value = None if number % 10 == 3 else b"value %d" % number
                records.append(NewRecord(key, value, FIRST_MS + number))
                self.table.pop(key, None)
                if value is not None:
                    self.table[key] = value
            self.client.produce({WHERE: encode_batch(records, compression=Compression.GZIP)})
            self.written += count

    def job(self, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
        capsys.readouterr()
        told = ["--bootstrap-server", self.cluster.bootstrap_servers, "--output", "json"]
        status = cli.main([words[0], WHERE.topic, *words[1:], *told], spark=self.spark)
        return status, json.loads(capsys.readouterr().out)

    def settle(self, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
        """Verify until all replicas have applied the same round, which has gone over nearly everything."""

        def settled() -> dict[str, Any] | None:
            status, told = self.job(capsys, "verify")
            assert (status, told["findings"]) == (0, [])
            (partition,) = told["partitions"]
            last = set(partition["rounds"].values())
            is_over = len(last) == 1 and last.pop() >= self.written // 2 and partition["records"] < 200
            return told if is_over and not partition["apart"] else None

        return self.cluster.wait_until("all replicas have applied the same rounds", settled)

    def stored(self) -> list[Row]:
        """Offset, key and value of the records in the log."""
        start = self.client.list_offsets({WHERE: EARLIEST})[WHERE].offset
        end = self.client.list_offsets({WHERE: LATEST})[WHERE].offset
        found: list[Row] = []
        with self.client.fetch([PartitionRange(*WHERE, start, end)]) as stream:
            for fetched in stream:
                for rows in decode_records(
                    fetched.records,
                    topic=WHERE.topic,
                    partition=0,
                    columns=("offset", "key", "value"),
                    first_offset=fetched.start_offset,
                ):
                    found += [(row["offset"], row["key"], row["value"]) for row in rows.to_pylist()]
        return found


def landed_rows(dest: Path) -> list[Row]:
    rows = dataset(dest).to_table(columns=["offset", "key", "value"]).to_pylist()
    return sorted((row["offset"], row["key"], row["value"]) for row in rows)


@pytest.fixture
def state(spark: Any, cluster: LocalCluster) -> Iterator[State]:
    config = ClientConfig(bootstrap=parse_bootstrap(cluster.bootstrap_servers))
    with Client(config) as client:
        yield State(spark, cluster, client)


def test_verify_compares_at_equal_rounds_and_land_neither_fails_nor_doubles(
    state: State, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dest = tmp_path / "lake"
    state.write(100)
    assert state.job(capsys, "land", str(dest), "--compact")[0] == 0
    first = landed_rows(dest)

    # Replicas apply rounds while they are compared, and in the end they are compared at one.
    for _ in range(3):
        state.write(30)
        status, told = state.job(capsys, "verify", "--records-per-task", "200", "--patience", "3")
        assert (status, told["findings"], told["compactedTopics"]) == (0, [], [WHERE.topic])
    told = state.settle(capsys)
    assert told["comparedBytes"] == 3 * told["bytes"] > 0
    assert told["records"] < state.written // 2

    # A table that was begun before compaction goes on, and one that begins now has what is left.
    assert state.job(capsys, "land", str(dest), "--compact")[0] == 0
    later = landed_rows(dest)
    stored = state.stored()
    assert set(first) <= set(later)
    assert {row for row in stored if row[0] >= first[-1][0]} <= set(later)
    assert len({offset for offset, _, _ in later}) == len(later), "each offset once"
    fresh = tmp_path / "fresh"
    assert state.job(capsys, "land", str(fresh), "--compact")[0] == 0
    assert landed_rows(fresh) == sorted(stored)
    for one in (dest, fresh):
        rows = read_latest(state.spark, one).select("key", "value").collect()
        assert {bytes(row["key"]): bytes(row["value"]) for row in rows} == state.table

    # What was landed and is compacted away since is no loss, nor is it there twice.
    status, told = state.job(capsys, "verify", "--landed", str(dest))
    assert (status, told["findings"]) == (0, [])
    assert told["landed"]["compared"] > 0
