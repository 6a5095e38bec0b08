"""The outermost layer of every request: its id, the bounds of its head, its metrics, and the last error
handler.

It is plain ASGI, outside everything else. So an unknown address also answers with a request id, and an
internal error becomes a problem document instead of a dropped connection. Details of such an error stay in
the log, under the same request id.
"""

from __future__ import annotations

import logging
import re
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from admin_api.http.problems import REQUEST_ID_SCOPE_KEY, ProblemError, problem_response
from admin_api.settings import ApiSettings
from controller.shell.clock import ControllerClock, Ids
from springtide.log_lines import ids_in_log

_log = logging.getLogger(__name__)
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


class Envelope:
    """ASGI middleware."""

    def __init__(
        self, app: ASGIApp, *, settings: ApiSettings, clock: ControllerClock, ids: Ids, metrics: HttpMetrics
    ) -> None:
        self._app = app
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

        try:
            refusal = self._check_head(scope)
            if refusal is None:
                await self._app(scope, receive, send_marked)
            else:
                response = problem_response(refusal, path=scope["path"][:100], request_id=request_id)
                await response(scope, receive, send_marked)
        except ClientDisconnect:
            # The client has gone: not a failure of the controller, and mostly no client receives this answer.
            if not status:
                left = ProblemError("bad_request", "the request ended before its body was whole")
                response = problem_response(left, path=scope["path"], request_id=request_id)
                await response(scope, receive, send_marked)
        except Exception:
            _log.exception("request_failed method=%s path=%s", scope["method"], scope["path"])
            if status:
                raise  # the answer has begun; all that is left is to close the connection
            failure = ProblemError("internal_error", "the controller failed to answer this request")
            response = problem_response(failure, path=scope["path"], request_id=request_id)
            await response(scope, receive, send_marked)
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

    def _check_head(self, scope: Scope) -> ProblemError | None:
        settings = self._settings
        if OVERLOADED_SCOPE_KEY in scope:
            return ProblemError(
                "overloaded",
                "this controller has as many connections as it may have",
                headers={"Retry-After": str(settings.retry_after_s), "Connection": "close"},
            )
        target = len(scope.get("raw_path") or scope["path"].encode()) + len(scope["query_string"])
        if target > settings.target_bytes_max:
            return ProblemError(
                "target_too_long", f"a path and query may have {settings.target_bytes_max} bytes"
            )
        headers = scope["headers"]
        size = sum(len(name) + len(value) for name, value in headers)
        if len(headers) > settings.headers_max or size > settings.headers_bytes_max:
            return ProblemError(
                "headers_too_large",
                f"a request may have {settings.headers_max} header fields and "
                f"{settings.headers_bytes_max} bytes of them",
            )
        return None
