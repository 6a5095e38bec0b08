"""From a goal as it is asked for to the planner's."""

from __future__ import annotations

from typing import assert_never

from admin_api.plans.models import (
    AssignGoal,
    DrainGoal,
    GoalBody,
    RebalanceGoal,
    ReplaceGoal,
    ReplicationFactorGoal,
    SeparateGoal,
)
from admin_api.problem import FieldProblem, ProblemError
from controller.core.image import ClusterImage
from controller.core.planning.goals import (
    Assign,
    ChangeReplicationFactor,
    Drain,
    Goal,
    Rebalance,
    RebalanceMode,
    Replace,
    SeparateReplicas,
    WantedAssignment,
)


def goal_of(body: GoalBody, image: ClusterImage) -> Goal:
    """Names become ids here: a plan is about this topic and no later one of the name. What a broker or a
    partition can't do is the planner's to say. Raises unknown_topic."""
    match body:
        case RebalanceGoal():
            return Rebalance(mode=RebalanceMode(body.mode), new_broker_ids=_distinct(body.new_broker_ids))
        case DrainGoal():
            return Drain(broker_ids=_distinct(body.broker_ids))
        case ReplaceGoal():
            return Replace(broker_id=body.broker_id, replacement=body.replacement)
        case ReplicationFactorGoal():
            topic_id = _topic_id(image, body.topic, "/goal/topic")
            return ChangeReplicationFactor(topic_id=topic_id, replication_factor=body.replication_factor)
        case SeparateGoal():
            return SeparateReplicas()
        case AssignGoal():
            return Assign(
                assignments=tuple(
                    WantedAssignment(
                        topic_id=_topic_id(image, wanted.topic, f"/goal/assignments/{place}/topic"),
                        partition=wanted.partition,
                        replicas=tuple(wanted.replicas),
                    )
                    for place, wanted in enumerate(body.assignments)
                )
            )
        case _:
            assert_never(body)


def _distinct(broker_ids: list[int]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(broker_ids))


def _topic_id(image: ClusterImage, name: str, pointer: str) -> str:
    topic = image.topic_named(name)
    if topic is None or topic.deleting:
        field = FieldProblem(pointer=pointer, message=f"there is no topic {name!r}")
        raise ProblemError("unknown_topic", field.message, errors=(field,))
    return topic.topic_id
