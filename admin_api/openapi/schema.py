"""The parts of the OpenAPI document beside the routes: title, tags, errors as this API answers them,
examples.

FastAPI writes the document from the routes. Its error schemas are replaced here, because no answer of this
API has the framework's shape. Path parameters are filled in, so that a new user's first click on Execute
in Swagger UI sends a meaningful request.
"""

from __future__ import annotations

import json
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from admin_api.http.catalogue import CATALOGUE
from admin_api.http.gate import is_open
from admin_api.http.models import INT64_MAX
from admin_api.http.problems import MEDIA_TYPE, FieldProblem, ProblemError, problem_content
from admin_api.openapi.examples import recorded_examples

TITLE: Final = "Springtide"
DESCRIPTION: Final = """\
The controller of Springtide, a replicated log that speaks Kafka's protocol.

* Every error is a problem document (RFC 9457) with a stable `code`; `GET /problems` lists them all.
* Writes take an `Idempotency-Key`, so that repeating one is safe, and `?dry_run=true`, to change nothing.
* Work that outlives a request answers 202 and an operation to follow.
* Standby controllers serve reads of the metadata, marked with their age (`Data-Age-Ms`). They redirect
  writes, what only the active controller hears of, and what they do not know (307): a standby never says
  that something does not exist.
* Every change is in the audit with who, when, why, before and after; a change that can't be written down is
  not made.
"""
TAGS: Final = [
    {"name": "Clusters", "description": "Create, list, look at; what is wrong now."},
    {
        "name": "Brokers",
        "description": "Add through an operation, list, look at, cordon, demote, take back, remove.",
    },
    {"name": "Coordinators", "description": "Admit, list, look at, drain, demote, remove."},
    {"name": "Groups", "description": "Who reads what and how far; reset offsets, delete."},
    {
        "name": "Transactions",
        "description": "Which are open, who waits for them; end those that do not end by themselves.",
    },
    {"name": "Topics", "description": "Create, list, look at, enlarge, configure, delete."},
    {"name": "ACLs", "description": "Who may do what to which resources, and why a client may not."},
    {"name": "Users", "description": "Who may log in with a password: list, set, delete."},
    {"name": "Quotas", "description": "How much users, client ids and addresses may take."},
    {"name": "Partitions", "description": "Who leads, who follows and how far, what is blocked and why."},
    {"name": "Reassignments", "description": "Move replicas by hand, follow that, cancel it."},
    {"name": "Plans", "description": "See what would move before it does, then carry it out as it was seen."},
    {"name": "Webhooks", "description": "URLs that are told alarms, and silences of alarms."},
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
    {"name": "Brokers (internal)", "description": "Calls of brokers to the controller. Not for people."},
    {
        "name": "Coordinators (internal)",
        "description": "Calls of coordinators to the controller. Not for people.",
    },
]

#: The security scheme that Swagger UI's Authorize button uses.
_SCHEME: Final = "token"
_SECURITY_SCHEME: Final = {
    "type": "http",
    "scheme": "bearer",
    "description": (
        "A token of the controller's `--tokens-file`; not needed where the controller is open. Roles: "
        "`viewer` looks and tries with dry runs, `operator` changes, `admin` also does what may lose records."
    ),
}

#: Schemas of the framework's own errors, which no answer uses.
_REPLACED: Final = ("HTTPValidationError", "ValidationError")
#: The names of components that differ from their classes' names. Generated clients use these names, so they
#: stay when a class is renamed or moved.
_PUBLISHED: Final = {
    "AssignReplicas": "Assign",
    "BadStateView": "admin_api__receipts__models__TallyView",
    "ClusterOverview": "ClusterView",
    "HarmView": "admin_api__resilience__models__TallyView",
    "Measurements": "Measured",
    "ProblemView": "Problem",
    "RebalanceOptions": "Rebalance",
    "RestorePreferredLeaders": "ElectPreferredLeaders",
}
_BOUNDS: Final = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})
_REFERENCE: Final = "#/components/schemas/"


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
    for name, published in _PUBLISHED.items():
        schemas[published] = schemas.pop(name) | {"title": published.rpartition("__")[2]}
    _publish(document)
    _make_bounds_whole(document)
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


def _publish(part: Any) -> None:
    """Make references to components use the published names."""
    match part:
        case {"$ref": str(reference)}:
            name = reference.removeprefix(_REFERENCE)
            part["$ref"] = _REFERENCE + _PUBLISHED.get(name, name)
        case dict():
            for item in part.values():
                _publish(item)
        case list():
            for item in part:
                _publish(item)


