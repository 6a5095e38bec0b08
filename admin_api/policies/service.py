"""Writing and deleting policies, and the answer to a plan that breaks one. The route checks the role."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from admin_api.http.answers import Answer
from admin_api.http.conditions import Precondition
from admin_api.http.problems import FieldProblem, ProblemError
from admin_api.http.services import Services
from admin_api.http.writes import Attempt, first_revision
from admin_api.policies.models import PolicyTried, PutPolicy, VerdictView, policy_view
from controller.face.commands import Overloaded
from controller.face.plans import snapshot_of
from controller.face.policies import (
    POLICIES_MAX,
    BadPolicy,
    Facts,
    PolicyRow,
    Shape,
    Verdict,
    breaches,
    check_policy,
    delete_policy,
    get_policy,
    judge,
    list_policies,
    put_policy,
    say,
)


async def shape_of(services: Services, row: PolicyRow) -> Shape | None:
    """Return what a stored policy reads; None if this release does not take it. Preparing it may take
    seconds, so the loop does not."""
    try:
        return await services.database.compute(partial(check_policy, row.sql))
    except BadPolicy:
        return None


async def find_policy(services: Services, cluster: str, name: str) -> PolicyRow:
    """Return the policy; raise policy_not_found if it does not exist."""
    row = await services.database.read(get_policy, cluster=cluster, name=name)
    if row is None:
        raise ProblemError("policy_not_found", f"cluster {cluster!r} has no policy {name!r}")
    return row


async def write_policy(
    services: Services, cluster: str, name: str, attempt: Attempt, *, body: PutPolicy, condition: Precondition
) -> Answer:
    """Write the policy. Answer 201 for a new one, 200 for a replacement; for a dry run with its current
    verdict."""
    try:
        shape = await services.database.compute(partial(check_policy, body.sql))
    except BadPolicy as bad:
        field = FieldProblem(pointer="/sql", message=bad.detail)
        raise ProblemError(bad.fault.value, bad.detail, errors=(field,)) from None
    before = await services.database.read(get_policy, cluster=cluster, name=name)
    condition.check(None if before is None else str(before.revision), what=f"policy {name}")
    row = PolicyRow(
        cluster=cluster,
        name=name,
        sql=body.sql,
        description=body.description,
        actor=attempt.actor,
        reason=attempt.reason,
        created_at_ms=attempt.wall_ms if before is None else before.created_at_ms,
        updated_at_ms=attempt.wall_ms,
        revision=first_revision(attempt.seed) if before is None else before.revision + 1,
    )
    if attempt.dry_run:
        facts = Facts(snapshot=await snapshot_of(services.engine, services.database, cluster), plan=None)
        (verdict,) = await services.database.compute(partial(judge, [(name, body.sql)], facts))
        return Answer.of(200, PolicyTried(policy=policy_view(row, shape), verdict=VerdictView.of(verdict)))
    if not await services.database.write(put_policy, row=row, replaces=before):
        there = await services.database.read(list_policies, cluster=cluster)
        if before is None and len(there) >= POLICIES_MAX:
            raise ProblemError("too_many_policies", f"a cluster may have {POLICIES_MAX} policies")
        raise Overloaded("another request has written this policy at this moment")
    return Answer.of(
        201 if before is None else 200,
        policy_view(row, shape),
        version=str(row.revision),
        **({"Location": f"/clusters/{cluster}/policies/{name}"} if before is None else {}),
    )


async def remove_policy(
    services: Services, cluster: str, name: str, attempt: Attempt, *, condition: Precondition
) -> Answer:
    """Delete the policy and answer 204; for a dry run answer 200 with the policy that would be deleted."""
    row = await find_policy(services, cluster, name)
    condition.check(str(row.revision), what=f"policy {name}")
    if attempt.dry_run:
        return Answer.of(200, policy_view(row, await shape_of(services, row)))
    if not await services.database.write(delete_policy, row=row):
        raise Overloaded("another request has written this policy at this moment")
    return Answer(204, b"")


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
