"""Operations are followed until they end, the audit is verified to its end, and the exit status says how."""

from __future__ import annotations

import json
from typing import Any

import pytest

from springtide.cli.amounts import duration, size
from springtide.cli.progress import bar, bar_line, event_line, progress_of
from tests.kit.springtide.cli import (
    ADD,
    STORY,
    WAITS,
    WATCH,
    in_turn,
    ok,
    operation,
    problem,
    run,
    without_streams,
)


def test_lines_appear_when_something_changes() -> None:
    ran = run(without_streams(*STORY), *WATCH)
    assert ran.status == 0
    assert ran.out.splitlines() == [
        "broker_add op_1  preflight, waits: broker_unreachable: store4:9092 refuses and 1 more  0 of 2 steps"
        "  (s0 running, s1 pending)",
        "broker_add op_1  running  1 of 2 steps  (s0 succeeded, s1 running)",
        "broker_add op_1  succeeded  2 of 2 steps  (s0 succeeded, s1 skipped)",
        "broker_add op_1  succeeded: broker 4 is active",
    ]
    assert ran.slept == pytest.approx(1.5)


def test_a_terminal_has_a_bar_that_leaves_only_the_ending() -> None:
    ran = run(without_streams(*STORY), *WATCH, "--interval", "2", columns=70)
    drawn = ran.out.split("\r\x1b[K")
    assert drawn[1].startswith("broker_add op_1  [" + "-" * 24 + "] 0 of 2 steps  pre")
    assert all(len(line) < 70 for line in drawn[1:-1])
    assert "[" + "#" * 12 + "-" * 12 + "] 1 of 2 steps  running" in drawn[2]
    assert drawn[-1] == "broker_add op_1  succeeded: broker 4 is active\n"
    assert ran.slept == pytest.approx(6)


def test_a_cancelled_operation_says_what_stays_and_how_to_take_it_back() -> None:
    words = "finished moves, which stay: 1 of 6; `springtide operations undo op_1` takes back what stays"
    done = operation("cancelled", "cancelled", summary="1 of 6 moves", cancellation={"detail": words})
    ran = run(without_streams(ok(done)), *WATCH)
    assert ran.out.splitlines()[-1] == f"broker_add op_1  cancelled: {words}"


def test_json_has_a_line_for_every_state() -> None:
    ran = run(without_streams(*STORY), *WATCH, "--output", "json", columns=60)
    assert [json.loads(line)["state"] for line in ran.out.splitlines()] == [
        "preflight",
        "running",
        "succeeded",
    ]


@pytest.mark.parametrize("state", ["failed", "cancelled"])
def test_an_operation_that_does_not_succeed_is_a_failure(state: str) -> None:
    error = {"code": "deadline_exceeded", "detail": "nobody came"}
    ran = run(without_streams(ok(operation(state, "failed", error=error))), *WATCH)
    assert ran.status == 1
    assert ran.out.endswith(f"broker_add op_1  {state}: deadline_exceeded: nobody came\n")


def test_a_refusal_in_the_middle_takes_the_bar_away_first() -> None:
    ran = run(without_streams(STORY[0], problem(404, "operation_not_found")), *WATCH, columns=80)
    assert ran.status == 1
    assert ran.out.endswith("\r\x1b[K")
    assert "operation_not_found" in ran.err


def test_accepted_work_is_shown_and_how_to_follow_it_said() -> None:
    ran = run(in_turn(ok(operation("preflight", "running"), 202)), *ADD)
    assert ran.status == 0
    assert "state                 preflight" in ran.out
    assert ran.err == "follow it with: springtide operations watch op_1\n"


def test_wait_follows_accepted_work_to_its_end() -> None:
    ran = run(without_streams(ok(operation("preflight", "running"), 202), *STORY), *ADD, "--wait")
    assert ran.status == 0
    assert ran.out.splitlines()[-1] == "broker_add op_1  succeeded: broker 4 is active"
    assert [request.method for request in ran.asked] == ["POST", *["GET"] * 5]
    assert ran.targets[1].endswith("/operations/op_1/events")  # asked for once, and not again


def test_wait_under_json_prints_one_document_the_last() -> None:
    ran = run(without_streams(ok(operation("preflight"), 202), *STORY), *ADD, "--wait", "--output", "json")
    assert json.loads(ran.out)["state"] == "succeeded"
    failed = run(without_streams(ok(operation("preflight"), 202), ok(operation("failed"))), *ADD, "--wait")
    assert failed.status == 1


def test_wait_leaves_what_is_done_at_once_alone() -> None:
    ran = run(in_turn(ok({"name": "orders"}, 201)), "topics", "create", "orders", "--wait")
    assert (ran.status, ran.out, len(ran.asked)) == (0, "name  orders\n", 1)


