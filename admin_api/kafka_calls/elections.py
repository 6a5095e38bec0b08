"""ElectLeaders. An unclean election chooses, of the live replicas that reported how far their logs go, the
one that loses least. Kafka's request names no broker, and Kafka's own rule takes the first replica that is
alive."""

from __future__ import annotations

from functools import partial

from admin_api.http.answers import Answer
from admin_api.http.problems import ProblemError, refusal_problem
from admin_api.http.rights import CHANGE_PROTECTION
from admin_api.http.writes import Asked, Attempt
from admin_api.kafka_calls.calls import UNCONDITIONAL, Calls, Kafka, failed, message_of, outcome_of_problem
from admin_api.partitions import elections
from admin_api.partitions.models import ElectUncleanLeader
from controller.face.cluster import Entity
from controller.face.commands import PartitionResult, Refusal, RefusalCode
from controller.face.operations import Refused
from springtide.contract.administration import AdminOutcome, ElectLeadersCall
from springtide.contract.partition_state import PartitionKey

UNCLEAN_REASON = "ElectLeaders UNCLEAN over the Kafka protocol"

Named = tuple[str, int]


async def elect_leaders(calls: Calls, call: ElectLeadersCall) -> list[AdminOutcome]:
    image = calls.services.engine.cluster(calls.cluster).image
    if call.partitions is None:
        keys = sorted(image.leaderless if call.unclean else image.not_preferred)
        named = [(image.topics[topic_id].topic, number) for topic_id, number in keys]
    else:
        named = list(dict.fromkeys(call.partitions))
    if call.unclean:
        found = {one: await _elect_unclean(calls, *one) for one in named}
    else:
        found = await _elect_preferred(calls, named)
    chosen = named if call.partitions is None else call.partitions
    return [
        AdminOutcome(
            error_code=found[one].error_code, message=found[one].message, topic=one[0], partition=one[1]
        )
        for one in chosen
    ]


async def _elect_preferred(calls: Calls, named: list[Named]) -> dict[Named, AdminOutcome]:
    image = calls.services.engine.cluster(calls.cluster).image
    keys: dict[PartitionKey, Named] = {}
    outcomes: dict[Named, AdminOutcome] = {}
    for name, number in named:
        topic = image.topic_named(name)
        if topic is None or (topic.topic_id, number) not in image.partitions:
            outcomes[name, number] = _unknown(name, number)
        else:
            keys[topic.topic_id, number] = (name, number)
    if not keys:
        return outcomes
    refused = [
        Refused(topic=name, partition=number, code="partition_not_found", detail="there is no such partition")
        for name, number in outcomes
    ]
    results: tuple[PartitionResult, ...] = ()

    async def elect(attempt: Attempt) -> Answer:
        nonlocal results
        answer, results = await elections.elect_each(
            calls.services, calls.cluster, attempt, keys=list(keys), refused=refused
        )
        return answer

    asked = Asked(
        cluster=calls.cluster,
        action="elect_preferred_leaders",
        body={"partitions": [{"topic": name, "partition": number} for name, number in keys.values()]},
        is_operation=True,
    )
    _, whole = await calls.carry_out(asked, elect)
    if whole.error_code:
        return outcomes | dict.fromkeys(keys.values(), whole)
    for result in results:
        name_and_number = keys[result.topic_id, result.partition]
        outcomes[name_and_number] = (
            AdminOutcome() if result.refusal is None else _preferred_refused(result.refusal)
        )
    return outcomes


def _preferred_refused(refusal: Refusal) -> AdminOutcome:
    if refusal.code is RefusalCode.INELIGIBLE_BROKER:
        return failed(Kafka.PREFERRED_LEADER_NOT_AVAILABLE, message_of(refusal))
    return outcome_of_problem(refusal_problem(refusal))


async def _elect_unclean(calls: Calls, name: str, number: int) -> AdminOutcome:
    view = calls.services.engine.cluster(calls.cluster)
    topic = view.image.topic_named(name)
    if topic is None or (topic.topic_id, number) not in view.image.partitions:
        return _unknown(name, number)
    loss = view.loss_preview((topic.topic_id, number))
    if loss is None:
        return failed(Kafka.ELECTION_NOT_NEEDED, f"{name}-{number} has a leader")
    chosen = loss.least
    if chosen is None:
        return failed(
            Kafka.ELIGIBLE_LEADERS_NOT_AVAILABLE,
            f"no live replica of {name}-{number} has reported the end of its log",
        )
    writing = calls.writing(False)
    try:
        writing.need(CHANGE_PROTECTION)
    except ProblemError as problem:
        return outcome_of_problem(problem)
    body = ElectUncleanLeader(
        election="unclean",
        broker_id=chosen.broker_id,
        partition_epoch=loss.partition_epoch,
        lost_records_max=chosen.lost_records,
        reason=UNCLEAN_REASON,
    )
    asked = Asked(
        cluster=calls.cluster,
        action="elect_leader_unclean",
        entity=Entity.PARTITION,
        entity_id=f"{name}/{number}",
        body=body.model_dump(mode="json"),
        topic=name,
        partition=number,
        brokers=(chosen.broker_id,),
        is_operation=True,
    )
    elect = partial(
        elections.elect_leader,
        calls.services,
        calls.cluster,
        name,
        number,
        body=body,
        condition=UNCONDITIONAL,
    )
    _, outcome = await calls.carry_out(asked, elect)
    return outcome


def _unknown(name: str, number: int) -> AdminOutcome:
    return failed(Kafka.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {name}-{number}")
