"""Executors that are other processes, with an environment that was shipped to them: the commands of
docs/pipeline.md on local-cluster, and the other tests of the pipeline again in places where Spark is not
this process's."""

from __future__ import annotations

import json
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from importlib.util import find_spec
from pathlib import Path

import pytest

from localcluster.cluster import LocalCluster
from pipeline.client.client import Client
from pipeline.client.values import TopicPartition
from pipeline.land.reading import dataset, landed
from springtide.wire.compression import Compression
from springtide.wire.records import NewRecord, encode_batch
from tests.kit.pipeline.spark_places import (
    LOCAL_CLUSTER,
    PYTHON,
    WORKERS_FOLDER,
    Shipped,
    connect_server,
    run_tests,
    ship,
    standalone,
)
from tests.pipeline_proof.part import proving

PARTITIONS, RECORDS = 8, 200
NOON_MS = 1_700_049_600_000
CONNECT_NEEDS = ("grpc", "grpc_status", "google.rpc", "pandas", "zstandard")
FILES = [
    f"tests/integration/pipeline/test_{name}_with_spark.py"
    for name in ("place", "source", "sink", "land", "replay")
]
SECONDS_MAX = 600.0
SUBMIT_SECONDS_MAX = 240.0

Place = Callable[[Shipped], AbstractContextManager[str]]


def is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the package that it would be in
        return False


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shipped]:
    yield ship(tmp_path_factory.mktemp("driver"))


@pytest.mark.proof
@pytest.mark.timeout(300)
def test_a_job_is_submitted_to_executors_that_have_only_the_archive(
    shipped: Shipped,
    running_cluster: LocalCluster,
    client: Client,
    make_topic: Callable[..., str],
    tmp_path: Path,
) -> None:
    topic = make_topic("shipped", partitions=PARTITIONS)
    for partition in range(PARTITIONS):
        records = [
            NewRecord(b"k", b"%d:%d" % (partition, number), NOON_MS + number) for number in range(RECORDS)
        ]
        batch = encode_batch(records, compression=Compression.LZ4)
        client.produce({TopicPartition(topic, partition): batch})
    lake = tmp_path / "lake"
    script = shipped.folder / f"env/lib/python3.{sys.version_info[1]}/site-packages/pipeline/submit.py"
    ended = shipped.submit(
        [
            *(str(script), "land", topic, str(lake), "--bootstrap-server", running_cluster.bootstrap_servers),
            *("--records-per-task", str(RECORDS // 2), "--output", "json"),
        ],
        seconds_max=SUBMIT_SECONDS_MAX,
    )
    errors = [line for line in ended.stderr.splitlines() if not line.startswith("\tat ")]
    assert ended.returncode == 0, "\n".join(errors)[:8000]
    told = json.loads(ended.stdout.splitlines()[-1])
    rows = dataset(lake).to_table(columns=["partition", "offset", "value"]).to_pylist()
    assert sorted((row["partition"], row["offset"], row["value"]) for row in rows) == [
        (partition, offset, b"%d:%d" % (partition, offset))
        for partition in range(PARTITIONS)
        for offset in range(RECORDS)
    ]
    assert sum(file.records for file in landed(lake).files) == len(rows), told
    executors = sorted((shipped.spark_home / WORKERS_FOLDER).glob("app-*/*"))
    assert [folder.name for folder in executors] == ["0", "1"]
    assert all((folder / PYTHON).exists() for folder in executors), "each has unpacked its own copy"


@pytest.mark.proof
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("part", "place"),
    [
        ("local-cluster", lambda shipped: nullcontext(LOCAL_CLUSTER)),
        ("standalone", standalone),
        ("connect", connect_server),
    ],
)
def test_the_other_tests_hold_there(part: str, place: Place, shipped: Shipped, tmp_path: Path) -> None:
    with proving(row=5, part=part) as seen:
        if part == "connect" and not all(map(is_installed, CONNECT_NEEDS)):
            seen.not_compared("Spark Connect: pip install 'springtide[connect]'")
            return
        report = tmp_path / "report.xml"
        with place(shipped) as master:
            ended = run_tests(
                shipped,
                FILES,
                place={"SPARK_TEST_MASTER": master, "SPARK_TEST_ARCHIVES": shipped.archives},
                report=report,
                seconds_max=SECONDS_MAX,
            )
        suite = ET.parse(report).getroot().find("testsuite")
        assert suite is not None, ended.stdout[-4000:]
        counts = {name: int(suite.attrib[name]) for name in ("tests", "failures", "errors", "skipped")}
        seen.figures["tests"] = counts["tests"] - counts["skipped"]
        for case in suite.iter("testcase"):
            if case.find("failure") is not None or case.find("error") is not None:
                seen.fail(case.attrib["name"])
        assert counts["failures"] == counts["errors"] == 0, ended.stdout[-8000:]
        assert counts["skipped"] == 0, "all of them, also the one that says where tasks run"
        assert counts["tests"] > len(FILES)
