"""Errors as RFC 9457 problem documents: raised by services and routes, rendered here.

Every error that ends a request early becomes one, whether it is of this API, the framework or the engine.
This is the only place where FastAPI's and Starlette's own error bodies are replaced.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, assert_never, get_args

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Match

from admin_api.http.catalogue import CATALOGUE, UNKNOWN_ENTITY, Kind
from admin_api.http.messages import plain_message
from admin_api.http.models import View
from admin_api.settings import RETRY_AFTER_S
from controller.face.commands import (
    ClusterExists,
    MetadataWentBack,
    NotActive,
    NotInForce,
    OutcomeUnknown,
    Overloaded,
    Refusal,
    UnknownCluster,
    UnreadableCluster,
)
from controller.face.database import DatabaseRejected, DatabaseUnavailable, LaterRelease

MEDIA_TYPE: Final = "application/problem+json"
ERRORS_SHOWN_MAX: Final = 20
#: ASGI scope key of the request's id.
REQUEST_ID_SCOPE_KEY: Final = "springtide.request_id"
#: The problems of every write.
WRITE_PROBLEMS = (
    "other_origin",
    "read_only",
    "unreadable_body",
    "body_too_large",
    "request_timeout",
    "unsupported_media_type",
    "idempotency_key_in_progress",
    "reason_required",
    "not_the_active_controller",
    "no_active_controller",
    "outcome_unknown",
    "not_in_force",
)
#: The problems of a write under `IfMatch`.
CONDITION_PROBLEMS = ("precondition_failed", "precondition_required")
#: Exceptions of the engine and the audit that may occur in any route.
EngineFailure = (
    NotActive
    | UnknownCluster
    | ClusterExists
    | OutcomeUnknown
    | NotInForce
    | Overloaded
    | MetadataWentBack
    | DatabaseUnavailable
    | DatabaseRejected
    | LaterRelease
)
#: Statuses of problems that pass, or whose outcome can be asked for: each says when to ask again.
_ASK_AGAIN = frozenset({503, 504})
ENGINE_FAILURES: tuple[type[Exception], ...] = get_args(EngineFailure)


class FieldProblem(View):
    """An error in one part of the request. One of pointer, parameter and header names the part."""

    pointer: str | None = Field(default=None, description="JSON pointer into the body (RFC 6901)")
    parameter: str | None = Field(default=None, description="name of a query or path parameter")
    header: str | None = Field(default=None, description="name of a header field")
    message: str
    limit: int | None = Field(default=None, description="the bound that was broken")


class KafkaErrorView(View):
    code: int
    name: str


class ProblemView(View):
    """An RFC 9457 problem document."""

    model_config = ConfigDict(
        title="Problem",
        json_schema_extra={
            "example": {
                "type": "/problems/replication_factor_too_large",
                "title": "The replication factor exceeds the eligible brokers",
                "status": 422,
                "detail": "replication factor 3 needs 3 eligible brokers in 'prod'; 2 are active",
                "instance": "/topics",
                "code": "replication_factor_too_large",
                "kafka_error": {"code": 38, "name": "INVALID_REPLICATION_FACTOR"},
                "retryable": False,
                "errors": [{"pointer": "/replication_factor", "message": "must be at most 2", "limit": 2}],
                "hint": "admit another broker or lower the factor",
                "facts": {"eligible_brokers": 2},
                "request_id": "Zk1lV0pCTEq4nY6mXw2v3A",
                "operation_id": None,
            }
        },
    )

    type: str = Field(description="where the code is explained")
    title: str
    status: int
    detail: str
    instance: str = Field(description="the path that was asked for")
    code: str = Field(description="stable name of the problem: what scripts match on")
    kafka_error: KafkaErrorView | None = None
    retryable: bool = Field(description="whether the same request may succeed later")
    errors: list[FieldProblem] = Field(default_factory=list)
    hint: str | None = None
    facts: dict[str, Any] = Field(default_factory=dict, description="numbers that explain the refusal")
    request_id: str | None = None
    operation_id: str | None = None


class ProblemError(Exception):
    """A problem that ends a request. Services and routes raise it; it is rendered in one place."""

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        errors: tuple[FieldProblem, ...] = (),
        hint: str | None = None,
        facts: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        operation_id: str | None = None,
    ) -> None:
        assert code in CATALOGUE, code
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail
        self.errors = errors
        self.hint = hint
        self.facts = dict(facts or {})
        again = {"Retry-After": str(RETRY_AFTER_S)} if self.status in _ASK_AGAIN else {}
        self.headers = {**again, **(headers or {})}
        self.operation_id = operation_id

    @property
    def kind(self) -> Kind:
        return CATALOGUE[self.code]

    @property
    def status(self) -> int:
        return CATALOGUE[self.code].status


def problem_content(error: ProblemError, *, path: str, request_id: str | None) -> dict[str, Any]:
    """Return the problem document as JSON has it."""
    view = ProblemView.of(
        error,
        type=f"/problems/{error.code}",
        title=error.kind.title,
        instance=path,
        kafka_error=error.kind.kafka_error,
        retryable=error.kind.retryable,
        hint=error.hint or error.kind.hint,
        request_id=request_id,
    )
    errors = [field.model_dump(mode="json", exclude_none=True) for field in view.errors]
    return view.model_dump(mode="json") | {"errors": errors}


def problem_response(error: ProblemError, *, path: str, request_id: str | None) -> JSONResponse:
    content = problem_content(error, path=path, request_id=request_id)
    return JSONResponse(content, status_code=error.status, headers=error.headers, media_type=MEDIA_TYPE)


def problems(*codes: str) -> dict[int | str, dict[str, Any]]:
    """Return `responses=` of a route: the problems of this route, and those of every route. They refer to
    the schema by its name: as a `model` each of a thousand would get a validator, which none needs."""
    by_status: dict[int, list[str]] = {}
    if UNKNOWN_ENTITY.intersection(codes):
        codes = (*codes, "not_the_active_controller", "no_active_controller")
    for code in (*codes, "not_acceptable", "invalid_request", "internal_error"):
        by_status.setdefault(CATALOGUE[code].status, []).append(code)
    return {
        status: {
            "x-problem-codes": list(dict.fromkeys(found)),
            "description": "; ".join(CATALOGUE[code].title for code in dict.fromkeys(found)),
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        for status, found in sorted(by_status.items())
    }


def install_problem_handlers(app: FastAPI) -> None:
    app.add_exception_handler(ProblemError, _on_problem)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_http_exception)
    for failure in ENGINE_FAILURES:
        app.add_exception_handler(failure, _on_engine_failure)


def problem_of(failure: EngineFailure, *, target: str) -> ProblemError:
    """Return the problem for the engine's failure. target: path and query, for a redirect."""
    match failure:
        case NotActive(active_url=None):
            return ProblemError("no_active_controller", "no controller is active")
        case NotActive(active_url=url):
            location = f"{str(url).rstrip('/')}{target}"
            detail = f"this controller is a standby; the active one is {url}"
            return ProblemError("not_the_active_controller", detail, headers={"Location": location})
        case UnreadableCluster():
            return ProblemError("cluster_unreadable", str(failure))
        case UnknownCluster(cluster=cluster):
            return ProblemError("cluster_not_found", f"there is no cluster {cluster[:100]!r}")
        case ClusterExists(cluster=cluster):
            return ProblemError("cluster_already_exists", f"there is a cluster {cluster!r} already")
        case OutcomeUnknown():
            return ProblemError("outcome_unknown", "the answer to the write was lost; it may have been made")
        case NotInForce():
            return ProblemError("not_in_force", str(failure))
        case Overloaded():
            return ProblemError("overloaded", "too many changes wait to be persisted")
        case MetadataWentBack():
            return ProblemError("metadata_went_back", str(failure))
        case DatabaseUnavailable():
            detail = f"the audit database is unavailable: {failure}"
            return ProblemError("audit_unavailable", detail)
        case DatabaseRejected():
            detail = f"the audit database refuses the row: {failure}"
            return ProblemError("audit_unavailable", detail)
        case LaterRelease():
            return ProblemError("stored_by_later_release", str(failure))
        case _:
            assert_never(failure)


