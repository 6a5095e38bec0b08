"""A supervised child that runs a piece of Python."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from localcluster.processes import ProcessCommand, SupervisedProcess


@pytest.fixture
def make_child(tmp_path: Path) -> Iterator[Callable[[str], SupervisedProcess]]:
    """Describes children that run a piece of Python; ends whatever a test leaves running."""
    made: list[SupervisedProcess] = []

    def make(source: str) -> SupervisedProcess:
        command = ProcessCommand([sys.executable, "-c", textwrap.dedent(source)], working_directory=tmp_path)
        made.append(SupervisedProcess("child 7", command, tmp_path / "logs" / "child.log"))
        return made[-1]

    yield make
    for child in made:
        child.kill()
