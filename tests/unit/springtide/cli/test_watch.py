"""Operations are followed by the stream of their events, and by asking where there is none or it ends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import yaml

from tests.kit.secret_file import write_secret
from tests.kit.springtide.cli import ADD, STORY, WATCH, Answer, ok, operation, problem, run

RUNNING = operation("running", "succeeded", "running")
DONE = operation("succeeded", "succeeded", "skipped", summary="broker 4 is active")


def event(revision: int, document: dict[str, Any], name: str = "operation") -> bytes:
    return f"event: {name}\nid: {revision}\ndata: {json.dumps(document)}\n\n".encode()


def streamed(*chunks: bytes | Exception, kind: str = "text/event-stream") -> httpx.Response:
    """A stream whose parts come one by one; an exception ends it as the network would."""

    def parts() -> Iterator[bytes]:
        for chunk in chunks:
            if isinstance(chunk, Exception):
                raise chunk
            yield chunk

    return httpx.Response(200, headers={"Content-Type": kind}, content=parts())


def controller(streams: list[httpx.Response], *polls: httpx.Response) -> Answer:
    """Streams in turn, then none; states in turn, the last one from then on."""
    left = list(polls)

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/events"):
            return streams.pop(0) if streams else problem(404, "not_found")
        found = left.pop(0) if len(left) > 1 else left[0]
        return httpx.Response(found.status_code, headers=found.headers, content=found.content)

    return answer


def paths(asked: list[httpx.Request]) -> list[str]:
    return [request.url.path.rpartition("/")[2] for request in asked]


def test_a_stream_is_followed_to_the_end_without_asking_again() -> None:
    whole = b"retry: 1000\n\n" + event(1, RUNNING) + b": still here\n\n" + event(2, DONE)
    # However the network cuts it.
    for size in (1, 7, len(whole)):
        parts = [whole[start : start + size] for start in range(0, len(whole), size)]
        ran = run(controller([streamed(*parts)]), *WATCH)
        assert ran.status == 0
        assert ran.out.splitlines() == [
            "broker_add op_1  running  1 of 2 steps  (s0 succeeded, s1 running)",
            "broker_add op_1  succeeded  2 of 2 steps  (s0 succeeded, s1 skipped)",
            "broker_add op_1  succeeded: broker 4 is active",
        ]
        assert (paths(ran.asked), ran.slept) == (["events"], 0)
        assert ran.asked[0].headers["accept"] == "text/event-stream"
        assert "last-event-id" not in ran.asked[0].headers


def test_a_stream_that_ends_early_is_opened_again_where_it_ended() -> None:
    first = streamed(event(3, RUNNING))
    lost = streamed(event(3, RUNNING), httpx.ReadError("reset"))
    last = streamed(event(4, DONE))
    ran = run(controller([first, lost, last], ok(RUNNING)), *WATCH, "--output", "json")
    assert ran.status == 0
    # What has not changed is not told again.
    assert [json.loads(line)["state"] for line in ran.out.splitlines()] == ["running", "succeeded"]
    assert paths(ran.asked) == ["events", "op_1", "events", "op_1", "events"]
    assert [request.headers.get("last-event-id") for request in ran.asked[::2]] == [None, "3", "3"]
    assert ran.slept == pytest.approx(1.0)


def test_each_state_is_a_yaml_document_of_a_stream() -> None:
    stream = streamed(event(1, RUNNING), event(2, DONE))
    ran = run(controller([stream]), *WATCH, "--output", "yaml")
    assert [state["state"] for state in yaml.safe_load_all(ran.out)] == ["running", "succeeded"]


def test_an_operation_that_ended_while_the_stream_was_away_is_found_by_asking() -> None:
    ran = run(controller([streamed(event(3, RUNNING))], ok(operation("failed", "failed"))), *WATCH)
    assert ran.status == 1
    assert paths(ran.asked) == ["events", "op_1"]


@pytest.mark.parametrize(
    "none",
    [
        problem(404, "not_found"),
        problem(503, "overloaded"),
        problem(406, "not_acceptable"),
        httpx.Response(204),
        streamed(event(1, RUNNING), kind="application/json"),
        streamed(httpx.ReadTimeout("silent")),
        streamed(b"event: operation\ndata: {broken\n\n"),
    ],
)
def test_without_a_stream_it_asks_now_and_then(none: httpx.Response) -> None:
    ran = run(controller([none], *STORY), *WATCH)
    assert ran.status == 0
    assert paths(ran.asked) == ["events", *["op_1"] * 4]
    assert ran.slept == pytest.approx(1.5)
    assert ran.out.endswith("broker_add op_1  succeeded: broker 4 is active\n")


def test_other_events_are_nobodys() -> None:
    stream = streamed(event(1, DONE, "news"), event(2, DONE))
    ran = run(controller([stream]), *WATCH, "--output", "json")
    assert (ran.status, len(ran.out.splitlines())) == (0, 1)


def test_accepted_work_is_waited_for_by_its_stream() -> None:
    stream = streamed(event(1, RUNNING), event(2, DONE))
    ran = run(controller([stream], ok(operation("preflight"), 202)), *ADD, "--wait", "--output", "json")
    assert ran.status == 0
    assert json.loads(ran.out)["state"] == "succeeded"
    assert [request.method for request in ran.asked] == ["POST", "GET"]


def test_a_token_goes_with_the_stream(tmp_path: Any) -> None:
    file = write_secret(tmp_path / "token", "secret-token-1\n")
    ran = run(controller([streamed(event(2, DONE))]), "--token-file", str(file), *WATCH)
    assert ran.asked[0].headers["authorization"] == "Bearer secret-token-1"