def target_of(request: Request) -> str:
    path = request.scope.get("raw_path", b"").decode("ascii", "replace") or request.url.path
    return f"{path}?{request.url.query}" if request.url.query else path


async def _on_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, ProblemError)
    return _respond(request, error)


async def _on_engine_failure(request: Request, error: Exception) -> Response:
    # the type is given to add_exception_handler; its signature can't express that.
    problem = problem_of(error, target=target_of(request))  # type: ignore[arg-type]
    return _respond(request, problem)


async def _on_invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    found = error.errors()
    if any(item["loc"] and item["loc"][0] == "path" for item in found):
        # No resource has an address with an impossible name.
        return _respond(request, ProblemError("not_found", f"there is nothing at {request.url.path[:200]}"))
    fields = tuple(field_problem(item) for item in found[:ERRORS_SHOWN_MAX])
    first = fields[0]
    where = first.pointer or first.parameter or first.header or "body"
    more = f", and {len(found) - 1} more" if len(found) > 1 else ""
    return _respond(
        request, ProblemError("invalid_request", f"{where}: {first.message}{more}", errors=fields)
    )


async def _on_http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    match error.status_code:
        case 404:
            problem = ProblemError("not_found", f"there is nothing at {request.url.path[:200]}")
        case 405:
            allowed = ", ".join(_allowed_methods(request.app.routes, request.scope))
            problem = ProblemError(
                "method_not_allowed",
                f"{request.method[:20]} is not possible here; {allowed} is",
                headers={"Allow": allowed},
            )
        case _:
            problem = ProblemError("bad_request", str(error.detail)[:200])
    return _respond(request, problem)


