"""The OpenAPI document, read as its readers do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def resolved(document: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    """Return the component that a part refers to, or the part itself."""
    while "$ref" in part:
        _, _, kind, name = part["$ref"].split("/")
        part = document["components"][kind][name]
    return part


def parameters_of(document: dict[str, Any], operation: dict[str, Any]) -> list[dict[str, Any]]:
    return [resolved(document, one) for one in operation.get("parameters", ())]


def public_operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (path, operation) of those that are meant for people."""
    for path, operations in document["paths"].items():
        if not path.startswith("/internal/"):
            for operation in operations.values():
                yield path, operation
