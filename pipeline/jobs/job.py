"""The names that a job's module must have, and the form in which it reports its result. Without Spark."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from pipeline.jobs.context import Context

PROG: Final = "pipeline"


class JobExit(IntEnum):
    """The process's status, with the meanings of the `springtide` command."""

    DONE = 0
    FOUND = 1
    """The job ran and found something wrong, or was refused."""
    USAGE = 2
    UNREACHABLE = 3
    """No broker or no controller could be reached, or none that was able to answer."""
    INTERRUPTED = 130


class JobOutcome(NamedTuple):
    """result: what `--output json` prints, as one line of JSON. lines: the same for people."""

    status: JobExit
    result: Mapping[str, Any]
    lines: tuple[str, ...] = ()


class Job(Protocol):
    """A job's module, `pipeline.<name>.job`. DESCRIPTION: paragraphs. EXAMPLES: whole command lines."""

    DESCRIPTION: str
    EXAMPLES: tuple[str, ...]

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, options: argparse.Namespace, context: Context) -> JobOutcome: ...
