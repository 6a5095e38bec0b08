"""One format for every process: what a person reads, what a collector reads, and what nobody can forge."""

from __future__ import annotations

import ast
import json
import logging
import re
import subprocess
import sys
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
import trio

from springtide.log_lines import LINE_NAMES, JsonFormatter, TextFormatter, current_ids, ids_in_log

ROOT = Path(__file__).parents[3]
PRODUCT = ("controller", "admin_api", "dataplane", "pipeline", "springtide")
#: 2026-11-23T20:21:48.123Z
CREATED = 1_795_465_308.123
#: An event in constant words, and fields.
CALL = re.compile(r"[A-Za-z][A-Za-z_ ]*( [a-z][a-z0-9_.]*=%[sd])*")


def record(text: str, *values: object, level: int = logging.INFO) -> logging.LogRecord:
    made = logging.LogRecord("controller.shell", level, "", 0, text, values, None)
    made.created = CREATED
    return made


def as_text(text: str, *values: object) -> str:
    return TextFormatter().format(record(text, *values)).partition(" logger=controller.shell ")[2]


def as_json(text: str, *values: object) -> dict[str, object]:
    line = TextFormatter().format(record(text, *values))
    assert "\n" not in line
    told: dict[str, object] = json.loads(JsonFormatter().format(record(text, *values)))
    return told


def test_a_line_of_text_is_time_level_logger_event_and_fields() -> None:
    line = TextFormatter().format(record("elected controller_epoch=%d url=%s", 4, "http://c1:8080"))
    assert line == (
        "2026-11-23T20:21:48.123Z level=info logger=controller.shell "
        "elected controller_epoch=4 url=http://c1:8080"
    )


def test_json_has_the_same_names_and_keeps_numbers() -> None:
    assert as_json("elected controller_epoch=%d url=%s is_new=%s last=%s", 4, "http://c1", True, None) == {
        "time": "2026-11-23T20:21:48.123Z",
        "level": "info",
        "logger": "controller.shell",
        "event": "elected",
        "controller_epoch": 4,
        "url": "http://c1",
        "is_new": True,
        "last": None,
    }


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("orders", "orders"),
        ("", '""'),
        ("two words", '"two words"'),
        ('he said "no"', r'"he said \"no\""'),
        ("a=b", '"a=b"'),
        (r"C:\logs", r"C:\logs"),
        (r"C:\my logs", r'"C:\\my logs"'),
        ("über", "über"),
        ("a\r\n2026-11-23T20:21:48.123Z level=error", r'"a\r\n2026-11-23T20:21:48.123Z level=error"'),
        ("\x1b[2J\x00\x9b", r'"\x1b[2J\x00\x9b"'),
        ("or\u202eders\u2028", r'"or\u202eders\u2028"'),
        ("\udc80", r'"\udc80"'),
        (True, "true"),
        (None, "null"),
        (0.5, "0.5"),
        (ValueError("two words"), '"two words"'),
    ],
)
def test_a_value_is_quoted_and_escaped_where_it_must_be(value: object, shown: str) -> None:
    assert as_text("topic_created topic=%s at=%d", value, 3) == f"topic_created topic={shown} at=3"
    as_json("topic_created topic=%s", value)


def test_a_value_can_neither_add_a_field_nor_take_one_away() -> None:
    told = as_json("forbidden name=%s role=%s", "x role=admin level=error", "viewer")
    assert (told["event"], told["name"], told["role"]) == ("forbidden", "x role=admin level=error", "viewer")


@pytest.mark.parametrize(
    ("text", "values", "event"),
    [
        (
            "Uvicorn running on %s (Press %s)",
            ("http://c1", "CTRL+C"),
            "Uvicorn running on http://c1 (Press CTRL+C)",
        ),
        ("100% of it", (), "100% of it"),
        ("is %(kind)s", ({"kind": "named"},), "is named"),
        ("peer sent %s", ("a\nb",), r"peer sent a\nb"),
    ],
)
def test_what_a_library_logs_is_an_event_without_fields(
    text: str, values: tuple[object, ...], event: str
) -> None:
    assert as_text(text, *values) == event


def failing() -> logging.LogRecord:
    try:
        raise ValueError("first\nsecond\x1b[2J")
    except ValueError:
        made = record("step_failed cluster=%s", "prod", level=logging.ERROR)
        made.exc_info = sys.exc_info()
        return made


def test_a_traceback_keeps_its_lines_and_none_can_pass_for_an_event() -> None:
    first, *traced = TextFormatter().format(failing()).split("\n")
    assert first.endswith("level=error logger=controller.shell step_failed cluster=prod")
    assert traced[0] == "    Traceback (most recent call last):"
    assert traced[-2:] == ["    ValueError: first", r"    second\x1b[2J"]
    assert all(line.startswith("    ") for line in traced)


