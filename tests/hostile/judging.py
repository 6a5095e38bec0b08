"""Each answer against the document, and against what every answer of this surface must be."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import requests
from pydantic import ValidationError
from schemathesis.core.failures import Failure, FailureGroup
from schemathesis.core.transport import Response
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    missing_required_header,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from admin_api.http.catalogue import CATALOGUE
from admin_api.http.problems import MEDIA_TYPE, ProblemView
from tests.hostile.asking import Reply, body_of
from tests.hostile.drawing import Case, is_positive

CHECKS = [
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
    missing_required_header,
    unsupported_method,
]
#: Statuses by which something that the document allows must not be refused: they say that the request can't
#: be read, or that there is no such address.
_UNREADABLE = frozenset({400, 405, 406, 408, 411, 413, 414, 415, 431})
#: What must come with a status, or whoever is refused does not know what to do.
_REQUIRED = {307: "location", 401: "www-authenticate", 405: "allow", 503: "retry-after"}
SHOWN_CHARS = 700


@dataclass(slots=True)
class Finding:
    """One way in which an operation's answers are wrong, and the first request that showed it."""

    label: str
    title: str
    detail: str
    example: str
    count: int = 1

    @property
    def key(self) -> tuple[str, str]:
        return self.label, self.title


@dataclass
class Findings:
    found: dict[tuple[str, str], Finding] = field(default_factory=dict)

    def add(self, finding: Finding) -> None:
        known = self.found.setdefault(finding.key, finding)
        if known is not finding:
            known.count += finding.count

    def merge(self, other: Findings) -> None:
        for finding in other.found.values():
            self.add(finding)


def judge(case: Case, request: requests.PreparedRequest, reply: Reply, findings: Findings) -> None:
    """Adds what is wrong with the answer."""
    label = case.operation.label
    wrong = _own_rules(case, reply)
    if reply.status and reply.status < 500:
        wrong += _against_document(case, request, reply)
    for title, detail in wrong:
        findings.add(Finding(label, title, detail, transcript(request, reply)))


def _against_document(case: Case, request: requests.PreparedRequest, reply: Reply) -> list[tuple[str, str]]:
    headers: dict[str, list[str]] = {}
    for name, value in reply.headers:
        headers.setdefault(name, []).append(value)
    response = Response(
        status_code=reply.status,
        headers=headers,
        content=reply.body,
        request=request,
        elapsed=0.0,
        verify=False,
        encoding="utf-8",
        stream_cut_short=reply.is_stream,
    )
    try:
        # The document has a stream as the text that it is; what is in its events is looked at below.
        unchecked = [response_schema_conformance] if reply.is_stream else []
        if reply.status >= 400:
            unchecked.append(negative_data_rejection)  # any refusal is one: it knows neither 412 nor 413
        case.validate_response(response, checks=CHECKS, excluded_checks=unchecked)
    except FailureGroup as group:
        return [
            (error.title, str(error.message))
            if isinstance(error, Failure)
            else (type(error).__name__, str(error))
            for error in group.exceptions
        ]
    return []


def _told(error: BaseException) -> tuple[str, str]:
    if isinstance(error, Failure):
        return error.title, str(error.message)
    return type(error).__name__, str(error)


def _own_rules(case: Case, reply: Reply) -> list[tuple[str, str]]:
    status = reply.status
    if not status:
        return [("no answer", "nothing came in time")]
    wrong: list[tuple[str, str]] = []
    if status >= 500:
        wrong.append(("server error", f"{status}"))
    if reply.header("x-request-id") is None:
        wrong.append(("no request id", "X-Request-Id is missing"))
    if b"Traceback" in reply.body:
        wrong.append(("stack trace", "an answer shows our insides"))
    has_seen_some = any(name.lower() == "last-event-id" for name in case.headers or ())
    if reply.is_stream and not _is_events_of_json(reply.body, at_least=0 if has_seen_some else 1):
        wrong.append(("events that can't be read", reply.body[:SHOWN_CHARS].decode("utf-8", "replace")))
    required = _REQUIRED.get(status)
    if required is not None and reply.header(required) is None:
        wrong.append((f"{status} without {required}", "the header field is missing"))
    code = None
    if status >= 400 or status == 307:
        code, complaint = _problem(reply)
        if complaint and not case.operation.path.startswith("/internal/"):
            wrong.append(("no problem document", complaint))
    if is_positive(case) and (status in _UNREADABLE or code == "not_found"):
        wrong.append((f"allowed by the document, refused with {status}", f"as {code}"))
    return wrong


def _is_events_of_json(body: bytes, *, at_least: int) -> bool:
    """Whether each event has data, and that is a JSON object. at_least: so many events; who names the last
    one that it has seen may have seen them all."""
    data = [line[5:] for line in body.splitlines() if line.startswith(b"data:")]
    try:
        return len(data) >= at_least and all(isinstance(json.loads(one), dict) for one in data)
    except ValueError:
        return False


def _problem(reply: Reply) -> tuple[str | None, str | None]:
    """The code, and what is wrong with the document."""
    if reply.header("content-type") != MEDIA_TYPE:
        return None, f"the media type is {reply.header('content-type')}"
    try:
        view = ProblemView.model_validate_json(reply.body)
    except ValidationError as error:
        return None, str(error)
    kind = CATALOGUE.get(view.code)
    if kind is None or kind.status != reply.status or view.status != reply.status:
        return view.code, f"code {view.code} and status {view.status} in an answer with {reply.status}"
    is_replay = reply.header("idempotency-replayed") is not None  # byte for byte the first answer
    if not is_replay and view.request_id != reply.header("x-request-id"):
        return view.code, "another request's id"
    if view.type != f"/problems/{view.code}" or not view.hint or not view.detail:
        return view.code, "it lacks a type, a hint or a detail"
    return view.code, None


def transcript(request: requests.PreparedRequest, reply: Reply) -> str:
    fields = {
        name: value for name, value in request.headers.items() if name not in ("Accept", "Content-Length")
    }
    asked = f"{request.method} {request.url}"
    lines = [asked[:SHOWN_CHARS], json.dumps(fields)[:SHOWN_CHARS]]
    body = body_of(request)
    if body:
        lines.append(repr(body)[:SHOWN_CHARS])
    lines.append(f"-> {reply.status} {reply.body.decode('utf-8', 'replace')[:SHOWN_CHARS]}")
    return "\n    ".join(lines)


def code_of(reply: Reply) -> str | None:
    if reply.header("content-type") != MEDIA_TYPE:
        return None
    try:
        found: Any = json.loads(reply.body).get("code")
    except (ValueError, AttributeError):
        return None
    return found if isinstance(found, str) else None
