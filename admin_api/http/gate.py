"""The gate around every request: its id, the bounds of its head, who its client is, its metrics, and the last
error handler.

It is plain ASGI, outside everything else, and knows no route. So it also covers routes that are added later,
an unknown address also answers with a request id, and an internal error becomes a problem document instead of
a dropped connection. Details of such an error stay in the log, under the same request id. `receive` is passed
on unchanged, so that a broker's closed connection is noticed at once.

Without a token, or a certificate that is known, only the paths listed here are served. Brokers' requests need
a broker's role, which is good for nothing else; what other callers may do is decided in front of each route
(`guard`). Every request with a method that is not safe counts as a write. The only exception is a dry run: a
route either carries it out as one or refuses the unknown parameter.

Brokers' requests do not count as operators' writes: leases and elections go on in read-only mode.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, Counter, Histogram
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from admin_api.http.certificates import CERTIFICATE_SCOPE_KEY
from admin_api.http.problems import REQUEST_ID_SCOPE_KEY, ProblemError, problem_response
from admin_api.http.tokens import Principal, Role, Tokens
from admin_api.settings import ApiSettings
from controller.face.surroundings import ControllerClock, Ids
from springtide.log_lines import ids_in_log

if TYPE_CHECKING:
    from admin_api.http.oidc import OidcIssuer

_log = logging.getLogger(__name__)

#: Path prefix of all brokers' requests, and of no others.
BROKERS_PREFIX: Final = "/internal/"
SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
#: A broker's or coordinator's request, with its id.
_OF_NODE: Final = re.compile(BROKERS_PREFIX + r"clusters/[^/]+/(?:brokers|coordinators)/([0-9]{1,10}):[^/]*")
#: Probes, the documentation, and the pages that call the interface; they contain no data of any cluster.
OPEN_PATHS: Final = frozenset({"/", "/healthz", "/readyz", "/docs", "/openapi.json", "/problems"})
OPEN_PREFIXES: Final = ("/console/", "/docs/", "/problems/")

#: ASGI scope key of the client's principal; absent where tokens are not used.
PRINCIPAL_SCOPE_KEY: Final = "springtide.principal"

_BEARER: Final = re.compile(rb"bearer +([!-~]{1,16384}) *", re.IGNORECASE)
_REALM: Final = 'Bearer realm="springtide"'
#: The most characters of a path that a refusal repeats.
PATH_CHARS_SHOWN_MAX: Final = 100
#: ASGI scope key, set by the server when it has more connections or requests than its limit.
OVERLOADED_SCOPE_KEY: Final = "springtide.overloaded"
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._~:/+=-]{1,128}")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class HttpMetrics:
    """Request metrics by route template, never by path: clients choose paths, so their number has no
    bound."""

    def __init__(self, registry: CollectorRegistry) -> None:
        labels = ("method", "route")
        self.requests = Counter(
            "springtide_http_requests", "Requests answered.", (*labels, "status"), registry=registry
        )
        self.seconds = Histogram(
            "springtide_http_request_seconds",
            "Time from the head of a request to the end of its answer.",
            labels,
            buckets=_BUCKETS_S,
            registry=registry,
        )


class Gate:
    """ASGI middleware. tokens: None: every client may send any request. issuer: of tokens that are not in
    `tokens`."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        settings: ApiSettings,
        tokens: Tokens | None,
        issuer: OidcIssuer | None = None,
        clock: ControllerClock,
        ids: Ids,
        metrics: HttpMetrics,
    ) -> None:
        self._app = app
        self._tokens = tokens
        self._issuer = issuer
        self._settings = settings
        self._clock = clock
        self._ids = ids
        self._metrics = metrics
        #: RFC 6797. Not by itself: it also moves what other programs serve under this host's name to https.
        self._hsts = (
            [(b"strict-transport-security", b"max-age=%d" % settings.hsts_s)] if settings.hsts_s else []
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["method"] == "HEAD":
            scope, send = {**scope, "method": "GET"}, _without_body(send)
        request_id = self._request_id(scope)
        scope[REQUEST_ID_SCOPE_KEY] = request_id
        with ids_in_log(request_id=request_id):
            await self._answer(scope, receive, send, request_id)

    async def _answer(self, scope: Scope, receive: Receive, send: Send, request_id: str) -> None:
        started_ms = self._clock.now_mono_ms()
        status = 0

        async def send_marked(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [
                    *(pair for pair in message.get("headers", ()) if pair[0].lower() != b"x-request-id"),
                    (b"x-request-id", request_id.encode("ascii")),
                    (b"x-content-type-options", b"nosniff"),
                    *self._hsts,
                ]
            await send(message)

        async def refuse(problem: ProblemError, path: str) -> None:
            response = problem_response(problem, path=path, request_id=request_id)
            await response(scope, receive, send_marked)

        try:
            try:
                self._check_head(scope)
                self._check_client(scope)
            except ProblemError as refusal:
                await refuse(refusal, scope["path"][:PATH_CHARS_SHOWN_MAX])
            else:
                await self._app(scope, receive, send_marked)
        except ClientDisconnect:
            # The client has gone: not a failure of the controller, and mostly no client receives this answer.
            if not status:
                left = ProblemError("bad_request", "the request ended before its body was whole")
                await refuse(left, scope["path"])
        except Exception:
            _log.exception("request_failed method=%s path=%s", scope["method"], scope["path"])
            if status:
                raise  # the answer has begun; all that is left is to close the connection
            failure = ProblemError("internal_error", "the controller failed to answer this request")
            await refuse(failure, scope["path"])
        finally:
            route = getattr(scope.get("route"), "path_format", "unmatched")
            method = scope["method"] if scope["method"] in _METHODS else "other"
            self._metrics.requests.labels(method, route, str(status)).inc()
            elapsed_ms = self._clock.now_mono_ms() - started_ms
            self._metrics.seconds.labels(method, route).observe(elapsed_ms / 1000)

    def _request_id(self, scope: Scope) -> str:
        for name, value in scope["headers"]:
            if name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
                return bytes(value).decode("ascii")
        return self._ids.new_id()

    def _check_head(self, scope: Scope) -> None:
        """Raise overloaded, target_too_long or headers_too_large."""
        settings = self._settings
        if OVERLOADED_SCOPE_KEY in scope:
            raise ProblemError(
                "overloaded",
                "this controller has as many connections as it may have",
                headers={"Connection": "close"},
            )
        target = len(scope.get("raw_path") or scope["path"].encode()) + len(scope["query_string"])
        if target > settings.target_bytes_max:
            raise ProblemError(
                "target_too_long", f"a path and query may have {settings.target_bytes_max} bytes"
            )
        headers = scope["headers"]
        size = sum(len(name) + len(value) for name, value in headers)
        if len(headers) > settings.headers_max or size > settings.headers_bytes_max:
            raise ProblemError(
                "headers_too_large",
                f"a request may have {settings.headers_max} header fields and "
                f"{settings.headers_bytes_max} bytes of them",
            )

    def _check_client(self, scope: Scope) -> None:
        """Raise other_origin, unauthenticated, forbidden or read_only."""
        if scope["method"] not in SAFE_METHODS:
            _check_origin(scope)
        if self._tokens is not None and not is_open(scope):
            principal = _authenticate(scope, self._tokens, self._issuer)
            _check_broker(principal, scope)
            scope[PRINCIPAL_SCOPE_KEY] = principal
            if principal.role is Role.VIEWER:
                return  # To most of what it might write it has no right, which the guard says first.
        check_writable(scope, self._settings)


def _without_body(send: Send) -> Send:
    """Return what sends the answer to GET as that to HEAD (RFC 9110, 9.3.2), for which FastAPI has no
    routes. Probes use it."""

    async def send_head(message: Message) -> None:
        await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

    return send_head


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


def check_writable(scope: Scope, settings: ApiSettings) -> None:
    """Raise read_only if the request is a write and the controller takes none."""
    if settings.read_only and is_write(scope):
        method = scope["method"][:20]
        raise ProblemError("read_only", f"{method} is not possible: this controller is read-only")


def insufficient_scope() -> dict[str, str]:
    """Return the header of a refusal to a caller who is known (RFC 6750)."""
    return {"WWW-Authenticate": f'{_REALM}, error="insufficient_scope"'}


def _check_broker(principal: Principal, scope: Scope) -> None:
    """Raise forbidden if a broker's request comes from another caller or in another's name, or another
    request from a broker. The route compares the id in the path with the one in the body."""
    is_brokers = scope["path"].startswith(BROKERS_PREFIX)
    if is_brokers == (principal.role is Role.BROKER):
        if is_brokers and principal.ids is not None:
            _check_id(principal, principal.ids, scope["path"])
        return
    needed = Role.BROKER if is_brokers else Role.VIEWER
    _log.warning("forbidden name=%s role=%s needed=%s", principal.name, principal.role.value, needed.value)
    raise ProblemError(
        "forbidden",
        f"this takes the role {needed}; the token of {principal.name} has the role {principal.role}",
        facts={"role": principal.role.value, "needed": needed.value},
        headers=insufficient_scope(),
    )


def _check_id(principal: Principal, ids: frozenset[int], path: str) -> None:
    """Raise forbidden unless the request is that of a broker or coordinator with one of the ids."""
    named = _OF_NODE.fullmatch(path)
    if named is not None and principal.may_speak_for(int(named[1])):
        return
    own = ", ".join(str(number) for number in sorted(ids))
    _log.warning("forbidden name=%s ids=%s path=%s", principal.name, own, path[:PATH_CHARS_SHOWN_MAX])
    raise ProblemError(
        "forbidden",
        f"the token of {principal.name} is for {own} only",
        facts={"role": principal.role.value, "needed": Role.BROKER.value, "ids": sorted(ids)},
        headers=insufficient_scope(),
    )


def _check_origin(scope: Scope) -> None:
    """Raise other_origin if a browser sends this for a page of another site. Such a page can't know a token,
    but the browser adds the user's certificate by itself, and a controller without tokens needs neither."""
    sent = dict(scope["headers"])
    origin = sent.get(b"origin")
    if origin is None or b"authorization" in sent:
        return
    if origin.partition(b"://")[2].lower() != sent.get(b"host", b"").lower():
        raise ProblemError("other_origin", "a page of another site sent this, and no token came with it")


def _authenticate(scope: Scope, tokens: Tokens, issuer: OidcIssuer | None) -> Principal:
    given = [value for name, value in scope["headers"] if name == b"authorization"]
    if not given:
        names = scope.get(CERTIFICATE_SCOPE_KEY, ())
        holder = tokens.holder_of_certificate(names)
        if holder is not None:
            return holder
        detail = "no token was sent" + (f", and the certificate of {names[0]} has no role" if names else "")
        raise ProblemError("unauthenticated", detail, headers={"WWW-Authenticate": _REALM})
    bearer = _BEARER.fullmatch(given[0]) if len(given) == 1 else None
    detail = "not one 'Authorization: Bearer TOKEN'"
    principal: Principal | None = None
    if bearer is not None:
        principal, detail = tokens.holder_of(bearer[1]), "the token is not valid here"
        if principal is None and issuer is not None:
            issued = issuer.holder_of(bearer[1].decode("ascii"))
            principal, detail = (None, issued) if isinstance(issued, str) else (issued, "")
    if principal is None:
        headers = {"WWW-Authenticate": f'{_REALM}, error="invalid_token"'}
        raise ProblemError("unauthenticated", detail, headers=headers)
    return principal
