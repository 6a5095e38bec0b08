"""/healthz, /readyz, /metrics and /problems: endpoints that monitor the controller rather than the
clusters."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic import Field

from admin_api.http.answers import show
from admin_api.http.catalogue import CATALOGUE
from admin_api.http.models import View, ViewList
from admin_api.http.paging import Paged
from admin_api.http.problems import KafkaErrorView, ProblemError, ProblemView, problems
from admin_api.http.routes import StrictRoute, TextRoute
from admin_api.http.services import Services, Serving
from controller.face.database import DatabaseRejected, DatabaseUnavailable
from springtide.version import VERSION

router = APIRouter(route_class=StrictRoute, tags=["Health"])
text_router = APIRouter(route_class=TextRoute, tags=["Health"])


class Health(View):
    status: str = Field(examples=["ok"])


class Readiness(View):
    """The controller's current abilities. A standby is ready, too: it serves reads and redirects writes."""

    ready: bool
    controller_id: str = Field(description="names this run of the controller; another after each start")
    version: str = Field(description="of the release that it runs", examples=["0.3.0"])
    url: str = Field(description="where it is reached by its own name", examples=["http://ctl1:8080"])
    role: str = Field(description="`active` or `standby`", examples=["active"])
    active_url: str | None
    controller_epoch: int
    read_only: bool = Field(description="whether operators' writes are refused")
    zookeeper: str = Field(description="`ok` or `disconnected`", examples=["ok"])
    sql: str = Field(description="`ok`: writes are taken; or `unavailable`", examples=["ok"])
    sql_cause: str | None = Field(
        description="why SQL is unavailable, as the database says it", examples=["database is locked"]
    )
    audit_outbox_depth: int = Field(description="changes that are not in SQL yet")
    stands_not: str | None = Field(
        description="why this release can't run at a cluster's level, so that it leaves the election to "
        "other controllers; null: it takes part"
    )
    unreadable_clusters: dict[str, str] = Field(
        description="clusters that this controller can't serve as their znodes are, each with the reason"
    )


class ProblemKind(View):
    """An error code, its meaning and the remedy."""

    code: str
    status: int
    title: str
    hint: str = Field(description="what to do")
    retryable: bool
    kafka_error: KafkaErrorView | None


class ProblemKinds(ViewList[ProblemKind]): ...


@router.get(
    "/healthz",
    operation_id="getHealth",
    summary="Is the process alive?",
    response_model=Health,
    responses=problems(),
)
async def get_health(request: Request) -> Response:
    """Answer 200 while the process serves requests. ZooKeeper and SQL are not checked: a restart of the
    controller would not bring ZooKeeper back."""
    return show(request, Health(status="ok"))


@router.get(
    "/readyz",
    operation_id="getReadiness",
    summary="Can it serve?",
    response_model=Readiness,
    responses=problems("not_ready"),
)
async def get_readiness(request: Request, services: Serving) -> Response:
    """Answer 503 while ZooKeeper can't be reached, SQL can't be written, or this release can't run at the
    level of a cluster: operators' changes are then impossible on this controller. SQL is tried by a write, if
    the last one was made some seconds ago."""
    state = await readiness(services)
    if not state.ready:
        cause = f": {state.sql_cause}" if state.sql_cause else ""
        raise ProblemError(
            "not_ready",
            state.stands_not or f"ZooKeeper is {state.zookeeper}, SQL is {state.sql}{cause}",
            facts=state.model_dump(),
        )
    return show(request, state)


async def readiness(services: Services) -> Readiness:
    engine = services.engine
    sql_cause: str | None = None
    try:
        await services.database.check()
    except (DatabaseUnavailable, DatabaseRejected) as error:
        sql_cause = str(error)
    sql = "ok" if sql_cause is None else "unavailable"
    zookeeper = "ok" if engine.zookeeper_connected else "disconnected"
    return Readiness(
        ready=(zookeeper, sql) == ("ok", "ok") and engine.leadership.why_not is None,
        controller_id=engine.controller_id,
        version=VERSION,
        url=engine.url,
        role=engine.role,
        active_url=engine.leadership.active_url,
        controller_epoch=engine.controller_epoch,
        read_only=services.settings.read_only,
        zookeeper=zookeeper,
        sql=sql,
        sql_cause=sql_cause,
        audit_outbox_depth=services.outbox.depth,
        stands_not=engine.leadership.why_not,
        unreadable_clusters=dict(engine.unreadable),
    )


@text_router.get(
    "/metrics",
    operation_id="getMetrics",
    summary="Prometheus metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **problems()},
)
async def get_metrics(request: Request) -> Response:
    """Return the controller's metrics. Names are those that Kafka's dashboards and alerts use, where one
    exists."""
    return Response(generate_latest(request.app.state.registry), media_type=CONTENT_TYPE_LATEST)


@router.get(
    "/problems",
    operation_id="listProblems",
    summary="All error codes",
    response_model=ProblemKinds,
    responses=problems(),
)
async def list_problems(request: Request, paging: Paged) -> Response:
    """List the codes of all problems that this API answers with, each with its meaning and its remedy."""
    codes, token = paging.page_of(CATALOGUE, lambda code: (code,), name="problems", kinds=(str,))
    return show(request, ProblemKinds(items=[_kind(code) for code in codes], next_page_token=token))


@router.get(
    "/problems/{code}",
    operation_id="getProblem",
    summary="What an error code means",
    response_model=ProblemKind,
    # As `model` of one answer, the schema of all problems comes into the document.
    responses=problems("problem_not_found") | {500: {"model": ProblemView} | problems()[500]},
)
async def get_problem(
    request: Request, code: Annotated[str, Path(pattern=r"^[a-z_]{1,64}$", examples=["topic_already_exists"])]
) -> Response:
    """Explain one problem code: its meaning and its remedy. Answers 404 if there is no such code."""
    if code not in CATALOGUE:
        raise ProblemError("problem_not_found", f"there is no problem code {code!r}")
    return show(request, _kind(code))


def _kind(code: str) -> ProblemKind:
    return ProblemKind.of(CATALOGUE[code], code=code)
