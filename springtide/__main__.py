"""`springtide`: reads the command line, builds the client, runs the command, exits with its status."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from io import TextIOWrapper
from pathlib import Path
from typing import TextIO, cast

import httpx

from springtide.cli.call import UsageError
from springtide.cli.catalogue import COMMANDS
from springtide.cli.client import Controllers
from springtide.cli.command import Command, CommandKind
from springtide.cli.console import Console
from springtide.cli.parser import build_parser
from springtide.cli.run import Exit, Runner
from springtide.cli.secret import read_secret
from springtide.cli.settings import load_settings
from springtide.version import VERSION

#: The first word of commands that the program `controller` carries out: it takes the rest as it is.
BACKUP = "backup"


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit status; a command line that argparse refuses ends the process with 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a name that the terminal can't show
    try:
        out = cast(TextIOWrapper, sys.stdout)
        width = shutil.get_terminal_size().columns  # 80 in a pipe, where COLUMNS does not say otherwise
        columns = width if out.isatty() else None
        # A process may be started without standard input: then it is None.
        person = sys.stdin if columns is not None and sys.stdin is not None and sys.stdin.isatty() else None
        return execute(
            arguments,
            os.environ,
            out,
            sys.stderr,
            columns=columns,
            width=width,
            person=person,
            stdin=sys.stdin,
        )
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # The reader has enough, as `head` has. Python would complain when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.DONE


def execute(
    arguments: Sequence[str] | None,
    environment: Mapping[str, str],
    out: TextIOWrapper,
    err: TextIO,
    *,
    columns: int | None,
    width: int | None = None,
    person: TextIO | None = None,
    stdin: TextIO | None = None,
    transport: httpx.BaseTransport | None = None,
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """Run a command line. columns: of the terminal `out`, None if it is not one. width: that tables fit;
    None: any. person: standard input, if
    both are terminals. stdin: standard input, if there is one. transport: instead of the network."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    if words[:1] == [BACKUP] and len(words) > 1 and not {"-h", "--help"} & set(words):
        return subprocess.run([sys.executable, "-m", "controller", *words], check=False).returncode
    parser = build_parser(COMMANDS, version=VERSION)
    options, unknown = parser.parse_known_args(arguments)
    if unknown:  # the command that was meant shows its usage, not that of all commands
        options.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    command: Command = options.command
    if command.kind is CommandKind.COMPLETION:
        import shtab  # noqa: PLC0415 - no other command should wait for it

        out.write(shtab.complete(parser, shell=options.shell) + "\n")
        out.flush()
        return Exit.DONE
    if command.kind is CommandKind.CERTIFICATES:
        return _create_certificates(options, Console(out, err))
    try:
        settings = load_settings(options, environment)
    except UsageError as error:
        Console(out, err).fail(str(error))
        return Exit.USAGE
    options.cluster = settings.cluster
    console = Console(
        out,
        err,
        is_json=settings.is_json,
        is_yaml=settings.is_yaml,
        columns=columns,
        width=width,
        person=person,
    )
    headers = {"User-Agent": f"springtide/{VERSION}"}
    with httpx.Client(transport=transport, headers=headers, verify=settings.verify) as client:
        controllers = Controllers(
            client,
            settings,
            make_key=lambda: str(uuid.uuid4()),
            note=console.fail,
            now=now,
            sleep=sleep,
        )
        runner = Runner(
            controllers,
            console,
            read_secret=lambda question: read_secret(question, stdin),
            sleep=sleep,
            now=now,
        )
        return runner.run(command, options)


def _create_certificates(options: argparse.Namespace, console: Console) -> Exit:
    from springtide.certificates import (  # noqa: PLC0415 - as above
        CertificatesRefused,
        create_certificates,
    )

    try:
        for file, what in create_certificates(
            Path(options.directory), options.names, days=options.days, now=datetime.now(UTC)
        ):
            console.lines([f"{file}: {what}"])
    except (CertificatesRefused, OSError) as error:
        console.fail(str(error))
        return Exit.REFUSED
    return Exit.DONE


if __name__ == "__main__":
    sys.exit(main())
