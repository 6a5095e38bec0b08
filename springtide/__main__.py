"""`springtide`: reads the command line, builds the client, runs the command, exits with its status."""

from __future__ import annotations

import os
import shutil
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from io import TextIOWrapper
from typing import TextIO, cast

import httpx

from springtide.cli.call import UsageError
from springtide.cli.catalogue import COMMANDS
from springtide.cli.client import Controllers
from springtide.cli.command import Command, Kind
from springtide.cli.console import Console
from springtide.cli.parser import build_parser
from springtide.cli.run import Exit, Runner
from springtide.cli.settings import load_settings


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit status; a command line that argparse refuses ends the process with 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a name that the terminal can't show
    try:
        out = cast(TextIOWrapper, sys.stdout)
        columns = shutil.get_terminal_size().columns if out.isatty() else None
        return execute(arguments, os.environ, out, sys.stderr, columns=columns)
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # Whoever reads has enough, as `head` has. Python would complain when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.DONE


def execute(
    arguments: Sequence[str] | None,
    environment: Mapping[str, str],
    out: TextIOWrapper,
    err: TextIO,
    *,
    columns: int | None,
    transport: httpx.BaseTransport | None = None,
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """columns: of the terminal that `out` is, None when it is none. transport: instead of the network."""
    parser = build_parser(COMMANDS, version=_version())
    options = parser.parse_args(arguments)
    command: Command = options.command
    if command.kind is Kind.COMPLETION:
        import shtab  # noqa: PLC0415 - no other command should wait for it

        out.write(shtab.complete(parser, shell=options.shell) + "\n")
        out.flush()
        return Exit.DONE
    try:
        settings = load_settings(options, environment)
    except UsageError as error:
        Console(out, err).fail([str(error)])
        return Exit.USAGE
    options.cluster = settings.cluster
    console = Console(out, err, is_json=settings.is_json, columns=columns)
    with httpx.Client(transport=transport, headers={"User-Agent": f"springtide/{_version()}"}) as client:
        controllers = Controllers(
            client,
            settings,
            make_key=lambda: str(uuid.uuid4()),
            note=lambda line: console.fail([line]),
            now=now,
            sleep=sleep,
        )
        return Runner(controllers, console, sleep=sleep).run(command, options)


def _version() -> str:
    try:
        return version("springtide")
    except PackageNotFoundError:  # run from a checkout
        return "unknown"


if __name__ == "__main__":
    sys.exit(main())
