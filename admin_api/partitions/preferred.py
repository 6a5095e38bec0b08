"""Elections of the preferred leaders of many partitions, each alone."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from admin_api.answers import Answer
from admin_api.operations.opening import opened
from admin_api.operations.views import RefusedView, accepted
from admin_api.partitions.models import ElectedView, ElectPreferredLeaders, PreferredElectionPlan
from admin_api.problem import FieldProblem, ProblemError
from admin_api.services import Services
from admin_api.topics.service import find_topic
from admin_api.writes import Attempt
from controller.contract.partition_state import PartitionKey, PartitionState
from controller.core import events
from controller.operations.model import (
    REFUSED_SHOWN,
    OperationError,
    OperationState,
    PreferredElection,
    Refused,
    Step,
    StepState,
    Work,
)
from controller.shell.published import Published


async def elect_preferred_leaders(
    services: Services, cluster: str, attempt: Attempt, *, body: ElectPreferredLeaders
) -> Answer:
    """Elect the leaders and answer 202 with an operation that has ended. It has failed if some preferred
    replica could not lead. A partition that already has its preferred leader is not a failure."""
    keys, refused = _chosen(services.engine.image(cluster), cluster, body)
    answer, _ = await elect_each(services, cluster, attempt, keys=keys, refused=refused)
    return answer


async def elect_each(
    services: Services,
    cluster: str,
    attempt: Attempt,
    *,
    keys: Sequence[PartitionKey],
    refused: list[Refused],
) -> tuple[Answer, tuple[events.PartitionResult, ...]]:
    """Elect the leaders of these partitions and return the answer and each one's result. refused: partitions
    that were also named and do not exist."""
    engine = services.engine
    view = engine.image(cluster)
    reply = await engine.submit(
        cluster,
        events.ElectPreferredLeaders(
            wall_ms=attempt.wall_ms,
            actor=attempt.actor,
            reason=attempt.reason,
            request_id=attempt.request_id,
            operation_id=None if attempt.dry_run else attempt.operation_id,
            dry_run=attempt.dry_run,
            partitions=tuple(keys),
        ),
    )
    assert isinstance(reply, events.PreferredLeadersElected)
    elected: list[PartitionState] = []
    for result in reply.results:
        if result.refusal is None:
            assert result.state is not None
            elected.append(result.state)
        elif result.refusal.code is not events.RefusalCode.ELECTION_NOT_NEEDED:
            topic = view.image.topics[result.topic_id].topic
            code, detail = result.refusal.code.value, result.refusal.detail
            refused.append(Refused(topic=topic, partition=result.partition, code=code, detail=detail))
    if attempt.dry_run:
        return _plan(elected, refused), reply.results
    state = OperationState.FAILED if refused else OperationState.SUCCEEDED
    row = opened(services, cluster, attempt, _finished(len(elected), refused), state)
    await services.operations.follow(row)
    return accepted(row, retry_after_s=services.settings.retry_after_s), reply.results


def _chosen(
    view: Published, cluster: str, body: ElectPreferredLeaders
) -> tuple[list[PartitionKey], list[Refused]]:
    """Return the partitions to elect leaders for, and the named partitions that do not exist."""
    if body.topics is not None and body.partitions is not None:
        field = FieldProblem(pointer="/partitions", message="can't be given together with topics")
        raise ProblemError("invalid_request", f"partitions: {field.message}", errors=(field,))
    image = view.image
    if body.partitions is None:
        if body.topics is None:
            return sorted(image.not_preferred), []
        ids = {find_topic(view, cluster, name).topic_id for name in body.topics}
        return sorted(key for key in image.not_preferred if key[0] in ids), []
    keys: dict[PartitionKey, None] = {}
    refused: list[Refused] = []
    for named in body.partitions:
        topic = image.topic_named(named.topic)
        if topic is None or named.partition >= topic.partitions:
            code = "topic_not_found" if topic is None else "partition_not_found"
            detail = f"there is no partition {named.topic}-{named.partition}"
            refused.append(Refused(topic=named.topic, partition=named.partition, code=code, detail=detail))
        else:
            keys[topic.topic_id, named.partition] = None
    return list(keys), refused


def _finished(elected: int, refused: Sequence[Refused]) -> Work:
    step = Step(name="elect", state=StepState.FAILED if refused else StepState.SUCCEEDED)
    work = Work(
        spec=PreferredElection(elected=elected, refused=len(refused)),
        steps=(step,),
        refused=tuple(refused[:REFUSED_SHOWN]),
        summary=f"{elected} partitions have their preferred leader back" if elected else "nobody was elected",
    )
    if not refused:
        return work
    first = refused[0]
    more = f", and {len(refused) - 1} more" if len(refused) > 1 else ""
    detail = f"{len(refused)} were refused: {first.topic}-{first.partition}: {first.detail}{more}"
    return msgspec.structs.replace(work, error=OperationError(code="elections_refused", detail=detail))


def _plan(elected: Sequence[PartitionState], refused: Sequence[Refused]) -> Answer:
    plan = PreferredElectionPlan(
        elected=[
            ElectedView(
                topic=state.topic,
                partition=state.partition,
                leader=state.leader,
                leader_epoch=state.leader_epoch,
            )
            for state in elected[:REFUSED_SHOWN]
        ],
        refused=[RefusedView(**msgspec.structs.asdict(item)) for item in refused[:REFUSED_SHOWN]],
    )
    return Answer.of(200, plan)
