"""Requests that the core decides part by part, carried out whole or not at all, as REST promises."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import msgspec

from admin_api.http.problems import ERRORS_SHOWN_MAX, FieldProblem, ProblemError, refusal_problem
from admin_api.http.writes import submit
from controller.face.cluster import Engine
from controller.face.commands import AlterAcls, AlterQuotas, AlterUsers, Refusal, Reply

Decided = TypeVar("Decided", bound=Reply)
#: The place of a part in the body, and why the part was refused.
Part = tuple[str, Refusal | None]


async def submit_whole(
    engine: Engine,
    cluster: str,
    event: AlterAcls | AlterUsers | AlterQuotas,
    decided: type[Decided],
    parts: Callable[[Decided], Iterable[Part]],
) -> Decided:
    """Return the core's answer. Raise the problem of all refused parts, before any part is carried out.

    Another request can take the last room between the two steps. Then parts are carried out and the problem
    is raised all the same; to repeat the request is safe.
    """
    if not event.dry_run:
        tried = msgspec.structs.replace(event, dry_run=True)
        _check(parts(await submit(engine, cluster, tried, decided)))
    done = await submit(engine, cluster, event, decided)
    _check(parts(done))
    return done


def _check(parts: Iterable[Part]) -> None:
    refused = [(pointer, refusal) for pointer, refusal in parts if refusal is not None]
    if not refused:
        return
    pointer, first = refused[0]
    problem = refusal_problem(first, pointer=pointer)
    errors = tuple(
        FieldProblem(pointer=where, message=refusal.detail, limit=refusal.limit)
        for where, refusal in refused[:ERRORS_SHOWN_MAX]
    )
    more = f", and {len(refused) - 1} more" if len(refused) > 1 else ""
    raise ProblemError(
        problem.code, f"{first.detail}{more}", errors=errors, hint=first.hint, facts=first.facts
    )
