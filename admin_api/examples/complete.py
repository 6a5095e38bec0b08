"""Examples placed where Swagger UI shows them: answers of `prod`, problems by code, and path parameters
filled in, so that a new user's first click on Execute sends a meaningful request."""

from __future__ import annotations

from typing import Any, Final

from admin_api.examples.problems import problem_example
from admin_api.examples.values import ANSWERS
from admin_api.problem import CATALOGUE, MEDIA_TYPE

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


def _fill_in(parameter: dict[str, Any]) -> None:
    """Fill in path parameters only. The reader chooses optional ones, above all an Idempotency-Key."""
    examples = parameter["schema"].get("examples")
    if parameter["in"] == "path" and examples:
        parameter["example"] = examples[0]


def _add_answers(operation_id: str, status: str, response: dict[str, Any]) -> None:
    if not status.startswith("2"):
        return
    shown = ANSWERS.get((operation_id, int(status)), ())
    if shown:
        response["content"]["application/json"]["examples"] = {
            example.name: {"summary": example.summary, "value": example.value} for example in shown
        }


def _add_problems(response: dict[str, Any]) -> set[str]:
    codes = response.get(CODES, [])
    if codes:
        response["content"][MEDIA_TYPE]["examples"] = {
            code: {"$ref": f"#/components/examples/{code}"} for code in codes
        }
    return set(codes)
