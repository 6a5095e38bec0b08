"""Stores webhooks with what they were told, and silences.

A secret and a URL (Slack's holds one) have to be sent, so they can't be stored as a hash: they are in the row
as they are, and rows are shown to no client.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
import sqlalchemy as sa

from controller.core.silences import SILENCES_MAX, Silence
from controller.database.tables import all_rows, inert, one_row, silences, values_of, webhooks

#: Of one cluster: each is told every alarm.
WEBHOOKS_MAX: Final = 10


class WebhookRow(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook. revision: of its settings; as a policy's. state, state_revision: the active controller's."""

    cluster: str
    name: str
    uid: str
    url: str
    secret: str
    format: str
    enabled: bool
    wait_ms: int
    settle_ms: int
    actor: str
    reason: str | None
    created_at_ms: int
    updated_at_ms: int
    revision: int
    state: Mapping[str, Any] = {}
    state_revision: int = 0

    def __repr__(self) -> str:
        return f"WebhookRow({self.cluster}/{self.name})"


_STATE: Final = ("state", "state_revision")


def all_webhooks(connection: sa.Connection) -> list[WebhookRow]:
    return all_rows(connection, sa.select(webhooks).order_by(webhooks.c.cluster, webhooks.c.name), WebhookRow)


def list_webhooks(connection: sa.Connection, cluster: str) -> list[WebhookRow]:
    """Return the cluster's webhooks, ordered by name; there are at most WEBHOOKS_MAX."""
    statement = sa.select(webhooks).where(webhooks.c.cluster == inert(cluster)).order_by(webhooks.c.name)
    return all_rows(connection, statement, WebhookRow)


def get_webhook(connection: sa.Connection, cluster: str, name: str) -> WebhookRow | None:
    statement = sa.select(webhooks).where(webhooks.c.cluster == inert(cluster), webhooks.c.name == name)
    return one_row(connection, statement, WebhookRow)


def put_webhook(connection: sa.Connection, row: WebhookRow, *, replaces: WebhookRow | None) -> bool:
    """Write the settings. replaces: the row as it was read, None if there was none. Return False if it is
    another one now (read it again), or if there would be too many."""
    values = values_of(row, "url", "actor", "reason")
    if replaces is not None:
        settings = {name: value for name, value in values.items() if name not in _STATE}
        statement = webhooks.update().where(*_same(replaces)).values(**settings)
        return connection.execute(statement).rowcount == 1
    there = list_webhooks(connection, row.cluster)
    if len(there) >= WEBHOOKS_MAX or any(found.name == row.name for found in there):
        return False
    connection.execute(webhooks.insert().values(**values))
    return True


def delete_webhook(connection: sa.Connection, row: WebhookRow) -> bool:
    """Delete the webhook, with what waits. Return False if it is another one now: read it again."""
    return connection.execute(webhooks.delete().where(*_same(row))).rowcount == 1


def save_state(connection: sa.Connection, uid: str, state: Mapping[str, Any], *, after: int) -> bool:
    """Store what a webhook was told, over the revision `after`. Return False if there is another one, of
    another controller, or the webhook is gone: read again."""
    statement = (
        webhooks.update()
        .where(webhooks.c.uid == uid, webhooks.c.state_revision == after)
        .values(state=dict(state), state_revision=after + 1)
    )
    return connection.execute(statement).rowcount == 1


def _same(row: WebhookRow) -> tuple[sa.ColumnElement[bool], ...]:
    return (
        webhooks.c.cluster == row.cluster,
        webhooks.c.name == row.name,
        webhooks.c.revision == row.revision,
    )


def all_silences(connection: sa.Connection, *, wall_ms: int) -> list[Silence]:
    return all_rows(connection, sa.select(silences).where(silences.c.until_ms > wall_ms), Silence)


def list_silences(connection: sa.Connection, cluster: str, *, wall_ms: int) -> list[Silence]:
    """Return the cluster's silences that have not ended, the first to end first."""
    statement = (
        sa.select(silences)
        .where(silences.c.cluster == inert(cluster), silences.c.until_ms > wall_ms)
        .order_by(silences.c.until_ms, silences.c.id)
    )
    return all_rows(connection, statement, Silence)


def insert_silence(connection: sa.Connection, row: Silence) -> bool:
    """Store a silence, unless an earlier attempt has, and remove those that have ended. Return False if there
    would be too many."""
    this = (silences.c.cluster == inert(row.cluster),)
    connection.execute(silences.delete().where(*this, silences.c.until_ms <= row.created_at_ms))
    there = list_silences(connection, row.cluster, wall_ms=row.created_at_ms)
    if any(found.id == row.id for found in there):
        return True
    if len(there) >= SILENCES_MAX:
        return False
    values = values_of(row, "topic", "group_id", "transactional_id", "reason", "actor")
    connection.execute(silences.insert().values(**values))
    return True


def delete_silence(connection: sa.Connection, cluster: str, silence_id: str) -> bool:
    statement = silences.delete().where(
        silences.c.cluster == inert(cluster), silences.c.id == inert(silence_id)
    )
    return connection.execute(statement).rowcount == 1
