"""A plan as JSON for programs, and as a few tables for people. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from pipeline.plan.documents import LoadItem, PlanItem, PlannedMoveItem
from pipeline.plan.eta import Eta
from pipeline.plan.request import WEIGHTS, Goal
from pipeline.plan.words import shown_span
from springtide.cli.progress import size
from springtide.cli.tables import Table, columns

MOVES_SHOWN: Final = 20

_LEVEL_COLUMNS = columns(
    "load #mean #highest/mean=ratio #broker #afterwards=ratioAfterwards #broker=brokerAfterwards"
)
_MOVE_COLUMNS = columns("partition from to #copies")


class HistoryRead(NamedTuple):
    """The history that was read: samples, when the first and last were taken (ISO 8601), and how windows
    became rates."""

    samples: int
    first_at: str | None
    last_at: str | None
    window_s: int
    statistic: str


class Proposal(NamedTuple):
    """A plan and its basis. without_history: partitions. unknown_disks: brokers that don't tell how much is
    free. body: the request. is_kept: the controller keeps the plan, if it has moves."""

    cluster: str
    history: HistoryRead
    goal: Goal
    plan: PlanItem
    eta: Eta | None
    without_history: int
    unknown_disks: Sequence[int]
    body: Mapping[str, Any]
    is_kept: bool = False


def result_of(proposal: Proposal) -> dict[str, Any]:
    plan, goal = proposal.plan, proposal.goal
    return {
        "cluster": proposal.cluster,
        "history": proposal.history._asdict() | {"partitions_without": proposal.without_history},
        "goal": {
            "loads": list(goal.weights),
            "target": goal.target_permille / 1000,
            "bytes_max": goal.bytes_max,
            "disk_reserve": goal.disk_reserve,
            "moves_max": goal.moves_max,
            "disks_unknown": list(proposal.unknown_disks),
        },
        "before": _levels(plan.before.loads),
        "after": _levels(plan.after.loads),
        "reached": not plan.skipped,
        "shortfalls": [{"load": one.weight, "why": one.detail} for one in plan.skipped],
        "bytes": plan.totals.bytes,
        "leaders": sum(move.changes_leader for move in plan.moves),
        "moves": [_move(move) for move in plan.moves],
        "eta": proposal.eta and proposal.eta.rounded()._asdict(),
        "body": proposal.body if plan.moves else None,
        "controller": None
        if not plan.moves
        else {
            "plan_id": plan.id,
            "outcome": plan.outcome,
            "moves": plan.totals.moves,
            "bytes": plan.totals.bytes,
            "expires_at": plan.expires_at,
        },
    }


def _levels(loads: Sequence[LoadItem]) -> dict[str, Any]:
    return {
        load.weight: {
            "mean": round(load.mean, 1),
            "highest": load.highest,
            "broker_id": load.broker_id,
            "highest_over_mean": round(load.highest_over_mean, 4),
        }
        for load in loads
    }


def _move(move: PlannedMoveItem) -> dict[str, Any]:
    return {
        "topic": move.topic,
        "partition": move.partition,
        "from": move.replicas_before,
        "to": move.replicas_after,
        "bytes": move.bytes,
    }


def lines_of(proposal: Proposal) -> tuple[str, ...]:
    plan = proposal.plan
    lines = [*_history_lines(proposal), "", *_level_lines(proposal), ""]
    if not plan.moves:
        lines.append("nothing to move" if not plan.skipped else "nothing that may be moved helps")
    else:
        lines += [*_move_lines(plan.moves), "", *_total_lines(proposal)]
    lines += [f"not evened out: {one.detail}" for one in plan.skipped]
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
    before = {load.weight: load for load in proposal.plan.before.loads}
    after = {load.weight: load for load in proposal.plan.after.loads}
    return Table(_LEVEL_COLUMNS).lines(
        {
            "load": weight + ("" if weight in proposal.goal.weights else " (no goal)"),
            "mean": _per_broker(before[weight]),
            "ratio": f"{before[weight].highest_over_mean:.2f}",
            "broker": before[weight].broker_id,
            "ratioAfterwards": f"{after[weight].highest_over_mean:.2f}",
            "brokerAfterwards": after[weight].broker_id,
        }
        for weight in WEIGHTS
        if weight in before and weight in after
    )


def _per_broker(load: LoadItem) -> str:
    if load.weight in ("replicas", "leaders"):
        return f"{load.mean:.1f}"
    return size(load.mean) + ("" if load.weight == "disk" else "/s")


def _move_lines(moves: Sequence[PlannedMoveItem]) -> list[str]:
    largest = sorted(moves, key=lambda move: (-move.bytes, move.name))
    lines = Table(_MOVE_COLUMNS).lines(
        {
            "partition": move.name,
            "from": move.replicas_before,
            "to": move.replicas_after,
            "copies": size(move.bytes) if move.bytes else "leader only",
        }
        for move in largest[:MOVES_SHOWN]
    )
    more = len(moves) - MOVES_SHOWN
    return [*lines, f"... and {more} more (--output json has all)"] if more > 0 else lines


def _total_lines(proposal: Proposal) -> list[str]:
    plan = proposal.plan
    leaders = sum(move.changes_leader for move in plan.moves)
    copied = size(plan.totals.bytes)
    lines = [f"{len(plan.moves)} partitions change, {leaders} leaders, {copied} are copied"]
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
    plan_id = proposal.plan.id
    if not proposal.plan.moves:
        return []
    if not proposal.is_kept or plan_id is None:
        return ["nothing was kept: --apply leaves the plan at the controller"]
    return [
        f"the controller has it as {plan_id}; nothing moves before it is executed:",
        f"  springtide plans execute {plan_id} --cluster {proposal.cluster}",
    ]
