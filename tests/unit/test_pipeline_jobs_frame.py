"""The frame of the pipeline's jobs: statuses, outputs and who is imported when."""

from __future__ import annotations

import argparse
import io
import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from pipeline.client.errors import RetriesExhausted
from pipeline.jobs import parser as grammar
from pipeline.jobs.cli import execute, spark_reason
from pipeline.jobs.console import Console, bar
from pipeline.jobs.context import Context
from pipeline.jobs.job import Exit, Job, JobError, Outcome, UsageError
from pipeline.land.errors import LandError
from springtide.cli.client import Refused, Unreachable

Run = Callable[[argparse.Namespace, Context], Outcome]


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str, str]]:
    """Runs a job called `land` that does what the test says: (status, standard output, standard error)."""

    def asked(run: Run, *words: str) -> tuple[int, str, str]:
        job = Job(
            name="land",
            summary="lands",
            description="Lands.",
            examples=("pipeline land orders lake",),
            add_arguments=lambda parser: parser.add_argument("topic"),
            run=run,
        )
        monkeypatch.setattr(grammar, "load_job", lambda name: job)
        out, err = io.StringIO(), io.StringIO()
        status = execute(["land", "orders", *words], out, err)
        return status, out.getvalue(), err.getvalue()

    return asked


def test_a_result_is_for_people_or_for_programs(ask: Callable[..., tuple[int, str, str]]) -> None:
    def run(options: argparse.Namespace, context: Context) -> Outcome:
        context.progress(1, 4, "one of four")
        return Outcome(Exit.FOUND, {"topic": options.topic, "rows": 3}, ("3 rows of orders",))

    assert ask(run) == (Exit.FOUND, "3 rows of orders\n", " 25 %  one of four\n")
    status, out, _ = ask(run, "--output", "json")
    assert (status, json.loads(out)) == (Exit.FOUND, {"topic": "orders", "rows": 3})


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (UsageError("--date is no date"), Exit.USAGE, ["pipeline: --date is no date"]),
        (JobError("no room", "delete something"), Exit.FOUND, ["pipeline: no room", "delete something"]),
        (
            # As one of Spark's workers raises it.
            pickle.loads(pickle.dumps(LandError("two of it", "keep one"))),
            Exit.FOUND,
            ["pipeline: two of it", "keep one"],
        ),
        (RetriesExhausted("no broker answered"), Exit.UNREACHABLE, ["pipeline: no broker answered"]),
        (Unreachable("no controller"), Exit.UNREACHABLE, ["pipeline: no controller"]),
        (
            Refused(409, b'{"title": "In the way", "code": "conflict", "detail": "a plan runs"}'),
            Exit.FOUND,
            ["In the way (conflict, 409)", "  a plan runs"],
        ),
        (KeyboardInterrupt(), Exit.INTERRUPTED, ["pipeline: interrupted"]),
    ],
)
def test_an_error_is_a_status_and_a_sentence(
    ask: Callable[..., tuple[int, str, str]], error: BaseException, status: Exit, said: list[str]
) -> None:
    def run(options: argparse.Namespace, context: Context) -> Outcome:
        raise error

    found, out, err = ask(run)
    assert (found, out, err.splitlines()) == (status, "", said)


def test_a_fault_of_ours_is_not_hidden(ask: Callable[..., tuple[int, str, str]]) -> None:
    def run(options: argparse.Namespace, context: Context) -> Outcome:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ask(run)


def test_brokers_come_from_the_option_or_the_environment(
    ask: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(options: argparse.Namespace, context: Context) -> Outcome:
        return Outcome(Exit.DONE, {"client": context.client_config.client_id, "servers": context.bootstrap})

    monkeypatch.delenv("SPRINGTIDE_BOOTSTRAP_SERVER", raising=False)
    status, _, err = ask(run)
    assert status == Exit.USAGE
    assert "--bootstrap-server" in err
    monkeypatch.setenv("SPRINGTIDE_BOOTSTRAP_SERVER", "store1:9092")
    assert json.loads(ask(run, "--output", "json")[1]) == {
        "client": "pipeline-land",
        "servers": "store1:9092",
    }
    assert "store2:9092" in ask(run, "--output", "json", "--bootstrap-server", "store2:9092")[1]
    status, _, err = ask(run, "--bootstrap-server", "store2")
    assert (status, "no host:port" in err) == (Exit.USAGE, True)


def test_controllers_need_a_cluster_to_speak_of(
    ask: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPRINGTIDE_CLUSTER", raising=False)

    def run(options: argparse.Namespace, context: Context) -> Outcome:
        return Outcome(Exit.DONE, {}, (context.cluster,))

    assert ask(run)[0] == Exit.USAGE
    assert ask(run, "--cluster", "prod")[1] == "prod\n"


@pytest.mark.parametrize("text", ["spark.x", "=y", ""])
def test_a_setting_has_a_key_and_a_value(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        grammar.setting(text)
    assert grammar.setting("spark.x=a=b") == ("spark.x", "a=b")


def test_help_imports_no_job_and_no_spark() -> None:
    code = (
        "import sys\nfrom pipeline.jobs.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit as end:\n    assert end.code == 0\n"
        "assert not {'pyspark', 'pyarrow', 'numpy'} & set(sys.modules), 'heavy'\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "exit status:" in done.stdout


def test_spark_says_why_in_a_few_lines() -> None:
    worker = "\n".join(
        [
            "[PYTHON_DATA_SOURCE_ERROR] Failed when Python data source instance called method",
            "Traceback (most recent call last):",
            '  File "worker.py", line 1, in main',
            "pipeline.client.errors.RetriesExhausted: no broker answered",
            "\tat org.apache.spark.Thing.do(Thing.scala:1)",
        ]
    )
    assert spark_reason(worker) == ["pipeline.client.errors.RetriesExhausted: no broker answered"]
    assert spark_reason("[TABLE_EXISTS] there\nis one") == ["[TABLE_EXISTS] there", "is one"]
    assert spark_reason("") == ["Spark failed and did not say why"]


def test_progress_is_a_line_now_and_then_or_a_bar() -> None:
    time = SimpleNamespace(now=0.0)
    err = io.StringIO()
    log = Console(io.StringIO(), err, now=lambda: time.now)
    for second in range(25):
        time.now = float(second)
        log.progress(second, 100, f"second {second}")
    assert err.getvalue().splitlines() == ["  0 %  second 0", " 10 %  second 10", " 20 %  second 20"]

    err = io.StringIO()
    terminal = Console(io.StringIO(), err, columns=40, now=lambda: time.now)
    terminal.progress(1, 2, "half")
    terminal.note("by the way")
    assert err.getvalue() == "\r\x1b[K[############------------]  50 %  half" + "\r\x1b[Kby the way\n"
    assert bar(0, 0) == bar(0, 10) == "[" + "-" * 24 + "]"
    assert bar(9, 10).count("#") == 21
    assert bar(10, 10) == "[" + "#" * 24 + "]"
