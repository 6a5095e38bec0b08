"""A backup's folder: what is damaged, cut off, or of a later release is said, and never taken for whole."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from controller.backup import commands
from controller.backup.archive import (
    FORMAT,
    MANIFEST,
    ROWS,
    ZNODES,
    BackupInvalid,
    BackupManifest,
    ClusterSum,
    LineWriter,
    check_file,
    read_lines,
    read_manifest,
    write_manifest,
)
from controller.backup.tree import Znode, to_line
from controller.database.tables import policies
from springtide.levels import NEWEST

OPEN = ((31, "world", "anyone"),)
POLICY = dict.fromkeys(policies.c.keys()) | {"cluster": "prod", "name": "spread", "revision": 1}


def made(folder: Path, *, cluster_path: str = "/clusters/prod/head") -> BackupManifest:
    """Write a small backup: one znode outside, one of a cluster, one row."""
    folder.mkdir()
    lines = {
        ZNODES: to_line(Znode("/clusters", OPEN, b""), [OPEN]),
        "cluster-0.jsonl.gz": to_line(Znode(cluster_path, OPEN, b"\x00\xff{}"), [OPEN]),
        ROWS: ["policies", POLICY],
    }
    files = {}
    for name, line in lines.items():
        with LineWriter(folder / name) as writer:
            writer.write(line)
            files[name] = writer.finish()
    manifest = BackupManifest(
        format=FORMAT,
        release="0.2.0",
        level=NEWEST,
        made_at="2026-05-04T00:00:00+00:00",
        zookeeper_root="/springtide",
        controller_epoch=3,
        clusters=(ClusterSum(name="prod", file="cluster-0.jsonl.gz"),),
        acls=(OPEN,),
        revision="0010",
        database="sqlite",
        tables={"policies": 1, "audit": 0},
        files=files,
    )
    write_manifest(folder, manifest)
    return manifest


def change(folder: Path, **fields: Any) -> None:
    path = folder / MANIFEST
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | fields), encoding="utf-8")


def test_a_whole_backup_is_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = made(tmp_path / "b")
    assert read_manifest(tmp_path / "b") == manifest
    assert commands.verify(tmp_path / "b") == 0
    assert f"{tmp_path / 'b'}: whole" in capsys.readouterr().out


def flipped(folder: Path) -> None:
    path = folder / ROWS
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def cut(folder: Path) -> None:
    path = folder / "cluster-0.jsonl.gz"
    path.write_bytes(path.read_bytes()[:-9])


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda folder: (folder / MANIFEST).unlink(), "has no manifest.json"),
        (lambda folder: (folder / MANIFEST).write_bytes(b"{"), "can't be read"),
        (lambda folder: change(folder, format=FORMAT + 1), "reads formats up to 1"),
        (lambda folder: change(folder, files={}), "does not name the files"),
        (lambda folder: change(folder, tables={"policies": 2}), "has other rows"),
        (flipped, "the backup was damaged"),
        (cut, "the backup was damaged"),
        (lambda folder: (folder / ZNODES).unlink(), "No such file"),
    ],
)
def test_what_is_wrong_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: Callable[[Path], None], said: str
) -> None:
    made(tmp_path / "b")
    damage(tmp_path / "b")
    assert commands.verify(tmp_path / "b") == 1
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("path", ["/controllers/x", "/clusters/production/head", "/clusters/prod/../x"])
def test_a_clusters_file_has_no_other_znodes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], path: str
) -> None:
    made(tmp_path / "b", cluster_path=path)
    assert commands.verify(tmp_path / "b") == 1
    said = capsys.readouterr().err
    assert "which is not below /clusters/prod" in said or "is no path" in said


def test_lines_that_are_too_few_or_no_lines_are_refused(tmp_path: Path) -> None:
    manifest = made(tmp_path / "b")
    wanted = manifest.files[ROWS]
    (tmp_path / "b" / ROWS).write_bytes(gzip.compress(b'["a", {}]\n["b", {}]\n'))
    with pytest.raises(BackupInvalid, match="2 lines, and the manifest says 1"):
        list(read_lines(tmp_path / "b", ROWS, wanted))
    (tmp_path / "b" / ROWS).write_bytes(gzip.compress(b"\xff\n"))
    with pytest.raises(BackupInvalid, match=r"after line (0|1)"):
        list(read_lines(tmp_path / "b", ROWS, wanted))
    with pytest.raises(BackupInvalid, match="the backup was damaged"):
        check_file(tmp_path / "b", ROWS, wanted)


def test_a_folder_that_is_there_is_not_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made(tmp_path / "b")
    config: Any = None
    assert commands.create(config, config, tmp_path / "b") == 1
    assert "is there already" in capsys.readouterr().err
