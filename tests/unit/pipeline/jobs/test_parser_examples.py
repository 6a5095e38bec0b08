"""Each job's help: its examples are command lines that the job takes, and its texts are there."""

from __future__ import annotations

import shlex

import pytest

from pipeline.jobs.job import PROG
from pipeline.jobs.parser import JOBS, load_job, parse


@pytest.mark.parametrize("name", JOBS)
def test_a_jobs_examples_are_what_it_takes(name: str) -> None:
    job = load_job(name)
    assert job.EXAMPLES
    assert len(job.DESCRIPTION) > len(JOBS[name])
    for example in job.EXAMPLES:
        for line in example.replace("\\\n", " ").splitlines():
            prog, *words = shlex.split(line, comments=True)
            assert prog == PROG, f"an example of {PROG}: {line!r}"
            assert parse(words, version="1").job is job


@pytest.mark.parametrize("name", JOBS)
def test_a_job_tells_its_arguments_and_examples(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse([name, "--help"], version="1")
    assert ended.value.code == 0
    told = capsys.readouterr().out
    for part in ("--bootstrap-server", "--master", "--output", "examples:"):
        assert part in told
