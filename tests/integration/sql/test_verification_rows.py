"""Verifications in SQL, on both databases."""

from __future__ import annotations

from functools import partial
from typing import Any

import anyio
import msgspec
import pytest

from controller.database import verification_rows
from controller.database.sql import Database
from controller.database.verification_rows import (
    FindingRow,
    VerificationRow,
    get_verification,
    insert_verification,
    list_findings,
    list_verifications,
)

ROW = VerificationRow(
    id="ver_1",
    cluster="prod",
    actor="alice\N{SNOWMAN}",
    reason="a\x00b",
    request_id=None,
    recorded_at_ms=1_000,
    began_at_ms=1,
    ended_at_ms=2,
    topics=1,
    partitions_total=2**31 - 1,
    batches=2**63 - 1,
    records=2**63 - 1,
    bytes=2**63 - 1,
    compared_bytes=2**63 - 1,
    findings=2**31 - 1,
    findings_kept=2,
    partitions=[{"topic": "orders", "partition": 0, "next_offset": 2**63 - 1}],
)
FINDINGS = [
    FindingRow(
        position=position,
        kind="crc_mismatch",
        topic="orders",
        partition=0,
        broker_id=broker_id,
        first_offset=0,
        last_offset=2**63 - 1,
        batches=1,
        detail="x\x00y",
    )
    for position, broker_id in enumerate((3, None))
]


def _write(store: Database, row: VerificationRow, findings: list[FindingRow]) -> Any:
    return anyio.run(store.write, partial(insert_verification, row=row, findings=findings))


def _read(store: Database, work: Any) -> Any:
    return anyio.run(store.read, work)


def test_a_verification_and_its_findings_come_back_as_they_were_told(store: Database) -> None:
    assert _write(store, ROW, FINDINGS) == ROW
    stored = _read(store, partial(get_verification, cluster="prod", verification_id="ver_1"))
    assert msgspec.structs.replace(stored, reason=ROW.reason) == ROW
    assert "\x00" not in stored.reason
    found = _read(store, partial(list_findings, verification_id="ver_1", after=-1, limit=10))
    assert [msgspec.structs.replace(one, detail="x\x00y") for one in found] == FINDINGS
    assert _read(store, partial(get_verification, cluster="test", verification_id="ver_1")) is None


def test_an_attempt_that_is_repeated_keeps_the_first(store: Database) -> None:
    _write(store, ROW, FINDINGS)
    again = _write(store, msgspec.structs.replace(ROW, records=1), [])
    assert again.records == ROW.records
    assert len(_read(store, partial(list_findings, verification_id="ver_1", after=-1, limit=10))) == 2


def test_pages_go_on_where_the_last_ended_and_old_ones_go(
    store: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verification_rows, "VERIFICATIONS_MAX", 4)
    for number in range(6):
        row = msgspec.structs.replace(ROW, id=f"ver_{number}", recorded_at_ms=1_000 + number // 2)
        _write(store, row, FINDINGS)
    _write(store, msgspec.structs.replace(ROW, id="ver_x", cluster="test"), FINDINGS)
    first = _read(store, partial(list_verifications, cluster="prod", below=None, limit=3))
    assert [one.id for one in first] == ["ver_5", "ver_4", "ver_3"]
    assert all(one.partitions == [] for one in first)
    below = (first[-1].recorded_at_ms, first[-1].id)
    second = _read(store, partial(list_verifications, cluster="prod", below=below, limit=3))
    assert [one.id for one in second] == ["ver_2"]
    assert _read(store, partial(list_findings, verification_id="ver_0", after=-1, limit=10)) == []
    assert len(_read(store, partial(list_findings, verification_id="ver_x", after=0, limit=10))) == 1
