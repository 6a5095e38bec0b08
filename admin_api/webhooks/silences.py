"""/clusters/{cluster}/silences: alarms of which webhooks are told nothing for a time, and why."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Path, Request, Response
from pydantic import ConfigDict, Field, StringConstraints

from admin_api.http.answers import REPLAYED_HEADERS, Answer, show
from admin_api.http.models import (
    INT64_MAX,
    BrokerId,
    ClusterPath,
    PartitionNumber,
    ReasonQuery,
    RequestBody,
    SilenceMark,
    TopicName,
    ViewList,
    timestamp,
)
from admin_api.http.paging import Paged
from admin_api.http.problems import WRITE_PROBLEMS, FieldProblem, ProblemError, problems
from admin_api.http.routes import StrictRoute
from admin_api.http.services import Services, Serving
from admin_api.http.writes import Asked, Attempt, Write
from controller.face.webhooks import (
    SILENCE_MS_MAX,
    SILENCES_MAX,
    AlarmCode,
    Silence,
    delete_silence,
    insert_silence,
    list_silences,
)
from springtide.levels import TRANSACTIONS, allows

router = APIRouter(route_class=StrictRoute, tags=["Webhooks"])


class NewSilence(RequestBody):
    """What is silenced: a code, a topic, a broker, a group, a transactional id or a producer. All that is
    given must be the alarm's."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"code": "broker_fenced", "broker_id": 3, "minutes": 90, "reason": "its board is replaced"}
            ]
        }
    )

    code: Annotated[AlarmCode, Field(strict=False)] | None = None
    topic: TopicName | None = None
    partition: PartitionNumber | None = None
    broker_id: BrokerId | None = None
    group_id: Annotated[str, StringConstraints(max_length=1_000)] | None = None
    transactional_id: Annotated[str, StringConstraints(max_length=1_000)] | None = None
    producer_id: Annotated[int, Field(ge=0, le=INT64_MAX)] | None = None
    minutes: Annotated[int, Field(ge=1, le=SILENCE_MS_MAX // 60_000, description="until it ends by itself")]
    reason: Annotated[str, StringConstraints(min_length=1, max_length=1_000)]


class SilenceView(SilenceMark):
    """A silence. Null: any."""

    cluster: str
    code: str | None
    topic: str | None
    partition: int | None
    broker_id: int | None
    group_id: str | None
    transactional_id: str | None
    producer_id: int | None
    created_at: str


class SilenceList(ViewList[SilenceView]): ...


def _view(silence: Silence) -> SilenceView:
    return SilenceView.of(
        silence, until=timestamp(silence.until_ms), created_at=timestamp(silence.created_at_ms)
    )


@router.get(
    "/clusters/{cluster}/silences",
    operation_id="listSilences",
    summary="List silences",
    response_model=SilenceList,
    responses=problems("cluster_not_found", "audit_unavailable"),
)
async def list_them(request: Request, services: Serving, cluster: ClusterPath, paging: Paged) -> Response:
    """List the silences that have not ended; the next to end comes first."""
    services.engine.cluster(cluster)
    now_ms = services.clock.now_wall_ms()
    rows = await services.database.read(list_silences, cluster=cluster, wall_ms=now_ms)
    page, token = paging.page_of(rows, lambda row: (row.until_ms, row.id), name="silences", kinds=(int, str))
    return show(request, SilenceList(items=[_view(row) for row in page], next_page_token=token))


@router.post(
    "/clusters/{cluster}/silences",
    operation_id="addSilence",
    summary="Silence alarms for a time",
    status_code=201,
    response_model=SilenceView,
    responses={
        200: {"model": SilenceView, "description": "Dry run: what it would be"},
        201: {"headers": REPLAYED_HEADERS},
        **problems("cluster_not_found", "too_many_silences", "audit_unavailable", *WRITE_PROBLEMS),
    },
)
async def add_it(body: NewSilence, services: Serving, write: Write, cluster: ClusterPath) -> Response:
    """Tell webhooks nothing of these alarms for a time. The alarms are listed all the same, marked, and the
    cluster's health stays what it is."""
    of_transactions = {"transactional_id": body.transactional_id, "producer_id": body.producer_id}
    subjects = (body.code, body.topic, body.broker_id, body.group_id, *of_transactions.values())
    if all(subject is None for subject in subjects):
        raise _invalid("/code", "name a code, a topic, a broker, a group, a transactional id or a producer")
    level = services.engine.cluster(cluster).image.level
    for name, subject in of_transactions.items():
        if subject is not None and not allows(level, TRANSACTIONS):
            # A controller of 0.2 would take the silence for one of everything.
            raise _invalid(f"/{name}", "the cluster has no transactions before its level is raised")
    if body.partition is not None and body.topic is None:
        raise _invalid("/partition", "needs its topic")
    asked = Asked(
        cluster=cluster,
        action="add_silence",
        body=body.model_dump(mode="json"),
        reason=body.reason,
        topic=body.topic,
        partition=body.partition,
        brokers=() if body.broker_id is None else (body.broker_id,),
    )
    return await write.carry_out(asked, partial(_add, services, cluster, body))


def _invalid(pointer: str, message: str) -> ProblemError:
    field = FieldProblem(pointer=pointer, message=message)
    return ProblemError("invalid_request", f"{pointer[1:]}: {message}", errors=(field,))


async def _add(services: Services, cluster: str, body: NewSilence, attempt: Attempt) -> Answer:
    silence = Silence(
        id=f"sil_{attempt.seed}",
        cluster=cluster,
        code=None if body.code is None else body.code.value,
        topic=body.topic,
        partition=body.partition,
        broker_id=body.broker_id,
        group_id=body.group_id,
        transactional_id=body.transactional_id,
        producer_id=body.producer_id,
        reason=body.reason,
        actor=attempt.actor,
        created_at_ms=attempt.wall_ms,
        until_ms=attempt.wall_ms + body.minutes * 60_000,
    )
    if attempt.dry_run:
        return Answer.of(200, _view(silence))
    if not await services.database.write(insert_silence, row=silence):
        raise ProblemError("too_many_silences", f"a cluster may have {SILENCES_MAX} silences at a time")
    services.notifier.wake()
    return Answer.of(201, _view(silence))


@router.delete(
    "/clusters/{cluster}/silences/{silence_id}",
    operation_id="endSilence",
    summary="End a silence now",
    response_model=SilenceView,
    responses=problems("cluster_not_found", "silence_not_found", "audit_unavailable", *WRITE_PROBLEMS),
)
async def end_it(
    *,
    services: Serving,
    write: Write,
    cluster: ClusterPath,
    silence_id: Annotated[
        str, Path(pattern=r"^[A-Za-z0-9_-]{1,64}$", examples=["sil_Zk1lV0pCTEq4nY6mXw2v3A"])
    ],
    reason: ReasonQuery = None,
) -> Response:
    """End a silence before its time: what is up is told. Answers with the silence as it was."""
    asked = Asked(cluster=cluster, action="end_silence", body={"silence": silence_id}, reason=reason)
    return await write.carry_out(asked, partial(_end, services, cluster, silence_id))


async def _end(services: Services, cluster: str, silence_id: str, attempt: Attempt) -> Answer:
    now_ms = attempt.wall_ms
    there = await services.database.read(list_silences, cluster=cluster, wall_ms=now_ms)
    found = next((one for one in there if one.id == silence_id), None)
    if found is None:
        raise ProblemError("silence_not_found", f"cluster {cluster!r} has no silence {silence_id!r}")
    if not attempt.dry_run:
        await services.database.write(delete_silence, cluster=cluster, silence_id=silence_id)
        services.notifier.wake()
    return Answer.of(200, _view(found))
