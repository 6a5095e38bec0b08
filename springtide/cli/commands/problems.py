"""springtide problems …"""

from __future__ import annotations

from springtide.cli.call import get
from springtide.cli.command import Command, Kind, argument
from springtide.cli.tables import number, text

COMMANDS = (
    Command(
        words=("problems", "list"),
        summary="List the codes of all errors",
        examples=("problems list",),
        kind=Kind.LIST,
        in_cluster=False,
        call=lambda options: get("problems"),
        columns=(
            text("code"),
            number("status"),
            text("retryable"),
            text("kafka", "kafka_error.name"),
            text("title"),
        ),
    ),
    Command(
        words=("problems", "show"),
        summary="Explain the code of an error",
        examples=("problems show election_not_needed",),
        in_cluster=False,
        arguments=(argument("code", metavar="CODE", help="the code, as an error names it"),),
        call=lambda options: get("problems", options.code),
    ),
)
