"""`pipeline salvage` after elections that really lose acknowledged records: what it finds missing is what was
acknowledged and is not there, and what it merges comes back once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from localcluster.cluster import LocalCluster
from localcluster.java import find_java
from pipeline.client.client import Client
from pipeline.client.config import ClientConfig, parse_bootstrap
from pipeline.client.values import EARLIEST, LATEST, PartitionRange, TopicPartition
from pipeline.jobs.cli import main
from pipeline.records.decode import decode_records
from pipeline.salvage.marks import HEADER
from tests.pipeline_proof.part import proving

pytestmark = [pytest.mark.timeout(300)]
ROOT = Path(__file__).resolve().parents[3]
AVAILABLE_AT_ANY_PRICE = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}
COMPACTED = {"cleanup.policy": "compact", "segment.bytes": "4096", "min.cleanable.dirty.ratio": "0.1"}
KEYS = 5
LAG_MS = "4000"


@pytest.fixture
def lossy() -> Iterator[LocalCluster]:
    broker_config = {"replica.lag.time.max.ms": LAG_MS, "log.cleaner.backoff.ms": "100"}
    with LocalCluster(broker_config=broker_config) as cluster:
        cluster.form()
        yield cluster


class Clicks:
    """A topic of one partition that prefers availability, its writers, and what they were told is stored."""

    def __init__(
        self, cluster: LocalCluster, topic: str, configs: Mapping[str, str] = AVAILABLE_AT_ANY_PRICE
    ) -> None:
        self.cluster = cluster
        self.topic = topic
        self.acknowledged: list[int] = []
        self.sent = 0
        cluster.create_topic(topic, replication_factor=3, configs=configs)
        self.idempotent = self._producer(is_idempotent=True)
        self.plain = self._producer(is_idempotent=False)
        self._refused: list[tuple[int, int]] = []
        """Number and timestamp, Unix ms."""

    def _producer(self, *, is_idempotent: bool) -> Producer:
        return Producer(
            {
                "bootstrap.servers": self.cluster.bootstrap_servers,
                "acks": "all",
                "log_level": 0,
                "linger.ms": 1,
                "enable.idempotence": is_idempotent,
                # What waits at a paused leader is sent to the next one after this.
                "socket.timeout.ms": 3_000,
            }
        )

    def send(self, count: int, *, keys: Collection[int] = range(KEYS)) -> None:
        for _ in range(count):
            number, self.sent = self.sent, self.sent + 1
            if number % KEYS in keys:
                self._send(number, time.time_ns() // 1_000_000)

    def _send(self, number: int, timestamp_ms: int) -> None:
        """Even numbers by the idempotent producer, odd ones by the plain one."""
        (self.plain if number % 2 else self.idempotent).produce(
            self.topic,
            value=b"%d" % number,
            key=b"k%d" % (number % KEYS),
            headers={"n": b"%d" % number},
            partition=0,
            timestamp=timestamp_ms,
            on_delivery=self._told,
        )

    def settle(self) -> None:
        """Until all is acknowledged. A leader that lost what an idempotent producer sent before refuses what
        it sends next, for good: its application makes another one and sends the same again."""
        while True:
            assert self.plain.flush(60.0) == 0
            try:
                assert self.idempotent.flush(60.0) == 0
            except KafkaException as error:
                told = error.args[0]
                assert told.fatal(), told
                self.idempotent.purge()
                with suppress(KafkaException):
                    self.idempotent.flush(10.0)
                self.idempotent = self._producer(is_idempotent=True)
            if not self._refused:
                return
            again, self._refused = sorted(self._refused), []
            for number, timestamp_ms in again:
                self._send(number, timestamp_ms)

    def _told(self, error: KafkaError | None, message: Any) -> None:
        number = int(message.value())
        if error is None:
            self.acknowledged.append(number)
        else:
            assert number % 2 == 0, error
            self._refused.append((number, message.timestamp()[1]))

    def lose(self, count: int, *, in_flight: int) -> None:
        """The leader acknowledges `count` records alone and is replaced by a replica that lacks them;
        `in_flight` more are under way to it when it falls silent, and are sent again to the next one."""
        cluster = self.cluster
        isolated = cluster.leader(self.topic, 0)
        others = [broker_id for broker_id in cluster.brokers if broker_id != isolated]
        self.send(20)  # which every replica has
        self.settle()
        cluster.wait_until_in_sync(self.topic)
        with ExitStack() as mending:
            # Paused, not killed: a process that wakes up believes that no time has passed.
            for broker_id in others:
                cluster.brokers[broker_id].process.pause()
                mending.callback(cluster.brokers[broker_id].process.resume)
            # Not before: what is sent while a fetch still waits at the leader would lie in a paused socket.
            cluster.wait_until(
                "the leader is alone", lambda: set(cluster.partition(self.topic, 0).isr) == {isolated}
            )
            self.send(count)
            self.settle()
            cluster.brokers[isolated].process.pause()
            mending.callback(cluster.brokers[isolated].process.resume)
            self.send(in_flight)
            cluster.wait_until("it is replaced", lambda: cluster.partition(self.topic, 0).leader != isolated)
            for broker_id in others:
                cluster.brokers[broker_id].process.resume()
            elected = cluster.wait_until("another leads", lambda: cluster.partition(self.topic, 0).leader)
            assert elected in others
            self.settle()
        cluster.wait_until_in_sync(self.topic)

    def stored(self) -> list[tuple[int, dict[str, bytes]]]:
        """The numbers in the log with their headers, in its order."""
        config = ClientConfig(bootstrap=parse_bootstrap(self.cluster.bootstrap_servers))
        where = TopicPartition(self.topic, 0)
        with Client(config) as client:
            start = client.list_offsets({where: EARLIEST})[where].offset
            end = client.list_offsets({where: LATEST})[where].offset
            found = []
            with client.fetch([PartitionRange(*where, start, end)]) as stream:
                for fetched in stream:
                    for rows in decode_records(
                        fetched.records,
                        topic=self.topic,
                        partition=0,
                        columns=("key", "value", "headers"),
                        first_offset=fetched.start_offset,
                    ):
                        for row in rows.to_pylist():
                            number = int(row["value"])
                            assert row["key"] == b"k%d" % (number % KEYS)
                            headers = {one["key"]: one["value"] for one in row["headers"]}
                            assert headers["n"] == b"%d" % number
                            found.append((number, headers))
        return found

    def lost(self) -> set[int]:
        """Acknowledged, and not there."""
        return set(self.acknowledged) - {number for number, _ in self.stored()}


class Salvage:
    """The command line."""

    def __init__(self, spark: Any, clicks: Clicks, capsys: Any) -> None:
        self._spark = spark
        self._clicks = clicks
        self._capsys = capsys

    def run(self, *words: str, status: int) -> dict[str, Any]:
        self._capsys.readouterr()
        told = main(["salvage", self._clicks.topic, *self.options(*words)], spark=self._spark)
        out, err = self._capsys.readouterr()
        assert told == status, (out, err)
        result: dict[str, Any] = json.loads(out)
        return result

    def options(self, *words: str) -> list[str]:
        return [*words, "--bootstrap-server", self._clicks.cluster.bootstrap_servers, "--output", "json"]


def check_merged(clicks: Clicks, merged: int) -> None:
    """Every acknowledged record is there, those of the idempotent producer once."""
    stored = clicks.stored()
    counts = Counter(number for number, _ in stored)
    assert set(clicks.acknowledged) <= counts.keys()
    assert [number for number in counts if number % 2 == 0 and counts[number] > 1] == []
    assert sum(HEADER in headers for _, headers in stored) == merged


@pytest.mark.proof
def test_what_an_unclean_election_took_is_found_and_merged_once(
    spark: Any, lossy: LocalCluster, capsys: Any, tmp_path: Path
) -> None:
    clicks = Clicks(lossy, "clicks")
    clicks.lose(60, in_flight=10)
    truth = clicks.lost()
    assert len(truth) >= 60, "or nothing was lost, and the test shows nothing"

    salvage = Salvage(spark, clicks, capsys)
    found = salvage.run(status=1)
    (partition,) = found["partitions"]
    assert partition["missing"] == partition["missingCommitted"] == found["missing"] == len(truth)
    assert sum(run["lastOffset"] - run["firstOffset"] + 1 for run in found["runs"]) == len(truth)

    merge = ("--merge", "--checkpoint", str(tmp_path / "merges"))
    young = salvage.run(*merge, status=1)
    assert young["merged"] == 0, "their producers might still be sending them"
    dry = salvage.run(*merge, "--min-age", "0", "--dry-run", status=1)
    assert (dry["wouldMerge"], dry["merged"]) == (len(truth), 0)
    assert clicks.lost() == truth

    merged = salvage.run(*merge, "--min-age", "0", status=0)
    assert (merged["merged"], merged["missing"]) == (len(truth), 0)
    check_merged(clicks, len(truth))
    marks = [json.loads(headers[HEADER]) for _, headers in clicks.stored() if HEADER in headers]
    assert [mark["offset"] for mark in marks] == sorted(mark["offset"] for mark in marks)
    assert {mark["broker"] for mark in marks} == {run["broker"] for run in found["runs"]}

    again = salvage.run("--merge", "--checkpoint", str(tmp_path / "others"), "--min-age", "0", status=0)
    assert (again["merged"], again["missing"]) == (0, 0)
    check_merged(clicks, len(truth))


@pytest.mark.proof
def test_of_a_compacted_topic_the_newest_of_each_key_comes_back_and_nothing_older(
    spark: Any, lossy: LocalCluster, capsys: Any, tmp_path: Path
) -> None:
    clicks = Clicks(lossy, "state", {**AVAILABLE_AT_ANY_PRICE, **COMPACTED})

    def compact(keys: Collection[int]) -> None:
        """Write to these keys until a round has gone over all that was there before."""
        before = clicks.sent

        def is_compacted() -> bool:
            clicks.send(100, keys=keys)
            clicks.settle()
            return sum(number < before for number, _ in clicks.stored()) <= KEYS

        lossy.wait_until("it is compacted", is_compacted)

    compact(range(KEYS))
    clicks.lose(60, in_flight=0)
    lost = clicks.sent - 60
    newest = {number for number in range(clicks.sent - KEYS, clicks.sent) if number % KEYS in (3, 4)}
    assert not {number for number, _ in clicks.stored()} & set(range(lost, clicks.sent))
    compact((0, 1, 2))

    salvage = Salvage(spark, clicks, capsys)
    found = salvage.run(status=1)
    (partition,) = found["partitions"]
    assert (found["missing"], partition["superseded"]) == (len(newest), 60 - len(newest))
    merge = ("--merge", "--min-age", "0", "--checkpoint")
    merged = salvage.run(*merge, str(tmp_path / "merges"), status=0)
    assert (merged["merged"], merged["missing"]) == (len(newest), 0)
    compact((0, 1, 2))
    again = salvage.run(*merge, str(tmp_path / "others"), status=0)
    assert (again["merged"], again["missing"]) == (0, 0)
    table = {number % KEYS: number for number, _ in clicks.stored()}
    assert {table[3], table[4]} == newest
    assert min(table[0], table[1], table[2]) > max(newest)


@pytest.mark.proof
@pytest.mark.timeout(900)
def test_after_several_elections_and_a_killed_merge_every_acknowledged_record_is_there_once(
    spark: Any, lossy: LocalCluster, capsys: Any, tmp_path: Path
) -> None:
    with proving(row=9, part="salvage") as part:
        clicks = Clicks(lossy, "clicks")
        salvage = Salvage(spark, clicks, capsys)
        merged = 0
        for round_number in range(3):
            clicks.lose(2_000, in_flight=50)
            truth = clicks.lost()
            found = salvage.run(status=1)
            if found["missing"] != len(truth):
                part.fail(f"round {round_number}: {found['missing']} found missing, {len(truth)} are")
            if round_number == 0:
                continue  # two elections' losses at once
            checkpoint = tmp_path / f"merge-{round_number}"
            killed = merge_and_kill(salvage, clicks, checkpoint)
            part.faults["SIGKILL of a merge"] = part.faults.get("SIGKILL of a merge", 0) + killed
            last = salvage.run("--merge", "--checkpoint", str(checkpoint), "--min-age", "0", status=0)
            merged += found["missing"]
            assert last["missing"] == 0
            second = salvage.run(
                "--merge", "--checkpoint", str(tmp_path / "again"), "--min-age", "0", status=0
            )
            part.figures["records a second run added (must be 0)"] = second["merged"]
            if second["merged"]:
                part.fail("a second run added records")
        part.faults["unclean elections"] = 3
        counts = Counter(number for number, _ in clicks.stored())
        part.missing += len(set(clicks.acknowledged) - counts.keys())
        part.duplicates += sum(counts[number] > 1 for number in counts if number % 2 == 0)
        part.figures["acknowledged records"] = len(clicks.acknowledged)
        part.figures["lost and merged"] = merged
        assert part.is_ok, part.failures
        assert part.faults["SIGKILL of a merge"], "each merge was over before it was killed"


def merge_and_kill(salvage: Salvage, clicks: Clicks, checkpoint: Path) -> int:
    """A merge in a process of its own, killed with all its children while it appends."""
    before = len(clicks.stored())
    environment = {
        **os.environ,
        "JAVA_HOME": str(find_java().executable.resolve().parents[1]),
        "PYTHONPATH": str(ROOT),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    words = salvage.options(
        "--merge", "--checkpoint", str(checkpoint), "--min-age", "0", "--batch-bytes", "1000"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "pipeline", "salvage", clicks.topic, *words, "--master", "local[1]"],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        while process.poll() is None and len(clicks.stored()) == before:
            time.sleep(0.05)
        if process.poll() is not None:
            return 0
        os.killpg(process.pid, signal.SIGKILL)
        return 1
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
