"""Asks the controllers: finds the active one, follows its hints, and ignores controllers that were replaced.

Each request goes to one controller. The next one is asked if it does not answer, answers that it is not the
active one, or speaks under a controller epoch below the highest that this process has ever seen; a hint for
the active one is followed at once. An unanswered request may have had an effect, so callers send values that
may be sent again.

A controller of another release may not know a request, or a part of it. That is said once, and until it
answers such a request it stands among `not_understood`; other requests go on as if nothing were.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Sequence
from typing import Final, Literal, NamedTuple, TypeVar

import httpx
import msgspec

from springtide.contract.administration import AdminRequest, AdminResponse
from springtide.contract.epochs import NO_CONTROLLER_EPOCH, ControllerEpoch
from springtide.contract.errors import ControllerAnswer, ControllerError
from springtide.contract.lag_report import LagReport, LagReportResponse
from springtide.contract.preflight import PreflightReport, PreflightResponse
from springtide.contract.session import (
    HeartbeatRequest,
    HeartbeatResponse,
    RegisterRequest,
    RegisterResponse,
    Witness,
)
from springtide.contract.updates import (
    NameWriterRequest,
    NameWriterResponse,
    PollRequest,
    ProducerIdsRequest,
    ProducerIdsResponse,
    UpdateBatch,
)
from springtide.levels import Level
from springtide.node.clock import Clock
from springtide.tls import default_context, explain_tls

_log = logging.getLogger(__name__)

REQUEST_TIMEOUT_MS = 3_000
POLL_SLACK_MS = 5_000
"""Time beyond its own wait after which a poll's controller counts as silent."""
CONNECT_TIMEOUT_S = 1.0
NOT_KNOWN: Final = frozenset({400, 404, 405, 501})
"""A controller that knows the request answers none of these: what it refuses, it refuses in a 200."""
HINTS_MAX = 3
"""Hints followed for one request: two controllers that name each other must not keep us busy."""


class ControllerUnavailable(Exception):
    """No controller answered as the active one. Whether the request had an effect is unknown."""


class AnswerLost(ControllerUnavailable):
    """The request was sent, must not be sent twice, and was not answered."""


class NotUnderstood(ControllerUnavailable):
    """A controller is there, and does not know the request or a part of it. It has done nothing."""


class Seen(NamedTuple):
    """The latest answer of any controller to this process, a broker's restarts included (I5, one writer): see
    Witness."""

    controller_epoch: ControllerEpoch = NO_CONTROLLER_EPOCH
    lineage: str = ""
    records: int = -1
    level: Level = Level(0)


UNTOLD = Seen()


def seen_after(seen: Seen, answer: ControllerAnswer) -> Seen | None:
    """Return `seen` with what the answer teaches; None if the answer is to be ignored: its controller was
    replaced, or has its epoch in another history."""
    epoch = answer.controller_epoch
    if epoch < 0:  # an error from a controller that could not look into the cluster
        return seen
    if answer.error is ControllerError.METADATA_WENT_BACK:
        # It knows that its metadata is older, and asks only for what this broker holds. It teaches nothing:
        # by what was told before its successor finds out, too.
        return seen
    if epoch < seen.controller_epoch:
        return None
    if epoch > seen.controller_epoch:
        return seen._replace(controller_epoch=epoch, lineage=answer.lineage)
    if "" != answer.lineage != seen.lineage != "":
        return None
    return seen._replace(lineage=seen.lineage or answer.lineage)


Role = Literal["brokers", "coordinators"]
AnswerType = TypeVar("AnswerType", bound=ControllerAnswer)


