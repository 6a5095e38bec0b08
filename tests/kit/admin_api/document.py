"""The OpenAPI document, read as its readers do."""

from __future__ import annotations

from typing import Any


def resolved(document: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    """Return the component that a part refers to, or the part itself."""
    while "$ref" in part:
        _, _, kind, name = part["$ref"].split("/")
        part = document["components"][kind][name]
    return part


def parameters_of(document: dict[str, Any], operation: dict[str, Any]) -> list[dict[str, Any]]:
    return [resolved(document, one) for one in operation.get("parameters", ())]
