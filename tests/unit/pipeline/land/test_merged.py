"""Manifests that are merged: the same table, read in fewer files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from pipeline.client.values import TopicPartition
from pipeline.errors import LandError
from pipeline.files import SharedDisk
from pipeline.land import merged, table
from pipeline.land.documents import LandedFile
from pipeline.land.merged import Merged, decode_merged, encode_merged
from pipeline.land.planning import LandedPartition, LandProgress
from pipeline.land.reading import landed
from tests.kit.pipeline.brokers import ScriptedBroker
from tests.kit.pipeline.land_world import NOON_MS, Landing, Logs, MortalDisk, check_exactly_once

FILE = LandedFile("topic=orders/x.parquet", "orders", 0, 10, 20, 4, 900, 11, 17, -1, 5)
MERGED = Merged(
    LandProgress(500, {TopicPartition("orders", 0): LandedPartition(10, 30, 3, 12, 2)}, {"orders": "id"}),
    (FILE,),
)


@pytest.fixture
def logs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Logs]:
    for module in (merged, table):
        monkeypatch.setattr(module, "MERGED_BATCHES", 3)
    with ExitStack() as stack:
        logs = Logs(stack.enter_context(ScriptedBroker({})))
        logs.make("orders", 2)
        yield logs


class CountingDisk(MortalDisk):
    def __init__(self) -> None:
        super().__init__()
        self.read_names: list[str] = []

    def read(self, path: Path, bytes_max: int) -> bytes | None:
        self.read_names.append(
            f"{path.parent.name}/{int(path.name.split('.')[0])}" if path.name[0] == "0" else ""
        )
        return SharedDisk.read(self, path, bytes_max)


def test_a_table_with_merged_manifests_is_the_same_table(logs: Logs, tmp_path: Path) -> None:
    for n in range(8):
        logs.write("orders", n % 2, [NOON_MS] * (n + 1))
        Landing(logs, tmp_path).run()
        check_exactly_once(tmp_path, logs)
    by_merged = landed(tmp_path)
    directory = tmp_path / "_springtide" / "merged"
    assert sorted(int(path.name.removesuffix(".json")) for path in directory.iterdir()) == [3, 6]
    disk = CountingDisk()
    assert table.LandTable(tmp_path, disk).history() == (
        LandProgress(by_merged.batches, by_merged.partitions, by_merged.topic_ids),
        by_merged.files,
    )
    assert disk.read_names == ["merged/3", "merged/6", "batches/6", "batches/7", "batches/8"]
    disk.read_names.clear()
    table.LandTable(tmp_path, disk).progress()
    assert disk.read_names == ["merged/6", "batches/6", "batches/7", "batches/8"]
    for path in directory.iterdir():
        path.unlink()
    assert landed(tmp_path) == by_merged


def test_who_died_before_it_was_merged_merges_next_time(logs: Logs, tmp_path: Path) -> None:
    for _ in range(3):
        logs.write("orders", 0, [NOON_MS])
        Landing(logs, tmp_path).run()
    assert not (tmp_path / "_springtide" / "merged").exists(), "due when the next batch is looked for"
    assert Landing(logs, tmp_path).run() == 0
    assert (tmp_path / "_springtide" / "merged" / f"{3:020d}.json").exists()
    check_exactly_once(tmp_path, logs)


def test_a_merged_document_survives_its_file_and_no_other_does() -> None:
    encoded = encode_merged(MERGED)
    assert decode_merged(encoded, "x", batches=500) == MERGED
    for end in range(len(encoded)):
        with pytest.raises(LandError, match="is damaged, or not ours"):
            decode_merged(encoded[:end], "x", batches=500)
    with pytest.raises(LandError, match="500 batches where 1000 should be"):
        decode_merged(encoded, "x", batches=1000)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("partitions", []),
        ("partitions", [["orders", 0, 10, 19, 3, 4, 0]]),
        ("partitions", [["orders", 0, 10, 30, 3, 21, 0]]),
        ("partitions", [["orders", 0, 10, 30, 3, 12]]),
        ("partitions", [["orders", 0, 10, 30, 3, 12, 2]] * 2),
        ("partitions", 7),
        ("files", [list(FILE), list(FILE)]),
        ("topicIds", []),
    ],
)
def test_a_merged_document_that_contradicts_itself_is_refused(name: str, value: Any) -> None:
    document = json.loads(encode_merged(MERGED)) | {name: value}
    with pytest.raises(LandError, match="is damaged, or not ours"):
        decode_merged(json.dumps(document).encode(), "x", batches=500)
