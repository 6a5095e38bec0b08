"""Talks to the controllers' REST API: finds the one that is up, follows it to the active one, waits for
operations.

Every write carries an Idempotency-Key, so that it may be sent again when its answer was lost to a
controller that died: that is what the key is for, and a test harness that kills controllers is the first to
need it. An answer that says no (4xx) is an error here; "not now" (503, or no answer) is retried until the
deadline.
"""

from __future__ import annotations

import ssl
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import httpx

ANY_CONTROLLER = "any-controller.invalid"
"""Host name that stands for any controller that accepts a connection; reserved by RFC 6761, so it never
resolves."""

REQUEST_SECONDS_MAX = 10.0
RETRY_SECONDS_MAX = 30.0
RETRY_PAUSE_SECONDS = 0.1
OPERATION_SECONDS_MAX = 60.0
OPERATION_POLL_SECONDS = 0.05

UNFINISHED_STATES = frozenset(
    {"planning", "awaiting_approval", "scheduled", "preflight", "running", "paused", "cancelling"}
)

Json = dict[str, Any]


class RestFailed(RuntimeError):
    """The API refused a request, or an operation ended otherwise than `succeeded`; the message has its
    explanation."""

    def __init__(self, message: str, *, status: int | None = None, problem: Json | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.problem = {} if problem is None else problem


class FailoverTransport(httpx.BaseTransport):
    """Sends requests for `ANY_CONTROLLER` to the controller that answered last, or to the next that accepts
    one.

    Only a refused connection moves on to the next controller: then nothing was sent, and trying elsewhere
    is safe for any method. token: sent to each of them, also where one sends us to another.
    """

    def __init__(
        self,
        controller_urls: Sequence[str],
        *,
        verify: ssl.SSLContext | bool = True,
        token: str | None = None,
    ) -> None:
        self._urls = [httpx.URL(url) for url in controller_urls]
        self._token = token
        self._answered_last = 0
        # No connection is kept: one to a killed controller would fail a request that the next one could
        # have served.
        self._inner = httpx.HTTPTransport(verify=verify, limits=httpx.Limits(max_keepalive_connections=0))

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if self._token is not None:
            request.headers["Authorization"] = f"Bearer {self._token}"
        if request.url.host != ANY_CONTROLLER:
            return self._inner.handle_request(request)
        refusal: httpx.ConnectError | None = None
        for step in range(len(self._urls)):
            index = (self._answered_last + step) % len(self._urls)
            url = self._urls[index]
            # In place, so that a relative redirect is resolved against the controller that sent it.
            request.url = request.url.copy_with(scheme=url.scheme, host=url.host, port=url.port)
            request.headers["Host"] = url.netloc.decode("ascii")
            try:
                response = self._inner.handle_request(request)
            except httpx.ConnectError as error:
                refusal = error
                continue
            self._answered_last = index
            return response
        raise refusal if refusal is not None else httpx.ConnectError("no controller to ask", request=request)

    def close(self) -> None:
        self._inner.close()


def open_rest_client(
    controller_urls: Sequence[str], *, verify: ssl.SSLContext | bool = True, token: str | None = None
) -> httpx.Client:
    """Return a client whose relative URLs go to a controller that is up, and on to the active one (307)."""
    return httpx.Client(
        base_url=f"http://{ANY_CONTROLLER}",
        transport=FailoverTransport(controller_urls, verify=verify, token=token),
        follow_redirects=True,
        timeout=REQUEST_SECONDS_MAX,
        headers={"Accept": "application/json"},
    )


@dataclass(frozen=True, slots=True)
class RestPartition:
    """One partition as `GET .../partitions` shows it."""

    partition: int
    leader: int | None
    """None while it has no leader."""
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    document: Json
    """The whole item, e.g. for the reason of a blocked partition."""


def parse_partition(item: Mapping[str, Any]) -> RestPartition:
    leader = item["leader"]
    return RestPartition(
        partition=item["partition"],
        leader=None if leader is None or leader < 0 else leader,
        leader_epoch=item["leader_epoch"],
        replicas=tuple(item["replicas"]),
        isr=tuple(item["isr"]),
        elr=tuple(item.get("elr") or ()),
        document=dict(item),
    )


def describe_refusal(response: httpx.Response) -> RestFailed:
    """Turn an answer that says no into an error that says why (from its RFC 9457 body, or from its text)."""
    request = response.request
    try:
        problem = response.json()
    except ValueError:
        problem = {}
    if not isinstance(problem, dict):
        problem = {}
    why = problem.get("detail") or problem.get("title") or response.text[:500]
    errors = problem.get("errors")
    listed = f" {errors}" if errors else ""
    return RestFailed(
        f"{request.method} {request.url}: {response.status_code} {why}{listed}",
        status=response.status_code,
        problem=problem,
    )


class ControllerApi:
    """The few calls that a local cluster makes. `client` is there for all others."""

    def __init__(self, client: httpx.Client) -> None:
        self.client = client

    def get(self, path: str, *, timeout_seconds: float = RETRY_SECONDS_MAX) -> Json:
        """The JSON object at `path`, retried while no controller serves it."""
        answer: Json = self._send("GET", path, None, timeout_seconds=timeout_seconds).json()
        return answer

    def post(self, path: str, body: Json, *, timeout_seconds: float = RETRY_SECONDS_MAX) -> httpx.Response:
        """Post once however often it has to be sent (the key makes the repetitions one request)."""
        return self._send("POST", path, body, timeout_seconds=timeout_seconds)

    def put(self, path: str, body: Json, *, timeout_seconds: float = RETRY_SECONDS_MAX) -> httpx.Response:
        """Put, which may be repeated, until a controller has answered."""
        return self._send("PUT", path, body, timeout_seconds=timeout_seconds)

    def _send(self, method: str, path: str, body: Json | None, *, timeout_seconds: float) -> httpx.Response:
        headers = {} if body is None else {"Idempotency-Key": str(uuid.uuid4())}
        deadline = time.monotonic() + timeout_seconds
        while True:
            try:
                response = self.client.request(method, path, json=body, headers=headers)
            except httpx.TransportError as error:
                failure = RestFailed(f"{method} {path}: {type(error).__name__}: {error}")
            else:
                if response.is_success:
                    return response
                failure = describe_refusal(response)
                if response.status_code != HTTPStatus.SERVICE_UNAVAILABLE:
                    raise failure
            if time.monotonic() > deadline:
                raise failure
            time.sleep(RETRY_PAUSE_SECONDS)

    def wait_for_operation(
        self, accepted: httpx.Response, *, timeout_seconds: float = OPERATION_SECONDS_MAX
    ) -> Json:
        """Poll the operation that a 202 points to until it has ended; return its last state.

        Raises:
            RestFailed: it failed, was cancelled, or is still not finished at the deadline.
        """
        location = httpx.URL(accepted.headers["Location"]).path
        deadline = time.monotonic() + timeout_seconds
        while True:
            operation = self.get(location)
            state = operation["state"]
            if state == "succeeded":
                return operation
            if state not in UNFINISHED_STATES:
                raise RestFailed(f"operation {location} ended as {state}: {operation}")
            if time.monotonic() > deadline:
                raise RestFailed(
                    f"operation {location} is still {state} after {timeout_seconds:g} s: {operation}"
                )
            time.sleep(OPERATION_POLL_SECONDS)

    def create_cluster(self, name: str) -> Json:
        answer: Json = self.post("/clusters", {"name": name}).json()
        return answer

    def add_brokers(self, cluster: str, endpoints: Mapping[int, str]) -> Json:
        """Admit the brokers and wait until they are members. `endpoints`: broker id to `host:port`."""
        brokers = [
            {"broker_id": broker_id, "endpoint": endpoint} for broker_id, endpoint in endpoints.items()
        ]
        return self.wait_for_operation(self.post(f"/clusters/{cluster}/brokers", {"brokers": brokers}))

    def create_topic(
        self,
        cluster: str,
        name: str,
        *,
        partitions: int,
        replication_factor: int,
        configs: Mapping[str, str],
        assignments: Sequence[Sequence[int]] | None = None,
    ) -> Json:
        """assignments: the brokers of each partition, instead of the controller's placement."""
        body: Json = {
            "name": name,
            "cluster": cluster,
            "partitions": partitions,
            "replication_factor": replication_factor,
            "configs": dict(configs),
        }
        if assignments is not None:
            body["assignments"] = [list(brokers) for brokers in assignments]
        answer: Json = self.post("/topics", body).json()
        return answer

    def partitions(
        self, cluster: str, topic: str, *, timeout_seconds: float = RETRY_SECONDS_MAX
    ) -> list[RestPartition]:
        """All partitions of a topic in order; follows the list's pages, each retried for so long."""
        views: list[RestPartition] = []
        path = f"/clusters/{cluster}/topics/{topic}/partitions"
        query = ""
        while True:
            page = self.get(path + query, timeout_seconds=timeout_seconds)
            views += [parse_partition(item) for item in page["items"]]
            token = page.get("next_page_token")
            if not token:
                return sorted(views, key=lambda view: view.partition)
            query = f"?page_token={token}"
