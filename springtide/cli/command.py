"""What a command is: its words, its arguments, the call that it makes, and how its answer is shown.

A further command is one more `Command` in the module of its noun in `commands/`:

    Command(
        words=("brokers", "demote"),
        summary="Move the leaderships off a broker",
        examples=("brokers demote 4 --reason 'a new kernel' --wait",),
        kind=Kind.WRITE,
        arguments=(BROKER_ID,),
        call=lambda options: write(
            options, "POST", "clusters", options.cluster, "brokers", options.broker_id, action="demote"
        ),
    )

Options of every command, help, completion, retries, pages and both outputs come with it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from springtide.cli.call import Call
from springtide.cli.tables import Column


class Kind(Enum):
    """What becomes of the answer."""

    SHOW = auto()
    """One resource."""
    LIST = auto()
    """Pages of items, followed to the end."""
    WRITE = auto()
    """A change: a resource, an operation to follow (202), or what a dry run found."""
    WATCH = auto()
    """An operation, followed until it has ended."""
    VERIFY = auto()
    """The audit's verification, followed to the end."""
    COMPLETION = auto()
    """Nothing is asked: the shell's completion script."""


@dataclass(frozen=True, slots=True)
class Argument:
    """One call of `argparse.ArgumentParser.add_argument`."""

    names: tuple[str, ...]
    options: Mapping[str, Any]


def argument(*names: str, **options: Any) -> Argument:
    return Argument(names, options)


def _nothing(options: argparse.Namespace) -> Call:
    raise AssertionError("this command asks nothing of the API")


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """examples: what follows `springtide` on the command line. columns: of a list's table. pick: the only
    field of the answer that is shown. in_cluster: it is about one cluster, which is in `options.cluster` when
    `call` runs. is_paged: of a list, whether the API gives it in pages. is_conditional: it takes
    `--if-match`."""

    words: tuple[str, ...]
    summary: str
    examples: tuple[str, ...]
    kind: Kind = Kind.SHOW
    arguments: tuple[Argument, ...] = ()
    call: Callable[[argparse.Namespace], Call] = _nothing
    columns: tuple[Column, ...] = ()
    pick: str | None = None
    in_cluster: bool = True
    is_paged: bool = True
    is_conditional: bool = False
