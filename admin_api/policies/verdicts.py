"""The answer to a plan that breaks a policy."""

from __future__ import annotations

from collections.abc import Sequence

from admin_api.problem import FieldProblem, ProblemError
from controller.policies.judging import breaches, say
from controller.policies.sandbox import Verdict


def check_verdicts(verdicts: Sequence[Verdict]) -> None:
    """Raise policy_violated if a verdict is against the plan."""
    detail = breaches(verdicts)
    if detail is None:
        return
    errors = tuple(
        FieldProblem(pointer=f"/policies/{place}", message=say(verdict))
        for place, verdict in enumerate(verdicts)
        if not verdict.ok
    )
    raise ProblemError("policy_violated", detail, errors=errors, facts={"policies": len(errors)})
