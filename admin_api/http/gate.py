"""The check, before routing, whether a client may send a request of this kind.

The gate stands in front of the router and knows no route, so it also covers routes that are added later.
Without a token only the paths listed here are served. Brokers' requests need a broker's token. Every request
with a method that is not safe counts as a write. The only exception is a dry run: a route either carries it
out as one or refuses the unknown parameter. A route may ask for more (`Caller.need`), never for less.

Brokers' requests do not count as operators' writes: leases and elections go on in read-only mode. The gate is
plain ASGI and passes `receive` on unchanged, so that a broker's closed connection is noticed at once.
"""

from __future__ import annotations

import logging
import re
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from admin_api.http.problems import REQUEST_ID_SCOPE_KEY, ProblemError, problem_response
from admin_api.http.tokens import Principal, Role, Tokens
from admin_api.settings import ApiSettings

_log = logging.getLogger(__name__)

#: Path prefix of all brokers' requests, and of no others.
BROKERS_PREFIX: Final = "/internal/"
SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
#: Probes, the documentation, and the pages that call the interface; they contain no data of any cluster.
OPEN_PATHS: Final = frozenset({"/", "/healthz", "/readyz", "/docs", "/openapi.json", "/problems"})
OPEN_PREFIXES: Final = ("/console/", "/docs/", "/problems/")

#: ASGI scope key of the client's principal; absent where tokens are not used.
PRINCIPAL_SCOPE_KEY: Final = "springtide.principal"

_BEARER: Final = re.compile(rb"bearer +([!-~]{1,400}) *", re.IGNORECASE)
_REALM: Final = 'Bearer realm="springtide"'


class Gate:
    """ASGI middleware. tokens: None: every client may send any request."""

    def __init__(self, app: ASGIApp, *, settings: ApiSettings, tokens: Tokens | None) -> None:
        self._app = app
        self._settings = settings
        self._tokens = tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                self._check(scope)
            except ProblemError as refusal:
                request_id = scope.get(REQUEST_ID_SCOPE_KEY)
                response = problem_response(refusal, path=scope["path"], request_id=request_id)
                await response(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _check(self, scope: Scope) -> None:
        if self._tokens is not None and not is_open(scope):
            principal = _authenticate(scope, self._tokens)
            check_role(principal, needed_role(scope))
            scope[PRINCIPAL_SCOPE_KEY] = principal
        if self._settings.read_only and is_write(scope):
            method = scope["method"][:20]
            raise ProblemError("read_only", f"{method} is not possible: this controller is read-only")


def is_open(scope: Scope) -> bool:
    """Return whether the request is served without a token."""
    path = scope["path"]
    return scope["method"] in SAFE_METHODS and (path in OPEN_PATHS or path.startswith(OPEN_PREFIXES))


def is_write(scope: Scope) -> bool:
    """Return whether the request could change something for an operator."""
    if scope["method"] in SAFE_METHODS or scope["path"].startswith(BROKERS_PREFIX):
        return False
    # Only this spelling counts. The route refuses a second `dry_run` with another value, in any spelling.
    return b"dry_run=true" not in scope["query_string"].split(b"&")


def needed_role(scope: Scope) -> Role:
    if scope["path"].startswith(BROKERS_PREFIX):
        return Role.BROKER
    return Role.OPERATOR if is_write(scope) else Role.VIEWER


def check_role(principal: Principal, needed: Role) -> None:
    """Raise forbidden unless the principal has the role."""
    if principal.role.includes(needed):
        return
    _log.warning("forbidden name=%s role=%s needed=%s", principal.name, principal.role.value, needed.value)
    raise ProblemError(
        "forbidden",
        f"this takes the role {needed}; the token of {principal.name} has the role {principal.role}",
        facts={"role": principal.role.value, "needed": needed.value},
        headers={"WWW-Authenticate": f'{_REALM}, error="insufficient_scope"'},
    )


def _authenticate(scope: Scope, tokens: Tokens) -> Principal:
    given = [value for name, value in scope["headers"] if name == b"authorization"]
    if not given:
        raise ProblemError("unauthenticated", "no token was sent", headers={"WWW-Authenticate": _REALM})
    bearer = _BEARER.fullmatch(given[0]) if len(given) == 1 else None
    principal = None if bearer is None else tokens.holder_of(bearer[1])
    if principal is None:
        detail = "not one 'Authorization: Bearer TOKEN'" if bearer is None else "the token is not valid here"
        headers = {"WWW-Authenticate": f'{_REALM}, error="invalid_token"'}
        raise ProblemError("unauthenticated", detail, headers=headers)
    return principal
