"""What the document says of a request is what the server enforces; a refusal has plain words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from admin_api.http.messages import FALLBACK, PATTERNS, plain_message
from admin_api.openapi.document import build_document
from controller.core.options import ControllerOptions
from tests.kit.admin_api.document import parameters_of
from tests.kit.admin_api.rest import Rest, controller
from tests.kit.memory.zookeeper import MemoryZooKeeper

#: Words of the libraries, and what only a regular expression has.
JARGON = re.compile(
    r"Input should|pattern|\[a-z|\]\*|_type|pydantic|Extra inputs|Field required|should be a valid"
)
DOCUMENT = build_document()
#: Longer strings and lists are not sent.
LENGTH_MAX = 12_000


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema behind references and `or null`."""
    while True:
        if "$ref" in schema:
            schema = DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        elif others := [one for one in schema.get("anyOf", ()) if one.get("type") != "null"]:
            schema = others[0]
        else:
            return schema


def bounds(schema: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    """Values that just keep a bound, and that just break it."""
    if "maximum" in schema:
        yield schema["maximum"], schema["maximum"] + 1
    if "minimum" in schema:
        yield schema["minimum"], schema["minimum"] - 1
    if "exclusiveMinimum" in schema:
        yield schema["exclusiveMinimum"] + 1, schema["exclusiveMinimum"]
    if schema.get("maxLength", LENGTH_MAX) < LENGTH_MAX and "pattern" not in schema:
        yield "a" * schema["maxLength"], "a" * (schema["maxLength"] + 1)
    item = {"integer": 1, "string": "a"}.get(resolved(schema.get("items", {})).get("type", ""))
    if schema.get("maxItems", LENGTH_MAX) < LENGTH_MAX and item is not None:
        yield [item] * schema["maxItems"], [item] * (schema["maxItems"] + 1)


def address(path: str) -> str:
    """The path with names that there may not be: a request is checked before."""
    numbers = {"partition": "0", "broker_id": "1", "coordinator_id": "1", "audit_id": "1"}
    return re.sub(r"\{(\w+)\}", lambda found: numbers.get(found[1], "prod"), path)


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in DOCUMENT["paths"].items():
        if not path.startswith("/internal/") and not path.endswith("/events"):
            for method, operation in methods.items():
                yield method, path, operation


async def refused(rest: Rest, method: str, path: str, **request: Any) -> set[str]:
    """The parts of the request that are refused as such, after a look at the words."""
    response = await rest.client.request(method.upper(), address(path), **request)
    if response.status_code not in (400, 422) or response.json()["code"] != "invalid_request":
        return set()
    for error in response.json()["errors"]:
        assert not JARGON.search(error["message"]), (path, request, error)
        assert error["message"] != FALLBACK, (path, request, error)
    return {error.get("pointer") or error.get("parameter") or "" for error in response.json()["errors"]}


@pytest.mark.anyio
async def test_every_limit_of_a_field_is_the_servers(zookeeper: MemoryZooKeeper) -> None:
    probed = 0
    async with controller(zookeeper) as rest:
        await rest.form()
        for method, path, operation in operations():
            if "requestBody" not in operation:
                continue
            body = resolved(operation["requestBody"]["content"]["application/json"]["schema"])
            for name, field in body.get("properties", {}).items():
                pointer, query = f"/{name}", {"dry_run": "true"}
                for kept, broken in bounds(resolved(field)):
                    assert pointer in await refused(rest, method, path, json={name: broken}, params=query)
                    # Of another field it may be refused: those that have to be there are missing.
                    assert pointer not in await refused(
                        rest, method, path, json={name: kept}, params=query
                    ), (path, kept)
                    probed += 1
    assert probed > 60


@pytest.mark.anyio
async def test_every_limit_of_a_parameter_is_the_servers(zookeeper: MemoryZooKeeper) -> None:
    probed = 0
    async with controller(zookeeper) as rest:
        for method, path, operation in operations():
            for parameter in parameters_of(DOCUMENT, operation):
                name, schema = parameter["name"], resolved(parameter["schema"])
                if parameter["in"] != "query" or schema.get("type") == "array":
                    continue
                for kept, broken in bounds(schema):
                    assert name in await refused(rest, method, path, params={name: broken})
                    assert name not in await refused(rest, method, path, params={name: kept})
                    probed += 1
    assert probed > 40


@pytest.mark.anyio
@pytest.mark.parametrize("value", [None, True, 7, 1.5, -1, "", "no such thing!", [], [None], {}, {"x": 1}])
async def test_no_refusal_of_a_body_speaks_of_the_library(zookeeper: MemoryZooKeeper, value: Any) -> None:
    async with controller(zookeeper) as rest:
        for method, path, operation in operations():
            if "requestBody" not in operation:
                continue
            body = resolved(operation["requestBody"]["content"]["application/json"]["schema"])
            query = {"dry_run": "true"}
            await refused(
                rest, method, path, json=dict.fromkeys(body.get("properties", {}), value), params=query
            )
            await refused(rest, method, path, json=value, params=query)


@pytest.mark.anyio
@pytest.mark.parametrize("value", ["", "no such thing!", "x" * 300, "-1", "1.5"])
async def test_no_refusal_of_a_parameter_speaks_of_the_library(
    zookeeper: MemoryZooKeeper, value: str
) -> None:
    async with controller(zookeeper) as rest:
        for method, path, operation in operations():
            for parameter in parameters_of(DOCUMENT, operation):
                if parameter["in"] == "query":
                    await refused(rest, method, path, params={parameter["name"]: value})
                elif parameter["in"] == "header" and value:
                    await refused(rest, method, path, headers={parameter["name"]: value})


def test_every_pattern_of_the_document_has_its_words() -> None:
    found: set[str] = set()

    def walk(part: Any) -> None:
        if isinstance(part, dict):
            if isinstance(part.get("pattern"), str):
                found.add(part["pattern"])
            found.update(part.get("patternProperties", ()))
            for inner in part.values():
                walk(inner)
        elif isinstance(part, list):
            for inner in part:
                walk(inner)

    walk(DOCUMENT)
    assert found == set(PATTERNS)


def test_limits_of_topics_are_the_controllers() -> None:
    fields = DOCUMENT["components"]["schemas"]["NewTopic"]["properties"]
    options = ControllerOptions()
    assert resolved(fields["partitions"])["maximum"] == options.partitions_per_topic_max
    assert resolved(fields["replication_factor"])["maximum"] == options.replication_factor_max
    assert resolved(resolved(fields["assignments"])["items"])["maxItems"] == options.replication_factor_max


def test_a_message_has_the_numbers_of_its_limit() -> None:
    assert plain_message({"type": "less_than_equal", "ctx": {"le": 7}, "msg": "x"}) == "must be at most 7"
    assert plain_message({"type": "value_error", "msg": "Value error, no port"}) == "no port"
    assert plain_message({"type": "never_seen", "msg": "Input should be x"}) == FALLBACK


def test_every_operation_is_described_in_one_or_two_sentences() -> None:
    told = {
        operation["operationId"]: re.split(r"[.?!]\s+", operation.get("description", "").strip())
        for _, _, operation in operations()
    }
    assert {name: said for name, said in told.items() if said == [""] or len(said) > 2} == {}
