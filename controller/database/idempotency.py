"""Remembers the first answer to each Idempotency-Key (IETF draft-ietf-httpapi-idempotency-key-header-07).

A key is claimed before the request does anything, and its answer is kept for KEEP_MS. A claim whose holder
died without an answer may be taken over after CLAIM_MS: the second attempt gets the same seed, so that what
it creates carries the same id, and "it exists already, with this very id" is a success, not a conflict.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert as postgres_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from controller.database.tables import idempotency_keys

KEEP_MS = 24 * 3600 * 1000
#: Longer than any request may take.
CLAIM_MS = 60_000
KEY_CHARS_MAX = 255
SCOPE_CHARS_MAX = 512


class Claimed(msgspec.Struct, frozen=True):
    """The request is the caller's to carry out. seed: 22 characters, the same at every attempt."""

    seed: str


class Replay(msgspec.Struct, frozen=True):
    """The stored answer to a request that was carried out."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class InProgress(msgspec.Struct, frozen=True):
    """Another attempt is carrying it out. retry_after_ms: until a dead holder's claim may be taken over, at
    most."""

    retry_after_ms: int


class OtherBody(msgspec.Struct, frozen=True):
    """The key was used for another request."""


Claim = Claimed | Replay | InProgress | OtherBody


def claim(
    connection: sa.Connection,
    *,
    scope: str,
    key: str,
    body_hash: str,
    fresh_seed: str,
    now_ms: int,
    expiry_ms: int | None,
) -> Claim:
    """Claim the key, or return why not. expiry_ms: answers up to then have expired; None if none has."""
    if expiry_ms is not None:
        connection.execute(idempotency_keys.delete().where(idempotency_keys.c.expires_at_ms <= expiry_ms))
    insert = postgres_insert if connection.dialect.name == "postgresql" else sqlite_insert
    inserted = connection.execute(
        insert(idempotency_keys)
        .values(
            scope=scope,
            key=key,
            body_hash=body_hash,
            seed=fresh_seed,
            claimed_at_ms=now_ms,
            expires_at_ms=now_ms + KEEP_MS,
        )
        .on_conflict_do_nothing()
        .returning(idempotency_keys.c.seed)
    ).scalar_one_or_none()
    if inserted is not None:
        return Claimed(seed=fresh_seed)
    this = sa.and_(idempotency_keys.c.scope == scope, idempotency_keys.c.key == key)
    held = connection.execute(sa.select(idempotency_keys).where(this).with_for_update()).one()
    if held.body_hash != body_hash:
        return OtherBody()
    if held.status is not None:
        return Replay(status=held.status, headers=held.headers or {}, body=held.body or b"")
    free_at_ms = held.claimed_at_ms + CLAIM_MS
    if now_ms < free_at_ms:
        return InProgress(retry_after_ms=free_at_ms - now_ms)
    connection.execute(idempotency_keys.update().where(this).values(claimed_at_ms=now_ms))
    return Claimed(seed=held.seed)


def keep_answer(
    connection: sa.Connection, *, scope: str, key: str, status: int, headers: Mapping[str, str], body: bytes
) -> None:
    """Store the answer that every repetition gets."""
    connection.execute(
        idempotency_keys.update()
        .where(idempotency_keys.c.scope == scope, idempotency_keys.c.key == key)
        .values(status=status, headers=dict(headers), body=body)
    )


def release(connection: sa.Connection, *, scope: str, key: str) -> None:
    """Give the claim up without an answer, keeping its seed: the next attempt may start at once."""
    connection.execute(
        idempotency_keys.update()
        .where(
            idempotency_keys.c.scope == scope,
            idempotency_keys.c.key == key,
            idempotency_keys.c.status.is_(None),
        )
        .values(claimed_at_ms=0)
    )
