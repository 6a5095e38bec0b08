"""The harness in small, and its teeth: each kind of wrong answer is found, and a right one is not."""

from __future__ import annotations

import json
from functools import cache
from random import Random
from typing import Any

import pytest
from schemathesis.generation.meta import CoverageScenario

from controller.audit.outbox import AuditOutbox
from tests.fullstack.clock import run_virtually
from tests.hostile.aftermath import Asked, check_requests
from tests.hostile.aiming import Aim, Known
from tests.hostile.asking import Reply, body_of, prepared
from tests.hostile.drawing import Case, Drawer, is_positive
from tests.hostile.judging import Findings, judge
from tests.hostile.report import part_of
from tests.hostile.rounds import Job, Tally, draw, play
from tests.hostile.sweep import Result
from tests.hostile.world import furnished

LOOK = "GET /clusters/{cluster}"
CREATE = "POST /clusters"
REQUEST_ID = "r-1"


@cache
def drawer() -> Drawer:
    return Drawer()


@cache
def positive(label: str) -> Case:
    (case,) = drawer().positive(label, 1, 1)
    return case


@cache
def negative(label: str) -> Case:
    """Its body lacks a field that has to be there."""
    return next(
        case
        for case in drawer().coverage(label)
        if not is_positive(case)
        and getattr(case.meta.phase.data, "scenario", None)
        is CoverageScenario.OBJECT_MISSING_REQUIRED_PROPERTY
    )


def reply(status: int, body: Any, *, media_type: str = "application/json", **headers: str) -> Reply:
    fields = {"content-type": media_type, "x-request-id": REQUEST_ID} | headers
    return Reply(status, list(fields.items()), json.dumps(body).encode())


def refused(status: int, code: str, **changes: Any) -> Reply:
    body = {
        "type": f"/problems/{code}",
        "title": "t",
        "status": status,
        "detail": "d",
        "instance": "/clusters/x",
        "code": code,
        "retryable": False,
        "hint": "h",
        "request_id": REQUEST_ID,
    }
    return reply(status, body | changes, media_type="application/problem+json")


def titles(case: Case, answer: Reply) -> set[str]:
    findings = Findings()
    judge(case, prepared(case), answer, findings)
    return {title for _, title in findings.found}


def test_a_right_refusal_is_right() -> None:
    assert titles(positive(LOOK), refused(404, "cluster_not_found")) == set()
    assert titles(negative(CREATE), refused(422, "invalid_request")) == set()


@pytest.mark.parametrize(
    ("answer", "title"),
    [
        (Reply(), "no answer"),
        (refused(500, "internal_error"), "server error"),
        (refused(418, "cluster_not_found"), "Undocumented status code"),
        (reply(200, {"name": "prod"}), "Response violates schema"),
        (reply(200, {}, media_type="text/plain"), "Undocumented Content-Type"),
        (reply(404, {"detail": "Not Found"}), "no problem document"),
        (refused(404, "made_up"), "no problem document"),
        (refused(404, "broker_in_use"), "no problem document"),
        (refused(404, "cluster_not_found", request_id="another"), "no problem document"),
        (refused(404, "cluster_not_found", hint=None), "no problem document"),
        (refused(404, "cluster_not_found", detail="Traceback"), "stack trace"),
        (refused(404, "not_found"), "allowed by the document, refused with 404"),
        (refused(406, "not_acceptable"), "allowed by the document, refused with 406"),
        (refused(503, "no_active_controller"), "503 without retry-after"),
        (refused(307, "not_the_active_controller"), "307 without location"),
        (Reply(404, [("content-type", "application/problem+json")], b"{}"), "no request id"),
    ],
)
def test_a_wrong_answer_is_found(answer: Reply, title: str) -> None:
    assert title in titles(positive(LOOK), answer)


@pytest.mark.parametrize(
    ("events", "seen", "is_right"),
    [
        (b'retry: 1000\n\nid: 1\ndata: {"state": "running"}\n\n', None, True),
        (b"retry: 1000\n\n", "1", True),  # that was the last one
        (b"retry: 1000\n\n", None, False),
        (b"data: {\n\n", "1", False),
    ],
)
def test_a_stream_tells_what_its_reader_has_not_seen(events: bytes, seen: str | None, is_right: bool) -> None:
    (case,) = drawer().positive("GET /operations/{operation_id}/events", 1, 1)
    case.headers = {} if seen is None else {"Last-Event-ID": seen}
    answer = Reply(
        200, [("content-type", "text/event-stream"), ("x-request-id", REQUEST_ID)], events, is_stream=True
    )
    assert ("events that can't be read" in titles(case, answer)) is not is_right


