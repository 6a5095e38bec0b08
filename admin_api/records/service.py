"""A look at records: who may, which leaders are asked, and what the audit keeps of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from fastapi import Request, Response
from msgspec import structs

from admin_api.http.answers import Answer, respond
from admin_api.http.guard import check_reading
from admin_api.http.problems import FieldProblem, ProblemError
from admin_api.http.services import Caller, Services
from admin_api.partitions.service import find_partition
from admin_api.records.room.questions import (
    PARTITIONS_MAX,
    AskedLog,
    LookRefusal,
    LookSummary,
    RecordLook,
)
from admin_api.records.rooms import RoomLost, Rooms, TooManyLooks
from admin_api.topics.service import find_topic
from controller.face.cluster import Entity, KnownCluster
from controller.face.commands import NotActive
from controller.face.history import AuditedOutcome, Intent, RequestOutcome, append_intent, append_outcome
from controller.face.surroundings import speaks_tls
from springtide.contract.partition_state import PartitionState, TopicState

ACTION: Final = "read_records"
RETRY_AFTER_S: Final = 2
#: Two numbers of a partition, PARTITIONS_MAX times.
POSITION_PATTERN: Final = r"^[0-9]{1,10}-[0-9]{1,19}(\.[0-9]{1,10}-[0-9]{1,19}){0,255}$"
_PLACE: Final = re.compile(r"([0-9]+)-([0-9]+)")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a look begins: in all partitions or one. at_ms: as in RecordLook. position: of an earlier
    answer."""

    partition: int | None
    at_ms: int | None = None
    offset: int | None = None
    position: str | None = None


async def look(
    request: Request,
    services: Services,
    caller: Caller,
    cluster: str,
    asked: RecordLook,
    place: Place,
) -> Response:
    """Read records and answer with them, once the look is in the audit. asked: its limits and filters. Raise
    forbidden before anything is read."""
    engine = services.engine
    rooms: Rooms = request.app.state.rooms
    if engine.role != "active":  # ACLs that were taken away are known there first
        raise NotActive(engine.leadership.elsewhere)
    view = engine.cluster(cluster)
    check_reading(request, cluster, asked.topic)
    topic = find_topic(view, cluster, asked.topic)
    wanted = _wanted(topic, place)
    logs = _logs(view, cluster, asked.topic, wanted)
    question = structs.replace(asked, topic_id=topic.topic_id, logs=logs, at_ms=place.at_ms)
    try:
        with rooms.turn():
            audit_id = await _write_down(services, caller, cluster, question, place)
            return await _read(
                request, services, rooms, question, audit_id, has_tls=speaks_tls(view.published)
            )
    except TooManyLooks:
        raise ProblemError(
            "too_many_looks",
            "other looks at records are under way",
            headers={"Retry-After": str(RETRY_AFTER_S)},
        ) from None


async def _read(
    request: Request,
    services: Services,
    rooms: Rooms,
    question: RecordLook,
    audit_id: int,
    *,
    has_tls: bool,
) -> Response:
    refused: ProblemError | None = None
    body, detail = b"", ""
    try:
        summary, body = await rooms.look(question, has_tls=has_tls)
        refused = _refusal(summary)
        detail = (
            f"{summary.records} records of {summary.bytes} bytes; "
            f"{summary.scanned_records} looked at; stopped by {summary.stopped}"
        )
    except RoomLost as error:
        refused = ProblemError("look_failed", str(error))
    outcome = AuditedOutcome(
        audit_id=audit_id,
        outcome=RequestOutcome.SUCCEEDED if refused is None else RequestOutcome.REFUSED,
        code=None if refused is None else refused.code,
        detail=detail if refused is None else refused.detail,
        at_ms=services.clock.now_wall_ms(),
    )
    # Not by the outbox, which may be late: what is not written down is not shown.
    await services.database.write(append_outcome, outcome=outcome)
    if refused is not None:
        raise refused
    return respond(request, Answer(200, body, {"Cache-Control": "no-store"}))


def _wanted(topic: TopicState, place: Place) -> dict[int, int | None]:
    """Return the partitions to look at, each with the offset to begin at, where one is given. Raise
    invalid_request."""
    wanted: dict[int, int | None]
    if place.position is not None:
        wanted = {int(found[1]): int(found[2]) for found in _PLACE.finditer(place.position)}
    elif place.partition is not None:
        wanted = {place.partition: place.offset}
    else:
        wanted = dict.fromkeys(range(topic.partitions))
    if len(wanted) > PARTITIONS_MAX:
        message = f"is needed: the topic has {len(wanted)} partitions, and one look is at {PARTITIONS_MAX}"
        field = FieldProblem(parameter="partition", message=message, limit=PARTITIONS_MAX)
        raise ProblemError("invalid_request", f"partition {message}", errors=(field,))
    return wanted


def _logs(
    view: KnownCluster, cluster: str, topic: str, wanted: dict[int, int | None]
) -> tuple[AskedLog, ...]:
    """Return the partitions with their leaders' addresses; one that has none is without a host."""
    states = {number: find_partition(view, cluster, topic, number) for number in wanted}
    return tuple(_log(view, states[number], offset) for number, offset in wanted.items())


def _log(view: KnownCluster, state: PartitionState, offset: int | None) -> AskedLog:
    leader = view.image.brokers.get(state.leader)
    host, port = ("", 0) if leader is None else (leader.host, leader.port)
    return AskedLog(state.partition, host, port, offset)


async def _write_down(
    services: Services,
    caller: Caller,
    cluster: str,
    question: RecordLook,
    place: Place,
) -> int:
    """Write who looks at what, before anything is read; return the row's id. Keys and values stay out of it:
    the filters are the asker's own words."""
    body: dict[str, Any] = {
        "partitions": [log.partition for log in question.logs],
        "offsets": {str(log.partition): log.offset for log in question.logs if log.offset is not None},
        "at_ms": question.at_ms,
        "newest": question.is_newest,
        "key_filter": question.key,
        "value_filter": question.value,
        "ignore_case": question.ignore_case,
        "limit": question.limit,
        "bytes_max": question.bytes_max,
    }
    now_ms = services.clock.now_wall_ms()
    intent = Intent(
        cluster=cluster,
        action=ACTION,
        entity=Entity.TOPIC,
        entity_id=question.topic,
        actor=caller.actor,
        reason=None,
        request_id=caller.request_id,
        at_ms=now_ms,
        body=body,
        topic=question.topic,
        partition=place.partition,
    )
    return await services.database.write(append_intent, intent=intent, recorded_at_ms=now_ms)


def _refusal(summary: LookSummary) -> ProblemError | None:
    match summary.refused:
        case None:
            return None
        case LookRefusal.OFFSET:
            facts = {
                name: getattr(summary, name) for name in ("partition", "log_start_offset", "log_end_offset")
            }
            return ProblemError(summary.refused, summary.detail, facts=facts)
        case _:
            return ProblemError(summary.refused, summary.detail)
