"""Webhooks and silences in SQL, on both databases."""

from __future__ import annotations

from functools import partial
from typing import Any

import anyio
import msgspec
import pytest

from controller.core.silences import Silence
from controller.database import webhook_rows
from controller.database.sql import Database
from controller.database.webhook_rows import (
    WebhookRow,
    all_silences,
    all_webhooks,
    delete_silence,
    delete_webhook,
    get_webhook,
    insert_silence,
    list_silences,
    put_webhook,
    save_state,
)

ROW = WebhookRow(
    cluster="prod",
    name="pager",
    uid="u1",
    url="https://pager.example.com/x",
    secret="whsec_x",
    format="json",
    enabled=True,
    wait_ms=10_000,
    settle_ms=60_000,
    actor="alice\N{SNOWMAN}",
    reason=None,
    created_at_ms=1,
    updated_at_ms=1,
    revision=2**47,
)
SILENCE = Silence(
    id="sil_1",
    cluster="prod",
    code=None,
    topic="orders",
    partition=2**31 - 1,
    broker_id=None,
    group_id="a\x00b",
    transactional_id="\x00pay",
    producer_id=2**62,
    reason="r\x00",
    actor="alice",
    created_at_ms=1_000,
    until_ms=2_000,
)


def _write(store: Database, work: Any, **fields: Any) -> Any:
    return anyio.run(store.write, partial(work, **fields))


def test_settings_and_what_was_told_are_written_apart(store: Database) -> None:
    assert _write(store, put_webhook, row=ROW, replaces=None)
    assert not _write(store, put_webhook, row=ROW, replaces=None)
    state = {"told": [{"detail": "\N{SNOWMAN}"}], "delivered": 2**62}
    assert _write(store, save_state, uid="u1", state=state, after=0)
    assert not _write(store, save_state, uid="u1", state={}, after=0), "another controller's"
    assert not _write(store, save_state, uid="u2", state={}, after=0), "gone"
    changed = msgspec.structs.replace(ROW, url="http://other/", enabled=False, revision=ROW.revision + 1)
    assert _write(store, put_webhook, row=changed, replaces=ROW)
    assert not _write(store, put_webhook, row=changed, replaces=ROW)
    (stored,) = _write(store, all_webhooks)
    assert stored == msgspec.structs.replace(changed, state=state, state_revision=1)
    assert _write(store, get_webhook, cluster="test", name="pager") is None
    assert not _write(store, delete_webhook, row=ROW)
    assert _write(store, delete_webhook, row=stored)
    assert _write(store, all_webhooks) == []
    assert "whsec" not in repr(stored)


def test_silences_end_and_make_room(store: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook_rows, "SILENCES_MAX", 2)
    assert _write(store, insert_silence, row=SILENCE)
    assert _write(store, insert_silence, row=SILENCE), "an attempt that is repeated"
    second = msgspec.structs.replace(SILENCE, id="sil_2", until_ms=1_500)
    assert _write(store, insert_silence, row=second)
    third = msgspec.structs.replace(SILENCE, id="sil_3", until_ms=9_000)
    assert not _write(store, insert_silence, row=third)
    assert [one.id for one in _write(store, list_silences, cluster="prod", wall_ms=0)] == ["sil_2", "sil_1"]
    assert [one.id for one in _write(store, all_silences, wall_ms=1_500)] == ["sil_1"]
    later = msgspec.structs.replace(third, created_at_ms=1_600)
    assert _write(store, insert_silence, row=later), "one has ended"
    assert not _write(store, delete_silence, cluster="test", silence_id="sil_3")
    assert _write(store, delete_silence, cluster="prod", silence_id="sil_3")
    assert not _write(store, delete_silence, cluster="prod", silence_id="sil_3")
