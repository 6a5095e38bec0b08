"""A controller that answers with the examples of the API's document, or with what a test puts there instead.

What a page makes of an answer is tried on it without a cluster. The examples fit their models, as another
test checks, so this controller says nothing that a real one could not say.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from threading import Thread
from typing import Any
from urllib.parse import parse_qs

from admin_api.console.routes import MEDIA_TYPES, POLICY
from admin_api.openapi.document import build_document

ASSETS = files("admin_api.console") / "assets"


@dataclass
class CannedController:
    """answers: by "METHOD /path", a status and a body, or what makes one of a question's parameters; a test
    changes them while a page is open. A path with `?dry_run=true` comes before one without. changes: what was
    asked for beside GET."""

    url: str = ""
    answers: dict[str, tuple[int, Any]] = field(default_factory=dict)
    changes: list[tuple[str, str, Any]] = field(default_factory=list)

    def example(self, path: str, method: str = "get", status: str = "200") -> Any:
        """Return a copy of the first example that the document has for this address."""
        return json.loads(json.dumps(_example(path, method, status)))

    def put(self, path: str, body: Any, *, status: int = 200, method: str = "GET") -> None:
        self.answers[f"{method} {path}"] = (status, body)

    def answer(self, method: str, path: str, query: str) -> tuple[int, Any]:
        is_dry = "dry_run=true" in query
        for known in (f"{method} {path}?dry_run=true" if is_dry else "", f"{method} {path}"):
            if known in self.answers:
                code, body = self.answers[known]
                return code, body(parse_qs(query)) if callable(body) else body
        statuses = ("200",) if method == "GET" or is_dry else ("202", "201", "200")
        for status in statuses:
            found = _example(path, method.lower(), status)
            if found is not None:
                return int(status), found
        return 404, {"title": "not found", "detail": f"nothing is at {path}", "code": "not_found"}


def page_of(items: list[dict[str, Any]], asked: dict[str, list[str]], *, name: str = "name") -> Any:
    """Return the page of a list that a question with `limit`, `sort`, `search` and whole names asks for.
    name: of the field that names an item."""
    (search,) = asked.get("search", [""])
    wanted = asked.get("topic", []) + asked.get("group", [])
    found = [
        item
        for item in items
        if search.lower() in item[name].lower() and (not wanted or item[name] in wanted)
    ]
    (sort,) = asked.get("sort", [name])
    field = {"lag": "lag", "bytes_in": "bytes_in_per_s", "size": "size_bytes"}.get(sort.strip("-"), name)
    found.sort(key=lambda item: (item[field] is not None, item[field]), reverse=sort.startswith("-"))
    start, limit = int(asked.get("page_token", ["0"])[0]), int(asked.get("limit", ["100"])[0])
    token = str(start + limit) if len(found) > start + limit else None
    return {"items": found[start : start + limit], "next_page_token": token, "unanswered": []}


@cache
def _paths() -> list[tuple[re.Pattern[str], Any]]:
    """Return the document's addresses; literal ones come before those with a name in them."""
    document = build_document()
    found = sorted(document["paths"].items(), key=lambda item: (item[0].count("{"), item[0]))
    return [
        (re.compile(re.sub(r"\{\w+\}", "[^/:]+", re.sub(r"([.*])", r"\\\1", path))), methods)
        for path, methods in found
    ]


def _example(path: str, method: str, status: str) -> Any:
    for pattern, methods in _paths():
        if not pattern.fullmatch(path) or method not in methods:
            continue
        answer = methods[method]["responses"].get(status, {})
        examples = answer.get("content", {}).get("application/json", {}).get("examples", {})
        shown = next((example["value"] for example in examples.values()), None)
        # A list that the document shows a page of is that page here: each further one would be the same.
        return shown | {"next_page_token": None} if shown and "next_page_token" in shown else shown
    return None


@contextmanager
def canned_controller() -> Iterator[CannedController]:
    canned = CannedController()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path, _, query = self.path.partition("?")
            name = "index.html" if path == "/" else path.removeprefix("/console/")
            if path == "/" or path.startswith("/console/"):
                media_type = MEDIA_TYPES[name[name.rindex(".") :]]
                self._send(200, (ASSETS / name).read_bytes(), media_type)
            else:
                self._send_json(*canned.answer("GET", path, query))

        def _change(self) -> None:
            path, _, query = self.path.partition("?")
            size = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(size)) if size else None
            canned.changes.append((self.command, self.path, body))
            self._send_json(*canned.answer(self.command, path, query))

        do_POST = do_PUT = do_PATCH = do_DELETE = _change

        def _send_json(self, status: int, body: Any) -> None:
            self._send(status, json.dumps(body).encode(), "application/json")

        def _send(self, status: int, data: bytes, media_type: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", media_type)
            self.send_header("Content-Length", str(len(data)))
            self.send_header("ETag", '"17.0f3a9c1d2b4e5f60"')
            if media_type.startswith("text/html"):
                self.send_header("Content-Security-Policy", POLICY)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing: the test tells what went wrong."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    canned.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield canned
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
