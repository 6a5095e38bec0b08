"""Conversion of a requested goal to the planner's goal."""

from __future__ import annotations

import hashlib
import json
from itertools import zip_longest
from typing import Any, assert_never

import msgspec

from admin_api.clusters.resilience import brokers_named
from admin_api.http.problems import FieldProblem, ProblemError
from admin_api.plans.models import (
    AssignGoal,
    DrainGoal,
    EvenOutGoal,
    GoalBody,
    MakePlan,
    RebalanceGoal,
    RelieveGoal,
    ReplaceGoal,
    ReplicationFactorGoal,
    SeparateGoal,
)
from controller.face.cluster import ClusterImage, ids_of
from controller.face.plans import (
    Assign,
    ChangeReplicationFactor,
    Drain,
    EvenOut,
    Goal,
    Measured,
    Rates,
    Rebalance,
    RebalanceMode,
    Relieve,
    Replace,
    SeparateReplicas,
    WantedAssignment,
    Weight,
)
from springtide.contract.partition_state import PartitionKey


def goal_of(body: GoalBody, image: ClusterImage) -> Goal:
    """Return the planner's goal. Names become ids here: a plan is about this topic, not a later one of the
    same name. The planner rejects what a broker or a partition can't do. Raises unknown_topic."""
    match body:
        case RebalanceGoal():
            target = body.disk_target_permille
            return Rebalance(
                mode=RebalanceMode(body.mode),
                new_broker_ids=_workers(image, body.new_broker_ids),
                disk_permille=msgspec.UNSET if target is None else target,
                drain_ids=_workers(image, body.drain_broker_ids) or msgspec.UNSET,
                floor_permille=10 * body.floor_percent or msgspec.UNSET,
                floor_bytes=body.floor_bytes or msgspec.UNSET,
            )
        case EvenOutGoal():
            return EvenOut(
                weights=tuple(dict.fromkeys(Weight(name) for name in body.weights)),
                target_permille=body.target_permille,
                bytes_max=body.bytes_max,
                moves_max=body.moves_max,
            )
        case RelieveGoal():
            return Relieve(broker_id=body.broker_id, used_percent=body.used_percent)
        case DrainGoal():
            return Drain(broker_ids=_workers(image, body.broker_ids))
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


def destinations_of(body: MakePlan, image: ClusterImage) -> tuple[int, ...] | None:
    """Return the brokers that replicas may come to, None for all. Names become ids here, as in goals. Raise
    unknown_broker."""
    chosen = body.destinations
    if chosen is None:
        return None
    included = brokers_named(image, chosen.include, "/destinations/include") or tuple(sorted(image.brokers))
    excluded = brokers_named(image, chosen.exclude, "/destinations/exclude")
    return tuple(broker_id for broker_id in included if broker_id not in excluded)


def measured_of(body: GoalBody, image: ClusterImage) -> Measured | None:
    """Return the measurements in the request. Raises unknown_topic, unknown_broker, invalid_request."""
    if not isinstance(body, EvenOutGoal) or body.measured is None:
        return None
    rates: dict[PartitionKey, Rates] = {}
    seen: set[str | int] = set()
    for place, measured in enumerate(body.measured.topics):
        topic_id, pointer = measured.topic_id, f"/goal/measured/topics/{place}"
        topic = image.topics.get(topic_id)
        if topic is None or topic.deleting:
            raise _refusal("unknown_topic", f"{pointer}/topic_id", f"there is no topic {topic_id!r}")
        _check_once(seen, topic_id, f"{pointer}/topic_id")
        for name, column in (("bytes_in", measured.bytes_in), ("bytes_out", measured.bytes_out)):
            if len(column) > topic.partitions:
                said = f"topic {topic.topic!r} has {topic.partitions} partitions"
                raise _refusal("invalid_request", f"{pointer}/{name}", said)
        for number, (bytes_in, bytes_out) in enumerate(
            zip_longest(measured.bytes_in, measured.bytes_out, fillvalue=0)
        ):
            rates[topic_id, number] = Rates(bytes_in, bytes_out)
    for place, broker in enumerate(body.measured.brokers):
        pointer = f"/goal/measured/brokers/{place}/broker_id"
        if broker.broker_id not in image.brokers:
            raise _refusal("unknown_broker", pointer, f"there is no broker {broker.broker_id}")
        _check_once(seen, broker.broker_id, pointer)
    return Measured(
        rates if body.measured.topics else None,
        {broker.broker_id: broker.room_bytes for broker in body.measured.brokers},
    )


def _check_once(seen: set[str | int], name: str | int, pointer: str) -> None:
    if name in seen:
        raise _refusal("invalid_request", pointer, f"{name} is named twice")
    seen.add(name)


def _refusal(code: str, pointer: str, message: str) -> ProblemError:
    return ProblemError(code, message, errors=(FieldProblem(pointer=pointer, message=message),))


def recorded(body: MakePlan) -> dict[str, Any]:
    """Return the request as the audit keeps it: measurements as their SHA-256."""
    asked = body.model_dump(mode="json")
    if asked["goal"].get("measured") is not None:
        said = json.dumps(asked["goal"]["measured"], sort_keys=True, separators=(",", ":"))
        asked["goal"]["measured"] = {"sha256": hashlib.sha256(said.encode()).hexdigest()}
    return asked


def _workers(image: ClusterImage, broker_ids: list[int]) -> tuple[int, ...]:
    """Return each once, and for a broker all its workers."""
    return tuple(dict.fromkeys(worker for broker_id in broker_ids for worker in ids_of(image, broker_id)))


def _topic_id(image: ClusterImage, name: str, pointer: str) -> str:
    topic = image.topic_named(name)
    if topic is None or topic.deleting:
        raise _refusal("unknown_topic", pointer, f"there is no topic {name!r}")
    return topic.topic_id
