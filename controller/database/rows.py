"""Rows of operations and of plans, as values: what decides about them needs no SQL. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from controller.core.planning.plan import Move

#: Fate of a move that has not begun.
PLANNED: Final = "planned"


class LaterRelease(Exception):
    """A row holds what this release does not know, so a later one has written it. what: of which the row is;
    why: what is not known."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__(f"a later release has stored {what}, and this one can't read it: {why}")


class OperationRow(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    kind: str
    cluster: str
    state: str
    actor: str
    reason: str | None
    request_id: str | None
    created_at_ms: int
    started_at_ms: int | None = None
    finished_at_ms: int | None = None
    deadline_at_ms: int
    body: Mapping[str, Any]
    revision: int = 0


class PlanRow(msgspec.Struct, frozen=True, kw_only=True):
    """A stored plan without its moves. body: the plan as JSON, `moves` left out. policies, approval: belong
    to the guardrails; None: not asked. operation_id: of the operation that carries it out, if any."""

    id: str
    cluster: str
    goal: str
    outcome: str
    content_hash: str
    actor: str
    reason: str | None
    request_id: str | None
    created_at_ms: int
    expires_at_ms: int
    moves: int
    bytes: int
    body: Mapping[str, Any]
    complete: bool = False
    policies: Any = None
    approval: Any = None
    operation_id: str | None = None


class MoveRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One move of a plan at its place. detail: why it has this fate, where that needs words."""

    position: int
    move: Move
    fate: str = PLANNED
    detail: str | None = None
    begun_at_ms: int | None = None
    ended_at_ms: int | None = None
