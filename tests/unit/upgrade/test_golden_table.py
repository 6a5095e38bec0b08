"""The pipeline reads a table that the last release landed, goes on in it, and writes the same documents."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pipeline.land.documents import decode_manifest, decode_plan, decode_settings, encode_document
from pipeline.land.latest import decode_view, encode_view, latest_view
from pipeline.land.table import LandTable
from tests.upgrade.golden.files import Golden, kept_levels

RECORDS = 300
"""Of topic `orders`, in the first batch."""


@pytest.fixture(scope="module", params=kept_levels())
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Golden(request.param).unpack_table(tmp_path_factory.mktemp("golden"))


def documents(table: Path, pattern: str) -> list[Path]:
    found = sorted((table / "_springtide").glob(pattern))
    assert found
    return found


def test_each_document_is_written_again_byte_for_byte(table: Path) -> None:
    settings = table / "_springtide" / "table.json"
    assert encode_document(decode_settings(settings.read_bytes(), "table")) == settings.read_bytes()
    for number, path in enumerate(documents(table, "batches/*.plan.json")):
        plan = decode_plan(path.read_bytes(), path.name, batch=number)
        assert encode_document(plan) == path.read_bytes()
    for number, path in enumerate(documents(table, "batches/*.manifest.json")):
        manifest = decode_manifest(path.read_bytes(), path.name, batch=number)
        assert encode_document(manifest) == path.read_bytes()
    for path in documents(table, "latest/*.json"):
        view = decode_view(path.read_bytes(), path.name, batches=int(path.stem))
        assert encode_view(view) == path.read_bytes()


def test_a_job_goes_on_where_the_last_batch_ended(table: Path) -> None:
    progress = LandTable(table).progress()
    assert progress.batches == 2
    view = latest_view(table)
    assert view is not None
    assert view.batches == 2


def test_each_file_that_counts_has_the_rows_that_its_manifest_says(table: Path) -> None:
    rows = 0
    for number, path in enumerate(documents(table, "batches/*.manifest.json")):
        for file in decode_manifest(path.read_bytes(), path.name, batch=number).files:
            found = pq.read_metadata(table / file.path)
            assert found.num_rows == file.records
            rows += file.records if file.topic == "orders" else 0
    assert rows >= RECORDS