@pytest.mark.parametrize(("replayed", "says"), [({}, False), ({"Idempotency_Replayed": "true"}, True)])
def test_the_first_answer_again_is_told_to_be_that(replayed: dict[str, str], says: bool) -> None:
    again = run(
        in_turn(ok({"name": "t"}, 201, **replayed)), "topics", "create", "t", "--idempotency-key", "k"
    )
    assert ("the first request with that key" in again.err) is says


def test_a_dry_run_shows_the_plan() -> None:
    plan = {"brokers": [4, 5], "moves": 0, "warnings": ["broker 5 has not registered"]}
    ran = run(in_turn(ok(plan)), *ADD, "--dry-run", "--wait")
    assert ran.asked[0].url.params["dry_run"] == "true"
    assert ran.out.splitlines() == [
        "brokers   4,5",
        "moves     0",
        "warnings  broker 5 has not registered",
    ]


@pytest.mark.parametrize(
    ("progress", "expected"),
    [
        ({"bytes_total": 4096, "bytes_done": 1024, "moves_total": 3}, (1024, 4096, "1.0 KiB of 4.0 KiB")),
        ({"bytes_total": None, "moves_total": 3, "moves_done": None}, (0, 3, "0 of 3 moves")),
        ({}, (1, 3, "1 of 3 steps")),
    ],
)
def test_progress_is_of_the_finest_thing_known(
    progress: dict[str, Any], expected: tuple[int, int, str]
) -> None:
    assert progress_of(operation("running", "succeeded", "running", "pending", progress=progress)) == expected


def test_a_bar_is_full_only_when_all_is_done() -> None:
    assert bar(0, 0, columns=4) == "[----]"
    assert bar(99, 100, columns=4) == "[###-]"
    assert bar(100, 100, columns=4) == "[####]"
    assert bar(300, 100, columns=4) == "[####]"
    assert bar(-1, 100, columns=4) == "[----]"


def test_a_bar_fits_its_terminal() -> None:
    shown = bar_line(operation("running", blocked=WAITS), columns=40)
    assert len(shown) == 40
    assert shown.endswith("...")


def test_a_line_says_how_fast_it_goes_and_how_long_it_takes() -> None:
    copying = {"bytes_total": 4096, "bytes_done": 1024, "rate_bytes_per_s": 512, "eta": {"p50_ms": 6_000}}
    shown = operation("running", "running", progress=copying)
    assert "1.0 KiB of 4.0 KiB, 512 B/s, 6 s left" in bar_line(shown, columns=120)
    assert "1.0 KiB of 4.0 KiB, 512 B/s, 6 s left" in event_line(shown)
    unknown = operation("running", "running", progress=copying | {"rate_bytes_per_s": None, "eta": None})
    assert "1.0 KiB of 4.0 KiB, speed unknown, time left unknown" in event_line(unknown)
    for other in (operation("paused", "running", progress=copying), operation("running", "running")):
        assert "left" not in event_line(other)


def test_durations_have_the_unit_that_suits() -> None:
    assert [duration(ms) for ms in (0, 1, 119_000, 120_001, 7_200_000, 172_800_000)] == [
        "0 s",
        "1 s",
        "119 s",
        "3 min",
        "2 h",
        "2 d",
    ]


def test_sizes_have_the_unit_that_suits() -> None:
    assert [size(n) for n in (0, 1023, 1024, 5 * 2**30, 2**80)] == [
        "0 B",
        "1023 B",
        "1.0 KiB",
        "5.0 GiB",
        "1073741824.0 PiB",
    ]


def verification(**fields: Any) -> dict[str, Any]:
    return {
        "cluster": "prod",
        "ok": True,
        "rows": 5,
        "outcomes": 2,
        "hash": "ab",
        "next_from_seq": None,
    } | fields


def test_a_verification_goes_on_to_the_end_and_counts_everything() -> None:
    ran = run(
        in_turn(ok(verification(next_from_seq=6)), ok(verification())), "audit", "verify", "--to-seq", "10"
    )
    assert ran.status == 0
    assert [dict(request.url.params) for request in ran.asked] == [
        {"cluster": "prod", "to_seq": "10"},
        {"cluster": "prod", "to_seq": "10", "from_seq": "6"},
    ]
    assert "rows           10" in ran.out
    assert "outcomes       4" in ran.out


def test_a_history_that_was_altered_fails_and_is_not_read_on() -> None:
    found = verification(ok=False, mismatch={"code": "altered", "seq": 3}, next_from_seq=6)
    ran = run(in_turn(ok(found)), "audit", "verify")
    assert (ran.status, len(ran.asked)) == (1, 1)
    assert "mismatch.code  altered" in ran.out
    as_json = run(in_turn(ok(found)), "audit", "verify", "--output", "json")
    assert (as_json.status, json.loads(as_json.out)) == (1, found)
