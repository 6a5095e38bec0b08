"""What a job is: its arguments, what it does, and how it says what came of it. Without Spark."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from pipeline.errors import AdvisedError

if TYPE_CHECKING:
    from pipeline.jobs.context import Context


class Exit(IntEnum):
    """The process's status, with the meanings of the `springtide` command."""

    DONE = 0
    FOUND = 1
    """The job ran and found something wrong, or was refused."""
    USAGE = 2
    UNREACHABLE = 3
    """No broker or no controller could be reached, or none that was able to answer."""
    INTERRUPTED = 130


class Outcome(NamedTuple):
    """result: what `--output json` prints, as one line of JSON. lines: the same for people."""

    status: Exit
    result: Mapping[str, Any]
    lines: tuple[str, ...] = ()


class UsageError(Exception):
    """The command line asks for something that can't be."""


class JobError(AdvisedError):
    """The job can't do what it was asked to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """summary: a line of `pipeline --help`. description: paragraphs. examples: whole command lines."""

    name: str
    summary: str
    description: str
    examples: tuple[str, ...]
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace, Context], Outcome]