def test_a_traceback_is_a_field_of_json() -> None:
    line = JsonFormatter().format(failing())
    assert "\n" not in line
    assert str(json.loads(line)["traceback"]).endswith("ValueError: first\nsecond\x1b[2J")


def test_another_formatter_of_the_same_record_shows_the_traceback_its_own_way() -> None:
    made = failing()
    logging.Formatter().format(made)
    assert "\n    Traceback" in TextFormatter().format(made)


def test_ids_are_in_every_line_within_and_in_none_after() -> None:
    with ids_in_log(request_id="r1", operation_id=None):
        with ids_in_log(operation_id="op_1"):
            assert as_text("topic_created topic=%s", "t") == (
                "topic_created request_id=r1 operation_id=op_1 topic=t"
            )
            assert as_json("stopped")["operation_id"] == "op_1"
            kept = current_ids()
        assert as_text("stopped") == "stopped request_id=r1"
    assert as_text("stopped") == "stopped"
    with ids_in_log(**kept):
        assert as_text("stopped") == "stopped request_id=r1 operation_id=op_1"


@pytest.mark.anyio
async def test_ids_go_with_tasks_and_threads_and_never_to_a_neighbour() -> None:
    told: list[str] = []

    async def serve(request_id: str) -> None:
        with ids_in_log(request_id=request_id):
            await anyio.lowlevel.checkpoint()
            told.append(as_text("in_a_task"))
            told.append(await anyio.to_thread.run_sync(as_text, "in_a_thread"))

    async with anyio.create_task_group() as tasks:
        for request_id in ("a", "b"):
            tasks.start_soon(serve, request_id)
    assert sorted(told) == [
        f"{event} request_id={request_id}" for event in ("in_a_task", "in_a_thread") for request_id in "ab"
    ]


def test_ids_go_with_the_tasks_of_a_broker() -> None:
    told: list[str] = []

    async def serve(request_id: str) -> None:
        with ids_in_log(request_id=request_id):
            await trio.lowlevel.checkpoint()
            told.append(as_text("in_a_task"))

    async def run() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve, "a")
            nursery.start_soon(serve, "b")

    trio.run(run)
    assert sorted(told) == ["in_a_task request_id=a", "in_a_task request_id=b"]


def calls() -> list[tuple[str, str]]:
    """Where each log call of the product stands, and its text, unless that is put together as it runs."""
    found = []
    for path in (path for package in PRODUCT for path in (ROOT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            owner, name = node.func.value, node.func.attr
            is_log = isinstance(owner, ast.Name) and owner.id in ("log", "_log")
            if not is_log and name != "_complain":
                continue
            text = node.args[1 if name == "log" else 0] if node.args else None
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                found.append((f"{path.relative_to(ROOT)}:{node.lineno}", text.value))
    return found


def test_every_log_call_names_its_event_in_constant_words_and_then_its_fields() -> None:
    told = calls()
    assert len(told) > 100
    assert [(where, text) for where, text in told if not CALL.fullmatch(text)] == []


def test_no_field_has_a_name_that_every_line_has() -> None:
    taken = {*LINE_NAMES, "request_id", "operation_id"}
    assert [(w, text) for w, text in calls() if taken & set(re.findall(r"([a-z_.]+)=%", text))] == []


LAST_WORDS = """
import logging, warnings
from springtide.log_lines import configure_logging
configure_logging("info", "json")
logging.getLogger("uvicorn.error").info("Started server process [%d]", 7)
logging.getLogger("uvicorn.access").info('%s - "%s %s"', "127.0.0.1:1", "GET", "/x")
warnings.warn("old")
raise ValueError("the end")
"""


def test_what_libraries_and_the_interpreter_say_has_the_same_format() -> None:
    ended = subprocess.run([sys.executable, "-c", LAST_WORDS], capture_output=True, text=True, check=False)
    lines = [json.loads(line) for line in ended.stderr.splitlines()]
    assert [(line["level"], line["logger"], line["event"].split("\n")[0]) for line in lines] == [
        ("info", "uvicorn.error", "Started server process [7]"),
        ("info", "uvicorn.access", '127.0.0.1:1 - "GET /x"'),
        ("warning", "py.warnings", "<string>:7: UserWarning: old"),
        ("error", "springtide", "process_failed"),
    ]
    assert lines[-1]["traceback"].endswith("ValueError: the end")
    assert (ended.returncode, ended.stdout) == (1, "")
