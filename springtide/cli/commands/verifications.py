"""springtide verifications …"""

from __future__ import annotations

from typing import Final

from springtide.cli.call import reads
from springtide.cli.command import Command, CommandKind, argument, listing
from springtide.cli.tables import columns

_VERIFICATION: Final = "clusters/{cluster}/verifications/{verification_id}"
_ID: Final = argument("verification_id", metavar="VERIFICATION", help="its id, ver_...")
_SHOWN: Final = "ver_Zk1lV0pCTEq4nY6mXw2v3A"

COMMANDS = (
    Command(
        words=("verifications", "list"),
        summary="List the results of `pipeline verify --record`, newest first",
        examples=("verifications list", "verifications list --limit 1"),
        kind=CommandKind.LIST,
        call=reads("clusters/{cluster}/verifications"),
        columns=columns(
            "verification=id verdict ended=ended_at #partitions=partitions_total #records "
            "#findings=findings_total by=actor reason"
        ),
    ),
    Command(
        words=("verifications", "show"),
        summary="Look at a verification: how far each partition was looked at",
        examples=(f"verifications show {_SHOWN}",),
        arguments=(_ID,),
        call=reads(_VERIFICATION),
    ),
    listing(
        words=("verifications", "findings"),
        summary="List what a verification found to be wrong",
        examples=(f"verifications findings {_SHOWN}",),
        arguments=(_ID,),
        call=reads(f"{_VERIFICATION}/findings"),
        columns=columns(
            "kind topic #partition #broker=broker_id #from=first_offset #to=last_offset #batches detail"
        ),
    ),
)
