"""springtide verifications …"""

from __future__ import annotations

from typing import Final

from springtide.cli.call import get
from springtide.cli.command import Command, Kind, argument
from springtide.cli.tables import number, text

_ID: Final = argument("verification_id", metavar="VERIFICATION", help="its id, ver_...")
_SHOWN: Final = "ver_Zk1lV0pCTEq4nY6mXw2v3A"

COMMANDS = (
    Command(
        words=("verifications", "list"),
        summary="List what `pipeline verify --record` has told, newest first",
        examples=("verifications list", "verifications list --limit 1"),
        kind=Kind.LIST,
        call=lambda options: get("clusters", options.cluster, "verifications"),
        columns=(
            text("verification", "id"),
            text("verdict"),
            text("ended", "ended_at"),
            number("partitions", "partitions_total"),
            number("records"),
            number("findings", "findings_total"),
            text("by", "actor"),
            text("reason"),
        ),
    ),
    Command(
        words=("verifications", "show"),
        summary="Look at a verification: how far each partition was looked at",
        examples=(f"verifications show {_SHOWN}",),
        arguments=(_ID,),
        call=lambda options: get("clusters", options.cluster, "verifications", options.verification_id),
    ),
    Command(
        words=("verifications", "findings"),
        summary="List what a verification found to be wrong",
        examples=(f"verifications findings {_SHOWN}",),
        kind=Kind.LIST,
        arguments=(_ID,),
        call=lambda options: get(
            "clusters", options.cluster, "verifications", options.verification_id, "findings"
        ),
        columns=(
            text("kind"),
            text("topic"),
            number("partition"),
            number("broker", "broker_id"),
            number("from", "first_offset"),
            number("to", "last_offset"),
            number("batches"),
            text("detail"),
        ),
    ),
)
