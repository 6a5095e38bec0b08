"""Writes the history: changes as they were persisted, requests as they were made, and what was missed.

Each function is one unit of work for `Database`. Rows of one cluster get consecutive `seq` numbers, growing
ids and their places in the chain of hashes in commit order, because each append first locks the cluster's
head. A change is written at most once, however often and by whichever controller it is told (S40, the
controller dies before SQL).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

import msgspec
import sqlalchemy as sa

from controller.audit.chain import Head, lock_head
from controller.audit.change import (
    AuditedChange,
    Entity,
    brokers_touched,
    partition_of,
    topic_of,
)
from controller.database.sql import DatabaseRejected
from controller.database.tables import audit, audit_outcomes, inert
from springtide.contract.epochs import ControllerEpoch

#: Keys per statement: well under SQLite's limit on bound parameters.
KEYS_PER_QUERY = 300
ACTOR_CHARS_MAX = 255
CAUSE_CHARS_MAX = 64

#: Causes that begin an entity's history: a first row with another one begins in the middle.
BEGINNINGS = frozenset({"cluster_created", "broker_registered", "topic_created"})

#: Cause of a row that says: this entity is gone, and when was not written down.
REMOVAL_NOT_RECORDED = "removal_not_recorded"

HIDDEN: Final = "***"
#: Kafka's settings of the type PASSWORD, also with a listener's prefix.
_SECRET: Final = re.compile(r"password|secret|jaas|(keystore|master|private)\.key|certificate", re.IGNORECASE)

_KNOWN_ENTITIES: Final = tuple(entity.value for entity in Entity)

_Key = tuple[str, str]  # entity, entity id


class RequestOutcome(StrEnum):
    SUCCEEDED = "succeeded"
    REFUSED = "refused"
    UNKNOWN = "unknown"


class Intent(msgspec.Struct, frozen=True, kw_only=True):
    """A request for a change. It is written before the change is tried, or the change is not tried.

    entity_id: what the request names: a topic by name, a partition as `name/partition`, a broker or a group
        by id.
    action: `create_topic`, `delete_topic`, ... body: the request as understood.
    """

    cluster: str
    action: str
    entity: Entity
    entity_id: str
    actor: str
    reason: str | None
    request_id: str | None
    operation_id: str | None = None
    at_ms: int
    body: Mapping[str, Any]
    topic: str | None = None
    partition: int | None = None
    brokers: tuple[int, ...] = ()


class AuditedOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of the request recorded as `audit_id`."""

    audit_id: int
    outcome: RequestOutcome
    code: str | None = None
    detail: str | None = None
    at_ms: int


def append_changes(
    connection: sa.Connection, changes: Sequence[AuditedChange], *, recorded_at_ms: int
) -> int:
    """Append those changes that are not there yet, in the order given; return how many were new."""
    added = 0
    for cluster in sorted({change.cluster for change in changes}):  # Two writers lock heads in one order.
        of_cluster = [change for change in changes if change.cluster == cluster]
        head = lock_head(connection, cluster)
        latest = _latest_versions(connection, cluster, {_key(change) for change in of_cluster})
        known = _known_versions(connection, cluster, of_cluster)
        rows: list[dict[str, Any]] = []
        for change in of_cluster:
            name = (*_key(change), change.version)
            if name in known:
                continue
            known.add(name)
            before_it = latest.get(_key(change))
            has_gap = _has_gap(change, before_it) and change.before is not None
            latest[_key(change)] = max(change.version, before_it or 0)
            rows.append(_change_row(change, recorded_at_ms=recorded_at_ms, gap_before=has_gap))
        _insert(connection, head, rows)
        added += len(rows)
    return added


def append_intent(connection: sa.Connection, intent: Intent, *, recorded_at_ms: int) -> int:
    """Write the request down and return the id of its row."""
    head = lock_head(connection, intent.cluster)
    row = {
        "cluster": intent.cluster,
        "kind": "request",
        "entity": intent.entity.value,
        "entity_id": inert(intent.entity_id),
        "version": None,
        "cause": intent.action[:CAUSE_CHARS_MAX],
        "actor": inert(intent.actor)[:ACTOR_CHARS_MAX],
        "reason": inert(intent.reason),
        "request_id": inert(intent.request_id),
        "operation_id": intent.operation_id,
        "at_ms": intent.at_ms,
        "recorded_at_ms": recorded_at_ms,
        "topic": intent.topic,
        "partition": intent.partition,
        "brokers": _joined(intent.brokers),
        "before": None,
        "after": _without_secrets(intent.body),
        "controller_epoch": None,
        "backfilled": False,
        "gap_before": False,
    }
    head.seal_row(row)
    result = connection.execute(audit.insert().values(row))
    head.store(connection)
    assert result.inserted_primary_key is not None
    return int(result.inserted_primary_key[0])


