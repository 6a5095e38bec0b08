"""An application of the table: how it comes here, how it is started, and what its main job is.

A program finds what it is given in its environment: BOOTSTRAP, SOURCE and TARGET (topics), GROUP and FOLDER
(empty, its own). LINES are what is written and read; an application of the kind

    pipe    reads SOURCE and writes each value in capitals to TARGET
    write   writes the lines of FOLDER/lines, or what `contents` asks for, to TARGET
    read    prints the values of SOURCE to standard output

All settings but addresses and names are the application's defaults, and that it does so exactly once where
that is its row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tests.interop.apps.installs import Install

LINES = tuple(f"line {number}" for number in range(20))
HALF = len(LINES) // 2
COPY = "copy"
"""What a copier calls the cluster that it copies from; topics' names begin with it."""
Kind = Literal["pipe", "write", "read"]


@dataclass(frozen=True, slots=True)
class Place:
    """What one run of an application gets. home: the folder in which it is installed."""

    bootstrap: str
    source: str
    target: str
    group: str
    folder: Path
    home: Path

    @property
    def environment(self) -> dict[str, str]:
        return {
            "BOOTSTRAP": self.bootstrap,
            "SOURCE": self.source,
            "TARGET": self.target,
            "GROUP": self.group,
            "FOLDER": str(self.folder),
        }


@dataclass(frozen=True, slots=True)
class Command:
    """A process of the application. given: its standard input."""

    arguments: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    given: str = ""


def is_each_line_once(values: Sequence[str]) -> bool:
    """Return whether the topic holds the lines, in order and no others."""
    return list(values) == list(LINES)


@dataclass(frozen=True, slots=True)
class App:
    """One row of the table.

    Attributes:
        job: what it does here, in a few words.
        command: returns what is started for a place.
        contents: of an application that writes: whether the topic's values are what they should be.
        copies: of a pipe: it writes values as they are, to the topic COPY.SOURCE.
        keeps_order: False: it promises none, as a table has none.
        exactly_once: it is killed in the middle, and started again with the same place.
        needs: what a person has to know or to set, beside addresses.
    """

    name: str
    kind: Kind
    job: str
    install: Install
    command: Callable[[Place], Command]
    contents: Callable[[Sequence[str]], bool] = is_each_line_once
    copies: bool = False
    keeps_order: bool = True
    exactly_once: bool = False
    needs: str = ""
