"""CreateTopics, DeleteTopics, DeleteRecords and CreatePartitions, topic by topic."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Final

import msgspec
from pydantic import ValidationError

from admin_api.http.answers import Answer
from admin_api.http.services import Services
from admin_api.http.writes import Asked, Attempt
from admin_api.kafka_calls.calls import UNCONDITIONAL, Calls, Kafka, failed, outcome_of_invalid
from admin_api.kafka_calls.configs import described_topic
from admin_api.partitions.record_deletions import deletion_permit
from admin_api.topics import service
from admin_api.topics.models import ChangeTopic, NewTopic
from admin_api.topics.names import NAME_WAIT_MS, until_free
from admin_api.topics.serving import until_serving
from controller.face.cluster import Entity
from controller.face.commands import NotInForce
from controller.face.policies import is_protected
from springtide.contract.administration import (
    AdminOutcome,
    CreatedTopic,
    CreatePartitionsCall,
    CreateTopicsCall,
    DeleteRecordsCall,
    DeleteTopicsCall,
    PartitionsToCreate,
    RecordsToDelete,
    TopicToCreate,
    TopicToDelete,
)
from springtide.contract.partition_state import TopicState

FIRST_USE_REASON: Final = "first use"


async def create_topics(calls: Calls, call: CreateTopicsCall) -> list[AdminOutcome]:
    """Create all topics, then wait until clients can use them, or for as long as the client waits."""
    if call.on_first_use and is_protected(calls.services.engine, calls.cluster):
        # The reason that a protected cluster wants is a person's.
        refusal = failed(Kafka.POLICY_VIOLATION, "the cluster is protected: make the topic, with a reason")
        return [refusal] * len(call.topics)
    names = [topic.name for topic in call.topics]
    until_ms = calls.services.clock.now_mono_ms() + call.wait_ms
    if not call.validate_only:
        # Once for all: each creation that follows would wait for its own.
        await until_free(calls.services, calls.cluster, names, NAME_WAIT_MS)
    reason = FIRST_USE_REASON if call.on_first_use else None
    outcomes = [
        await _create(calls, topic, reason=reason, dry_run=call.validate_only) for topic in call.topics
    ]
    if not call.validate_only and call.wait_ms:
        return await _once_serving(calls, names, outcomes, until_ms)
    return outcomes


async def _once_serving(
    calls: Calls, names: Sequence[str], outcomes: list[AdminOutcome], until_ms: int
) -> list[AdminOutcome]:
    """Wait until clients can use the topics that were made, or made larger. Return the outcomes, with
    REQUEST_TIMED_OUT for these if that takes longer: they are stored, and go on being made."""
    made = {name for name, outcome in zip(names, outcomes, strict=True) if not outcome.error_code}
    image = calls.services.engine.cluster(calls.cluster).image
    ids = [state.topic_id for name in names if name in made and (state := image.topic_named(name))]
    if not ids:
        return outcomes
    wait_ms = until_ms - calls.services.clock.now_mono_ms()
    try:
        await until_serving(calls.services, calls.cluster, ids, wait_ms)
    except NotInForce as late:
        return [
            failed(Kafka.REQUEST_TIMED_OUT, f"{name!r} is still being created: {late}")
            if name in made
            else each
            for name, each in zip(names, outcomes, strict=True)
        ]
    return outcomes


async def _create(calls: Calls, topic: TopicToCreate, *, reason: str | None, dry_run: bool) -> AdminOutcome:
    try:
        body = NewTopic.model_validate(
            {
                "name": topic.name,
                # -1: the cluster's default, or the number in the assignments.
                "partitions": None if topic.partitions == -1 else topic.partitions,
                "replication_factor": None if topic.replication_factor == -1 else topic.replication_factor,
                "assignments": topic.assignments and [list(row) for row in topic.assignments],
                "configs": topic.configs,
                "reason": reason,
            }
        )
    except ValidationError as error:
        return outcome_of_invalid(error)
    asked = service.creation_of(calls.cluster, body)
    answer, outcome = await calls.carry_out(
        asked, partial(service.create_topic, calls.services, calls.cluster, body), dry_run=dry_run
    )
    if outcome.error_code:
        return outcome
    shown = json.loads(answer.body)
    view = shown["topic"] if dry_run else shown
    state = TopicState(
        topic_id="" if dry_run else view["topic_id"],
        topic=topic.name,
        partitions=view["partitions"],
        replication_factor=view["replication_factor"],
        configs=view["configs"],
    )
    created = CreatedTopic(
        topic_id=state.topic_id or None,
        partitions=state.partitions,
        replication_factor=state.replication_factor,
    )
    return AdminOutcome(created=created, configs=described_topic(calls, state))


async def delete_topics(calls: Calls, call: DeleteTopicsCall) -> list[AdminOutcome]:
    """Begin all deletions, then wait until all names are free: a client may use them when it is answered. One
    that was begun before is waited for, too."""
    outcomes = [await _delete(calls, topic) for topic in call.topics]
    gone = {outcome.topic for outcome in outcomes if outcome.error_code in _GONE and outcome.topic}
    if await until_free(calls.services, calls.cluster, gone, NAME_WAIT_MS):
        return outcomes
    held = calls.services.engine.cluster(calls.cluster).image.held_names
    return [_late(each) if each.topic in gone and each.topic in held else each for each in outcomes]


_GONE = (0, Kafka.UNKNOWN_TOPIC_OR_PARTITION)


def _late(outcome: AdminOutcome) -> AdminOutcome:
    """The deletion has begun, and goes on."""
    late = failed(
        Kafka.REQUEST_TIMED_OUT,
        f"{outcome.topic!r} is being deleted, but not all of its leaders are known to have stopped",
    )
    return msgspec.structs.replace(late, topic=outcome.topic, topic_id=outcome.topic_id)


async def _delete(calls: Calls, topic: TopicToDelete) -> AdminOutcome:
    image = calls.services.engine.cluster(calls.cluster).image
    name = topic.name
    state = image.topics.get(topic.topic_id or "") if name is None else image.topic_named(name)
    if name is None:
        if state is None or state.deleting:
            return failed(Kafka.UNKNOWN_TOPIC_ID, "there is no topic of this id")
        name = state.topic
    asked = service.deletion_of(calls.cluster, name)
    _, outcome = await calls.carry_out(asked, partial(_begin_deletion, calls, name))
    topic_id = None if state is None or outcome.error_code else state.topic_id
    return AdminOutcome(error_code=outcome.error_code, message=outcome.message, topic=name, topic_id=topic_id)


async def _begin_deletion(calls: Calls, name: str, attempt: Attempt) -> Answer:
    return await service.delete_topic(calls.services, calls.cluster, name, UNCONDITIONAL, attempt, wait_ms=0)


async def delete_records(calls: Calls, call: DeleteRecordsCall) -> list[AdminOutcome]:
    return [
        AdminOutcome()
        if is_permitted(calls.services, calls.cluster, records)
        else await _permit_deletion(calls, records)
        for records in call.topics
    ]


def is_permitted(services: Services, cluster: str, records: RecordsToDelete) -> bool:
    """Return whether an operator's request, which is in the audit, is just being carried out by this."""
    return all(
        deletion_permit(cluster, (records.topic, each.partition), each.before_offset) in services.permits
        for each in records.partitions
    )


