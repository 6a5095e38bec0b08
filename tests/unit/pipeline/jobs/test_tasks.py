"""Where a job's tasks run, as its command line and their size decide."""

from __future__ import annotations

import argparse
import io
from pathlib import Path

import pytest

from pipeline.errors import JobError, LandError
from pipeline.jobs.context import Context
from pipeline.jobs.tasks import BYTES_HERE_MAX, TASKS_HERE_MAX, JobEngine
from springtide.cli.call import UsageError
from springtide.cli.console import Console

NO_JAVA = "Spark needs Java"
"""What a job says that chooses Spark: JAVA_HOME leads nowhere in these tests."""


@pytest.fixture(autouse=True)
def without_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))


def context_of(err: io.StringIO | None = None, **options: str | None) -> Context:
    given = {"engine": JobEngine.AUTO.value, "master": None, "remote": None, "conf": None, "name": None}
    console = Console(io.StringIO(), err or io.StringIO())
    return Context(argparse.Namespace(job_name="land", **{**given, **options}), console, {})


def test_small_tasks_run_here_one_after_another_and_are_counted() -> None:
    err = io.StringIO()
    assert context_of(err).run_tasks(abs, [-3, -1, -2], size=lambda: BYTES_HERE_MAX) == [3, 1, 2]
    assert err.getvalue().splitlines() == ["  0 %  0 of 3 tasks", "100 %  3 of 3 tasks"]
    shown: list[tuple[int, int]] = []
    context_of().run_tasks(abs, [-1, -2], size=lambda: 0, shown=lambda *told: shown.append(told))
    assert shown == [(0, 2), (1, 2), (2, 2)]


@pytest.mark.parametrize(
    ("size", "tasks"), [(BYTES_HERE_MAX + 1, 1), (None, 1), (1, TASKS_HERE_MAX + 1)], ids=str
)
def test_what_is_large_or_unknown_is_sparks(size: int | None, tasks: int) -> None:
    with pytest.raises(JobError, match=NO_JAVA):
        context_of().run_tasks(abs, range(tasks), size=lambda: size)


def test_whoever_names_a_spark_gets_it() -> None:
    with pytest.raises(JobError, match=NO_JAVA):
        context_of(master="local[2]").run_tasks(abs, [1], size=lambda: 1)
    with pytest.raises(JobError, match=NO_JAVA):
        context_of(engine="spark").run_tasks(abs, [1], size=lambda: 1)


def test_this_process_takes_any_size_if_it_is_told_to() -> None:
    local = context_of(engine="local")
    assert local.run_tasks(abs, [-1], size=lambda: None) == [1]
    assert local.parallelism == 1
    with pytest.raises(UsageError, match="--engine local"):
        context_of(engine="local", remote="sc://host").run_tasks(abs, [-1], size=lambda: 1)


def test_without_tasks_nothing_is_started_or_shown() -> None:
    err = io.StringIO()
    assert context_of(err, engine="spark").run_tasks(abs, [], size=lambda: None) == []
    assert err.getvalue() == ""


def test_an_error_of_a_task_is_the_jobs_and_a_full_disk_is_told_in_a_sentence() -> None:
    def refuse(task: int) -> None:
        raise LandError("two of it", "keep one")

    def write(task: int) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(LandError, match="two of it"):
        context_of().run_tasks(refuse, [1], size=lambda: 1)
    with pytest.raises(JobError, match="No space left on device"):
        context_of().run_tasks(write, [1], size=lambda: 1)
