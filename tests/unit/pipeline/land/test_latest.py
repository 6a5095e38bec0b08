"""The document that names a view; what Spark writes is tested with Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.errors import LandError
from pipeline.land.latest import LatestView, decode_view, encode_view, latest_view

VIEW = LatestView(7, f"{7:020d}-{'a' * 32}")


def test_the_last_view_counts(tmp_path: Path) -> None:
    assert latest_view(tmp_path) is None
    directory = tmp_path / "_springtide" / "latest"
    directory.mkdir(parents=True)
    for batches in (3, 10, 7):
        view = LatestView(batches, f"{batches:020d}-{'b' * 32}")
        (directory / f"{batches:020d}.json").write_bytes(encode_view(view))
    (directory / ".00000000000000000099.json.x").write_bytes(b"half")
    assert latest_view(tmp_path) == LatestView(10, f"{10:020d}-{'b' * 32}")


def test_a_damaged_document_is_refused() -> None:
    encoded = encode_view(VIEW)
    assert decode_view(encoded, "x", batches=7) == VIEW
    for bad in (
        *(encoded[:end] for end in range(len(encoded))),
        encode_view(VIEW._replace(folder="../../etc")),
        encode_view(VIEW._replace(folder=VIEW.folder + "/..")),
        encode_view(VIEW._replace(batches=8)),
        b"[]",
        b"[" * 4000,
    ):
        with pytest.raises(LandError, match="is damaged, or not ours"):
            decode_view(bad, "x", batches=7)
