"""What a write to a protected cluster has to bring: a reason, and the ETag of what it changes.

Whether a cluster is protected is a setting of its own (`cluster.protected`), in ZooKeeper with the cluster:
it holds under every controller, with SQL or without. Only an admin may change it.

Dry runs change nothing and are spared. So are operations: whoever wants to pause or cancel one is in a hurry,
and an operation that gets on changes its ETag all the time.
"""

from __future__ import annotations

from typing import Final

from starlette.types import Scope

from admin_api.conditions import CONDITION_SCOPE_KEY, IF_MATCH, Condition
from admin_api.problem import FieldProblem, ProblemError
from controller.core.configs import CLUSTER_PROTECTED
from controller.operations.shell.guarding import is_protected
from controller.shell.engine_port import EnginePort

#: Settings of a cluster that only an admin may change: the guardrails themselves.
ADMIN_SETTINGS: Final = frozenset({CLUSTER_PROTECTED})

_OPERATIONS_PREFIX: Final = "/operations/"


def check_write(engine: EnginePort, cluster: str, scope: Scope, *, reason: str | None) -> None:
    """Raises reason_required, precondition_required. Also of what does not exist: that is for later."""
    if not is_protected(engine, cluster):
        return
    if reason is None or not reason.strip():
        is_in_query = scope["method"] == "DELETE"
        field = FieldProblem(
            parameter="reason" if is_in_query else None,
            pointer=None if is_in_query else "/reason",
            message="is needed: the cluster is protected",
        )
        raise ProblemError("reason_required", f"cluster {cluster!r} is protected", errors=(field,))
    condition: Condition | None = scope.get(CONDITION_SCOPE_KEY)
    if (
        condition is not None
        and condition.header is None
        and not scope["path"].startswith(_OPERATIONS_PREFIX)
    ):
        field = FieldProblem(header=IF_MATCH, message="is needed: the cluster is protected")
        raise ProblemError("precondition_required", f"cluster {cluster!r} is protected", errors=(field,))


def check_is_planned(engine: EnginePort, cluster: str) -> None:
    """Raises approval_required: on a protected cluster nothing moves but what was planned and approved."""
    if is_protected(engine, cluster):
        raise ProblemError("approval_required", f"cluster {cluster!r} is protected")
