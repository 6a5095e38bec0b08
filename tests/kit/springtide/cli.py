"""The whole command line, from its arguments to its exit status, over a network and a clock of the test's."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from springtide.__main__ import execute

Answer = Callable[[httpx.Request], httpx.Response]

URL = "http://ctl1:8080"


@dataclass
class Ran:
    """The outcome of a command. asked: every request that it sent, in order. slept: seconds of all pauses."""

    status: int
    out: str
    err: str
    asked: list[httpx.Request]
    slept: float = 0.0

    @property
    def keys(self) -> list[str | None]:
        return [request.headers.get("idempotency-key") for request in self.asked]

    @property
    def targets(self) -> list[str]:
        return [f"{request.method} {request.url}" for request in self.asked]


@dataclass
class Network:
    """answer: gives an answer or raises what httpx raises. Time passes only in pauses."""

    answer: Answer
    asked: list[httpx.Request] = field(default_factory=list)
    now_s: float = 1_000.0

    def run(
        self,
        *arguments: str,
        columns: int | None = None,
        width: int | None = None,
        typed: str | None = None,
        piped: str = "a secret\n",
        **environment: str,
    ) -> Ran:
        """Run a command line. typed: what a person at the terminal types, or None. piped: what standard input
        has."""
        out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
        began_s = self.now_s

        def handle(request: httpx.Request) -> httpx.Response:
            request.read()
            self.asked.append(request)
            return self.answer(request)

        status = execute(
            arguments,
            {"SPRINGTIDE_URL": URL, "SPRINGTIDE_CLUSTER": "prod"} | environment,
            out,
            err,
            columns=columns,
            width=width,
            person=None if typed is None else io.StringIO(typed),
            stdin=io.StringIO(piped),
            transport=httpx.MockTransport(handle),
            now=lambda: self.now_s,
            sleep=self._pass,
        )
        out.flush()
        shown = out.buffer.getvalue().decode()
        return Ran(status, shown, err.getvalue(), self.asked, self.now_s - began_s)

    def _pass(self, seconds: float) -> None:
        self.now_s += seconds


def run(
    answer: Answer,
    *arguments: str,
    columns: int | None = None,
    width: int | None = None,
    typed: str | None = None,
    piped: str = "a secret\n",
    **environment: str,
) -> Ran:
    return Network(answer).run(
        *arguments, columns=columns, width=width, typed=typed, piped=piped, **environment
    )


def in_turn(*answers: httpx.Response | Exception) -> Answer:
    """One answer after the other; the last one from then on."""
    left = list(answers)

    def answer(request: httpx.Request) -> httpx.Response:
        found = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(found, Exception):
            raise found
        return httpx.Response(found.status_code, headers=found.headers, content=found.content)

    return answer


def without_streams(*answers: httpx.Response | Exception) -> Answer:
    """Return answers as `in_turn` does, of a controller without streams of events."""
    answer = in_turn(*answers)

    def polled(request: httpx.Request) -> httpx.Response:
        return problem(404, "not_found") if request.url.path.endswith("/events") else answer(request)

    return polled


def ok(document: Any, status: int = 200, **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.Response(status, json=document, headers=named)


def page(items: Sequence[Any], token: str | None = None, **others: Any) -> httpx.Response:
    return ok({**others, "items": list(items), "next_page_token": token})


def problem(status: int, code: str, **fields: Any) -> httpx.Response:
    document = {"title": "It can't be", "status": status, "detail": "because", "code": code, **fields}
    return httpx.Response(status, json=document, headers={"Content-Type": "application/problem+json"})


def body_of(request: httpx.Request) -> Any:
    return json.loads(request.content)


WATCH = ("operations", "watch", "op_1")
ADD = ("brokers", "add", "4@store4:9092")


def operation(state: str, *steps: str, **fields: Any) -> dict[str, Any]:
    return {
        "id": "op_1",
        "kind": "broker_add",
        "state": state,
        "steps": [{"name": f"s{i}", "state": step} for i, step in enumerate(steps)],
        "progress": {"moves_total": None, "bytes_total": None},
        "blocked": [],
        "error": None,
        "summary": None,
    } | fields


WAITS = [
    {"code": "broker_unreachable", "detail": "store4:9092 refuses", "broker_id": 4},
    {"code": "broker_not_active", "detail": "5", "broker_id": 5},
]


STORY = (
    ok(operation("preflight", "running", "pending", blocked=WAITS)),
    ok(operation("preflight", "running", "pending", blocked=WAITS)),
    ok(operation("running", "succeeded", "running")),
    ok(operation("succeeded", "succeeded", "skipped", summary="broker 4 is active")),
)
