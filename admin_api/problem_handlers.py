"""Conversion of every error that ends a request early into a problem document: errors of this API, the
framework and the engine.

This is the only place where FastAPI's and Starlette's own error bodies are replaced.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, assert_never

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match

from admin_api.envelope import REQUEST_ID_SCOPE_KEY
from admin_api.problem import UNKNOWN_ENTITY, FieldProblem, ProblemError, problem_response
from controller.database.sql import DatabaseRejected, DatabaseUnavailable
from controller.shell.outcomes import (
    ClusterExists,
    MetadataWentBack,
    NotActive,
    OutcomeUnknown,
    Overloaded,
    UnknownCluster,
)

ERRORS_SHOWN_MAX = 20

#: Exceptions of the engine and the audit that may occur in any route.
EngineFailure = (
    NotActive
    | UnknownCluster
    | ClusterExists
    | OutcomeUnknown
    | Overloaded
    | MetadataWentBack
    | DatabaseUnavailable
    | DatabaseRejected
)
ENGINE_FAILURES: tuple[type[Exception], ...] = (
    NotActive,
    UnknownCluster,
    ClusterExists,
    OutcomeUnknown,
    Overloaded,
    MetadataWentBack,
    DatabaseUnavailable,
    DatabaseRejected,
)


def install_problem_handlers(app: FastAPI) -> None:
    app.add_exception_handler(ProblemError, _on_problem)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_http_exception)
    for failure in ENGINE_FAILURES:
        app.add_exception_handler(failure, _on_engine_failure)


def problem_of(failure: EngineFailure, *, target: str, retry_after_s: int) -> ProblemError:
    """Return the problem for the engine's failure. target: path and query, for a redirect."""
    again = {"Retry-After": str(retry_after_s)}
    match failure:
        case NotActive(active_url=None):
            return ProblemError("no_active_controller", "no controller is active", headers=again)
        case NotActive(active_url=url):
            location = f"{str(url).rstrip('/')}{target}"
            return ProblemError("not_the_active_controller", f"ask {url}", headers={"Location": location})
        case UnknownCluster(cluster=cluster):
            return ProblemError("cluster_not_found", f"there is no cluster {cluster[:100]!r}")
        case ClusterExists(cluster=cluster):
            return ProblemError("cluster_already_exists", f"there is a cluster {cluster!r} already")
        case OutcomeUnknown():
            return ProblemError(
                "outcome_unknown", "the answer to the write was lost; it may have been made", headers=again
            )
        case Overloaded():
            return ProblemError("overloaded", "too many changes wait to be persisted", headers=again)
        case MetadataWentBack():
            return ProblemError("metadata_went_back", str(failure))
        case DatabaseUnavailable() | DatabaseRejected():
            return ProblemError("audit_unavailable", "the audit database does not answer", headers=again)
        case _:
            assert_never(failure)


def target_of(request: Request) -> str:
    path = request.scope.get("raw_path", b"").decode("ascii", "replace") or request.url.path
    return f"{path}?{request.url.query}" if request.url.query else path


async def _on_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, ProblemError)
    return _respond(request, error)


async def _on_engine_failure(request: Request, error: Exception) -> Response:
    retry_after_s = request.app.state.settings.retry_after_s
    # the type is given to add_exception_handler; its signature can't express that.
    problem = problem_of(error, target=target_of(request), retry_after_s=retry_after_s)  # type: ignore[arg-type]
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
            allowed = ", ".join(_allowed_methods(request.app.state.routes, request.scope))
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
    elsewhere = NotActive(None if engine.active_url == engine.url else engine.active_url)
    retry_after_s = request.app.state.settings.retry_after_s
    return problem_of(elsewhere, target=target_of(request), retry_after_s=retry_after_s)


def _allowed_methods(routes: Iterable[BaseRoute], scope: Any) -> list[str]:
    """Return the methods of all routes of the path: the framework names only those of the first route."""
    methods: set[str] = set()
    for route in routes:
        match, _ = route.matches(dict(scope))
        if match is not Match.NONE:
            methods |= set(getattr(route, "methods", None) or ())
    return sorted(methods)


def field_problem(item: Any) -> FieldProblem:
    """Return pydantic's error as a FieldProblem: the place, the error, the bound. The value is left out: it
    may be a secret, or not representable."""
    source, *path = item["loc"] or ("body",)
    message = str(item["msg"]).removeprefix("Value error, ")
    context = item.get("ctx") or {}
    limit = next((context[name] for name in ("le", "ge", "lt", "gt", "max_length") if name in context), None)
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
