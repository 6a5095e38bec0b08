"""Sends a call to a controller that answers, and to the active one if it must.

    for each controller, until --timeout:
        no connection, lost connection ----------> the next one
        307 --------------------------------> where it says, the same call
        a standby's copy ------------------------> the next one; the copy, if no other has an answer
        503, 504, "the first one still runs" -> the next one, after a pause
        anything else ---------------------------> the answer

A write is safe to send again after its answer was lost, because every attempt carries one Idempotency-Key:
the API carries it out once and repeats its first answer.

A standby's copy may be a moment older than a write that was answered just before; a user who names several
controllers reads what was written.

A stream of events is followed until it ends; the caller then asks again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar
from urllib.parse import urlencode

import httpx
import msgspec
from httpx_sse import ServerSentEvent, SSEError, connect_sse

from springtide.cli.call import Call, Json
from springtide.cli.problems import problem_of
from springtide.cli.settings import Settings
from springtide.tls import explain_tls

T = TypeVar("T")

REDIRECTS_MAX: Final = 5
CONNECT_SECONDS_MAX: Final = 3.0
#: A stream that is quiet for longer is lost: a controller sends something every 15 seconds.
SILENCE_SECONDS_MAX: Final = 45.0
#: Between rounds over all controllers; doubled each time.
PAUSE_SECONDS_MIN: Final = 0.1
PAUSE_SECONDS_MAX: Final = 2.0
#: Answers that say "not now" to any request.
NOT_NOW: Final = frozenset({502, 503, 504})
#: Failures before anything of the request was sent: it was not carried out.
NEVER_SENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
#: What marks a standby's answer.
AGE_HEADER: Final = "data-age-ms"
#: The code of an earlier attempt with the same key that is still being carried out.
STILL_RUNNING: Final = "idempotency_key_in_progress"


class Unreachable(Exception):
    """No controller was able to answer in time. key: of the write whose outcome is not known; None if no
    controller was reached."""

    def __init__(self, detail: str, *, key: str | None = None) -> None:
        super().__init__(detail)
        self.key = key


class RequestRefused(Exception):
    """A controller refused. key: of the write whose outcome is not known, if the last answer was "not
    now"."""

    def __init__(self, status: int, body: bytes, *, key: str | None = None) -> None:
        super().__init__(f"refused with status {status}")
        self.status = status
        self.body = body
        self.key = key


class NoStream(Exception):
    """There is no stream of events at the address that was asked."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A successful answer. body: as it came."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def document(self) -> Json:
        return self.parse(dict[str, Any])

    def fields(self) -> dict[str, msgspec.Raw]:
        """Return the object's fields, each as it came."""
        return self.parse(dict[str, msgspec.Raw])

    def parse(self, kind: type[T]) -> T:
        """Return the parsed body; raise Unreachable for another form, which is not a controller's."""
        try:
            return msgspec.json.decode(self.body, type=kind)
        except ValueError as error:
            shown = self.body[:60].decode("utf-8", "replace")
            raise Unreachable(f"what answered is no controller of Springtide: {shown!r}") from error


class ListPage(msgspec.Struct):
    """A list's page; its other fields are in `Reply.fields`."""

    items: list[Json]
    next_page_token: str | None = None


