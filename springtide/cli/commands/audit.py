"""springtide audit …"""

from __future__ import annotations

from typing import Final

from springtide.cli.arguments import ACTOR, SINCE, UNTIL, id_number
from springtide.cli.call import reads
from springtide.cli.command import Command, CommandKind, argument
from springtide.cli.tables import columns

#: One answer of a verification covers some 100,000 entries, each read and hashed.
VERIFY_SECONDS_MAX: Final = 120.0

COMMANDS = (
    Command(
        words=("audit", "list"),
        summary="List changes and requests, newest first",
        examples=("audit list --limit 20", "audit list --topic orders --cause broker_died"),
        kind=CommandKind.LIST,
        in_cluster=False,
        arguments=(
            argument("--kind", metavar="KIND", help="change or request"),
            argument("--entity", metavar="ENTITY", help="cluster, broker, topic or partition"),
            argument("--topic", metavar="TOPIC", help="only rows about this topic"),
            argument("--partition", type=id_number, metavar="N", help="only rows about this partition"),
            argument("--broker", type=id_number, metavar="ID", help="changes of this broker or of its role"),
            ACTOR,
            argument("--cause", metavar="CAUSE", help="such as broker_died"),
            argument("--operation", metavar="OPERATION", help="only rows of this operation"),
            argument("--request-id", metavar="ID", help="only rows of this request"),
            SINCE,
            UNTIL,
        ),
        call=reads(
            "audit",
            *("cluster", "kind", "entity", "topic", "partition", "broker", "actor=by"),
            *("cause", "operation", "request_id", "since", "until"),
        ),
        columns=columns(
            "#row=id at cause actor topic #partition outcome=outcome.outcome reason entity kind cluster "
            "brokers"
        ),
    ),
    Command(
        words=("audit", "show"),
        summary="Look at one row: who, when, why, before, after",
        examples=("audit show 17",),
        in_cluster=False,
        arguments=(argument("audit_id", metavar="ROW", type=id_number, help="the row's id"),),
        call=reads("audit/{audit_id}"),
    ),
    Command(
        words=("audit", "verify"),
        summary="Verify that the history is as it was written; fails (1) when it is not",
        examples=("audit verify", "audit verify --from-seq 5000"),
        kind=CommandKind.VERIFY,
        arguments=(
            argument("--from-seq", type=id_number, metavar="N", help="first row (default: the oldest)"),
            argument("--to-seq", type=id_number, metavar="N", help="last row (default: the newest)"),
        ),
        call=reads("audit/verification", "cluster", "from_seq", "to_seq", answer_s_max=VERIFY_SECONDS_MAX),
    ),
)
