"""The SQL tables of the history, as SQLAlchemy Core.

Every constraint has a name, so that a migration can find it on any database. Rows of `audit` are never
updated: what became of a request is a row of its own, and one chain of hashes a cluster runs over both
(controller.audit.chain). Only retention deletes any, from the chain's beginning (controller.audit.retention).
Times are wall-clock milliseconds since 1970 UTC. Nothing here is ever read to decide about data.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
import sqlalchemy as sa

#: The hash that stands before the first entry of a cluster's chain.
GENESIS = "0" * 64

NAMES = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}

metadata = sa.MetaData(naming_convention=NAMES)

#: SQLite only counts up by itself in a column of type INTEGER.
_Id = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
#: SQL NULL for None, so that "created" and "removed" can be asked for in SQL.
_Json = sa.JSON(none_as_null=True)

#: Columns of the chain are NULL only in rows that the release before has written during an upgrade, until the
#: next append chains them.
_UNCHAINED = sa.text("chain_position is null")

#: One row a cluster, locked by each append: ids, seqs and places in the chain grow in commit order within a
#: cluster. chain_position, hash: of the chain's last entry.
audit_heads = sa.Table(
    "audit_heads",
    metadata,
    sa.Column("cluster", sa.String(255), nullable=False),
    sa.Column("last_seq", sa.BigInteger, nullable=False),
    sa.Column("chain_position", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("hash", sa.String(64), nullable=False, server_default=GENESIS),
    sa.PrimaryKeyConstraint("cluster", name="pk_audit_heads"),
)

#: kind `change`: an entity took a new version. kind `request`: a change was asked for (the intent, written
#: before the change is tried); `cause` is then the action and `after` the body of the request.
audit = sa.Table(
    "audit",
    metadata,
    sa.Column("id", _Id, autoincrement=True, nullable=False),
    sa.Column("cluster", sa.String(255), nullable=False),
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("entity", sa.String(16), nullable=False),
    sa.Column("entity_id", sa.String(320), nullable=False),
    sa.Column("version", sa.BigInteger, nullable=True),
    sa.Column("cause", sa.String(64), nullable=False),
    sa.Column("actor", sa.String(255), nullable=False),
    sa.Column("reason", sa.Text, nullable=True),
    sa.Column("request_id", sa.String(128), nullable=True),
    sa.Column("operation_id", sa.String(64), nullable=True),
    sa.Column("at_ms", sa.BigInteger, nullable=False),
    sa.Column("recorded_at_ms", sa.BigInteger, nullable=False),
    sa.Column("topic", sa.String(255), nullable=True),
    sa.Column("partition", sa.Integer, nullable=True),
    #: ",1,3,": the brokers whose role changed; `LIKE '%,3,%'` finds one.
    sa.Column("brokers", sa.Text, nullable=False),
    sa.Column("before", _Json, nullable=True),
    sa.Column("after", _Json, nullable=True),
    sa.Column("controller_epoch", sa.BigInteger, nullable=True),
    #: Filled from ZooKeeper's truth, not told by the driver as it happened.
    sa.Column("backfilled", sa.Boolean(create_constraint=False), nullable=False),
    #: The row before this one in the entity's history may not be the version that preceded it: what lay
    #: between was never written (SQL was down for longer than the outbox could hold, or a controller died).
    #: Certain for partitions, whose versions are dense; elsewhere every back-filled row may hide one.
    sa.Column("gap_before", sa.Boolean(create_constraint=False), nullable=False),
    sa.Column("chain_position", sa.BigInteger, nullable=True),
    sa.Column("previous_hash", sa.String(64), nullable=True),
    sa.Column("hash", sa.String(64), nullable=True),
    sa.PrimaryKeyConstraint("id", name="pk_audit"),
    sa.UniqueConstraint("cluster", "seq", name="uq_audit_cluster_seq"),
    sa.UniqueConstraint("cluster", "entity", "entity_id", "version", name="uq_audit_entity_version"),
    sa.CheckConstraint("kind in ('change', 'request')", name="kind"),
    sa.CheckConstraint("(kind = 'change') = (version is not null)", name="version"),
    sa.Index("ix_audit_topic", "cluster", "topic", "partition", "id"),
    sa.Index("ix_audit_actor", "actor", "id"),
    sa.Index("ix_audit_cause", "cause", "id"),
    sa.Index("ix_audit_at_ms", "at_ms"),
    sa.Index("ix_audit_operation_id", "operation_id"),
    sa.Index("ix_audit_request_id", "request_id"),
    sa.Index("ix_audit_chain", "cluster", "chain_position", unique=True),
    sa.Index("ix_audit_unchained", "cluster", "seq", sqlite_where=_UNCHAINED, postgresql_where=_UNCHAINED),
    sqlite_autoincrement=True,  # an id is never given twice, even after retention took the newest row
)

#: What became of a request. A request without one is unknown: the controller died between.
audit_outcomes = sa.Table(
    "audit_outcomes",
    metadata,
    sa.Column("audit_id", _Id, autoincrement=False, nullable=False),
    sa.Column("outcome", sa.String(16), nullable=False),
    sa.Column("code", sa.String(64), nullable=True),
    sa.Column("detail", sa.Text, nullable=True),
    sa.Column("at_ms", sa.BigInteger, nullable=False),
    sa.Column("cluster", sa.String(255), nullable=True),
    sa.Column("chain_position", sa.BigInteger, nullable=True),
    sa.Column("previous_hash", sa.String(64), nullable=True),
    sa.Column("hash", sa.String(64), nullable=True),
    sa.PrimaryKeyConstraint("audit_id", name="pk_audit_outcomes"),
    sa.ForeignKeyConstraint(["audit_id"], ["audit.id"], name="fk_audit_outcomes_audit_id_audit"),
    sa.CheckConstraint("outcome in ('succeeded', 'refused', 'unknown')", name="outcome"),
    sa.Index("ix_audit_outcomes_chain", "cluster", "chain_position", unique=True),
    sa.Index("ix_audit_outcomes_unchained", "audit_id", sqlite_where=_UNCHAINED, postgresql_where=_UNCHAINED),
)

#: One row a cluster of which rows were removed (controller.audit.removal): the newest removal's own row in
#: `audit`, which says up to where. is_swept: False while the rows up to there are still being deleted.
audit_anchors = sa.Table(
    "audit_anchors",
    metadata,
    sa.Column("cluster", sa.String(255), nullable=False),
    sa.Column("audit_id", sa.BigInteger, nullable=False),
    sa.Column("is_swept", sa.Boolean(create_constraint=False), nullable=False),
    sa.PrimaryKeyConstraint("cluster", name="pk_audit_anchors"),
)

#: Since revision 0010. From where on the entries of a cluster's chain have which format
#: (controller.audit.chain); those before the first row, and all where there is none, have the first.
audit_formats = sa.Table(
    "audit_formats",
    metadata,
    sa.Column("cluster", sa.String(255), nullable=False),
    sa.Column("from_position", sa.BigInteger, nullable=False),
    sa.Column("format", sa.Integer, nullable=False),
    sa.PrimaryKeyConstraint("cluster", "from_position", name="pk_audit_formats"),
)

#: Since revision 0010: for each later revision the own level of the oldest release that works with it.
schema_compat = sa.Table(
    "schema_compat",
    metadata,
    sa.Column("revision", sa.String(32), nullable=False),
    sa.Column("oldest_level", sa.Integer, nullable=False),
    sa.PrimaryKeyConstraint("revision", name="pk_schema_compat"),
)

operations = sa.Table(
    "operations",
    metadata,
    sa.Column("id", sa.String(64), nullable=False),
    sa.Column("kind", sa.String(32), nullable=False),
    sa.Column("cluster", sa.String(255), nullable=False),
    sa.Column("state", sa.String(32), nullable=False),
    sa.Column("actor", sa.String(255), nullable=False),
    sa.Column("reason", sa.Text, nullable=True),
    sa.Column("request_id", sa.String(128), nullable=True),
    sa.Column("created_at_ms", sa.BigInteger, nullable=False),
    sa.Column("started_at_ms", sa.BigInteger, nullable=True),
    sa.Column("finished_at_ms", sa.BigInteger, nullable=True),
    sa.Column("deadline_at_ms", sa.BigInteger, nullable=False),
    #: What was asked, and how far it is: the operation's own struct, whose shape belongs to its kind.
    sa.Column("body", _Json, nullable=False),
    #: Compare-and-set token, +1 per update: two controllers never both advance one operation.
    sa.Column("revision", sa.Integer, nullable=False),
    sa.PrimaryKeyConstraint("id", name="pk_operations"),
    sa.Index("ix_operations_cluster_state", "cluster", "state"),
    sa.Index("ix_operations_state", "state"),
)

#: Plans, as they were made: `body` is the plan without its moves, which have a table of their own.
plans = sa.Table(
    "plans",
    metadata,
    sa.Column("id", sa.String(64), nullable=False),
    sa.Column("cluster", sa.String(255), nullable=False),
    sa.Column("goal", sa.String(64), nullable=False),
    sa.Column("outcome", sa.String(32), nullable=False),
    sa.Column("content_hash", sa.String(64), nullable=False),
    sa.Column("actor", sa.String(255), nullable=False),
    sa.Column("reason", sa.Text, nullable=True),
    sa.Column("request_id", sa.String(128), nullable=True),
    sa.Column("created_at_ms", sa.BigInteger, nullable=False),
    sa.Column("expires_at_ms", sa.BigInteger, nullable=False),
    sa.Column("moves", sa.Integer, nullable=False),
    sa.Column("bytes", sa.BigInteger, nullable=False),
    sa.Column("body", _Json, nullable=False),
    #: Whether all moves are stored: they are written in pages, and a plan without them is not there yet.
    sa.Column("complete", sa.Boolean(create_constraint=False), nullable=False),
    #: What the guardrails said, and who agreed; NULL: not asked.
    sa.Column("policies", _Json, nullable=True),
    sa.Column("approval", _Json, nullable=True),
    #: The operation that carries it out: a plan is carried out once.
    sa.Column("operation_id", sa.String(64), nullable=True),
    sa.PrimaryKeyConstraint("id", name="pk_plans"),
    sa.Index("ix_plans_cluster", "cluster", "created_at_ms", "id"),
    sa.Index("ix_plans_expires_at_ms", "expires_at_ms"),
)

#: A plan's moves in their order, and what has become of each since the plan is carried out.
plan_moves = sa.Table(
    "plan_moves",
    metadata,
    sa.Column("plan_id", sa.String(64), nullable=False),
    sa.Column("position", sa.Integer, nullable=False),
    sa.Column("topic_id", sa.String(64), nullable=False),
    sa.Column("topic", sa.String(255), nullable=False),
    sa.Column("partition", sa.Integer, nullable=False),
    sa.Column("partition_epoch", sa.BigInteger, nullable=True),
    sa.Column("replicas_before", _Json, nullable=False),
    sa.Column("replicas_after", _Json, nullable=False),
    sa.Column("reasons", _Json, nullable=False),
    sa.Column("size_bytes", sa.BigInteger, nullable=True),
    sa.Column("bytes", sa.BigInteger, nullable=False),
    #: A whole number of any size, in decimal.
    sa.Column("gain", sa.String(64), nullable=False),
    sa.Column("fate", sa.String(16), nullable=False),
    sa.Column("detail", sa.Text, nullable=True),
    sa.Column("begun_at_ms", sa.BigInteger, nullable=True),
    sa.Column("ended_at_ms", sa.BigInteger, nullable=True),
    sa.PrimaryKeyConstraint("plan_id", "position", name="pk_plan_moves"),
    sa.Index("ix_plan_moves_fate", "plan_id", "fate", "position"),
)

#: Operators' own guardrails: SELECTs that must return no rows, see controller.policies.
policies = sa.Table(
    "policies",
    metadata,
    sa.Column("cluster", sa.String(255), nullable=False),
    sa.Column("name", sa.String(64), nullable=False),
    sa.Column("sql", sa.Text, nullable=False),
    sa.Column("description", sa.Text, nullable=True),
    #: Who wrote it as it is, and why.
    sa.Column("actor", sa.String(255), nullable=False),
    sa.Column("reason", sa.Text, nullable=True),
    sa.Column("created_at_ms", sa.BigInteger, nullable=False),
    sa.Column("updated_at_ms", sa.BigInteger, nullable=False),
    #: Compare-and-set token, +1 per update; begins anywhere, so that none comes back after a deletion.
    sa.Column("revision", sa.BigInteger, nullable=False),
    sa.PrimaryKeyConstraint("cluster", "name", name="pk_policies"),
)

#: Where alarms are told. url, secret: shown to no client. state: what was told and what waits (Kept), which
#: the active controller writes under a compare-and-set token of its own.
webhooks = sa.Table(
    "webhooks",
    metadata,
    sa.Column("cluster", sa.String(255), nullable=False),
    sa.Column("name", sa.String(64), nullable=False),
    #: New for each webhook that is made, also under an old name.
    sa.Column("uid", sa.String(64), nullable=False),
    sa.Column("url", sa.Text, nullable=False),
    sa.Column("secret", sa.String(128), nullable=False),
    sa.Column("format", sa.String(16), nullable=False),
    sa.Column("enabled", sa.Boolean, nullable=False),
    sa.Column("wait_ms", sa.BigInteger, nullable=False),
    sa.Column("settle_ms", sa.BigInteger, nullable=False),
    sa.Column("actor", sa.String(255), nullable=False),
    sa.Column("reason", sa.Text, nullable=True),
    sa.Column("created_at_ms", sa.BigInteger, nullable=False),
    sa.Column("updated_at_ms", sa.BigInteger, nullable=False),
    sa.Column("revision", sa.BigInteger, nullable=False),
    sa.Column("state", _Json, nullable=False),
    sa.Column("state_revision", sa.BigInteger, nullable=False),
    sa.PrimaryKeyConstraint("cluster", "name", name="pk_webhooks"),
)

#: Alarms that are told to no webhook for a time. NULL: any.
silences = sa.Table(
    "silences",
    metadata,
    sa.Column("id", sa.String(64), nullable=False),
    sa.Column("cluster", sa.String(255), nullable=False),
    sa.Column("code", sa.String(64), nullable=True),
    sa.Column("topic", sa.String(255), nullable=True),
    sa.Column("partition", sa.Integer, nullable=True),
    sa.Column("broker_id", sa.Integer, nullable=True),
    sa.Column("group_id", sa.Text, nullable=True),
    sa.Column("transactional_id", sa.Text, nullable=True),
    sa.Column("producer_id", sa.BigInteger, nullable=True),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("actor", sa.String(255), nullable=False),
    sa.Column("created_at_ms", sa.BigInteger, nullable=False),
    sa.Column("until_ms", sa.BigInteger, nullable=False),
    sa.PrimaryKeyConstraint("id", name="pk_silences"),
    sa.Index("ix_silences_cluster", "cluster", "until_ms"),
)

#: What verifications of replicas have found, as `pipeline verify --record` tells it. `partitions`: from where
#: to where each was verified, of those that were told one by one.
verifications = sa.Table(
    "verifications",
    metadata,
    sa.Column("id", sa.String(64), nullable=False),
    sa.Column("cluster", sa.String(255), nullable=False),
    sa.Column("actor", sa.String(255), nullable=False),
    sa.Column("reason", sa.Text, nullable=True),
    sa.Column("request_id", sa.String(128), nullable=True),
    sa.Column("recorded_at_ms", sa.BigInteger, nullable=False),
    sa.Column("began_at_ms", sa.BigInteger, nullable=False),
    sa.Column("ended_at_ms", sa.BigInteger, nullable=False),
    sa.Column("topics", sa.Integer, nullable=False),
    sa.Column("partitions_total", sa.Integer, nullable=False),
    sa.Column("batches", sa.BigInteger, nullable=False),
    sa.Column("records", sa.BigInteger, nullable=False),
    sa.Column("bytes", sa.BigInteger, nullable=False),
    sa.Column("compared_bytes", sa.BigInteger, nullable=False),
    sa.Column("findings", sa.Integer, nullable=False),
    sa.Column("findings_kept", sa.Integer, nullable=False),
    sa.Column("partitions", _Json, nullable=False),
    sa.PrimaryKeyConstraint("id", name="pk_verifications"),
    sa.Index("ix_verifications_cluster", "cluster", "recorded_at_ms", "id"),
)

#: What is wrong, finding by finding. broker_id NULL: all replicas have it alike.
verification_findings = sa.Table(
    "verification_findings",
    metadata,
    sa.Column("verification_id", sa.String(64), nullable=False),
    sa.Column("position", sa.Integer, nullable=False),
    sa.Column("kind", sa.String(64), nullable=False),
    sa.Column("topic", sa.String(255), nullable=False),
    sa.Column("partition", sa.Integer, nullable=False),
    sa.Column("broker_id", sa.Integer, nullable=True),
    sa.Column("first_offset", sa.BigInteger, nullable=False),
    sa.Column("last_offset", sa.BigInteger, nullable=False),
    sa.Column("batches", sa.BigInteger, nullable=False),
    sa.Column("detail", sa.Text, nullable=False),
    sa.PrimaryKeyConstraint("verification_id", "position", name="pk_verification_findings"),
    sa.Index("ix_verification_findings_topic", "topic", "partition"),
)

#: IETF draft-ietf-httpapi-idempotency-key-header: the first answer to a key is every later answer to it.
idempotency_keys = sa.Table(
    "idempotency_keys",
    metadata,
    #: Actor, method and path: a key means nothing to other actors.
    sa.Column("scope", sa.String(512), nullable=False),
    sa.Column("key", sa.String(255), nullable=False),
    sa.Column("body_hash", sa.String(64), nullable=False),
    #: An identifier drawn when the key was first seen: what a repeated attempt creates has the same id.
    sa.Column("seed", sa.String(22), nullable=False),
    sa.Column("claimed_at_ms", sa.BigInteger, nullable=False),
    sa.Column("expires_at_ms", sa.BigInteger, nullable=False),
    #: NULL while the first request is still running.
    sa.Column("status", sa.Integer, nullable=True),
    sa.Column("headers", _Json, nullable=True),
    sa.Column("body", sa.LargeBinary, nullable=True),
    sa.PrimaryKeyConstraint("scope", "key", name="pk_idempotency_keys"),
    sa.Index("ix_idempotency_keys_expires_at_ms", "expires_at_ms"),
)


Row = TypeVar("Row", bound=msgspec.Struct)


def values_of(row: msgspec.Struct, *texts: str) -> dict[str, Any]:
    """Return a row's values by column, with these texts made inert."""
    values = msgspec.structs.asdict(row)
    return values | {name: inert(values[name]) for name in texts}


def one_row(connection: sa.Connection, statement: sa.Select[Any], kind: type[Row]) -> Row | None:
    found = connection.execute(statement).mappings().one_or_none()
    return None if found is None else kind(**found)


def all_rows(connection: sa.Connection, statement: sa.Select[Any], kind: type[Row]) -> list[Row]:
    return [kind(**found) for found in connection.execute(statement).mappings()]


def newest_first(
    statement: sa.Select[Any], at_ms: sa.Column[Any], key: sa.Column[Any], *, below: tuple[int, str] | None
) -> sa.Select[Any]:
    """Order by time and id. below: of the last row seen; only what is older follows."""
    if below is not None:
        statement = statement.where(sa.tuple_(at_ms, key) < (below[0], inert(below[1])))
    return statement.order_by(at_ms.desc(), key.desc())


def inert(text: str | None) -> Any:
    """Text that every database can hold: PostgreSQL refuses NUL and half a surrogate pair."""
    if text is None:
        return None
    return text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")