def _without_secrets(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a write's body with hidden values of secret settings: one `name` and `value`, or `configs`. No
    setting of this release holds a secret, so a request with one is refused, but rows here never change."""
    shown = dict(body)
    if shown.get("value") is not None and _is_secret(str(shown.get("name"))):
        shown["value"] = HIDDEN
    if isinstance(configs := shown.get("configs"), Mapping):
        shown["configs"] = {
            name: HIDDEN if value is not None and _is_secret(name) else value
            for name, value in configs.items()
        }
    return shown


def _is_secret(name: str) -> bool:
    return _SECRET.search(name) is not None


def append_outcome(connection: sa.Connection, outcome: AuditedOutcome) -> None:
    """Write what became of a request; the first outcome told is the one kept. Raise DatabaseRejected when
    there is no such request."""
    found = sa.select(audit.c.cluster, audit.c.seq).where(audit.c.id == outcome.audit_id)
    request = connection.execute(found).one_or_none()
    if request is None:
        raise DatabaseRejected(f"there is no request {outcome.audit_id} to have an outcome")
    head = lock_head(connection, request.cluster)
    # Under the head's lock no other controller writes it.
    told = sa.select(audit_outcomes.c.audit_id).where(audit_outcomes.c.audit_id == outcome.audit_id)
    if connection.execute(told).one_or_none() is not None:
        return
    row = {
        "audit_id": outcome.audit_id,
        "outcome": outcome.outcome.value,
        "code": outcome.code,
        "detail": inert(outcome.detail),
        "at_ms": outcome.at_ms,
    }
    head.seal_outcome(row, request_seq=request.seq)
    connection.execute(audit_outcomes.insert().values(row))
    head.store(connection)


def backfill_rows(connection: sa.Connection, rows: Sequence[AuditedChange], *, recorded_at_ms: int) -> int:
    """Append the current version of each entity unless it is already there; return how many were missing.

    `rows` are one cluster's entities as they stand in ZooKeeper, `before` unset: it is taken from the last
    row in the history. What lay between that row and this one is lost, and marked as such.
    """
    if not rows:
        return 0
    cluster = rows[0].cluster
    assert all(row.cluster == cluster for row in rows), "a back-fill is of one cluster"
    head = lock_head(connection, cluster)
    latest = _latest_versions(connection, cluster, {_key(row) for row in rows})
    missing = [row for row in rows if row.version > latest.get(_key(row), -1)]
    befores = _snapshots(
        connection, cluster, {_key(row): latest[_key(row)] for row in missing if _key(row) in latest}
    )
    written: list[dict[str, Any]] = []
    for row in missing:
        last = latest.get(_key(row))
        has_gap = _has_gap(row, last) or (last is not None and row.entity is not Entity.PARTITION)
        known = msgspec.structs.replace(row, before=befores.get(_key(row)))
        written.append(_change_row(known, recorded_at_ms=recorded_at_ms, gap_before=has_gap, backfilled=True))
    _insert(connection, head, written)
    return len(written)


def entities_not_in(
    connection: sa.Connection, cluster: str, present: Iterable[tuple[Entity, str]]
) -> list[_Key]:
    """Entities whose history says that they exist, and which `present` does not list. Those of kinds that
    only a later release knows are not looked for."""
    listed = {(entity.value, entity_id) for entity, entity_id in present}
    newest = _newest_per_entity(cluster).subquery()
    statement = (
        sa.select(audit.c.entity, audit.c.entity_id)
        .join(
            newest,
            sa.and_(
                audit.c.entity == newest.c.entity,
                audit.c.entity_id == newest.c.entity_id,
                audit.c.version == newest.c.version,
            ),
        )
        .where(audit.c.cluster == cluster, audit.c.after.is_not(None), audit.c.entity.in_([*_KNOWN_ENTITIES]))
        .order_by(audit.c.id)
    )
    found = [(str(row.entity), str(row.entity_id)) for row in connection.execute(statement)]
    return [key for key in found if key not in listed]


def append_lost_removals(
    connection: sa.Connection,
    cluster: str,
    keys: Sequence[_Key],
    *,
    at_ms: int,
    controller_epoch: ControllerEpoch,
) -> int:
    """End the history of entities whose removal was never written down."""
    head = lock_head(connection, cluster)
    latest = _latest_versions(connection, cluster, set(keys))
    befores = _snapshots(connection, cluster, latest)
    written: list[dict[str, Any]] = []
    for key in keys:
        before = befores.get(key)
        if before is None:  # told by another controller meanwhile
            continue
        change = AuditedChange(
            cluster=cluster,
            entity=Entity(key[0]),
            entity_id=key[1],
            version=latest[key] + 1,
            cause=REMOVAL_NOT_RECORDED,
            actor="controller",
            at_ms=at_ms,
            before=before,
            after=None,
            controller_epoch=controller_epoch,
        )
        written.append(_change_row(change, recorded_at_ms=at_ms, gap_before=True, backfilled=True))
    _insert(connection, head, written)
    return len(written)


def _key(change: AuditedChange) -> _Key:
    return (change.entity.value, change.entity_id)


def _has_gap(change: AuditedChange, last: int | None) -> bool:
    """Return whether versions are known to be missing between `last` and this one. Partition epochs are
    dense, so a jump is a hole. Other versions are not dense: there only a missing beginning shows."""
    if last is None:
        return change.cause not in BEGINNINGS
    return change.entity is Entity.PARTITION and change.version > last + 1


def _joined(brokers: Sequence[int]) -> str:
    return f",{','.join(str(broker) for broker in brokers)}," if brokers else ""


def _change_row(
    change: AuditedChange, *, recorded_at_ms: int, gap_before: bool, backfilled: bool = False
) -> dict[str, Any]:
    return {
        "cluster": change.cluster,
        "kind": "change",
        "entity": change.entity.value,
        "entity_id": change.entity_id,
        "version": change.version,
        "cause": change.cause[:CAUSE_CHARS_MAX],
        "actor": inert(change.actor)[:ACTOR_CHARS_MAX],
        "reason": inert(change.reason),
        "request_id": inert(change.request_id),
        "operation_id": change.operation_id,
        "at_ms": change.at_ms,
        "recorded_at_ms": recorded_at_ms,
        "topic": topic_of(change),
        "partition": partition_of(change),
        "brokers": _joined(brokers_touched(change)),
        "before": None if change.before is None else dict(change.before),
        "after": None if change.after is None else dict(change.after),
        "controller_epoch": change.controller_epoch,
        "backfilled": backfilled,
        "gap_before": gap_before,
    }


def _insert(connection: sa.Connection, head: Head, rows: list[dict[str, Any]]) -> None:
    if rows:
        for row in rows:
            head.seal_row(row)
        connection.execute(audit.insert(), rows)
        head.store(connection)


def _chunks(keys: Iterable[Any]) -> Iterable[list[Any]]:
    ordered = sorted(keys)
    for start in range(0, len(ordered), KEYS_PER_QUERY):
        yield ordered[start : start + KEYS_PER_QUERY]


def _newest_per_entity(cluster: str) -> sa.Select[Any]:
    return (
        sa.select(audit.c.entity, audit.c.entity_id, sa.func.max(audit.c.version).label("version"))
        .where(audit.c.cluster == cluster, audit.c.kind == "change")
        .group_by(audit.c.entity, audit.c.entity_id)
    )


def _latest_versions(connection: sa.Connection, cluster: str, keys: set[_Key]) -> dict[_Key, int]:
    latest: dict[_Key, int] = {}
    for chunk in _chunks(keys):
        statement = _newest_per_entity(cluster).where(sa.tuple_(audit.c.entity, audit.c.entity_id).in_(chunk))
        latest |= {(row.entity, row.entity_id): int(row.version) for row in connection.execute(statement)}
    return latest


def _known_versions(
    connection: sa.Connection, cluster: str, changes: Sequence[AuditedChange]
) -> set[tuple[str, str, int]]:
    known: set[tuple[str, str, int]] = set()
    columns = (audit.c.entity, audit.c.entity_id, audit.c.version)
    for chunk in _chunks({(*_key(change), change.version) for change in changes}):
        statement = sa.select(*columns).where(audit.c.cluster == cluster, sa.tuple_(*columns).in_(chunk))
        known |= {(row.entity, row.entity_id, int(row.version)) for row in connection.execute(statement)}
    return known


def _snapshots(connection: sa.Connection, cluster: str, versions: Mapping[_Key, int]) -> dict[_Key, Any]:
    """`after` of the given version of each entity."""
    found: dict[_Key, Any] = {}
    columns = (audit.c.entity, audit.c.entity_id, audit.c.version)
    for chunk in _chunks((*key, version) for key, version in versions.items()):
        statement = sa.select(*columns, audit.c.after).where(
            audit.c.cluster == cluster, sa.tuple_(*columns).in_(chunk)
        )
        found |= {(row.entity, row.entity_id): row.after for row in connection.execute(statement)}
    return found
