"""springtide operations …"""

from __future__ import annotations

from typing import Final

from springtide.cli.arguments import ACTOR, OPERATION_ID, SINCE, count_or_none
from springtide.cli.call import get, given, with_query, write
from springtide.cli.command import Command, Kind, argument
from springtide.cli.commands.plans import CARRY_OUT, how
from springtide.cli.tables import number, text

#: One over a hundred thousand partitions reads several rows of each.
RECEIPT_SECONDS_MAX: Final = 120.0

COMMANDS = (
    Command(
        words=("operations", "list"),
        summary="List operations, newest first",
        examples=("operations list --state running", "operations list --since 2026-11-21T00:00:00Z"),
        kind=Kind.LIST,
        in_cluster=False,
        arguments=(
            argument("--state", metavar="STATE", help="such as running, succeeded, failed or cancelled"),
            argument("--kind", metavar="KIND", help="such as broker_add"),
            ACTOR,
            SINCE,
        ),
        call=lambda options: get(
            "operations",
            cluster=options.cluster,
            state=options.state,
            kind=options.kind,
            actor=options.by,
            since=options.since,
        ),
        columns=(
            text("operation", "id"),
            text("kind"),
            text("cluster"),
            text("state"),
            text("created", "created_at"),
            text("finished", "finished_at"),
            text("actor"),
            text("reason"),
        ),
    ),
    Command(
        words=("operations", "show"),
        summary="Look at an operation",
        examples=("operations show op_Zk1lV0pCTEq4nY6mXw2v3A",),
        in_cluster=False,
        arguments=(OPERATION_ID,),
        call=lambda options: get("operations", options.operation_id),
    ),
    Command(
        words=("operations", "watch"),
        summary="Follow an operation until it has ended; fails (1) unless it succeeds",
        examples=("operations watch op_Zk1lV0pCTEq4nY6mXw2v3A",),
        kind=Kind.WATCH,
        in_cluster=False,
        arguments=(OPERATION_ID,),
        call=lambda options: get("operations", options.operation_id),
    ),
    Command(
        words=("operations", "receipt"),
        summary="Show how safe an operation's partitions were while it ran",
        examples=("operations receipt op_Zk1lV0pCTEq4nY6mXw2v3A",),
        in_cluster=False,
        arguments=(OPERATION_ID,),
        call=lambda options: get(
            "operations", options.operation_id, "receipt", answer_s_max=RECEIPT_SECONDS_MAX
        ),
    ),
    Command(
        words=("operations", "cancel"),
        summary="Cancel an operation and undo what it has begun",
        examples=("operations cancel op_Zk1lV0pCTEq4nY6mXw2v3A --reason 'clients time out'",),
        kind=Kind.WRITE,
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
        call=lambda options: with_query(
            write(options, "POST", "operations", options.operation_id, action="cancel"),
            mode="keep" if options.keep else None,
        ),
    ),
    Command(
        words=("operations", "pause"),
        summary="Let an operation begin nothing new",
        examples=("operations pause op_Zk1lV0pCTEq4nY6mXw2v3A --reason 'the month is being closed'",),
        kind=Kind.WRITE,
        in_cluster=False,
        is_conditional=True,
        arguments=(OPERATION_ID,),
        call=lambda options: write(options, "POST", "operations", options.operation_id, action="pause"),
    ),
    Command(
        words=("operations", "resume"),
        summary="Let a paused operation go on",
        examples=("operations resume op_Zk1lV0pCTEq4nY6mXw2v3A --reason 'the month is closed'",),
        kind=Kind.WRITE,
        in_cluster=False,
        is_conditional=True,
        arguments=(OPERATION_ID,),
        call=lambda options: write(options, "POST", "operations", options.operation_id, action="resume"),
    ),
    Command(
        words=("operations", "undo"),
        summary="Take back what a finished operation has moved",
        examples=(
            "operations undo op_Zk1lV0pCTEq4nY6mXw2v3A --dry-run",
            "operations undo op_Zk1lV0pCTEq4nY6mXw2v3A --throttle 50000000 --wait",
        ),
        kind=Kind.WRITE,
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
        call=lambda options: write(
            options,
            "POST",
            "operations",
            options.operation_id,
            action="undo",
            body=how(options) | given(skip_conflicts=options.skip_conflicts),
        ),
    ),
    Command(
        words=("operations", "moves"),
        summary="List an operation's moves, one by one",
        examples=("operations moves op_Zk1lV0pCTEq4nY6mXw2v3A --fate moving",),
        kind=Kind.LIST,
        in_cluster=False,
        arguments=(
            OPERATION_ID,
            argument("--fate", metavar="FATE", help="such as planned, moving, moved or drifted"),
        ),
        call=lambda options: get("operations", options.operation_id, "moves", fate=options.fate),
        columns=(
            text("plan", "plan_id"),
            number("position"),
            text("topic"),
            number("partition"),
            text("from", "replicas_before"),
            text("to", "replicas_after"),
            text("fate"),
            number("bytes"),
            number("remaining", "remaining_bytes"),
            text("blocked"),
            text("detail"),
        ),
    ),
    Command(
        words=("operations", "throttle"),
        summary="Change how fast an operation may copy",
        examples=(
            "operations throttle op_Zk1lV0pCTEq4nY6mXw2v3A 50000000 --reason 'clients time out'",
            "operations throttle op_Zk1lV0pCTEq4nY6mXw2v3A none",
        ),
        kind=Kind.WRITE,
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
        call=lambda options: write(
            options,
            "PATCH",
            "operations",
            options.operation_id,
            body={"throttle_bytes_per_s": options.rate},
        ),
    ),
)
