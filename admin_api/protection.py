"""Requirements of a write to a protected cluster: a reason, and the ETag of the resource that it changes.

The protection is a setting of the cluster (`cluster.protected`), stored in ZooKeeper with the cluster: it
holds under every controller, with or without SQL. Only an admin may change it.

Dry runs are exempt because they change nothing. Operations are exempt, too: an operator who pauses or cancels
one is in a hurry, and a running operation changes its ETag all the time.
"""

from __future__ import annotations

from typing import Final

from starlette.types import Scope

from admin_api.conditions import CONDITION_SCOPE_KEY, IF_MATCH, Condition
from admin_api.problem import FieldProblem, ProblemError
from controller.core.configs import CLUSTER_PROTECTED
from controller.operations.shell.guarding import is_protected
from controller.shell.engine_port import EnginePort

#: Settings of a cluster that only an admin may change: those that protect it.
ADMIN_SETTINGS: Final = frozenset({CLUSTER_PROTECTED})

_OPERATIONS_PREFIX: Final = "/operations/"


def check_write(engine: EnginePort, cluster: str, scope: Scope, *, reason: str | None) -> None:
    """Raise reason_required or precondition_required if the write lacks them. The resource need not exist; a
    later check finds that."""
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
    """Raise approval_required if the cluster is protected: only planned and approved moves are allowed
    there."""
    if is_protected(engine, cluster):
        raise ProblemError("approval_required", f"cluster {cluster!r} is protected")
