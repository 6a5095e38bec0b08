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

from pipeline.client.errors import AccessRefused, RetriesExhausted
from pipeline.errors import JobError, LandError
from pipeline.jobs import parser as grammar
from pipeline.jobs.cli import execute, spark_reason
from pipeline.jobs.context import Context
from pipeline.jobs.job import JobExit, JobOutcome
from springtide.cli.arguments import setting
from springtide.cli.call import UsageError
from springtide.cli.client import RequestRefused, Unreachable
from springtide.cli.console import Console
from springtide.cli.progress import bar

Run = Callable[[argparse.Namespace, Context], JobOutcome]


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str, str]]:
    """Runs a job called `land` that does what the test says: (status, standard output, standard error)."""

    def asked(run: Run, *words: str) -> tuple[int, str, str]:
        job = SimpleNamespace(
            DESCRIPTION="Lands.",
            EXAMPLES=("pipeline land orders lake",),
            add_arguments=lambda parser: parser.add_argument("topic"),
            run=run,
        )
        monkeypatch.setattr(grammar, "load_job", lambda name: job)
        out, err = io.StringIO(), io.StringIO()
        status = execute(["land", "orders", *words], out, err)
        return status, out.getvalue(), err.getvalue()

    return asked


def test_a_result_is_for_people_or_for_programs(ask: Callable[..., tuple[int, str, str]]) -> None:
    def run(options: argparse.Namespace, context: Context) -> JobOutcome:
        context.progress(1, 4, "one of four")
        return JobOutcome(JobExit.FOUND, {"topic": options.topic, "rows": 3}, ("3 rows of orders",))

    assert ask(run) == (JobExit.FOUND, "3 rows of orders\n", " 25 %  one of four\n")
    status, out, _ = ask(run, "--output", "json")
    assert (status, json.loads(out)) == (JobExit.FOUND, {"topic": "orders", "rows": 3})


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (UsageError("--date is no date"), JobExit.USAGE, ["pipeline: --date is no date"]),
        (JobError("no room", "delete something"), JobExit.FOUND, ["pipeline: no room", "delete something"]),
        (
            # As one of Spark's workers raises it.
            pickle.loads(pickle.dumps(LandError("two of it", "keep one"))),
            JobExit.FOUND,
            ["pipeline: two of it", "keep one"],
        ),
        (AccessRefused("check the password"), JobExit.FOUND, ["pipeline: check the password"]),
        (RetriesExhausted("no broker answered"), JobExit.UNREACHABLE, ["pipeline: no broker answered"]),
        (Unreachable("no controller"), JobExit.UNREACHABLE, ["pipeline: no controller"]),
        (
            RequestRefused(409, b'{"title": "In the way", "code": "conflict", "detail": "a plan runs"}'),
            JobExit.FOUND,
            ["In the way (conflict, 409)", "  a plan runs"],
        ),
        (KeyboardInterrupt(), JobExit.INTERRUPTED, ["pipeline: interrupted"]),
    ],
)
def test_an_error_is_a_status_and_a_sentence(
    ask: Callable[..., tuple[int, str, str]], error: BaseException, status: JobExit, said: list[str]
) -> None:
    def run(options: argparse.Namespace, context: Context) -> JobOutcome:
        raise error

    found, out, err = ask(run)
    assert (found, out, err.splitlines()) == (status, "", said)


def test_a_fault_of_ours_is_not_hidden(ask: Callable[..., tuple[int, str, str]]) -> None:
    def run(options: argparse.Namespace, context: Context) -> JobOutcome:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ask(run)


def test_brokers_come_from_the_option_or_the_environment(
    ask: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(options: argparse.Namespace, context: Context) -> JobOutcome:
        return JobOutcome(
            JobExit.DONE, {"client": context.client_config.client_id, "servers": context.bootstrap}
        )

    monkeypatch.delenv("SPRINGTIDE_BOOTSTRAP_SERVER", raising=False)
    status, _, err = ask(run)
    assert status == JobExit.USAGE
    assert "--bootstrap-server" in err
    monkeypatch.setenv("SPRINGTIDE_BOOTSTRAP_SERVER", "store1:9092")
    assert json.loads(ask(run, "--output", "json")[1]) == {
        "client": "pipeline-land",
        "servers": "store1:9092",
    }
    assert "store2:9092" in ask(run, "--output", "json", "--bootstrap-server", "store2:9092")[1]
    status, _, err = ask(run, "--bootstrap-server", "store2")
    assert (status, "no host:port" in err) == (JobExit.USAGE, True)


def test_controllers_need_a_cluster_to_speak_of(
    ask: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPRINGTIDE_CLUSTER", raising=False)

    def run(options: argparse.Namespace, context: Context) -> JobOutcome:
        return JobOutcome(JobExit.DONE, {}, (context.cluster,))

    assert ask(run)[0] == JobExit.USAGE
    assert ask(run, "--cluster", "prod")[1] == "prod\n"


@pytest.mark.parametrize("text", ["spark.x", "=y", ""])
def test_a_setting_has_a_key_and_a_value(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        setting(text)
    assert setting("spark.x=a=b") == ("spark.x", "a=b")


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
    terminal = Console(io.StringIO(), err, screen=err, columns=40, now=lambda: time.now)
    terminal.progress(1, 2, "half")
    terminal.note("by the way")
    assert err.getvalue() == "\r\x1b[K[############------------]  50 %  half" + "\r\x1b[Kby the way\n"
    assert bar(0, 0) == bar(0, 10) == "[" + "-" * 24 + "]"
    assert bar(9, 10).count("#") == 21
    assert bar(10, 10) == "[" + "#" * 24 + "]"
