"""A plan as it is told: JSON for programs, a few tables for people. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from pipeline.plan.documents import PlanItem
from pipeline.plan.eta import Eta, describe
from pipeline.plan.goal import Found, Goal
from pipeline.plan.load import RESOURCES, Level
from pipeline.plan.placement import Limits, Move
from pipeline.plan.words import shown_span
from springtide.progress import size
from springtide.tables import Table, number, text

MOVES_SHOWN: Final = 20

_LEVEL_COLUMNS = (
    text("load"),
    number("mean"),
    number("highest/mean", "ratio"),
    number("broker"),
    number("afterwards", "ratioAfterwards"),
    number("broker", "brokerAfterwards"),
)
_MOVE_COLUMNS = (text("partition"), text("from"), text("to"), number("copies"))


class HistoryRead(NamedTuple):
    """What was read: samples, when the first and the last were taken (ISO 8601), and how rates were taken
    from windows."""

    samples: int
    first_at: str | None
    last_at: str | None
    window_s: int
    statistic: str


class Proposal(NamedTuple):
    """A whole plan. without_history: partitions. unknown_disks: brokers that do not tell how much is free.
    judged: what the controller said; None: there is nothing to judge. is_kept: it has the plan now."""

    cluster: str
    history: HistoryRead
    goal: Goal
    limits: Limits
    found: Found
    eta: Eta | None
    without_history: int
    unknown_disks: Sequence[int]
    body: Mapping[str, Any]
    judged: PlanItem | None = None
    is_kept: bool = False


def result_of(proposal: Proposal) -> dict[str, Any]:
    found, judged = proposal.found, proposal.judged
    return {
        "cluster": proposal.cluster,
        "history": proposal.history._asdict() | {"partitions_without": proposal.without_history},
        "goal": {
            "loads": [RESOURCES[r] for r in proposal.goal.resources],
            "target": proposal.goal.target,
            **proposal.limits._asdict(),
            "disks_unknown": list(proposal.unknown_disks),
        },
        "before": _levels(found.before),
        "after": _levels(found.after),
        "reached": not found.shortfalls,
        "shortfalls": [{"load": one.level.resource, "why": one.why} for one in found.shortfalls],
        "bytes": found.copied,
        "leaders": sum(move.changes_leader for move in found.moves),
        "moves": [_move(move) for move in found.moves],
        "eta": describe(proposal.eta),
        "body": proposal.body if found.moves else None,
        "controller": None
        if judged is None
        else {
            "plan_id": judged.id,
            "outcome": judged.outcome,
            "moves": judged.totals.moves,
            "bytes": judged.totals.bytes,
            "expires_at": judged.expires_at,
        },
    }


def _levels(levels: Sequence[Level]) -> dict[str, Any]:
    return {
        level.resource: {
            "mean": round(level.mean, 1),
            "highest": round(level.highest, 1),
            "broker_id": level.broker_id,
            "highest_over_mean": round(level.ratio, 4),
        }
        for level in levels
    }


def _move(move: Move) -> dict[str, Any]:
    return {
        "topic": move.partition.topic,
        "partition": move.partition.partition,
        "from": list(move.partition.replicas),
        "to": list(move.replicas),
        "bytes": move.bytes,
    }


def lines_of(proposal: Proposal) -> tuple[str, ...]:
    found = proposal.found
    lines = [*_history_lines(proposal), "", *_level_lines(proposal), ""]
    if not found.moves:
        lines.append("nothing to move" if not found.shortfalls else "nothing that may be moved helps")
    else:
        lines += [*_move_lines(found.moves), "", *_total_lines(proposal)]
    lines += [f"{one.level.resource}: not evened out, {one.why}" for one in found.shortfalls]
    return (*lines, *_what_next(proposal))


def _history_lines(proposal: Proposal) -> list[str]:
    history = proposal.history
    lines = [
        f"{proposal.cluster}: {history.samples} samples from {history.first_at} to {history.last_at}, "
        f"{history.statistic} of windows of {shown_span(history.window_s)}"
    ]
    if proposal.without_history:
        lines.append(f"{proposal.without_history} partitions have no history and count as idle")
    if proposal.unknown_disks:
        brokers = ", ".join(map(str, proposal.unknown_disks))
        lines.append(f"brokers {brokers}: how much of their disks is free is not known, nor heeded")
    return lines


def _level_lines(proposal: Proposal) -> list[str]:
    def per_broker(level: Level) -> str:
        return size(level.mean) + ("" if level.resource == "disk" else "/s")

    return Table(_LEVEL_COLUMNS).lines(
        {
            "load": before.resource + ("" if resource in proposal.goal.resources else " (no goal)"),
            "mean": per_broker(before),
            "ratio": f"{before.ratio:.2f}",
            "broker": before.broker_id,
            "ratioAfterwards": f"{after.ratio:.2f}",
            "brokerAfterwards": after.broker_id,
        }
        for resource, (before, after) in enumerate(
            zip(proposal.found.before, proposal.found.after, strict=True)
        )
    )


def _move_lines(moves: Sequence[Move]) -> list[str]:
    largest = sorted(moves, key=lambda move: (-move.bytes, move.partition.name))
    lines = Table(_MOVE_COLUMNS).lines(
        {
            "partition": move.partition.name,
            "from": move.partition.replicas,
            "to": move.replicas,
            "copies": size(move.bytes) if move.adding else "leader only",
        }
        for move in largest[:MOVES_SHOWN]
    )
    more = len(moves) - MOVES_SHOWN
    return [*lines, f"... and {more} more (--output json has all)"] if more > 0 else lines


def _total_lines(proposal: Proposal) -> list[str]:
    found = proposal.found
    leaders = sum(move.changes_leader for move in found.moves)
    lines = [f"{len(found.moves)} partitions change, {leaders} leaders, {size(found.copied)} are copied"]
    if proposal.eta is None:
        lines.append("how long that takes is not known: no operation that moved replicas has ended yet")
    else:
        eta = proposal.eta
        lines.append(
            f"probably {shown_span(eta.p50_s)}, nine times in ten within {shown_span(eta.p90_s)} "
            f"(by {eta.operations} earlier operations)"
        )
    return lines


def _what_next(proposal: Proposal) -> list[str]:
    judged = proposal.judged
    if judged is None:
        return []
    if not proposal.is_kept or judged.id is None:
        return ["the controller would take this plan: --apply leaves it there"]
    return [
        f"the controller has it as {judged.id}; nothing moves before it is executed:",
        f"  springtide plans execute {judged.id} --cluster {proposal.cluster}",
    ]
