"""At the end, REST, ZooKeeper, every broker and the audit tell the same story.

Over plain dictionaries, so that each tier can fill them from what it has: a simulation from its objects, real
processes from HTTP answers and znodes. Facts that one side does not state are not compared, but each side
must know every partition and state something about it. Anomalies name no lines of a history: the views come
after its end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from .history import Key
from .verdict import Anomaly, Findings, Kind, show_key

Fact: TypeAlias = int | str | Sequence[int] | None
Partition: TypeAlias = Mapping[str, Fact]
View: TypeAlias = Mapping[Key, Partition]
"""What one side says: by partition, facts by name: leader, leader_epoch, partition_epoch, isr, elr,
replicas."""

UNORDERED = frozenset({"isr", "elr", "adding_replicas", "removing_replicas"})
"""Facts that are sets: sides may list them in any order."""


class Asked(StrEnum):
    """How a request for a change ended for the client."""

    OK = "ok"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """A write of metadata that happened: the entity ("topic/orders", "partition/orders/0"), the version it
    took, and its zxid. Writes of one transaction share a zxid."""

    entity: str
    version: int
    zxid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedChange:
    """An audit row about a change; in the order of the rows."""

    entity: str
    version: int


def check_placement(truth: View, views: Mapping[str, View]) -> tuple[Anomaly, ...]:
    """Compares each view with ZooKeeper's (`truth`). `views`: by name ("rest", "broker 3", "audit")."""
    findings = Findings(())
    for name, view in views.items():
        for key in sorted(truth.keys() | view.keys()):
            _compare(name, key, truth.get(key), view.get(key), findings)
    return tuple(findings.kept)


def _compare(name: str, key: Key, true: Partition | None, said: Partition | None, findings: Findings) -> None:
    if true is None or said is None:
        who, what = ("ZooKeeper", name) if true is None else (name, "ZooKeeper")
        findings.add(
            Kind.PLACEMENT_DIFFERS,
            f"{who} does not know {show_key(key)}, which {what} has",
            key=key,
            values=(name,),
        )
        return
    shared = sorted(true.keys() & said.keys())
    different = [fact for fact in shared if _canonical(fact, true[fact]) != _canonical(fact, said[fact])]
    if different or not shared:
        facts = "; ".join(f"{fact} {said[fact]!r} instead of {true[fact]!r}" for fact in different)
        findings.add(
            Kind.PLACEMENT_DIFFERS,
            f"{name} says of {show_key(key)}: {facts or 'nothing that could be compared'}",
            key=key,
            values=(name, *different),
        )


def _canonical(fact: str, value: Fact) -> Fact:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(sorted(value)) if fact in UNORDERED else tuple(value)
    return value


def check_audit_changes(mutations: Sequence[Mutation], rows: Sequence[AuditedChange]) -> tuple[Anomaly, ...]:
    """Each mutation has exactly one row, no row is without a mutation, and rows stand in zxid order."""
    findings = Findings(())
    zxids = {(mutation.entity, mutation.version): mutation.zxid for mutation in mutations}
    told = Counter((row.entity, row.version) for row in rows)
    for change, zxid in zxids.items():
        if change not in told:
            _add(findings, Kind.AUDIT_MISSING, change, f"was written with zxid {zxid} and has no audit row")
    highest, highest_change = -1, ("", -1)
    for change in dict.fromkeys((row.entity, row.version) for row in rows):
        if told[change] > 1:
            _add(findings, Kind.AUDIT_REPEATED, change, f"has {told[change]} audit rows")
        known = zxids.get(change)
        if known is None:
            _add(findings, Kind.AUDIT_UNFOUNDED, change, "has an audit row and was never written")
        elif known < highest:
            after = f"{highest_change[0]} version {highest_change[1]}"
            _add(
                findings, Kind.AUDIT_ORDER, change, f"has its audit row after that of {after}, a later write"
            )
        else:
            highest, highest_change = known, change
    return tuple(findings.kept)


def _add(findings: Findings, kind: Kind, change: tuple[str, int], what: str) -> None:
    findings.add(kind, f"{change[0]} version {change[1]} {what}", key=None, values=(change[0],))


def check_audit_requests(
    asked: Mapping[str, Asked], rows: Sequence[tuple[str, Asked]]
) -> tuple[Anomaly, ...]:
    """Each request (by its id) is audited exactly once with the outcome that the client was told: what was
    refused as refused. Where the client does not know, any row will do, or none. `rows`: id and outcome."""
    findings = Findings(())
    told: dict[str, list[Asked]] = {}
    for request_id, outcome in rows:
        told.setdefault(request_id, []).append(outcome)
    for request_id, outcome in asked.items():
        outcomes = told.get(request_id, [])
        if not outcomes and outcome is not Asked.UNKNOWN:
            kind, what = Kind.AUDIT_MISSING, f"ended {outcome} and has no audit row"
        elif len(outcomes) > 1:
            kind, what = Kind.AUDIT_REPEATED, f"has {len(outcomes)} audit rows"
        elif outcome is not Asked.UNKNOWN and outcomes != [outcome]:
            kind, what = Kind.AUDIT_OUTCOME, f"ended {outcome} and is audited as {outcomes[0]}"
        else:
            continue
        findings.add(kind, f"request {request_id} {what}", key=None, values=(request_id,))
    for request_id in [request_id for request_id in told if request_id not in asked]:
        findings.add(
            Kind.AUDIT_UNFOUNDED,
            f"request {request_id} is audited and nobody made it",
            key=None,
            values=(request_id,),
        )
    return tuple(findings.kept)
