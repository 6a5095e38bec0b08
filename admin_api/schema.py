"""The parts of the OpenAPI document beside the routes: title, tags, and errors as this API answers them.

FastAPI writes the document from the routes. Its error schemas are replaced here, because no answer of this
API has the framework's shape.
"""

from __future__ import annotations

from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from admin_api.examples.complete import CODES, add_examples
from admin_api.gate import is_open
from admin_api.problem import CATALOGUE, MEDIA_TYPE

TITLE: Final = "Springtide"
VERSION: Final = "1.0.0"
DESCRIPTION: Final = """\
The controller of Springtide, a replicated log that speaks Kafka's protocol.

* Every error is a problem document (RFC 9457) with a stable `code`; `GET /problems` lists them all.
* Writes take an `Idempotency-Key`, so that repeating one is safe, and `?dry_run=true`, to change nothing.
* Work that outlives a request answers 202 and an operation to follow.
* Standby controllers serve reads, marked with their age (`Data-Age-Ms`), and redirect writes (307).
* Every change is in the audit with who, when, why, before and after; a change that can't be written down is
  not made.
"""
TAGS: Final = [
    {"name": "Clusters", "description": "Create, list, look at; what is wrong now."},
    {
        "name": "Brokers",
        "description": "Add through an operation, list, look at, cordon, demote, take back, remove.",
    },
    {"name": "Topics", "description": "Create, list, look at, enlarge, configure, delete."},
    {"name": "Partitions", "description": "Who leads, who follows and how far, what is blocked and why."},
    {"name": "Reassignments", "description": "Move replicas by hand, follow that, cancel it."},
    {"name": "Plans", "description": "See what would move before it does, then carry it out as it was seen."},
    {
        "name": "Operations",
        "description": "Work that outlives its request, resumed by whichever controller is active.",
    },
    {
        "name": "Verifications",
        "description": "Whether replicas are the same, whole and in order, as `pipeline verify` found them.",
    },
    {"name": "Audit", "description": "Who changed what, when, why, and what it was before."},
    {"name": "Health", "description": "For those who watch the controller."},
    {"name": "Brokers (internal)", "description": "What brokers say to the controller. Not for people."},
]

#: The security scheme that Swagger UI's Authorize button uses.
_SCHEME: Final = "token"
_SECURITY_SCHEME: Final = {
    "type": "http",
    "scheme": "bearer",
    "description": (
        "A token of the controller's `--tokens-file`. Roles: `viewer` looks and tries with dry runs, "
        "`operator` changes, `admin` also does what may lose records. Not needed where the controller is "
        "open."
    ),
}

#: Schemas of the framework's own errors, which no answer uses.
_REPLACED: Final = ("HTTPValidationError", "ValidationError")


def complete_schema(app: FastAPI) -> None:
    """Make `app.openapi()` describe errors as they are answered. The document is built on first use, then
    kept."""

    def build() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = get_openapi(
                title=app.title,
                version=app.version,
                description=app.description,
                tags=app.openapi_tags,
                routes=app.routes,
            )
            app.openapi_schema = _corrected(document)
        return app.openapi_schema

    app.openapi = build  # type: ignore[method-assign]


def _is_internal(path: str) -> bool:
    return path.startswith("/internal/")


def _corrected(document: dict[str, Any]) -> dict[str, Any]:
    schemas = document["components"]["schemas"]
    for name in _REPLACED:
        schemas.pop(name, None)
    problem = schemas.pop("ProblemView", None) or schemas.get("Problem")
    if problem is not None:
        schemas["Problem"] = problem
    document["components"]["schemas"] = dict(sorted(schemas.items()))
    document["components"]["securitySchemes"] = {_SCHEME: _SECURITY_SCHEME}
    # The empty entry: a controller that is open on loopback takes no token.
    document["security"] = [{_SCHEME: []}, {}]
    # Operators' routes come first, independently of the order in which routes are tried.
    document["paths"] = dict(sorted(document["paths"].items(), key=lambda path: _is_internal(path[0])))
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            responses = operation["responses"]
            if is_open({"path": path, "method": method.upper()}):
                operation["security"] = []
            else:
                _add_refusal(responses, "unauthenticated")
                _add_refusal(responses, "forbidden")
            for response in responses.values():
                content = response.get("content", {})
                if MEDIA_TYPE in content:
                    content.pop("application/json", None)
            if MEDIA_TYPE not in responses.get("422", {}).get("content", {MEDIA_TYPE: None}):
                # This is FastAPI's own entry, on a route that declares no problem with this status. Such a
                # route takes nothing but its path, and an impossible path is answered as not found.
                del responses["422"]
                _add_refusal(responses, "not_found")
    add_examples(document)
    return document


def _add_refusal(responses: dict[str, Any], code: str) -> None:
    """Add the refusal to what the route itself declares under the same status."""
    kind = CATALOGUE[code]
    declared = responses.get(str(kind.status))
    responses[str(kind.status)] = {
        CODES: [*(() if declared is None else declared.get(CODES, ())), code],
        "description": kind.title if declared is None else f"{declared['description']}; {kind.title}",
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
