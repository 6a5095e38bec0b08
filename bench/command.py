"""What the benchmarks' command lines have in common."""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser
from pathlib import Path
from typing import Any, Protocol


class Adding(Protocol):
    """A parser, or a group of its options."""

    def add_argument(self, *args: Any, **kwargs: Any) -> Any: ...


class WrongCommand(ValueError):
    """Options do not fit together; the message says why."""


class Narrator:
    """Progress on standard error, with the seconds since the start: standard output is for the table."""

    def __init__(self) -> None:
        self._started_at = time.monotonic()

    def __call__(self, line: str) -> None:
        sys.stderr.write(f"[{time.monotonic() - self._started_at:6.1f} s] {line}\n")
        sys.stderr.flush()


def add_quick(parser: ArgumentParser, meaning: str = "small: to see that it runs, not how fast") -> None:
    parser.add_argument("--quick", action="store_true", help=meaning)


def add_output(parser: ArgumentParser, name: str) -> None:
    parser.add_argument(
        "--output", type=Path, default=Path(f"build/{name}.json"), help="where figures go (%(default)s)"
    )


def add_kafka_home(parser: Adding) -> None:
    parser.add_argument("--kafka-home", type=Path, metavar="DIR", help="compare with the Kafka in DIR/libs")
