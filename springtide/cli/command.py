"""A command as a value: its words, its arguments, the call that it makes, how its answer is shown. Pure.

A further command is one more `Command`, `listing` or `change` in the module of its noun in `commands/`:

    change(
        words=("brokers", "demote"),
        summary="Move the leaderships off a broker",
        examples=("brokers demote 4 --reason 'a new kernel' --wait",),
        arguments=(BROKER_ID,),
        call=writes("POST", "clusters/{cluster}/brokers/{broker_id}", action="demote"),
    )

It gets the options of every command, help, completion, retries, pages and both outputs.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from typing import Any

from springtide.cli.call import Call
from springtide.cli.tables import Column


class CommandKind(Enum):
    """The way in which the answer is shown."""

    SHOW = auto()
    """One resource."""
    UPGRADE = auto()
    """The status of an upgrade."""
    LIST = auto()
    """Pages of items, followed to the end."""
    WRITE = auto()
    """A change: a resource, an operation to follow (202), or what a dry run found."""
    WATCH = auto()
    """An operation, followed until it has ended."""
    VERIFY = auto()
    """The audit's verification, followed to the end."""
    ROLL = auto()
    """A rolling restart, by calls and commands of its own."""
    COMPLETION = auto()
    """The shell's completion script, without a call."""
    CERTIFICATES = auto()
    """Files that are made here, without a call."""
    BACKUP = auto()
    """What the program `controller` does, without a call."""


@dataclass(frozen=True, slots=True)
class Argument:
    """One call of `argparse.ArgumentParser.add_argument`."""

    names: tuple[str, ...]
    options: Mapping[str, Any]


def argument(*names: str, **options: Any) -> Argument:
    return Argument(names, options)


def repeated(*names: str, **options: Any) -> Argument:
    """Return an argument that may be given several times: a list."""
    return argument(*names, action="append", default=[], **options)


def _nothing(options: argparse.Namespace) -> Call:
    raise AssertionError("this command asks nothing of the API")


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command. examples: what follows `springtide` on the command line. columns: of a list's table. pick:
    the only field of the answer that is shown. in_cluster: it is about one cluster, which is in
    `options.cluster` when `call` runs. is_paged: of a list, whether the API gives it in pages.
    about: of a list, the fields that are shown before it, where they are not empty; None: all.
    is_conditional: it takes `--if-match`. hidden_question: for a secret, which `call` finds in
    `options.hidden_answer`. question: asked at a terminal before the change, with the names of options in
    braces."""

    words: tuple[str, ...]
    summary: str
    examples: tuple[str, ...]
    kind: CommandKind = CommandKind.SHOW
    arguments: tuple[Argument, ...] = ()
    call: Callable[[argparse.Namespace], Call] = _nothing
    columns: tuple[Column, ...] = ()
    pick: str | None = None
    in_cluster: bool = True
    is_paged: bool = True
    about: tuple[str, ...] | None = None
    is_conditional: bool = False
    question: str | None = None
    hidden_question: str | None = None


listing = partial(Command, kind=CommandKind.LIST)
change = partial(Command, kind=CommandKind.WRITE)