def _respond(request: Request, problem: ProblemError) -> Response:
    if problem.code in UNKNOWN_ENTITY:
        problem = _only_with_evidence(request, problem)
    request_id = request.scope.get(REQUEST_ID_SCOPE_KEY)
    return problem_response(problem, path=request.url.path, request_id=request_id)


def _only_with_evidence(request: Request, problem: ProblemError) -> ProblemError:
    """Return the problem that this controller may answer with. Only the active controller knows that
    something does not exist. A standby's copy may be older than the resource (or not have been read yet), so
    a standby redirects the client, or asks it to retry."""
    engine = request.app.state.services.engine
    if engine.role == "active":
        return problem
    elsewhere = NotActive(engine.leadership.elsewhere)
    return problem_of(elsewhere, target=target_of(request))


def _allowed_methods(routes: Iterable[BaseRoute], scope: Any) -> list[str]:
    """Return the methods of all routes of the path: the framework names only those of the first route."""
    methods: set[str] = set()
    for route in routes:
        match, _ = route.matches(dict(scope))
        if match is not Match.NONE:
            methods |= set(getattr(route, "methods", None) or ())
    return sorted(methods)


def field_problem(item: Any) -> FieldProblem:
    """Return pydantic's error as a FieldProblem: the place, the error in plain words, the bound. The value is
    left out: it may be a secret, or not representable."""
    source, *path = item["loc"] or ("body",)
    message = plain_message(item)
    context = item.get("ctx") or {}
    limit = next(
        (context[name] for name in ("le", "ge", "lt", "gt", "max_length", "min_length") if name in context),
        None,
    )
    if not isinstance(limit, int) or isinstance(limit, bool):
        limit = None
    match source:
        case "body":
            return FieldProblem(pointer=pointer_of(path), message=message, limit=limit)
        case "header":
            return FieldProblem(header=str(path[0]) if path else None, message=message, limit=limit)
        case _:
            return FieldProblem(parameter=str(path[0]) if path else None, message=message, limit=limit)


def pointer_of(path: Sequence[str | int]) -> str:
    """Return a JSON pointer. When the body is a union, pydantic begins with the name of the branch, a class;
    no field name begins with a capital."""
    if path and isinstance(path[0], str) and path[0][:1].isupper():
        path = path[1:]
    return "".join("/" + str(part)[:100].replace("~", "~0").replace("/", "~1") for part in path)


#: Codes of the catalogue for the core's refusals, where the names differ.
_REFUSALS = {
    "unknown_topic": "topic_not_found",
    "unknown_partition": "partition_not_found",
    "invalid_topic_id": "invalid_request",
}
#: The request's field names, where the core's differ.
_FIELDS = {"topic": "name", "throttled_rate": "throttle_bytes_per_s"}
#: Fields of the core that are path parameters here.
_PARAMETERS = {"partition": "partition", "broker_ids": "broker_id"}


def refusal_problem(refusal: Refusal, *, pointer: str | None = None) -> ProblemError:
    """Return the core's refusal as a problem, with the same words and numbers. pointer: the place in the
    body, if the body has fewer fields than the core was given."""
    code = _REFUSALS.get(refusal.code.value, refusal.code.value)
    errors: tuple[FieldProblem, ...] = ()
    if pointer is not None:
        errors = (FieldProblem(pointer=pointer, message=refusal.detail, limit=refusal.limit),)
    elif refusal.field in _PARAMETERS:
        parameter = _PARAMETERS[refusal.field]
        errors = (FieldProblem(parameter=parameter, message=refusal.detail, limit=refusal.limit),)
    elif refusal.field is not None:
        name, _, rest = refusal.field.partition(".")
        where = f"/{_FIELDS.get(name, name)}" + (
            f"/{rest.replace('~', '~0').replace('/', '~1')}" if rest else ""
        )
        errors = (FieldProblem(pointer=where, message=refusal.detail, limit=refusal.limit),)
    return ProblemError(code, refusal.detail, errors=errors, hint=refusal.hint, facts=refusal.facts)