def _make_bounds_whole(part: Any) -> None:
    """Write the bounds of whole numbers as such. The framework holds them as floats, in which the largest
    number of 64 bits becomes a larger one, which is refused."""
    match part:
        case dict():
            if part.get("type") == "integer":
                for name in _BOUNDS & part.keys():
                    part[name] = min(int(part[name]), INT64_MAX)
            for item in part.values():
                _make_bounds_whole(item)
        case list():
            for item in part:
                _make_bounds_whole(item)


def _add_refusal(responses: dict[str, Any], code: str) -> None:
    """Add the refusal to what the route itself declares under the same status."""
    kind = CATALOGUE[code]
    declared = responses.get(str(kind.status))
    responses[str(kind.status)] = {
        CODES: [*(() if declared is None else declared.get(CODES, ())), code],
        "description": kind.title if declared is None else f"{declared['description']}; {kind.title}",
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }


#: The key in a response: the codes of the problems that it stands for.
CODES: Final = "x-problem-codes"


def add_examples(document: dict[str, Any]) -> None:
    """Add the examples to the document. Each problem is written once, among the components, and referred
    to."""
    used: set[str] = set()
    for operations in document["paths"].values():
        for operation in operations.values():
            for parameter in operation.get("parameters", ()):
                _fill_in(parameter)
            for status, response in operation["responses"].items():
                _add_answers(operation["operationId"], status, response)
                used |= _add_problems(response)
    document["components"]["examples"] = {
        code: {"summary": CATALOGUE[code].title, "value": problem_example(code)} for code in sorted(used)
    }
    _share_refusals(document)
    _share_parameters(document)


def _share_parameters(document: dict[str, Any]) -> None:
    """Write parameters and the headers of answers once, among the components. Of several that have one name,
    the one that is taken most often."""
    operations = [one for methods in document["paths"].values() for one in methods.values()]
    taken: dict[str, list[Any]] = {}
    for operation in operations:
        for one in operation.get("parameters", ()):
            taken.setdefault(f"{one['in']}_{one['name']}", []).append(one)
    shared = _most_taken(taken)
    for operation in operations:
        for place, one in enumerate(operation.get("parameters", ())):
            name = f"{one['in']}_{one['name']}"
            if shared.get(name) == one:
                operation["parameters"][place] = {"$ref": f"#/components/parameters/{name}"}
    document["components"]["parameters"] = shared
    of_answers = [one.get("headers", {}) for each in operations for one in each["responses"].values()]
    taken = {}
    for headers in of_answers:
        for name, header in headers.items():
            taken.setdefault(name, []).append(header)
    shared = _most_taken(taken)
    for headers in of_answers:
        for name, header in headers.items():
            if shared.get(name) == header:
                headers[name] = {"$ref": f"#/components/headers/{name}"}
    document["components"]["headers"] = shared


def _most_taken(taken: dict[str, list[Any]]) -> dict[str, Any]:
    found = {name: max(parts, key=parts.count) for name, parts in sorted(taken.items())}
    return {name: part for name, part in found.items() if taken[name].count(part) > 1}


def _share_refusals(document: dict[str, Any]) -> None:
    """Write each set of problems once, among the components, and refer to it: over a thousand answers are one
    of fewer than a hundred sets."""
    shared: dict[str, Any] = {}
    for operations in document["paths"].values():
        for operation in operations.values():
            for status, response in operation["responses"].items():
                if CODES in response:
                    name = "_or_".join(response[CODES])
                    assert shared.setdefault(name, response) == response, name
                    operation["responses"][status] = {"$ref": f"#/components/responses/{name}"}
    document["components"]["responses"] = dict(sorted((shared | _shared_answers(document)).items()))


def _shared_answers(document: dict[str, Any]) -> dict[str, Any]:
    """Return by name what nodes of both kinds are answered, and refer to it where it stands: an answer to
    nodes has its schema in it."""
    taken: dict[str, list[tuple[str, dict[str, Any], str]]] = {}
    for path, operations in document["paths"].items():
        for operation in operations.values() if _is_internal(path) else ():
            for status, response in operation["responses"].items():
                if "$ref" not in response:
                    place = (f"{operation['operationId']}_{status}", operation["responses"], status)
                    taken.setdefault(json.dumps(response), []).append(place)
    shared = {}
    for found in taken.values():
        if len(found) > 1:
            name, responses, status = found[0]
            shared[name] = responses[status]
            for _, others, their_status in found:
                others[their_status] = {"$ref": f"#/components/responses/{name}"}
    return shared