async def _permit_deletion(calls: Calls, records: RecordsToDelete) -> AdminOutcome:
    """Write down what the broker that asks is about to delete. The broker itself tells the client whether
    every replica followed."""
    asked = Asked(
        cluster=calls.cluster,
        action="delete_records",
        entity=Entity.TOPIC,
        entity_id=records.topic,
        body={"before_offsets": {str(each.partition): each.before_offset for each in records.partitions}},
        topic=records.topic,
    )

    async def permit(attempt: Attempt) -> Answer:
        service.find_topic(calls.services.engine.cluster(calls.cluster), calls.cluster, records.topic)
        return Answer(204, b"", detail="permitted; the leader deletes")

    _, outcome = await calls.carry_out(asked, permit)
    return outcome


async def create_partitions(calls: Calls, call: CreatePartitionsCall) -> list[AdminOutcome]:
    until_ms = calls.services.clock.now_mono_ms() + call.wait_ms
    outcomes = [await _grow(calls, topic, dry_run=call.validate_only) for topic in call.topics]
    if not call.validate_only and call.wait_ms:
        names = [topic.topic for topic in call.topics]
        return await _once_serving(calls, names, outcomes, until_ms)
    return outcomes


async def _grow(calls: Calls, topic: PartitionsToCreate, *, dry_run: bool) -> AdminOutcome:
    try:
        body = ChangeTopic.model_validate(
            {
                "partitions": topic.count,
                "assignments": topic.assignments and [list(row) for row in topic.assignments],
            }
        )
    except ValidationError as error:
        return outcome_of_invalid(error)
    asked = service.change_of(calls.cluster, topic.topic, body)
    grow = partial(
        service.add_partitions,
        calls.services,
        calls.cluster,
        topic.topic,
        body=body,
        condition=UNCONDITIONAL,
    )
    _, outcome = await calls.carry_out(asked, grow, dry_run=dry_run)
    return outcome
