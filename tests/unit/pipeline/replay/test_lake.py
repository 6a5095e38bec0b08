"""What a lake holds, and the rows of a piece of it: Parquet files on a disk, no Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.errors import ReplayError
from pipeline.land.documents import LandedFile
from pipeline.replay.lake import Lake, find_parquet, is_landed, lake_rows, streams_of
from pipeline.replay.plan import FilePiece, LakeFile, Partitioning, ReplaySettings
from pipeline.replay.rows import MILLISECONDS

SETTINGS = ReplaySettings(
    run_id="r", source="/lake", topic="t", topic_id="", partition_count=3, partitioning=Partitioning.MURMUR2
)


def write(path: Path, values: list[str], **columns: Any) -> LakeFile:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"value": values, **columns}), path, row_group_size=2)
    return LakeFile(path.name, path.stat().st_size)


def values_of(lake: Lake, pieces: list[Any]) -> list[str]:
    return [
        value
        for rows in lake_rows(lake, pieces, SETTINGS, now_ms=1)
        for value in rows.column("value").to_pylist()
    ]


def test_every_file_that_counts_is_a_stream(tmp_path: Path) -> None:
    write(tmp_path / "b.parquet", ["1", "2", "3"])
    write(tmp_path / "day=2" / "a.parquet", ["4"])
    write(tmp_path / "empty.parquet", [])
    write(tmp_path / "_temporary" / "half.parquet", ["x"])
    write(tmp_path / ".hidden.parquet", ["x"])
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / "notes.txt").write_text("x")
    lake = Lake.at(str(tmp_path))
    assert not is_landed(lake)
    found = find_parquet(lake)
    assert [
        [piece.files[0].path for piece in stream if isinstance(piece, FilePiece)] for stream in found.streams
    ] == [
        ["b.parquet"],
        ["day=2/a.parquet"],
    ]
    assert (found.records, found.files, found.has_partitions) == (4, 3, False)
    assert values_of(lake, [piece for stream in found.streams for piece in stream]) == ["1", "2", "3", "4"]


def test_a_file_and_a_url_are_places_too(tmp_path: Path) -> None:
    write(tmp_path / "b c.parquet", ["1", "2"])
    for place in (str(tmp_path / "b c.parquet"), tmp_path.as_uri()):
        found = find_parquet(Lake.at(place))
        assert values_of(Lake.at(place), [piece for stream in found.streams for piece in stream]) == [
            "1",
            "2",
        ]


def test_folders_and_columns_tell_partitions(tmp_path: Path) -> None:
    write(tmp_path / "partition=2" / "a.parquet", ["1"])
    found = find_parquet(Lake.at(str(tmp_path)))
    assert (found.has_partitions, found.partition_max) == (True, 2)
    assert [piece.partition for (piece,) in found.streams] == [2]
    write(tmp_path / "b.parquet", ["1"], partition=[1])
    assert find_parquet(Lake.at(str(tmp_path))).has_partitions
    write(tmp_path / "c.parquet", ["1"])
    assert not find_parquet(Lake.at(str(tmp_path))).has_partitions


def test_what_can_not_be_read_says_so_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match="no such file or folder"):
        find_parquet(Lake.at(str(tmp_path / "nowhere")))
    with pytest.raises(ReplayError, match="no Parquet file"):
        find_parquet(Lake.at(str(tmp_path)))
    (tmp_path / "a.parquet").write_bytes(b"PAR1 is not enough")
    with pytest.raises(ReplayError, match=r"a\.parquet is no Parquet file"):
        find_parquet(Lake.at(str(tmp_path)))
    with pytest.raises(ReplayError, match="can't be read"):
        find_parquet(Lake.at("nonsense://x"))
    pq.write_table(pa.table({"key": ["k"]}), tmp_path / "a.parquet")
    with pytest.raises(ReplayError, match="no column 'value'"):
        find_parquet(Lake.at(str(tmp_path)))


def test_a_file_that_is_another_one_by_now_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path / "a.parquet", ["1"])
    lake = Lake.at(str(tmp_path))
    write(tmp_path / "a.parquet", ["1", "2", "3"])
    with pytest.raises(ReplayError, match="it is another file now"):
        values_of(lake, [FilePiece((file,), -1, 1)])
    (tmp_path / "a.parquet").unlink()
    with pytest.raises(ReplayError, match="can't be read"):
        values_of(lake, [FilePiece((file,), -1, 1)])


# --- what `land` wrote ------------------------------------------------------------------------------------


def landed_file(path: str, partition: int, span: tuple[int, int], offsets: tuple[int, int]) -> LandedFile:
    return LandedFile(path, "o", partition, *span, 2, 100, *offsets, 0, 1)


def paths(stream: Any) -> list[list[str]]:
    return [[file.path for file in piece.files] for piece in stream]


def test_a_partitions_files_come_in_the_order_of_their_offsets() -> None:
    streams = streams_of(
        [
            landed_file("late", 0, (100, 200), (100, 150)),
            landed_file("hour=5", 0, (0, 100), (60, 99)),
            landed_file("hour=4", 0, (0, 100), (0, 59)),
            landed_file("other", 1, (0, 100), (0, 99)),
        ]
    )
    assert [paths(stream) for stream in streams] == [[["hour=4"], ["hour=5"], ["late"]], [["other"]]]
    assert [piece.partition for stream in streams for piece in stream] == [0, 0, 0, 1]


def test_files_whose_offsets_lie_among_each_other_are_one_piece() -> None:
    streams = streams_of(
        [
            landed_file("a", 0, (0, 100), (0, 50)),
            landed_file("b", 0, (0, 100), (10, 20)),
            landed_file("c", 0, (0, 100), (30, 60)),
            landed_file("d", 0, (0, 100), (70, 99)),
        ]
    )
    assert [paths(stream) for stream in streams] == [[["a", "b", "c"], ["d"]]]
    assert [piece.records for piece in streams[0]] == [6, 2]


def test_records_that_landed_in_several_folders_are_replayed_in_their_order(tmp_path: Path) -> None:
    def file(name: str, offsets: list[int]) -> LakeFile:
        moments = pa.array([1_000 + offset for offset in offsets], MILLISECONDS)
        return write(tmp_path / name, [str(n) for n in offsets], offset=offsets, timestamp=moments)

    files = file("a.parquet", [0, 1, 5, 6, 7]), file("b.parquet", [2, 4, 8, 9])
    assert values_of(Lake.at(str(tmp_path)), [FilePiece(files, 0, 9)]) == list("012456789")


def test_a_table_is_known_by_its_manifests_and_not_read_in_part(tmp_path: Path) -> None:
    write(tmp_path / "topic=o" / "date=2026-11-22" / "a.parquet", ["1"])
    (tmp_path / "_springtide").mkdir()
    for place in (str(tmp_path), tmp_path.as_uri()):
        assert is_landed(Lake.at(place))
    for part in ("topic=o", "topic=o/date=2026-11-22", "topic=o/date=2026-11-22/a.parquet"):
        lake = Lake.at(str(tmp_path / part))
        assert not is_landed(lake)
        with pytest.raises(ReplayError, match="is a part of") as caught:
            find_parquet(lake)
        assert "--source-topic" in caught.value.advice