def _fill_in(parameter: dict[str, Any]) -> None:
    """Fill in path parameters only. The reader chooses optional ones, above all an Idempotency-Key."""
    examples = parameter["schema"].get("examples")
    if parameter["in"] == "path" and examples:
        parameter["example"] = examples[0]


def _add_answers(operation_id: str, status: str, response: dict[str, Any]) -> None:
    shown = recorded_examples().get((operation_id, status))
    if shown is not None:
        response["content"]["application/json"]["examples"] = shown


def _add_problems(response: dict[str, Any]) -> set[str]:
    codes = response.get(CODES, [])
    if codes:
        response["content"][MEDIA_TYPE]["examples"] = {
            code: {"$ref": f"#/components/examples/{code}"} for code in codes
        }
    return set(codes)


#: (detail, facts, errors) of the problems that say more than their title.
_SAID: Final[dict[str, tuple[str, dict[str, Any], tuple[FieldProblem, ...]]]] = {
    "unauthenticated": ("no token was sent", {}, ()),
    "forbidden": (
        "this needs create on topic 'orders', which the role viewer of grafana does not give; "
        "the role operator does",
        {
            "role": "viewer",
            "needed": "operator",
            "operation": "create",
            "resource_type": "topic",
            "resource_name": "orders",
        },
        (),
    ),
    "read_only": ("POST is not possible: this controller is read-only", {}, ()),
    "cluster_not_found": ("there is no cluster 'prd'", {}, ()),
    "broker_not_found": ("broker 9 has not registered with 'prod'", {}, ()),
    "coordinator_not_found": ("coordinator 1009 has not registered with 'prod'", {}, ()),
    "group_not_found": (
        "there is no consumer group 'biling': its coordinator does not know it",
        {},
        (),
    ),
    "group_in_use": ("group 'billing' is stable", {"state": "stable"}, ()),
    "coordinator_unavailable": ("no coordinator of 'prod' is admitted and live", {}, ()),
    "user_not_found": ("cluster 'prod' has no user 'biling'", {}, ()),
    "topic_not_found": ("there is no topic 'ordrs' in 'prod'", {}, ()),
    "partition_not_found": ("topic 'orders' has no partition 12", {}, ()),
    "cluster_already_exists": ("there is a cluster 'prod' already", {}, ()),
    "topic_already_exists": ("topic 'orders' exists in 'prod'", {}, ()),
    "broker_id_in_use": (
        "broker 4 is registered at store9:9092, not at store4:9092",
        {"broker_id": 4},
        (),
    ),
    "broker_operation_running": ("operation op_TvcWIsqjfPWJhZaHEmdumg is adding broker 4", {}, ()),
    "replication_factor_too_large": (
        "replication factor 3 needs 3 eligible brokers in 'prod'; 2 are active",
        {"eligible_brokers": 2},
        (FieldProblem(pointer="/replication_factor", message="must be at most 2", limit=2),),
    ),
    "unknown_config": (
        "there is no topic setting 'retention.hours'",
        {},
        (FieldProblem(pointer="/configs/retention.hours", message="unknown"),),
    ),
    "invalid_request": (
        "limit: must be at most 1000",
        {},
        (FieldProblem(parameter="limit", message="must be at most 1000", limit=1000),),
    ),
    "precondition_failed": ('the topic is at version "18", not "17"', {}, ()),
    "audit_unavailable": ("the audit database is unavailable: database is locked", {}, ()),
    "not_ready": (
        "ZooKeeper is ok, SQL is unavailable: database is locked",
        {"zookeeper": "ok", "sql": "unavailable", "sql_cause": "database is locked"},
        (),
    ),
    "not_the_active_controller": (
        "this controller is a standby; the active one is http://controller2:8080",
        {},
        (),
    ),
}


def problem_example(code: str) -> dict[str, Any]:
    """Return the problem as `prod` would answer with it."""
    title = CATALOGUE[code].title
    detail, facts, errors = _SAID.get(code, (title[:1].lower() + title[1:], {}, ()))
    error = ProblemError(code, detail, facts=facts, errors=errors)
    return problem_content(error, path="/clusters/prod", request_id="F9cmqsT9jBmxJpt6iz7Ngw")
