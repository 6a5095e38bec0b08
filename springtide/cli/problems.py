"""A refusal in words, from its problem document (RFC 9457): title, detail, every field, hint. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from springtide.cli.tables import cell

TEXT_CHARS_MAX: Final = 500
NOT_KNOWN: Final = frozenset({"not_found", "method_not_allowed"})
"""Codes for a path or verb that the controller does not have; each release has those of its own commands."""
OF_ANOTHER_RELEASE: Final = (
    "the controller is of another release, and does not know this command: upgrade the controllers, or use "
    "the command line of their release (`springtide --version`)"
)


def problem_of(body: bytes) -> Mapping[str, Any]:
    """Return the document; an empty one if the answer is not the API's but, for example, a proxy's page."""
    try:
        document = msgspec.json.decode(body)
    except ValueError:
        return {}
    return document if isinstance(document, Mapping) else {}


def problem_lines(status: int, body: bytes) -> list[str]:
    """Return lines: the first says what was refused, the others why and what to do."""
    problem = problem_of(body)
    title, code = problem.get("title"), problem.get("code")
    if not title:
        text = body.decode("utf-8", "replace").strip()[:TEXT_CHARS_MAX]
        return [f"refused with status {status}", *([f"  {cell(text)}"] if text else [])]
    lines = [f"{cell(title)} ({cell(code)}, {status})" if code else f"{cell(title)} ({status})"]
    errors = problem.get("errors")
    listed = errors if isinstance(errors, list) else []
    said = [_field_line(error) for error in listed if isinstance(error, Mapping)]
    if (detail := problem.get("detail")) and cell(detail) not in said:
        said.insert(0, cell(detail))
    lines += [f"  {line}" for line in said]
    if code in NOT_KNOWN:
        lines.append(f"  hint: {OF_ANOTHER_RELEASE}")
    elif hint := problem.get("hint"):
        lines.append(f"  hint: {cell(hint)}")
    if request_id := problem.get("request_id"):
        lines.append(f"  request: {cell(request_id)}")
    return lines


def _field_line(error: Mapping[str, Any]) -> str:
    where = next((error[name] for name in ("pointer", "parameter", "header") if error.get(name)), "body")
    return f"{cell(where)}: {cell(error.get('message'))}"
