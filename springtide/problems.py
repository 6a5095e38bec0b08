"""What a refusal says, from its problem document (RFC 9457): title, detail, every field, hint. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from springtide.tables import cell

TEXT_CHARS_MAX: Final = 500


def problem_of(body: bytes) -> Mapping[str, Any]:
    """The document, or nothing when the answer is none of the API's: a proxy's page, say."""
    try:
        document = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return {}
    return document if isinstance(document, Mapping) else {}


def problem_lines(status: int, body: bytes) -> list[str]:
    """The first line says what, the others why and what to do."""
    problem = problem_of(body)
    title, code = problem.get("title"), problem.get("code")
    if not title:
        said = body.decode("utf-8", "replace").strip()[:TEXT_CHARS_MAX]
        return [f"refused with status {status}", *([f"  {cell(said)}"] if said else [])]
    lines = [f"{cell(title)} ({cell(code)}, {status})" if code else f"{cell(title)} ({status})"]
    if detail := problem.get("detail"):
        lines.append(f"  {cell(detail)}")
    errors = problem.get("errors")
    for error in errors if isinstance(errors, list) else []:
        if isinstance(error, Mapping):
            lines.append(f"  {_field_line(error)}")
    if hint := problem.get("hint"):
        lines.append(f"  hint: {cell(hint)}")
    if request_id := problem.get("request_id"):
        lines.append(f"  request: {cell(request_id)}")
    return lines


def _field_line(error: Mapping[str, Any]) -> str:
    where = next((error[name] for name in ("pointer", "parameter", "header") if error.get(name)), "body")
    return f"{cell(where)}: {cell(error.get('message'))}"
