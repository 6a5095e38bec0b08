"""springtide upgrade status|finalize"""

from __future__ import annotations

from springtide.cli.call import reads, writes
from springtide.cli.command import Command, CommandKind, change
from springtide.cli.commands.clusters import CLUSTER

COMMANDS = (
    Command(
        words=("upgrade", "status"),
        summary="Show the cluster's level, each process with its release, and what is left to do",
        examples=("upgrade status", "upgrade status --output json"),
        kind=CommandKind.UPGRADE,
        call=reads(f"{CLUSTER}/upgrade"),
    ),
    change(
        words=("upgrade", "finalize"),
        summary="Use what is new in the release; then there is no way back to the one before",
        examples=("upgrade finalize --dry-run", "upgrade finalize --reason '0.2 has run for a week'"),
        question="Finalize the upgrade of cluster {cluster}? No process can go back to the release before",
        call=writes("POST", CLUSTER, action="finalize-upgrade"),
    ),
)
