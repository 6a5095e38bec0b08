"""springtide operations …"""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace
from typing import Final

from springtide.cli.arguments import ACTOR, OPERATION_ID, SINCE, count_or_none, hours
from springtide.cli.call import Call, given, reads, writes
from springtide.cli.command import Command, CommandKind, argument, change, listing
from springtide.cli.commands.plans import CARRY_OUT, how
from springtide.cli.tables import columns

#: One over a hundred thousand partitions reads several rows of each.
RECEIPT_SECONDS_MAX: Final = 120.0
OPERATION: Final = "operations/{operation_id}"


def _cancel(options: Namespace) -> Call:
    call = writes("POST", OPERATION, action="cancel")(options)
    return replace(call, query={**call.query, "mode": "keep"}) if options.keep else call


COMMANDS = (
    listing(
        words=("operations", "list"),
        summary="List operations, newest first",
        examples=("operations list --state running", "operations list --since 2026-11-21T00:00:00Z"),
        in_cluster=False,
        arguments=(
            argument("--state", metavar="STATE", help="such as running, succeeded, failed or cancelled"),
            argument("--kind", metavar="KIND", help="such as broker_add"),
            ACTOR,
            SINCE,
        ),
        call=reads("operations", "cluster", "state", "kind", "actor=by", "since"),
        columns=columns(
            "operation=id kind state created=created_at actor reason finished=finished_at cluster"
        ),
    ),
    Command(
        words=("operations", "show"),
        summary="Look at an operation",
        examples=("operations show op_Zk1lV0pCTEq4nY6mXw2v3A",),
        in_cluster=False,
        arguments=(OPERATION_ID,),
        call=reads(OPERATION),
    ),
    Command(
        words=("operations", "watch"),
        summary="Follow an operation until it has ended; fails (1) unless it succeeds",
        examples=("operations watch op_Zk1lV0pCTEq4nY6mXw2v3A",),
        kind=CommandKind.WATCH,
        in_cluster=False,
        arguments=(OPERATION_ID,),
        call=reads(OPERATION),
    ),
    Command(
        words=("operations", "receipt"),
        summary="Show how safe an operation's partitions were while it ran",
        examples=("operations receipt op_Zk1lV0pCTEq4nY6mXw2v3A",),
        in_cluster=False,
        arguments=(OPERATION_ID,),
        call=reads(f"{OPERATION}/receipt", answer_s_max=RECEIPT_SECONDS_MAX),
    ),
    change(
        words=("operations", "cancel"),
        summary="Cancel an operation: finished moves stay, those under way go back",
        examples=(
            "operations cancel op_Zk1lV0pCTEq4nY6mXw2v3A --dry-run",
            "operations cancel op_Zk1lV0pCTEq4nY6mXw2v3A --reason 'clients time out' --wait",
        ),
        in_cluster=False,
        is_conditional=True,
        arguments=(
            OPERATION_ID,
            argument(
                "--keep",
                action="store_true",
                help="let arrive what is on its way (default: it goes back)",
            ),
        ),
        call=_cancel,
    ),
    change(
        words=("operations", "pause"),
        summary="Let an operation begin nothing new",
        examples=("operations pause op_Zk1lV0pCTEq4nY6mXw2v3A --reason 'the month is being closed'",),
        in_cluster=False,
        is_conditional=True,
        arguments=(OPERATION_ID,),
        call=writes("POST", OPERATION, action="pause"),
    ),
    change(
        words=("operations", "resume"),
        summary="Resume a paused operation",
        examples=("operations resume op_Zk1lV0pCTEq4nY6mXw2v3A --reason 'the month is closed'",),
        in_cluster=False,
        is_conditional=True,
        arguments=(OPERATION_ID,),
        call=writes("POST", OPERATION, action="resume"),
    ),
    change(
        words=("operations", "undo"),
        summary="Take back what a finished operation has moved",
        examples=(
            "operations undo op_Zk1lV0pCTEq4nY6mXw2v3A --dry-run",
            "operations undo op_Zk1lV0pCTEq4nY6mXw2v3A --throttle 50000000 --wait",
        ),
        in_cluster=False,
        is_conditional=True,
        arguments=(
            OPERATION_ID,
            *CARRY_OUT,
            argument(
                "--skip-conflicts",
                action="store_const",
                const=True,
                help="leave out partitions that have changed since, or can't go back",
            ),
        ),
        call=writes(
            "POST",
            OPERATION,
            lambda options: how(options) | given(skip_conflicts=options.skip_conflicts),
            action="undo",
        ),
    ),
    Command(
        words=("operations", "moves"),
        summary="List an operation's moves, one by one",
        examples=("operations moves op_Zk1lV0pCTEq4nY6mXw2v3A --fate moving",),
        kind=CommandKind.LIST,
        in_cluster=False,
        arguments=(
            OPERATION_ID,
            argument("--fate", metavar="FATE", help="such as planned, moving, moved or drifted"),
        ),
        call=reads(f"{OPERATION}/moves", "fate"),
        columns=columns(
            "#position topic #partition from=replicas_before to=replicas_after fate #bytes "
            "#remaining=remaining_bytes blocked detail plan=plan_id"
        ),
    ),
    change(
        words=("operations", "throttle"),
        summary="Change how fast an operation may copy",
        examples=(
            "operations throttle op_Zk1lV0pCTEq4nY6mXw2v3A 50000000 --reason 'clients time out'",
            "operations throttle op_Zk1lV0pCTEq4nY6mXw2v3A none",
        ),
        in_cluster=False,
        is_conditional=True,
        arguments=(
            OPERATION_ID,
            argument(
                "rate",
                metavar="BYTES",
                type=count_or_none,
                help="how much each broker may copy for it in a second; none: as much as it can",
            ),
        ),
        call=writes("PATCH", OPERATION, lambda options: {"throttle_bytes_per_s": options.rate}),
    ),
    change(
        words=("operations", "window"),
        summary="Change at which time of day an operation begins moves",
        examples=(
            "operations window op_Zk1lV0pCTEq4nY6mXw2v3A 22:00-06:00+01:00",
            "operations window op_Zk1lV0pCTEq4nY6mXw2v3A none --reason 'it has to be done today'",
        ),
        in_cluster=False,
        is_conditional=True,
        arguments=(
            OPERATION_ID,
            argument("hours", metavar="HOURS", type=hours, help="such as 22:00-06:00; none: at any time"),
        ),
        call=writes("PATCH", OPERATION, lambda options: {"window": options.hours}),
    ),
)
