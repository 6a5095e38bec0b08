"""AlterPartitionReassignments: one operation follows the moves, as for moves that began over REST."""

from __future__ import annotations

from collections.abc import Sequence

from admin_api.http.answers import Answer
from admin_api.http.problems import refusal_problem
from admin_api.http.writes import Asked, Attempt
from admin_api.kafka_calls.calls import Calls, Kafka, failed, outcome_of_problem
from admin_api.reassignments.service import assign_each
from controller.face.cluster import ClusterImage
from controller.face.commands import PartitionResult, ReassignmentTarget
from springtide.contract.administration import AdminOutcome, AlterReassignmentsCall, ReassignmentWish
from springtide.contract.partition_state import TopicState


async def alter_reassignments(calls: Calls, call: AlterReassignmentsCall) -> list[AdminOutcome]:
    """Carry out the moves and cancellations. They are two requests in the audit: only the moves have an
    operation."""
    outcomes: list[AdminOutcome | None] = [None] * len(call.partitions)
    image = calls.services.engine.cluster(calls.cluster).image
    seen: set[tuple[str, int]] = set()
    moves: list[tuple[int, ReassignmentTarget]] = []
    cancellations: list[tuple[int, ReassignmentTarget]] = []
    for place, wish in enumerate(call.partitions):
        topic = image.topic_named(wish.topic)
        if topic is None or not 0 <= wish.partition < topic.partitions:
            outcomes[place] = failed(
                Kafka.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {wish.topic}-{wish.partition}"
            )
        elif (wish.topic, wish.partition) in seen:
            outcomes[place] = failed(Kafka.INVALID_REQUEST, f"{wish.topic}-{wish.partition} is named twice")
        elif not call.may_change_factor and (problem := _factor_change(image, topic, wish)) is not None:
            outcomes[place] = failed(Kafka.INVALID_REPLICATION_FACTOR, problem)
        else:
            seen.add((wish.topic, wish.partition))
            target = ReassignmentTarget(
                topic_id=topic.topic_id, partition=wish.partition, replicas=wish.replicas
            )
            (cancellations if wish.replicas is None else moves).append((place, target))
    for named, action in ((moves, "assign_partitions"), (cancellations, "cancel_reassignments")):
        if named:
            wishes = [call.partitions[place] for place, _ in named]
            told = await _alter(calls, action, wishes, [target for _, target in named])
            for (place, _), outcome in zip(named, told, strict=True):
                outcomes[place] = outcome
    return [outcome for outcome in outcomes if outcome is not None]


def _factor_change(image: ClusterImage, topic: TopicState, wish: ReassignmentWish) -> str | None:
    state = image.partitions.get((topic.topic_id, wish.partition))
    if state is None or wish.replicas is None:
        return None
    before = len(state.replicas) - len(state.removing_replicas)
    if len(wish.replicas) == before:
        return None
    return f"the replication factor of {wish.topic}-{wish.partition} is {before}, not {len(wish.replicas)}"


async def _alter(
    calls: Calls, action: str, wishes: Sequence[ReassignmentWish], targets: Sequence[ReassignmentTarget]
) -> list[AdminOutcome]:
    results: tuple[PartitionResult, ...] = ()

    async def service(attempt: Attempt) -> Answer:
        nonlocal results
        results = await assign_each(calls.services, calls.cluster, attempt, targets=targets)
        refused = sum(result.refusal is not None for result in results)
        detail = f"{refused} of {len(results)} partitions were refused" if refused else None
        return Answer(200, b"{}", detail=detail)

    asked = Asked(
        cluster=calls.cluster,
        action=action,
        body={
            "partitions": [
                {"topic": wish.topic, "partition": wish.partition, "replicas": wish.replicas}
                for wish in wishes
            ]
        },
        brokers=tuple(sorted({broker for wish in wishes for broker in wish.replicas or ()})),
        is_operation=action == "assign_partitions",
    )
    _, outcome = await calls.carry_out(asked, service)
    if outcome.error_code:
        return [outcome] * len(wishes)
    return [
        AdminOutcome() if result.refusal is None else outcome_of_problem(refusal_problem(result.refusal))
        for result in results
    ]
