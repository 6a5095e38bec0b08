"""The command line's grammar, built from the commands, with the options that several of them share. Pure.

Every option may stand before or after the command's words. Its default is in settings.py, because an
environment variable may replace it; here, an option that was not given is absent.

argparse, not click, typer or cyclopts: it has groups of options in help and options before and after the
words, commands stay values, and nothing is quicker to import.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any, Final

from springtide.cli.arguments import count, seconds
from springtide.cli.catalogue import NOUNS
from springtide.cli.command import Command, CommandKind

PROG: Final = "springtide"

DESCRIPTION: Final = "Administers Springtide over its REST API."
EPILOG: Final = """\
exit status:
  0  done
  1  refused by the controller or by you, or an operation that failed, or an audit that does not verify
  2  the command line can't be understood
  3  no controller could be reached, or none that was able to answer, until --timeout

environment:
  SPRINGTIDE_URL, SPRINGTIDE_CLUSTER, SPRINGTIDE_TOKEN_FILE, SPRINGTIDE_ACTOR, SPRINGTIDE_CA_FILE,
  SPRINGTIDE_CERT_FILE, SPRINGTIDE_KEY_FILE stand in for the options

examples:
  springtide --url ctl1:8080,ctl2:8080 clusters list
  springtide clusters create prod
  springtide brokers add 1@store1:9092 2@store2:9092 3@store3:9092 --wait
  springtide topics create orders --partitions 12 --replication-factor 3
  springtide topics list --output json | jq -r '.items[].name'
"""


def build_parser(commands: Iterable[Command], *, version: str) -> argparse.ArgumentParser:
    shared = _shared_options()
    root = argparse.ArgumentParser(
        prog=PROG,
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[shared],
        allow_abbrev=False,
    )
    root.add_argument("--version", action="version", version=f"{PROG} {version}")
    top = root.add_subparsers(metavar="COMMAND", required=True)
    below: dict[str, Any] = {}
    for command in commands:
        parent = top
        if len(command.words) > 1:
            noun = command.words[0]
            if noun not in below:
                noun_parser = top.add_parser(
                    noun, help=NOUNS[noun], description=f"{noun}: {NOUNS[noun]}", allow_abbrev=False
                )
                below[noun] = noun_parser.add_subparsers(metavar="COMMAND", required=True)
            parent = below[noun]
        parser = parent.add_parser(
            command.words[-1],
            help=_lower_first(command.summary),
            description=command.summary + ".",
            epilog="\n".join(["examples:", *(f"  {PROG} {example}" for example in command.examples)]),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            parents=[shared],
            allow_abbrev=False,
        )
        parser.set_defaults(command=command, parser=parser)
        _add_arguments(parser, command)
    return root


def _add_arguments(parser: argparse.ArgumentParser, command: Command) -> None:
    for argument in command.arguments:
        parser.add_argument(*argument.names, **argument.options)
    match command.kind:
        case CommandKind.LIST if command.is_paged:
            parser.add_argument(
                "--limit", type=count, metavar="N", help="at most this many items (default: all)"
            )
        case CommandKind.WRITE:
            parser.add_argument(
                "--dry-run", action="store_true", help="check everything, change nothing, show what would be"
            )
            parser.add_argument("--reason", metavar="TEXT", help="kept in the audit beside the change")
            parser.add_argument(
                "--idempotency-key",
                metavar="KEY",
                help="the same key again answers with the first answer (default: a new one for each call)",
            )
            if command.is_conditional:
                parser.add_argument(
                    "--if-match", metavar="ETAG", help="only if it is still what 'show' gave this etag for"
                )
            if command.question is not None:
                parser.add_argument(
                    "--yes", action="store_true", help="do not ask first; without a terminal nothing is asked"
                )
            parser.add_argument(
                "--wait", action="store_true", help="when it takes an operation, follow it until it has ended"
            )
        case _:
            pass
    if command.kind is CommandKind.WATCH or command.kind is CommandKind.WRITE:
        parser.add_argument(
            "--interval",
            type=seconds,
            default=0.5,
            metavar="SECONDS",
            help="between two looks at an operation, where there is no stream (default 0.5)",
        )


def _shared_options() -> argparse.ArgumentParser:
    shared = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    options = shared.add_argument_group("options of every command")
    options.add_argument(
        "--url",
        metavar="URL[,URL]",
        help="controllers, any of them: the first that answers is asked, and the active one found "
        "(default: http://127.0.0.1:8080)",
    )
    options.add_argument("--cluster", metavar="CLUSTER", help="the cluster (default: the only one)")
    options.add_argument(
        "--output",
        choices=("table", "json", "yaml"),
        help="json: exactly what the API answers; yaml: the same as YAML (default: table)",
    )
    options.add_argument(
        "--timeout",
        type=seconds,
        metavar="SECONDS",
        help="how long to retry while no controller can answer (default 15)",
    )
    options.add_argument("--token-file", metavar="FILE", help="a file with a bearer token in it")
    options.add_argument(
        "--ca-file",
        metavar="FILE",
        help="for https:// URLs: the CAs to trust, in PEM (default: public ones)",
    )
    options.add_argument(
        "--cert-file", metavar="FILE", help="your certificate, for controllers with --client-ca"
    )
    options.add_argument("--key-file", metavar="FILE", help="that certificate's key, not encrypted")
    options.add_argument(
        "--actor", metavar="NAME", help="who is asking, for the audit (default without a token: your login)"
    )
    return shared


def _lower_first(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]
