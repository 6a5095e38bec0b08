"""What a command asks of the API, as a value: method, path, query, body. Pure; client.py sends it.

Names are quoted one by one, so that none of them can change which resource is meant: a topic called `a/b` is
asked for as such (and refused by the API), and `..`, which every HTTP library resolves away, is refused here:
deleting the topic `..` must not become deleting its cluster.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final
from urllib.parse import quote

Json = dict[str, Any]

ANSWER_SECONDS_MAX: Final = 10.0
#: A change is persisted before it is answered: 100,000 partitions take a while.
CHANGE_SECONDS_MAX: Final = 30.0


class UsageError(Exception):
    """The command line asks for something that can't be: exit status 2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """query: a tuple is a parameter that is repeated. answer_s_max: how long an answer may take to begin.
    needs_active: a standby's copy is no answer, because it lacks what leaders report."""

    method: str
    path: str
    query: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)
    body: Json | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    answer_s_max: float = ANSWER_SECONDS_MAX
    needs_active: bool = False

    @property
    def is_write(self) -> bool:
        """Whether it may change something, and so must not be done twice."""
        return self.method != "GET" and self.query.get("dry_run") != "true"


def address(*names: object, action: str | None = None) -> str:
    """`/clusters/prod/brokers/4`, with `:drain` after it for that action. Raises UsageError."""
    parts = [str(name) for name in names]
    for part in parts:
        if part in ("", ".", ".."):
            raise UsageError(f"{part!r} can't be the name of anything")
    path = "".join("/" + quote(part, safe="") for part in parts)
    return path if action is None else f"{path}:{action}"


def given(**fields: Any) -> Json:
    """The fields that were given: None is the API's own default, so it is not sent."""
    return {name: value for name, value in fields.items() if value is not None}


def get(*names: object, answer_s_max: float = ANSWER_SECONDS_MAX, **query: object) -> Call:
    """query: numbers and texts; a list is repeated, and None left out."""
    texts = {
        name: tuple(map(str, value)) if isinstance(value, list) else str(value)
        for name, value in given(**query).items()
    }
    return Call(method="GET", path=address(*names), query=texts, answer_s_max=answer_s_max)


def write(
    options: Namespace, method: str, *names: object, action: str | None = None, body: Json | None = None
) -> Call:
    """A change, with what every change takes: `--reason` (in the body, or the query where there is none),
    `--dry-run`, `--if-match`."""
    query: dict[str, str | tuple[str, ...]] = {"dry_run": "true"} if options.dry_run else {}
    if options.reason is not None:
        if method == "DELETE":
            query["reason"] = options.reason
        else:
            body = {**(body or {}), "reason": options.reason}
    if_match = getattr(options, "if_match", None)
    headers = {} if if_match is None else {"If-Match": if_match}
    if method != "DELETE" and body is None:
        body = {}
    return Call(
        method=method,
        path=address(*names, action=action),
        query=query,
        body=body,
        headers=headers,
        answer_s_max=CHANGE_SECONDS_MAX,
    )


def with_query(call: Call, **query: str | None) -> Call:
    """The same with more in its query; None is left out."""
    return replace(call, query={**call.query, **given(**query)})
