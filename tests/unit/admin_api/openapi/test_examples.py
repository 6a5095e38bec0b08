"""What the document shows as examples is what the routes could answer."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.routing import APIRoute
from pydantic import TypeAdapter

from admin_api.http.catalogue import CATALOGUE
from admin_api.http.problems import MEDIA_TYPE, ProblemView
from admin_api.openapi.document import build_document
from admin_api.openapi.examples import PATH, recorded_examples
from admin_api.openapi.schema import CODES, problem_example
from tests.kit.admin_api.document import parameters_of, public_operations, resolved
from tests.kit.admin_api.rest import controller
from tests.kit.memory.zookeeper import MemoryZooKeeper
from tests.rest_examples.stories import run_stories

#: Operations whose answers are not shown: of a ZooKeeper that was restored; the catalogue, which the document
#: has anyway; a stream; text.
UNSHOWN = {"recoverMetadata", "listProblems", "watchOperation", "getMetrics"}


def test_the_committed_examples_are_what_the_application_answers() -> None:
    written = PATH.read_text(encoding="utf-8")
    assert written == run_stories(), "run: python -m tests.rest_examples --write"


@pytest.mark.anyio
async def test_every_answer_shown_fits_the_model_of_its_route(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        routes = {route.operation_id: route for route in rest.app.routes if isinstance(route, APIRoute)}
    for (operation_id, status), shown in recorded_examples().items():
        route = routes[operation_id]
        declared: Any = route.responses.get(int(status), {}).get("model", route.response_model)
        for name, example in shown.items():
            read = TypeAdapter(declared).validate_python(example["value"])
            # Nothing left out, either: a client that looks at the example sees every field.
            assert read.model_dump(mode="json") == example["value"], (operation_id, status, name)


@pytest.mark.anyio
async def test_every_request_shown_fits_the_model_of_its_route(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        document = rest.app.openapi()
        routes = {route.operation_id: route for route in rest.app.routes if isinstance(route, APIRoute)}
    tried = 0
    for _, operation in public_operations(document):
        if "requestBody" in operation:
            media = operation["requestBody"]["content"]["application/json"]
            shown = [one["value"] for one in media.get("examples", {}).values()]
            field = routes[operation["operationId"]].body_field
            assert field is not None
            declared: Any = field.field_info.annotation
            for body in shown or resolved(document, media["schema"])["examples"]:
                TypeAdapter(declared).validate_python(body)
                tried += 1
    assert tried > 40


def test_every_operation_shows_each_of_its_answers() -> None:
    document = build_document()
    for path, operation in public_operations(document):
        for status, answer in operation["responses"].items():
            media = resolved(document, answer).get("content", {}).get("application/json")
            if status.startswith("2") and media is not None:
                shown = bool(media.get("examples"))
                assert shown == (operation["operationId"] not in UNSHOWN), (path, status)


@pytest.mark.parametrize("code", sorted(CATALOGUE))
def test_every_problem_has_an_example_that_is_one(code: str) -> None:
    example = problem_example(code)
    assert ProblemView.model_validate(example).code == code
    assert set(example) == set(ProblemView.model_fields)


def test_the_document_shows_them_where_swagger_ui_looks() -> None:
    document = build_document()
    told = document["components"]["examples"]
    shown = 0
    for path, operations in document["paths"].items():
        for operation in operations.values():
            for parameter in parameters_of(document, operation):
                if parameter["in"] == "path" and not path.startswith("/internal/"):
                    assert "example" in parameter, (path, parameter["name"])
            for status, answer in operation["responses"].items():
                response = resolved(document, answer)
                for code in response.get(CODES, ()):
                    assert CATALOGUE[code].status == int(status)
                    reference = response["content"][MEDIA_TYPE]["examples"][code]["$ref"]
                    assert told[reference.rpartition("/")[2]]["value"]["code"] == code
                    shown += 1
    assert shown > 300
    brokers = document["paths"]["/clusters/{cluster}/brokers"]["post"]
    assert list(brokers["requestBody"]["content"]["application/json"]["examples"]) == [
        "one",
        "replacement",
        "several",
    ]
    accepted = brokers["responses"]["202"]["content"]["application/json"]["examples"]["accepted"]["value"]
    assert (accepted["kind"], accepted["state"]) == ("broker_add", "preflight")