class ControllerClient:
    """The other side of `/internal/clusters/{cluster}/{role}/{id}:*`. role: what the process is; the ids of
    a coordinator are then coordinators'.

    Polls have a connection of their own, because an open poll is the process's session connection: its end is
    how a controller notices at once that this process died.

    Requests go to httpx's transports without its client: what a client adds (cookies, redirects, proxies) is
    not wanted here, and was a sixth of all calls of functions that a heartbeat took.
    """

    def __init__(
        self,
        *,
        urls: Sequence[str],
        cluster: str,
        broker_id: int,
        clock: Clock,
        role: Role = "brokers",
        seen: Seen = UNTOLD,
        on_seen: Callable[[Seen], None] | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        token: str | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._urls = [url.rstrip("/") for url in urls]
        self._current = self._urls[0]
        self.role = role
        self._prefix = f"/internal/clusters/{cluster}/{role}/{broker_id}"
        self._clock = clock
        self._on_seen = on_seen
        self._headers = {"content-type": "application/json", "accept": "application/json"}
        if token is not None:
            self._headers["authorization"] = f"Bearer {token}"
        # Building one costs a tenth of a second, so only where there is something to verify.
        has_tls = any(url.startswith("https:") for url in urls)
        verify = tls or (default_context(trust_env=False) if has_tls else False)
        self._requests = transport or httpx.AsyncHTTPTransport(trust_env=False, verify=verify)
        self._polls = transport or httpx.AsyncHTTPTransport(trust_env=False, verify=verify)
        self.seen = seen
        #: Of each request that its controller does not know, by the last word of its path, what it answered.
        self.not_understood: dict[str, str] = {}

    @property
    def current_url(self) -> str:
        return self._current

    def witness(self, cluster_id: str | None) -> Witness | None:
        """Return what every controller is told; None before the first answer of one."""
        if cluster_id is None or self.seen.controller_epoch < 0:
            return None
        return Witness(
            cluster_id=cluster_id,
            controller_epoch=self.seen.controller_epoch,
            lineage=self.seen.lineage,
            records=self.seen.records,
            level=self.seen.level,
        )

    def note_records(self, records: int, level: Level) -> None:
        """Note that an applied batch said how many records there are, and the cluster's level."""
        if records > self.seen.records or level > self.seen.level:
            self._see(
                self.seen._replace(records=max(records, self.seen.records), level=max(level, self.seen.level))
            )

    def _see(self, seen: Seen) -> None:
        self.seen = seen
        if self._on_seen is not None:
            self._on_seen(seen)

    async def aclose(self) -> None:
        await self._requests.aclose()
        await self._polls.aclose()

    async def register(self, request: RegisterRequest) -> RegisterResponse:
        return await self._ask("register", request, RegisterResponse)

    async def heartbeat(self, request: HeartbeatRequest, *, timeout_ms: int) -> HeartbeatResponse:
        return await self._ask("heartbeat", request, HeartbeatResponse, timeout_ms=timeout_ms)

    async def report(self, request: LagReport) -> LagReportResponse:
        return await self._ask("report", request, LagReportResponse)

    async def allocate_producer_ids(self, request: ProducerIdsRequest) -> ProducerIdsResponse:
        return await self._ask("allocate-producer-ids", request, ProducerIdsResponse)

    async def name_writer(self, request: NameWriterRequest) -> NameWriterResponse:
        return await self._ask("name-writer", request, NameWriterResponse)

    async def preflight(self, report: PreflightReport) -> PreflightResponse:
        return await self._ask("preflight", report, PreflightResponse)

    async def administer(self, request: AdminRequest, timeout_ms: int) -> AdminResponse:
        """Ask once: if a controller may have begun, no other is asked. Raise AnswerLost."""
        return await self._ask(
            "administer", request, AdminResponse, timeout_ms=timeout_ms, is_repeatable=False
        )

    async def poll(self, request: PollRequest) -> UpdateBatch:
        return await self._ask(
            "poll",
            request,
            UpdateBatch,
            timeout_ms=request.wait_ms_max + POLL_SLACK_MS,
            transport=self._polls,
        )

    async def _ask(
        self,
        verb: str,
        request: msgspec.Struct,
        answer_type: type[AnswerType],
        *,
        timeout_ms: int = REQUEST_TIMEOUT_MS,
        transport: httpx.AsyncBaseTransport | None = None,
        is_repeatable: bool = True,
    ) -> AnswerType:
        body = msgspec.json.encode(request)
        transport = transport or self._requests
        reason = "no controller is configured"
        asked: list[str] = []
        not_understood: NotUnderstood | None = None
        url = self._current
        for _ in range(len(self._urls) + HINTS_MAX):
            asked.append(url)
            hint: str | None = None
            try:
                answer, hint = await self._post(
                    transport, url, verb, body, answer_type=answer_type, timeout_ms=timeout_ms
                )
            except NotUnderstood as error:
                answer, not_understood = None, error
            except (httpx.HTTPError, ValueError, ControllerUnavailable) as error:
                answer = None
                reason = f"{url}: {_explain(error, url)}"
                if not is_repeatable and not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
                    raise AnswerLost(reason) from error
            if answer is not None:
                if answer.error is not ControllerError.NOT_CONTROLLER and self._is_current(answer):
                    self._current = url
                    self.not_understood.pop(verb, None)
                    return answer
                if not is_repeatable and answer.error is not ControllerError.NOT_CONTROLLER:
                    raise AnswerLost(f"{url} answered, and was replaced meanwhile")
                hint = hint or answer.active_controller
                reason = f"{url} is not the active controller"
            following = self._next_url(url, hint, asked)
            if following is None:
                break
            url = following
        if not_understood is not None:
            self._note_not_understood(verb, not_understood)
            raise not_understood
        # Begin elsewhere the next time: the one asked first may be up and not answer.
        self._current = self._urls[(self._index(self._current) + 1) % len(self._urls)]
        raise ControllerUnavailable(reason)

    async def _post(
        self,
        transport: httpx.AsyncBaseTransport,
        url: str,
        verb: str,
        body: bytes,
        *,
        answer_type: type[AnswerType],
        timeout_ms: int,
    ) -> tuple[AnswerType | None, str | None]:
        """Return (answer, hint). No answer and a hint: a redirect to the active controller."""
        timeout = httpx.Timeout(timeout_ms / 1000, connect=CONNECT_TIMEOUT_S)
        request = httpx.Request(
            "POST",
            f"{url}{self._prefix}:{verb}",
            content=body,
            headers=self._headers,
            extensions={"timeout": timeout.as_dict()},
        )
        with self._clock.timeout_ms(timeout_ms) as scope:
            response = await transport.handle_async_request(request)
            try:
                await response.aread()
            finally:
                await response.aclose()
        if scope.cancelled_caught:
            raise ControllerUnavailable(f"no answer within {timeout_ms} ms")
        if response.status_code in (307, 308):
            location = httpx.URL(response.headers.get("location", url))
            return None, str(httpx.URL(url).join(location).copy_with(path="/", query=None)).rstrip("/")
        if response.status_code in NOT_KNOWN:
            raise NotUnderstood(_not_understood(url, verb, response))
        if response.status_code != 200:
            raise ControllerUnavailable(f"HTTP {response.status_code}: {response.text[:200]}")
        return msgspec.json.decode(response.content, type=answer_type), None

    def _is_current(self, answer: ControllerAnswer) -> bool:
        seen = seen_after(self.seen, answer)
        if seen is None:
            epoch, epoch_seen = answer.controller_epoch, self.seen.controller_epoch
            if epoch < epoch_seen:
                _log.info("answer_ignored controller_epoch=%d controller_epoch_seen=%d", epoch, epoch_seen)
            else:
                _log.warning("answer_ignored controller_epoch=%d cause=%s", epoch, "it has two histories")
            return False
        if seen != self.seen:
            self._see(seen)
        return True

    def _note_not_understood(self, verb: str, error: NotUnderstood) -> None:
        """Log it unless the last answer to such a request was the same."""
        if self.not_understood.get(verb) != str(error):
            self.not_understood[verb] = str(error)
            _log.warning("request_not_understood request=%s cause=%s", verb, error)

    def _next_url(self, url: str, hint: str | None, asked: Sequence[str]) -> str | None:
        if hint is not None and url.startswith("https:") and not hint.startswith("https:"):
            hint = None  # the token must not leave TLS
        if hint is not None and hint.rstrip("/") not in asked and len(asked) <= HINTS_MAX:
            return hint.rstrip("/")
        start = self._index(url)
        for step in range(1, len(self._urls) + 1):
            candidate = self._urls[(start + step) % len(self._urls)]
            if candidate not in asked:
                return candidate
        return None

    def _index(self, url: str) -> int:
        return self._urls.index(url) if url in self._urls else -1


def _not_understood(url: str, verb: str, response: httpx.Response) -> str:
    name, _, release = response.headers.get("server", "").partition("/")
    release = (
        f"of release {release[:40]}"
        if name == "springtide" and release
        else "of a release that it does not tell"
    )
    return (
        f"the controller {url} is {release} and does not know the request {verb!r}, or a part of it "
        f"(HTTP {response.status_code}: {response.text[:200]}): upgrade the controllers first"
    )


def _explain(error: Exception, url: str) -> str:
    if isinstance(error, httpx.HTTPError):
        certificate = "--controller-client-cert and --controller-client-key"
        failure = explain_tls(error, url=url, ca="--controller-ca", cert=certificate)
        if failure is not None:
            return failure.advice
    return f"{type(error).__name__} {error}".rstrip()
