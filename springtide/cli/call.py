"""A command's request to the API as a value: method, path, query, body. Pure; client.py sends it.

Names are quoted one by one, so that none can change which resource is meant: a topic called `a/b` is asked
for as such (and refused by the API). `..`, which every HTTP library resolves away, is refused here: deleting
the topic `..` must not become deleting its cluster.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

Json = dict[str, Any]
Asks = Callable[[Namespace], "Call"]
"""The call that a command makes with its options."""

ANSWER_SECONDS_MAX: Final = 10.0
#: A change is persisted before it is answered: 100,000 partitions take some seconds.
CHANGE_SECONDS_MAX: Final = 30.0


class UsageError(Exception):
    """The command line can't be carried out: exit status 2."""


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
        """Return whether it may change something, and so must not be done twice."""
        return self.method != "GET" and self.query.get("dry_run") != "true"


def address(*names: object, action: str | None = None) -> str:
    """Return a path such as `/clusters/prod/brokers/4`, `:drain` after it for that action. Raise
    UsageError."""
    parts = [str(name) for name in names]
    for part in parts:
        if part in ("", ".", ".."):
            raise UsageError(f"{part!r} can't be the name of anything")
    path = "".join("/" + quote(part, safe="") for part in parts)
    return path if action is None else f"{path}:{action}"


def given(**fields: Any) -> Json:
    """Return the fields that are not None: the API has its own defaults."""
    return {name: value for name, value in fields.items() if value is not None}


def get(*names: object, answer_s_max: float = ANSWER_SECONDS_MAX, **query: object) -> Call:
    """Return a GET. query: numbers and texts; a list is repeated, None is left out."""
    texts = {
        name: tuple(map(str, value)) if isinstance(value, list) else str(value)
        for name, value in given(**query).items()
    }
    return Call(method="GET", path=address(*names), query=texts, answer_s_max=answer_s_max)


def write(
    options: Namespace, method: str, *names: object, action: str | None = None, body: Json | None = None
) -> Call:
    """Return a change with its common options: `--reason` (in the body, or the query where there is none),
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


def reads(path: str, *query: str, answer_s_max: float = ANSWER_SECONDS_MAX) -> Asks:
    """Return how to GET `path`, such as `clusters/{cluster}/topics`: names in braces are options.

    query: parameters, each the option of its name; `actor=by`: the option `by`.
    """
    parameters = [(name, option or name) for name, _, option in (one.partition("=") for one in query)]

    def call(options: Namespace) -> Call:
        values: Json = {name: getattr(options, option) for name, option in parameters}
        return get(*_names(path, options), answer_s_max=answer_s_max, **values)

    return call


def writes(
    method: str,
    path: str,
    body: Callable[[Namespace], Json | None] = lambda _: None,
    *,
    action: str | None = None,
) -> Asks:
    """Return how to change what is at `path`; see `reads` and `write`."""
    return lambda options: write(options, method, *_names(path, options), action=action, body=body(options))


def _names(path: str, options: Namespace) -> list[object]:
    return [getattr(options, part[1:-1]) if part.startswith("{") else part for part in path.split("/")]