def test_what_should_have_been_refused_and_was_not_is_found() -> None:
    assert "Schema-violating request accepted" in titles(negative(CREATE), reply(201, {"name": "prod"}))


def asked(status: int, *, is_audited: bool = True, is_replay: bool = False) -> Asked:
    return Asked(line="POST /x", request_id="r", is_audited=is_audited, status=status, is_replay=is_replay)


def row(outcome: str | None, request_id: str = "r") -> dict[str, Any]:
    return {
        "kind": "request",
        "request_id": request_id,
        "outcome": None if outcome is None else {"outcome": outcome},
    }


@pytest.mark.parametrize(
    ("one", "rows", "is_right"),
    [
        (asked(201), [row("succeeded")], True),
        (asked(422), [], True),
        (asked(409), [row("refused")], True),
        (asked(201, is_replay=True), [], True),
        (asked(200, is_audited=False), [], True),
        (asked(201), [], False),
        (asked(201), [row("succeeded"), row("succeeded")], False),
        (asked(201), [row("refused")], False),
        (asked(201), [row(None)], False),
        (asked(409), [row("succeeded")], False),
        (asked(200, is_audited=False), [row("succeeded")], False),
    ],
)
def test_what_is_told_and_what_is_written_down_have_to_agree(
    one: Asked, rows: list[dict[str, Any]], is_right: bool
) -> None:
    assert (check_requests([one], [*rows, row("succeeded", "another")]) == []) is is_right


def test_names_that_exist_replace_drawn_ones_only_where_the_document_allows_the_rest() -> None:
    known = Known()
    known.note("/clusters/{cluster}", "cluster", [{"name": "prod"}])
    aimed = 0
    for case in drawer().fuzz(LOOK, 40, 3):
        before = dict(case.path_parameters)
        Aim(known, Random(1)).at_path(case)
        if is_positive(case):
            aimed += case.path_parameters == {"cluster": "prod"}
        elif "path" in str(case.meta.components):
            assert case.path_parameters == before
    assert aimed > 5


def test_users_acls_and_entities_with_quotas_are_known_by_their_names() -> None:
    known = Known()

    async def learn(_clock: Any) -> None:
        async with furnished() as world:

            async def get(path: str) -> Any:
                return (await world.rest.client.get(path)).json()

            await known.learn(drawer().document, get)

    run_virtually(7, learn)
    names = ("user", "principal", "resource_name", "client_id", "ip")
    assert {name: known.by_name.get(name) for name in names} == {
        "user": ["alice", "b/ob"],
        "principal": ["User:alice"],
        "resource_name": ["payments", "bill"],
        "client_id": ["app"],
        "ip": ["10.0.0.7"],
    }
    assert known.for_path("/clusters/{cluster}/users/{user}", "user") == ["alice", "b/ob"]


def test_a_few_hundred_cases_leave_nothing_to_complain_about_and_equal_seeds_ask_alike() -> None:
    job = Job((CREATE,), 10, 7)
    first, second = (
        [(one.method, one.url, body_of(one)) for one in map(prepared, draw(Drawer(), job))] for _ in range(2)
    )
    assert first == second
    tally = play(drawer(), job, draw(drawer(), job))
    assert part_of(Result(7, [CREATE], tally)).failures == []
    assert tally.accepted[CREATE] > 3
    assert tally.negative > 20


def test_a_controller_that_forgets_what_became_of_requests_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job((CREATE,), 0, 1)
    drawn = [*drawer().coverage(CREATE), *drawer().fuzz(CREATE, 30, 2)]
    cases = [case for case in drawn if is_positive(case) and "dry_run" not in (case.query or {})]
    monkeypatch.setattr(AuditOutbox, "record_outcome", lambda *_: None)
    tally = play(drawer(), job, cases)
    found = [finding for finding in tally.findings.found.values() if "audit" in finding.title]
    assert tally.statuses[201]
    assert [(finding.count, finding.detail[-21:]) for finding in found] == [
        (tally.statuses[201], "is audited as nothing")
    ]


def test_a_finding_is_a_failure_of_the_part() -> None:
    tally = Tally()
    judge(positive(LOOK), prepared(positive(LOOK)), Reply(), tally.findings)
    assert not part_of(Result(1, [LOOK], tally)).is_ok
    assert not part_of(Result(1, [LOOK], Tally(), broken=["x"])).is_ok
