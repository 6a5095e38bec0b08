"""`pipeline verify` with Spark and brokers that are processes: sound logs are found sound under load, and
every seeded wound is found where it is."""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from localcluster.cluster import LocalCluster
from pipeline.client.client import Client
from pipeline.client.config import ClientConfig, parse_bootstrap
from pipeline.client.values import TopicPartition
from pipeline.jobs import cli
from pipeline.land.reading import landed
from pipeline.verify.findings import Flaw
from springtide.wire.records import NewRecord, encode_batch
from tests.kit.pipeline.log_damage import WOUNDS, Placed, wound_replica
from tests.pipeline_proof.part import proving

pytestmark = [pytest.mark.timeout(300)]

Captured = pytest.CaptureFixture[str]
FIRST_MS = 1_700_000_000_000
PRODUCER = 2**62


class Writer:
    """An idempotent producer of each partition, by hand: batches of `count` records of `size` bytes."""

    def __init__(self, client: Client, topic: str) -> None:
        self.client = client
        self.topic = topic
        self.sequences: Counter[int] = Counter()

    def write(self, partition: int, batches: int, *, count: int = 20, size: int = 100) -> None:
        for _ in range(batches):
            sequence = self.sequences[partition]
            records = [
                NewRecord(b"k%d" % (sequence + n), (b"%d:" % (sequence + n)).ljust(size, b"x"), FIRST_MS + n)
                for n in range(count)
            ]
            data = encode_batch(
                records, producer_id=PRODUCER + partition, producer_epoch=0, base_sequence=sequence
            )
            self.client.produce({TopicPartition(self.topic, partition): data})
            self.sequences[partition] += count

    @property
    def written(self) -> int:
        return self.sequences.total()


@contextmanager
def writing_on(writer: Writer, partitions: Sequence[int]) -> Iterator[None]:
    """Goes on writing until the block is left."""
    is_over = threading.Event()
    failures: list[BaseException] = []

    def run() -> None:
        try:
            while not is_over.is_set():
                for partition in partitions:
                    writer.write(partition, 1)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join(30)
    assert not failures, failures


def verify(spark: Any, servers: str, capsys: Captured, *words: str) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    status = cli.main(["verify", *words, "--bootstrap-server", servers, "--output", "json"], spark=spark)
    return status, json.loads(capsys.readouterr().out)


@pytest.fixture
def sound(running_cluster: LocalCluster, client: Client, make_topic: Callable[..., str]) -> Writer:
    """A topic of three partitions, of which two have 30 batches each."""
    writer = Writer(client, make_topic("verify", partitions=3))
    for partition in (0, 1):
        writer.write(partition, 30)
    return writer


def test_a_sound_topic_is_found_sound_and_what_was_landed_is_counted(
    spark: Any, running_cluster: LocalCluster, sound: Writer, tmp_path: Path, capsys: Captured
) -> None:
    topic, dest, servers = sound.topic, tmp_path / "lake", running_cluster.bootstrap_servers
    assert cli.main(["land", topic, str(dest), "--bootstrap-server", servers], spark=spark) == 0
    status, told = verify(spark, servers, capsys, topic, "--dry-run")
    assert (status, told["offsets"], told["leaderless"]) == (0, 1200, [])
    status, told = verify(spark, servers, capsys, topic, "--landed", str(dest), "--records-per-task", "450")
    assert (status, told["findings"], told["verdict"]) == (0, [], "sound")
    assert (told["records"], told["batches"], told["tasks"]) == (1200, 60, 4)
    assert told["comparedBytes"] == 3 * told["bytes"] > 0
    assert told["landed"] == {"compared": 1200, "waiting": 0, "before": 0}
    assert {end for one in told["partitions"] for end in one["replicas"].values()} == {"whole"}
    assert [one["nextOffset"] for one in told["partitions"]] == [600, 600]

    (file,) = [one for one in landed(dest).files if one.partition == 1]
    (dest / file.path).unlink()
    rest = ["--url", ",".join(running_cluster.controller_urls), "--cluster", running_cluster.name]
    asked = ["--landed", str(dest), "--audit", "--record", "--reason", "a file is gone", *rest]
    status, told = verify(spark, servers, capsys, topic, *asked)
    assert status == 1
    assert [(one["kind"], one["partition"]) for one in told["findings"]] == [("landed_count", 1)]
    assert told["audit"] == {"unjudged": 0}
    leaders = {view.partition: view.leader for view in running_cluster.partitions(topic)}
    for one in told["partitions"]:
        (led,) = one["leaderships"]
        assert (led["leader"], led["records"]) == (leaders[one["partition"]], 600)
    (kept,) = running_cluster.api.get(f"/clusters/{running_cluster.name}/verifications")["items"]
    assert (kept["id"], kept["verdict"], kept["reason"]) == (told["recorded"], "damaged", "a file is gone")
    found = running_cluster.api.get(f"/clusters/{running_cluster.name}/verifications/{kept['id']}/findings")
    assert [one["kind"] for one in found["items"]] == ["landed_count"]


# --- seeded damage --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def own_cluster() -> Iterator[LocalCluster]:
    """Its brokers do not scrub: what a scrub finds first is refused to readers, and verify can't say more."""
    with LocalCluster(broker_config={"log.scrub.bytes.per.second": "0"}) as cluster:
        cluster.form()
        yield cluster


