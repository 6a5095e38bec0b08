"""Decides, before any route is looked for, whether a request may change something.

It stands in front of the router and knows no route, so a route that somebody adds later is covered without
being told. What is not one of the safe methods counts as a write; the only exception is a dry run, which
every route either carries out as one or, not knowing the parameter, refuses. Requests of brokers
(`/internal/`) are none of an operator's writes: leases and elections go on while operators may only look.

Plain ASGI, and `receive` is handed on untouched: a broker's closed connection must be noticed at once.
"""

from __future__ import annotations

from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from admin_api.envelope import REQUEST_ID_SCOPE_KEY
from admin_api.problem import ProblemError, problem_response
from admin_api.settings import ApiSettings

#: What brokers ask lives below this path and nothing else does.
BROKERS_PREFIX: Final = "/internal/"
SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class Gate:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp, *, settings: ApiSettings) -> None:
        self._app = app
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._check(scope) if scope["type"] == "http" else None
        if refusal is None:
            await self._app(scope, receive, send)
            return
        response = problem_response(refusal, path=scope["path"], request_id=scope.get(REQUEST_ID_SCOPE_KEY))
        await response(scope, receive, send)

    def _check(self, scope: Scope) -> ProblemError | None:
        if self._settings.read_only and is_write(scope):
            return ProblemError(
                "read_only", f"{scope['method'][:20]} is not possible: this controller is read-only"
            )
        return None


def is_write(scope: Scope) -> bool:
    """Whether the request could change something for an operator."""
    if scope["method"] in SAFE_METHODS or scope["path"].startswith(BROKERS_PREFIX):
        return False
    # In this spelling only. A second one that says otherwise, however spelt, is refused by the route.
    return b"dry_run=true" not in scope["query_string"].split(b"&")
