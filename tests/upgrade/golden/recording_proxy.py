"""Stands between brokers and a controller, and keeps what they say to each other."""

from __future__ import annotations

import contextlib
import http.client
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

from localcluster.ports import LOOPBACK
from tests.upgrade.golden.files import Exchange

ANSWER_SECONDS_MAX = 60.0


class RecordingProxy:
    """Serves on a port of its own. controller_port: asked when the first request comes."""

    def __init__(self, controller_port: Callable[[], int]) -> None:
        self.exchanges: list[Exchange] = []
        kept = self.exchanges

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                upstream = http.client.HTTPConnection(LOOPBACK, controller_port(), timeout=ANSWER_SECONDS_MAX)
                try:
                    upstream.request(self.command, self.path, body or None, dict(self.headers.items()))
                    answer = upstream.getresponse()
                    content = answer.read()
                except OSError:
                    self.close_connection = True
                    return
                finally:
                    upstream.close()
                if self.path.startswith("/internal/"):
                    kept.append(Exchange(self.path, body.decode(), answer.status, content.decode()))
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in {"content-length", "connection", "transfer-encoding", "date"}:
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_PUT = do_PATCH = do_DELETE = do_POST

            def log_message(self, *arguments: object) -> None: ...

            def handle(self) -> None:
                with contextlib.suppress(ConnectionError):  # a node that ended
                    super().handle()

        self._server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="recording-proxy")

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