def wound(
    cluster: LocalCluster, topic: str, wounds: Sequence[tuple[int, str]], rng: random.Random
) -> list[Placed]:
    """Each partition's wound at a replica of one broker, which is stopped for it and started again. Returns
    when all whole replicas are in sync."""
    broker_id = rng.choice(sorted(cluster.brokers))
    cluster.stop_broker(broker_id)
    placed = [
        wound_replica(cluster, TopicPartition(topic, partition), broker_id, name=name, rng=rng)
        for partition, name in wounds
    ]
    cluster.start_broker(broker_id)
    # The broker itself finds what a reader or its leader can tell, and takes those replicas out of the ISR.
    wounded = {partition for partition, _ in wounds}
    cluster.wait_until(
        "all whole replicas are in sync",
        lambda: all(
            set(view.isr) >= set(view.replicas) - ({broker_id} if view.partition in wounded else set())
            for view in cluster.partitions(topic)
        ),
    )
    return placed


def judge(placed: Sequence[Placed], findings: Sequence[dict[str, Any]]) -> tuple[list[str], list[str]]:
    """(wounds that were not found, findings that are no wound's)."""
    unfound = []
    for one in placed:
        kinds = WOUNDS[one.name].kinds
        hit = {
            Flaw(found["kind"])
            for found in findings
            if found["partition"] == one.partition
            and found["broker"] == one.broker_id
            and found["firstOffset"] <= one.last_offset
            and one.first_offset <= found["lastOffset"]
        }
        if not hit & kinds:
            unfound.append(str(one))
    places = {(one.partition, one.broker_id): one for one in placed}
    false = [
        str(found)
        for found in findings
        if (where := places.get((found["partition"], found["broker"]))) is None
        or found["firstOffset"] < where.first_offset
        or (found["lastOffset"] > where.last_offset and not WOUNDS[where.name].reaches_end)
        or Flaw(found["kind"]) not in WOUNDS[where.name].kinds
    ]
    return unfound, false


def wounded_round(
    spark: Any, cluster: LocalCluster, capsys: Captured, *, seed: int, batches: int
) -> tuple[list[Placed], dict[str, Any]]:
    """A topic with a partition for each wound and a sound one; wounded, and verified under live writes."""
    rng = random.Random(seed)
    names = [*WOUNDS, None]
    rng.shuffle(names)
    topic = f"wounded-{seed}"
    cluster.create_topic(topic, partitions=len(names), replication_factor=3)
    servers = cluster.bootstrap_servers
    with Client(ClientConfig(bootstrap=parse_bootstrap(servers))) as client:
        writer = Writer(client, topic)
        for partition in range(len(names)):
            writer.write(partition, batches)
        assert verify(spark, servers, capsys, topic)[0] == 0
        wounds = [(partition, name) for partition, name in enumerate(names) if name is not None]
        placed = wound(cluster, topic, wounds, rng)
        for partition in range(len(names)):
            writer.write(partition, 5)  # what a stale replica will never have
        with writing_on(writer, range(len(names))):
            status, told = verify(spark, servers, capsys, topic, "--patience", "2")
    assert status == 1
    return placed, told


def test_every_wound_of_a_replica_is_found_and_nothing_else(
    spark: Any, own_cluster: LocalCluster, capsys: Captured
) -> None:
    placed, told = wounded_round(spark, own_cluster, capsys, seed=8, batches=30)
    assert judge(placed, told["findings"]) == ([], [])
    assert {one["kind"] for one in told["findings"]} == {
        kind for one in WOUNDS.values() for kind in one.kinds
    }
    assert len(placed) == len(WOUNDS)


@pytest.mark.proof
@pytest.mark.timeout(900)
def test_seeded_wounds_under_live_writes(spark: Any, own_cluster: LocalCluster, capsys: Captured) -> None:
    """Row 8: many wounds, all found, no false alarm; and how fast it is."""
    rounds, false_alarms, unfound = 6, 0, 0
    with proving(row=8, part="verify") as part:
        for seed in range(100, 100 + rounds):
            placed, told = wounded_round(spark, own_cluster, capsys, seed=seed, batches=60)
            missed, false = judge(placed, told["findings"])
            unfound += len(missed)
            false_alarms += len(false)
            for line in (*missed, *false):
                part.fail(f"seed {seed}: {line}")
            for one in placed:
                part.faults[one.name] = part.faults.get(one.name, 0) + 1
        sound_runs = _watch_sound_topic(spark, own_cluster, capsys, part)
        part.figures |= {
            "wounds not found": f"{unfound} of {rounds * len(WOUNDS)}",
            "findings that are no wound's": false_alarms,
            "sound runs under live writes": sound_runs,
        }
        part.not_compared("Kafka's ReplicaVerificationTool: no Kafka at hand")
        part.not_compared("4 executors: this machine has fewer cores")
        assert not part.failures


def _watch_sound_topic(spark: Any, cluster: LocalCluster, capsys: Captured, part: Any) -> int:
    """A larger topic, verified again and again while it is written to."""
    runs, topic, servers = 5, "sound", cluster.bootstrap_servers
    cluster.create_topic(topic, partitions=4, replication_factor=3)
    with Client(ClientConfig(bootstrap=parse_bootstrap(servers))) as client:
        writer = Writer(client, topic)
        for partition in range(4):
            writer.write(partition, 100, count=500, size=1_000)
        rates = []
        with writing_on(writer, range(4)):
            for _ in range(runs):
                status, told = verify(spark, servers, capsys, topic)
                if status != 0:
                    part.fail(f"a sound topic: {told['findings'][:3]}")
                rates.append(told["gigabytesPerCoreSecond"])
        status, told = verify(spark, servers, capsys, topic)
        part.figures |= {
            "GB compared": round(told["comparedBytes"] / 1e9, 2),
            "GB/s per core, under live writes": max(rates),
            "GB/s per core": told["gigabytesPerCoreSecond"],
            "GB/s, brokers on the same cores": told["gigabytesPerSecond"],
        }
    return runs
