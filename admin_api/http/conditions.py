"""Conditional requests (RFC 9110 13): a change applies only if the resource is still the one that the client
read.

An entity tag has two parts, `"<version>.<digest>"`. The digest is of the answered bytes, so two answers with
the same tag are the same answer. The version is that of the resource's own row, and `If-Match` compares only
the version. A topic's counts change whenever a replica falls behind; an operator who decided on a deletion
need not decide again because of that.

The version is compared at the moment in which the change is decided, against all decided changes and not only
the persisted ones: a change that is still on its way to ZooKeeper counts.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import Depends, Header, Request

from admin_api.http.gate import is_write
from admin_api.http.problems import FieldProblem, ProblemError

IF_MATCH: Final = "If-Match"
#: ASGI scope key: the condition of the request; set only for routes that compare.
CONDITION_SCOPE_KEY: Final = "springtide.condition"
DIGEST_CHARS: Final = 16

_ENTITY_TAG: Final = r'(?:W/)?"[\x21\x23-\x7e]*"'
_CONDITION: Final = re.compile(rf"\s*(?:\*|{_ENTITY_TAG}(?:\s*,\s*{_ENTITY_TAG})*)\s*")
_TAGS: Final = re.compile(r'(W/)?"([^"]*)"')


def entity_tag(version: str, body: bytes) -> str:
    """Return the entity tag. version: of the row that a condition is about, without quotation marks."""
    return f'"{version}.{hashlib.sha256(body).hexdigest()[:DIGEST_CHARS]}"'


@dataclass(frozen=True, slots=True)
class Precondition:
    """The condition that a request sets on a resource's version. None: no condition. `*`: any version
    matches."""

    header: str | None

    def check(self, version: str | None, *, what: str) -> None:
        """Raise precondition_failed unless the version matches. version: the row's current version, None
        while a change of it is pending. The caller must not await anything between this call and the
        change."""
        if self.header is None or self.header.strip() == "*":
            return
        # A weak tag never matches: an intermediary changed the answer (RFC 9110 13.1.1).
        wanted = {tag.rpartition(".")[0] for weak, tag in _TAGS.findall(self.header) if not weak}
        if version is None or version not in wanted:
            now = "is being changed" if version is None else f"is at version {version}"
            raise ProblemError(
                "precondition_failed",
                f"{what} {now}",
                errors=(FieldProblem(header=IF_MATCH, message="names another version"),),
            )


async def if_match(
    request: Request,
    if_match: Annotated[
        str | None,
        Header(
            max_length=4_096,
            description=(
                "ETag of the resource as it was looked at: the change is refused (412) when the resource's "
                "own row has changed since. Counts, lag and leaders may have."
            ),
            examples=['"17.0f3a9c1d2b4e5f60"'],
        ),
    ] = None,
) -> Precondition:
    condition = request.scope[CONDITION_SCOPE_KEY] = _condition_of(request)
    return condition


def _condition_of(request: Request) -> Precondition:
    lines = request.headers.getlist(IF_MATCH)
    if not lines:
        if request.app.state.settings.if_match_required and is_write(request.scope):
            field = FieldProblem(header=IF_MATCH, message="is needed")
            raise ProblemError("precondition_required", "this needs the header If-Match", errors=(field,))
        return Precondition(None)
    header = ", ".join(lines)
    if not _CONDITION.fullmatch(header):
        field = FieldProblem(
            header=IF_MATCH, message='must be * or entity tags such as "17.0f3a9c1d2b4e5f60"'
        )
        raise ProblemError("invalid_request", f"{IF_MATCH}: {field.message}", errors=(field,))
    return Precondition(header)


IfMatch = Annotated[Precondition, Depends(if_match)]
