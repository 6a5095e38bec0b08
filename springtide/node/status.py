"""Metrics for Prometheus, liveness and readiness, over HTTP/1.1, in TLS if its listener has it.

GET /metrics, /healthz (the process lives) and /readyz (it may serve clients), one request a connection.
/readyz?in-sync asks a broker in addition whether it is in the ISR of each partition that it holds; out of
sync is red for 600 s at most, or for N s with /readyz?in-sync=N.
Sources of metrics are asked each time the page is read.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

import trio
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from springtide.node.clock import Clock
from springtide.node.net import Channel, Listener
from springtide.node.peer_requests import send_all
from springtide.node.threads import Threads
from springtide.node.tls_channel import TlsFailed

_log = logging.getLogger(__name__)

REQUEST_BYTES_MAX = 8 * 1024
REQUEST_TIMEOUT_MS = 5_000
CONNECTIONS_MAX = 32
RED_SECONDS_LIMIT = 7 * 24 * 3600
"""The most that /readyz?in-sync=N takes."""
IN_SYNC = b"in-sync"

_ESCAPED = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


class MetricsCollector(Collector):
    """Asks its sources each time it is read. A source yields families and must not block."""

    def __init__(self, sources: Iterable[Callable[[], Iterable[Metric]]]) -> None:
        self._sources = tuple(sources)

    def collect(self) -> Iterable[Metric]:
        for source in self._sources:
            yield from source()


def render(families: Iterable[Metric]) -> bytes:
    """Return the page as prometheus_client writes it, for counters and gauges, in half the time: their names
    need no escaping, and a broker has four samples for each partition."""
    lines: list[str] = []
    for family in families:
        name = f"{family.name}_total" if family.type == "counter" else family.name
        text = family.documentation.replace("\\", r"\\").replace("\n", r"\n")
        lines.append(f"# HELP {name} {text}\n# TYPE {name} {family.type}\n")
        for sample in family.samples:
            value: str = floatToGoString(sample.value)  # type: ignore[no-untyped-call]
            if sample.labels:
                labels = [f'{key}="{escape(told)}"' for key, told in sorted(sample.labels.items())]
                lines.append(f"{sample.name}{{{','.join(labels)}}} {value}\n")
            else:
                lines.append(f"{sample.name} {value}\n")
    return "".join(lines).encode()


def escape(value: str) -> str:
    """Return a label's value as it stands between quotes."""
    return value.translate(_ESCAPED)


def counter(name: str, text: str, value: float) -> Metric:
    family = CounterMetricFamily(name, text)
    family.add_metric([], value)
    return family


def gauge(name: str, text: str, value: float) -> Metric:
    family = GaugeMetricFamily(name, text)
    family.add_metric([], value)
    return family


InSync = Callable[[int | None], tuple[bool, str]]


def has_nothing_to_follow(red_seconds_max: int | None) -> tuple[bool, str]:
    """Answer for a process without replicas."""
    return True, "ready"


class StatusServer:
    """Serves the three pages. notes: what an operator should know though the process lives, a line each, of
    /healthz. in_sync: whether a process that is ready is in sync, too, and why; it gets for how many seconds
    out of sync may last before it counts as ready, None: its own bound. write_more: called in the thread that
    writes the page of metrics, for more of them: it may only read what is replaced as a whole."""

    def __init__(
        self,
        *,
        listener: Listener,
        collector: MetricsCollector,
        is_ready: Callable[[], bool],
        notes: Callable[[], Iterable[str]] = tuple,
        clock: Clock,
        threads: Threads,
        in_sync: InSync = has_nothing_to_follow,
        write_more: Callable[[], bytes] = bytes,
    ) -> None:
        self._in_sync = in_sync
        self._listener = listener
        self._collector = collector
        self._write_more = write_more
        self._is_ready = is_ready
        self._notes = notes
        self._clock = clock
        self._threads = threads
        self._open = 0

    @property
    def address(self) -> tuple[str, int]:
        return self._listener.address

    async def serve(self) -> None:
        self._listener.begin()
        try:
            async with trio.open_nursery() as nursery:
                while True:
                    channel = await self._listener.accept()
                    if self._open >= CONNECTIONS_MAX:
                        channel.close()
                        continue
                    self._open += 1
                    nursery.start_soon(self._serve_one, channel)
        finally:
            self._listener.close()

    async def _serve_one(self, channel: Channel) -> None:
        try:
            with self._clock.timeout_ms(REQUEST_TIMEOUT_MS):
                request_line = await _read_request(channel)
                status, kind, body = await self._answer(request_line)
                head = (
                    f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
                    "Connection: close\r\n\r\n"
                )
                await send_all(channel, head.encode("ascii") + body)
        except TlsFailed as error:
            _log.info("connection_closed peer=%s cause=%s", channel.peer, f"TLS: {error}")
        except (OSError, trio.ClosedResourceError):
            pass  # it left, or took too long
        finally:
            self._open -= 1
            channel.close()

    async def _answer(self, request_line: bytes) -> tuple[str, str, bytes]:
        text = "text/plain; charset=utf-8"
        parts = request_line.split(b" ")
        if len(parts) != 3 or not parts[2].startswith(b"HTTP/1."):
            return "400 Bad Request", text, b"not an HTTP request\n"
        if parts[0] not in (b"GET", b"HEAD"):
            return "405 Method Not Allowed", text, b"only GET\n"
        path, _, query = parts[1].partition(b"?")
        if path == b"/metrics":
            # The values are of one moment of the loop; to write them down takes longer, so a thread does.
            families = list(self._collector.collect())
            page = await self._threads.run(lambda: render(families) + self._write_more())
            return "200 OK", CONTENT_TYPE_LATEST, page
        if path == b"/healthz":
            return "200 OK", text, "\n".join(("alive", *self._notes(), "")).encode()
        if path == b"/readyz":
            return self._readiness(query)
        return "404 Not Found", text, b"see /metrics, /healthz, /readyz\n"

    def _readiness(self, query: bytes) -> tuple[str, str, bytes]:
        text = "text/plain; charset=utf-8"
        name, equals, seconds = query.partition(b"=")
        if (query and name != IN_SYNC) or (equals and not _is_seconds(seconds)):
            usage = f"ask /readyz, /readyz?in-sync or /readyz?in-sync=N, N up to {RED_SECONDS_LIMIT}\n"
            return "400 Bad Request", text, usage.encode()
        is_ready, why = self._is_ready(), "not registered and active at a controller"
        if is_ready:
            is_ready, why = self._in_sync(int(seconds) if equals else None) if query else (True, "ready")
        status = "200 OK" if is_ready else "503 Service Unavailable"
        return status, text, f"{why}\n".encode()


def _is_seconds(value: bytes) -> bool:
    return value.isdigit() and len(value) <= len(str(RED_SECONDS_LIMIT)) and int(value) <= RED_SECONDS_LIMIT


async def _read_request(channel: Channel) -> bytes:
    """Return the request line; the header after it is read up to a bound and ignored."""
    data = bytearray()
    block = bytearray(2048)
    while b"\r\n\r\n" not in data and len(data) < REQUEST_BYTES_MAX:
        try:
            received = channel.recv_into(memoryview(block))
        except BlockingIOError:
            await channel.wait_readable()
            continue
        if received == 0:
            break
        data += block[:received]
    return bytes(data).partition(b"\r\n")[0]
