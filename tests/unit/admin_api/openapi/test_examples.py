"""What the document shows as examples is what the routes could answer."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.routing import APIRoute
from pydantic import TypeAdapter

from admin_api.http.catalogue import CATALOGUE
from admin_api.http.problems import MEDIA_TYPE, ProblemView
from admin_api.openapi.document import build_document
from admin_api.openapi.examples.values import ANSWERS
from admin_api.openapi.schema import CODES, problem_example
from tests.kit.admin_api.document import parameters_of, resolved
from tests.kit.admin_api.rest import controller
from tests.simulation.memory_zookeeper import MemoryZooKeeper


@pytest.mark.anyio
async def test_every_answer_shown_fits_the_model_of_its_route(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        routes = {route.operation_id: route for route in rest.app.routes if isinstance(route, APIRoute)}
    for (operation_id, status), shown in ANSWERS.items():
        route = routes[operation_id]
        declared: Any = route.responses.get(status, {}).get("model", route.response_model)
        for example in shown:
            read = TypeAdapter(declared).validate_python(example.value)
            # Nothing left out, either: a client that looks at the example sees every field.
            assert read.model_dump(mode="json") == example.value, (operation_id, status, example.name)


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
