"""springtide problems …"""

from __future__ import annotations

from springtide.cli.call import reads
from springtide.cli.command import Command, argument, listing
from springtide.cli.tables import columns

COMMANDS = (
    listing(
        words=("problems", "list"),
        summary="List the codes of all errors",
        examples=("problems list",),
        in_cluster=False,
        call=reads("problems"),
        columns=columns("code #status retryable kafka=kafka_error.name title"),
    ),
    Command(
        words=("problems", "show"),
        summary="Explain the code of an error",
        examples=("problems show election_not_needed",),
        in_cluster=False,
        arguments=(argument("code", metavar="CODE", help="the code, as an error names it"),),
        call=reads("problems/{code}"),
    ),
)
