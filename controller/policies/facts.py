"""The tables that a policy may ask: the cluster as a plan was made from it, the plan, and what it leads to.

    brokers, topics, partitions, replicas      as they are (of a running reassignment: as they will be)
    plan, moves, added, removed                what is to be done; `plan` has one row
    planned_replicas                           as they are once the plan is carried out

Pure. Rows are made one table at a time, for only those that some policy reads are loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import msgspec

from controller.core.planning.plan import Plan
from controller.core.planning.snapshot import Snapshot
from springtide.contract.partition_state import PartitionKey

Value = str | int | float | None
Row = tuple[Value, ...]

INT64_MAX: Final = 2**63 - 1

#: Columns by table, in SQLite's words.
TABLES: Final[Mapping[str, str]] = {
    "brokers": "broker_id integer, host text, rack text, receives integer, leaving integer",
    "topics": "topic text, partitions integer, replication_factor integer, min_insync_replicas integer",
    "partitions": (
        "topic text, partition integer, leader integer, replication_factor integer, in_sync integer, "
        "min_insync_replicas integer, size_bytes integer, is_reassigning integer"
    ),
    "replicas": (
        "topic text, partition integer, broker_id integer, position integer, host text, rack text, "
        "is_leader integer, is_in_sync integer"
    ),
    "plan": "goal text, outcome text, moves integer, copies integer, bytes integer, worst_slack integer",
    "moves": (
        "position integer, topic text, partition integer, replication_factor_before integer, "
        "replication_factor_after integer, copies integer, bytes integer, gain integer, reasons text"
    ),
    "added": "topic text, partition integer, broker_id integer, host text, rack text, bytes integer",
    "removed": "topic text, partition integer, broker_id integer, host text, rack text",
    "planned_replicas": (
        "topic text, partition integer, broker_id integer, position integer, host text, rack text"
    ),
}


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts that policies judge. plan: None: they judge the cluster alone."""

    snapshot: Snapshot
    plan: Plan | None

    def rows(self, table: str) -> Iterator[Row]:
        """Return the rows of one of TABLES, with values in the order of its columns."""
        return _ROWS[table](self)


def _where(facts: Facts) -> Mapping[int, tuple[str | None, str | None]]:
    """Host and rack by broker id; for look-ups only."""
    return {broker.broker_id: (broker.host, broker.rack) for broker in facts.snapshot.brokers}


def _brokers(facts: Facts) -> Iterator[Row]:
    for one in facts.snapshot.brokers:
        yield (one.broker_id, one.host, one.rack, int(one.receives), int(one.leaving))


def _topics(facts: Facts) -> Iterator[Row]:
    for topic in facts.snapshot.topics:
        minimum = topic.minimum_of(topic.replication_factor)
        yield (topic.topic, topic.partitions, topic.replication_factor, minimum)


def _partitions(facts: Facts) -> Iterator[Row]:
    for one in facts.snapshot.partitions:
        yield (
            one.topic,
            one.partition,
            one.leader,
            len(one.replicas),
            len(one.isr),
            one.min_insync_replicas,
            one.size_bytes,
            int(one.is_reassigning),
        )


def _replicas(facts: Facts) -> Iterator[Row]:
    where = _where(facts)
    for one in facts.snapshot.partitions:
        for position, broker_id in enumerate(one.replicas):
            yield (
                one.topic,
                one.partition,
                broker_id,
                position,
                *where.get(broker_id, (None, None)),
                int(broker_id == one.leader),
                int(broker_id in one.isr),
            )


def _plan(facts: Facts) -> Iterator[Row]:
    plan = facts.plan
    if plan is not None:
        totals, slack = plan.totals, plan.worst_slack
        yield (
            str(plan.goal.__struct_config__.tag),
            plan.outcome.value,
            totals.moves,
            totals.copies,
            _bounded(totals.bytes),
            None if slack is None else slack.slack,
        )


def _moves(facts: Facts) -> Iterator[Row]:
    for position, move in enumerate(() if facts.plan is None else facts.plan.moves):
        yield (
            position,
            move.topic,
            move.partition,
            len(move.replicas_before),
            len(move.replicas_after),
            len(move.adding),
            _bounded(move.bytes),
            _bounded(move.gain),
            ",".join(move.reasons),
        )


def _added(facts: Facts) -> Iterator[Row]:
    where = _where(facts)
    for move in () if facts.plan is None else facts.plan.moves:
        for broker_id in move.adding:
            bytes_each = _bounded(move.bytes // len(move.adding))
            yield (move.topic, move.partition, broker_id, *where.get(broker_id, (None, None)), bytes_each)


def _removed(facts: Facts) -> Iterator[Row]:
    where = _where(facts)
    for move in () if facts.plan is None else facts.plan.moves:
        for broker_id in move.removing:
            yield (move.topic, move.partition, broker_id, *where.get(broker_id, (None, None)))


def _planned_replicas(facts: Facts) -> Iterator[Row]:
    where = _where(facts)
    moved: dict[PartitionKey, tuple[int, ...]] = {}
    new: list[tuple[str, int, tuple[int, ...]]] = []
    known = {one.key for one in facts.snapshot.partitions}
    for move in () if facts.plan is None else facts.plan.moves:
        if move.key in known:
            moved[move.key] = move.replicas_after
        else:
            new.append((move.topic, move.partition, move.replicas_after))
    after = [
        (one.topic, one.partition, moved.get(one.key, one.replicas)) for one in facts.snapshot.partitions
    ]
    for topic, partition, replicas in [*after, *new]:
        for position, broker_id in enumerate(replicas):
            yield (topic, partition, broker_id, position, *where.get(broker_id, (None, None)))


def _bounded(number: int) -> int:
    """SQLite's integers have 64 bits."""
    return max(-INT64_MAX, min(number, INT64_MAX))


_ROWS: Final[Mapping[str, Callable[[Facts], Iterator[Row]]]] = {
    "brokers": _brokers,
    "topics": _topics,
    "partitions": _partitions,
    "replicas": _replicas,
    "plan": _plan,
    "moves": _moves,
    "added": _added,
    "removed": _removed,
    "planned_replicas": _planned_replicas,
}
assert _ROWS.keys() == TABLES.keys()
