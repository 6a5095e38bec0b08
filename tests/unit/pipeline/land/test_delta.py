"""The Delta log over a table: the same rows, each once, whatever died between manifest and Delta commit."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from pipeline.errors import LandError
from pipeline.land import delta
from pipeline.land.documents import LandedFile, Manifest
from pipeline.land.table import LandTable
from tests.kit.pipeline.brokers import ScriptedBroker
from tests.kit.pipeline.land_world import HOUR_MS, NOON_MS, Landing, Logs

FILE = LandedFile("topic=t/x.parquet", "t", 0, 0, 9, 3, 100, 1, 7, NOON_MS, NOON_MS + 5)


@pytest.fixture
def logs() -> Iterator[Logs]:
    with ExitStack() as stack:
        logs = Logs(stack.enter_context(ScriptedBroker({})))
        logs.make("orders", 2)
        logs.write("orders", 0, [NOON_MS, NOON_MS + HOUR_MS, -1])
        yield logs


def test_without_the_package_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(LandError, match="needs the package deltalake") as raised:
        delta.check_delta()
    assert "springtide[delta]" in raised.value.advice


def test_commits_are_of_whole_batches_and_never_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta, "FILES_PER_COMMIT", 3)
    counts = [0, 2, 2, 0, 5, 1, 0]
    manifests = [Manifest(n, 0, {}, (), (FILE,) * count) for n, count in enumerate(counts)]
    found = [(len(commit.files), commit.last_batch) for commit in delta.commits(iter(manifests))]
    assert found == [(4, 2), (5, 4), (1, 6)]
    assert list(delta.commits(iter(manifests[:1]))) == []


def test_statistics_are_what_delta_readers_skip_by() -> None:
    assert json.loads(delta.statistics(FILE)) == {
        "numRecords": 3,
        "minValues": {"offset": 1, "timestamp": "2023-11-15T12:00:00.000Z"},
        "maxValues": {"offset": 7, "timestamp": "2023-11-15T12:00:00.005Z"},
        "nullCount": {"offset": 0, "timestamp": 0},
    }
    for least, most in ((-1, 0), (0, 253_402_300_800_000)):
        odd = json.loads(delta.statistics(FILE._replace(min_timestamp_ms=least, max_timestamp_ms=most)))
        assert odd["minValues"] == {"offset": 1}


def rows(root: Path) -> list[tuple[int, int]]:
    table = sys.modules["deltalake"].DeltaTable(str(root)).to_pyarrow_table()
    assert {"key", "value", "headers", "topic", "date", "hour"} <= set(table.column_names)
    return sorted((row["partition"], row["offset"]) for row in table.to_pylist())


def test_delta_reads_what_manifests_say_however_often_it_is_caught_up(logs: Logs, tmp_path: Path) -> None:
    pytest.importorskip("deltalake")
    Landing(logs, tmp_path).run()
    table = LandTable(tmp_path)
    assert delta.catch_up(table) == 3
    assert delta.catch_up(table) == 0
    logs.write("orders", 1, [NOON_MS])
    Landing(logs, tmp_path).run()
    logs.write("orders", 0, [NOON_MS + 2 * HOUR_MS])
    Landing(
        logs, tmp_path
    ).run()  # two batches that Delta has not heard of: the driver died, or had no --delta
    assert delta.catch_up(table) == 2
    assert rows(tmp_path) == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0)]
    found = sys.modules["deltalake"].DeltaTable(str(tmp_path)).to_pyarrow_table(filters=[("hour", "=", 14)])
    assert found["offset"].to_pylist() == [3]


def test_two_drivers_that_add_the_same_batch_add_it_once(
    logs: Logs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("deltalake")
    Landing(logs, tmp_path).run()
    table = LandTable(tmp_path)
    delta.catch_up(table)
    logs.write("orders", 1, [NOON_MS])
    Landing(logs, tmp_path).run()
    found = delta.commits

    def overtaken(manifests: Iterator[Manifest]) -> Iterator[delta.DeltaCommit]:
        monkeypatch.setattr(delta, "commits", found)
        delta.catch_up(table)
        return found(manifests)

    monkeypatch.setattr(delta, "commits", overtaken)
    delta.catch_up(table)
    assert rows(tmp_path) == [(0, 0), (0, 1), (0, 2), (1, 0)]


def test_a_delta_table_of_somebody_elses_is_left_alone(logs: Logs, tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    import pyarrow as pa

    deltalake.write_deltalake(str(tmp_path), pa.table({"n": [1]}))
    Landing(logs, tmp_path).run()
    with pytest.raises(LandError, match="another application writes to"):
        delta.catch_up(LandTable(tmp_path))