class Controllers:
    """The API of one or several controllers.

    note: called for a retry, once a call. make_key: returns a new Idempotency-Key.
    """

    def __init__(
        self,
        client: httpx.Client,
        settings: Settings,
        *,
        make_key: Callable[[], str],
        note: Callable[[str], None],
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = client
        self._settings = settings
        self._urls = list(settings.urls)
        self._make_key = make_key
        self._note = note
        self._now = now
        self._sleep = sleep

    def send(self, call: Call, *, key: str | None = None) -> Reply:
        """Send a call until it is answered; raise RequestRefused or Unreachable. key: of a write, instead of
        a new one."""
        used = (key or self._make_key()) if call.is_write else None
        headers = self._headers(call, used)
        deadline = self._now() + self._settings.timeout_s
        pause_s = PAUSE_SECONDS_MIN
        noted = has_left = False
        while True:
            not_now: httpx.Response | None = None
            copy: tuple[httpx.URL, httpx.Response] | None = None
            failures: list[str] = []
            refused_by_tls = 0
            for url in list(self._urls):
                try:
                    response = self._ask(url, call, headers)
                    has_left = True
                except httpx.TransportError as error:
                    has_left = has_left or not isinstance(error, NEVER_SENT)
                    failure = explain_tls(
                        error, url=str(url), ca="--ca-file", cert="--cert-file and --key-file"
                    )
                    refused_by_tls += failure is not None and failure.is_certain
                    why = failure.advice if failure else str(error) or type(error).__name__
                    failures.append(f"{url}: {why}")
                    continue
                if response.is_success and AGE_HEADER in response.headers:
                    failures.append(f"{url}: is a standby")
                    copy = copy or (url, response)
                    continue
                self._prefer(url)
                if not _is_not_now(response):
                    return _reply(response)
                not_now = response
            if copy is not None and not call.needs_active:
                self._prefer(copy[0])
                return _reply(copy[1])
            if self._now() >= deadline or refused_by_tls == len(self._urls):
                if not_now is not None:
                    raise RequestRefused(not_now.status_code, not_now.content, key=used)
                raise Unreachable("; ".join(failures), key=used if has_left else None)
            if not noted:
                noted = True
                why = "; ".join(failures) if not_now is None else f"status {not_now.status_code}"
                self._note(f"{why}; trying for up to {self._settings.timeout_s:g} s")
            self._sleep(min(pause_s, max(0.0, deadline - self._now())))
            pause_s = min(2 * pause_s, PAUSE_SECONDS_MAX)

    def each(self, call: Call) -> list[tuple[httpx.URL, Reply | None]]:
        """Ask every controller once, for itself; None: it did not answer with success."""
        headers = self._headers(call, None)
        told: list[tuple[httpx.URL, Reply | None]] = []
        for url in self._settings.urls:
            try:
                response = self._ask(url, call, headers)
            except httpx.TransportError:
                told.append((url, None))
                continue
            told.append((url, _reply(response) if response.is_success else None))
        return told

    def pages(self, call: Call, *, page_limit: int, limit: int | None) -> Iterator[Reply]:
        """Yield a list's pages, to the end or until they hold `limit` items. page_limit: items a page."""
        left = limit
        token: str | None = None
        while True:
            size = page_limit if left is None else min(page_limit, left)
            query = {**call.query, "limit": str(size)} | ({} if token is None else {"page_token": token})
            reply = self.send(replace(call, query=query))
            yield reply
            page = reply.parse(ListPage)
            token = page.next_page_token
            if left is not None:
                left -= len(page.items)
            if token is None or (left is not None and left <= 0):
                return

    def events(self, call: Call, *, last_id: str) -> Iterator[ServerSentEvent]:
        """Yield a stream's events, from the controller that answered last, until it ends or is lost; the
        caller then asks for the resource itself. last_id: of the last event that was seen, or empty. Raise
        NoStream.
        """
        headers = self._headers(call, None)
        if last_id:
            headers["Last-Event-ID"] = last_id
        url = self._urls[0]
        target = str(url.copy_with(raw_path=_target(url, call)))
        timeout = httpx.Timeout(SILENCE_SECONDS_MAX, connect=CONNECT_SECONDS_MAX)
        has_spoken = False
        try:
            with connect_sse(self._client, call.method, target, headers=headers, timeout=timeout) as source:
                if source.response.status_code != httpx.codes.OK:
                    raise NoStream(f"status {source.response.status_code}")
                for event in source.iter_sse():
                    has_spoken = True
                    yield event
        except SSEError as error:
            raise NoStream(str(error)) from error
        except httpx.ReadTimeout as error:
            if not has_spoken:  # something in between holds it back
                raise NoStream("it stays silent") from error
        except httpx.TransportError:
            return

    def _headers(self, call: Call, key: str | None) -> dict[str, str]:
        headers = {"Accept": "application/json", **call.headers}
        if key is not None:
            headers["Idempotency-Key"] = key
        if self._settings.token is not None:
            headers["Authorization"] = f"Bearer {self._settings.token}"
        if self._settings.actor is not None:
            headers["X-Actor"] = self._settings.actor
        return headers

    def _ask(self, base: httpx.URL, call: Call, headers: Mapping[str, str]) -> httpx.Response:
        """Ask one controller, and those that it redirects to."""
        target = base.copy_with(raw_path=_target(base, call))
        for _ in range(REDIRECTS_MAX + 1):
            response = self._client.request(
                call.method,
                target,
                headers=headers,
                json=call.body,
                timeout=httpx.Timeout(call.answer_s_max, connect=CONNECT_SECONDS_MAX),
            )
            location = response.headers.get("location")
            if response.status_code not in (307, 308) or location is None:
                return response
            following = response.url.join(location)
            if target.scheme == "https" and following.scheme != "https":
                raise httpx.RemoteProtocolError(f"redirected from https to {following.scheme}")
            target = following
        raise httpx.RemoteProtocolError(f"more than {REDIRECTS_MAX} redirects")

    def _prefer(self, url: httpx.URL) -> None:
        """Ask this controller first the next time."""
        self._urls.sort(key=lambda other: other != url)


def _target(base: httpx.URL, call: Call) -> bytes:
    """Return path and query as they are sent: names are quoted already, and must not be quoted again."""
    path = base.raw_path.partition(b"?")[0].rstrip(b"/") + call.path.encode("ascii")
    return path + (b"?" + urlencode(call.query, doseq=True).encode("ascii") if call.query else b"")


def _is_not_now(response: httpx.Response) -> bool:
    if response.status_code in NOT_NOW:
        return True
    return response.status_code == 409 and problem_of(response.content).get("code") == STILL_RUNNING


def _reply(response: httpx.Response) -> Reply:
    if not response.is_success:
        raise RequestRefused(response.status_code, response.content)
    return Reply(response.status_code, response.headers, response.content)
