"""springtide plans …"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from typing import Final

from springtide.cli.arguments import count, hours, id_number, replicas
from springtide.cli.call import Json, UsageError, given, reads, writes
from springtide.cli.command import Argument, Command, CommandKind, argument, change, listing, repeated
from springtide.cli.tables import columns

PLANS: Final = "clusters/{cluster}/plans"
PLAN: Final = "clusters/{cluster}/plans/{plan_id}"
PLAN_ID = argument("plan_id", metavar="PLAN", help="the plan's id, such as plan_Zk1lV0pC")

#: How moves are made: for every command that makes some.
CARRY_OUT: tuple[Argument, ...] = (
    argument(
        "--throttle",
        type=count,
        metavar="BYTES",
        help="how much each broker may copy for it in a second (default: as much as it can)",
    ),
    argument("--max-concurrent-moves", type=count, metavar="NUMBER", help="partitions on their way at once"),
    argument("--not-before", metavar="TIME", help="begin then, such as 2026-11-22T02:00:00Z"),
    argument(
        "--window",
        type=hours,
        metavar="HOURS",
        help="begin moves only at this time of day, such as 22:00-06:00 or, in a zone, 22:00-06:00+01:00",
    ),
)


def how(options: Namespace) -> Json:
    return given(
        throttle_bytes_per_s=options.throttle,
        max_concurrent_moves=options.max_concurrent_moves,
        not_before=options.not_before,
        window=options.window,
    )


def wanted(value: str) -> Mapping[str, object]:
    """Parse `orders-0=4:2:3`: a partition and its new brokers."""
    name, _, ids = value.partition("=")
    topic, _, partition = name.rpartition("-")
    return {"topic": topic, "partition": id_number(partition), "replicas": replicas(ids)}


def _goal(options: Namespace) -> Json:
    chosen: list[Json] = []
    by: Json = {"disk_target_permille": None} if options.counts_only else {}
    by |= given(floor_percent=options.floor_percent, floor_bytes=options.floor_bytes)
    is_rebalance = options.rebalance or options.onto
    if is_rebalance and options.drain:
        by |= {"drain_broker_ids": options.drain}
    if options.rebalance:
        chosen.append({"kind": "rebalance", "mode": "full", **by})
    if options.onto:
        chosen.append({"kind": "rebalance", "mode": "new_only", "new_broker_ids": options.onto, **by})
    if options.relieve is not None:
        broker, _, percent = options.relieve.partition(":")
        if not broker.isdigit() or not percent.isdigit():
            raise UsageError("--relieve: must be BROKER:PERCENT, such as 3:70")
        chosen.append({"kind": "relieve", "broker_id": int(broker), "used_percent": int(percent)})
    if options.even_out:
        chosen.append(
            {"kind": "even_out", "weights": options.even_out} | given(bytes_max=options.even_out_bytes_max)
        )
    if options.drain and not is_rebalance:
        chosen.append({"kind": "drain", "broker_ids": options.drain})
    if options.replace is not None:
        if len(options.replace) != 2:
            raise UsageError("--replace: two brokers are needed, such as 3:4")
        old, new = options.replace
        chosen.append({"kind": "replace", "broker_id": old, "replacement": new})
    if options.replication_factor is not None:
        topic, _, factor = options.replication_factor.rpartition("=")
        if not topic or not factor.isdigit():
            raise UsageError("--replication-factor: must be TOPIC=NUMBER, such as orders=3")
        chosen.append(
            {"kind": "change_replication_factor", "topic": topic, "replication_factor": int(factor)}
        )
    if options.separate:
        chosen.append({"kind": "separate_replicas"})
    if options.assign:
        chosen.append({"kind": "assign", "assignments": options.assign})
    if len(chosen) != 1:
        raise UsageError("name one goal, such as --drain 3")
    return chosen[0]


def _destinations(options: Namespace) -> Json:
    chosen: Json = {"include": options.to, "exclude": options.not_to}
    return {"destinations": chosen} if options.to or options.not_to else {}


COMMANDS = (
    Command(
        words=("plans", "list"),
        summary="List plans, newest first",
        examples=("plans list",),
        kind=CommandKind.LIST,
        call=reads(PLANS),
        columns=columns(
            "plan=id goal=kind #moves #bytes created=created_at expires=expires_at "
            "operation=operation_id reason"
        ),
    ),
    change(
        words=("plans", "make"),
        summary="Plan how to reach a goal; nothing moves",
        examples=(
            "plans make --drain 3 --reason 'store3 is to be replaced'",
            "plans make --onto 4 --onto 5 --drain 1",
            "plans make --assign orders-0=4:2:3 --assign orders-1=2:3:4",
            "plans make --rebalance --dry-run",
            "plans make --even-out disk --even-out bytes_in --reason 'store3 takes most of the traffic'",
            "plans make --relieve 3:70 --to rack:r2 --reason 'store3 fills up'",
        ),
        arguments=(
            argument("--rebalance", action="store_true", help="even out replicas, bytes and leaders"),
            argument(
                "--floor-percent",
                type=id_number,
                metavar="PERCENT",
                help="with both: nothing moves while no broker is farther from the mean",
            ),
            argument(
                "--floor-bytes",
                type=id_number,
                metavar="BYTES",
                help="with both: bytes are evened out only while a broker has this many more than the mean",
            ),
            argument(
                "--counts-only",
                action="store_true",
                help="with --rebalance and --onto: numbers of replicas alone, with the least bytes copied",
            ),
            repeated(
                "--onto",
                type=id_number,
                metavar="BROKER",
                help="even out onto this new broker only; may be repeated",
            ),
            repeated(
                "--drain",
                type=id_number,
                metavar="BROKER",
                help="empty this broker, also together with --onto or --rebalance; may be repeated",
            ),
            repeated(
                "--even-out",
                metavar="WEIGHT",
                help="no broker stays far above the mean in this: disk, bytes_in, leader_bytes_in, "
                "bytes_out, replicas, leaders; may be repeated",
            ),
            argument(
                "--even-out-bytes-max",
                type=id_number,
                metavar="BYTES",
                help="with --even-out: copied by all moves together",
            ),
            argument(
                "--relieve",
                metavar="BROKER:PERCENT",
                help="move from this broker until its disk is used no more than that, with few bytes copied",
            ),
            argument(
                "--replace", type=replicas, metavar="OLD:NEW", help="one broker in all the places of another"
            ),
            argument(
                "--replication-factor", metavar="TOPIC=NUMBER", help="more or fewer replicas of a topic"
            ),
            argument("--separate", action="store_true", help="replicas off shared hosts and racks"),
            repeated(
                "--assign",
                type=wanted,
                metavar="TOPIC-NUMBER=IDS",
                help="a partition's brokers, the preferred leader first; may be repeated",
            ),
            repeated(
                "--to",
                metavar="BROKERS",
                help="replicas come only to these: broker:4, host:store4 or rack:r2; may be repeated",
            ),
            repeated("--not-to", metavar="BROKERS", help="and to none of these; may be repeated"),
            argument("--expires-in", type=count, metavar="SECONDS", help="how long it may be executed"),
        ),
        call=writes(
            "POST",
            PLANS,
            lambda options: (
                {"goal": _goal(options)} | _destinations(options) | given(expires_in_s=options.expires_in)
            ),
        ),
    ),
    Command(
        words=("plans", "show"),
        summary="Look at a plan",
        examples=("plans show plan_Zk1lV0pCTEq4nY6mXw2v3A",),
        arguments=(PLAN_ID,),
        call=reads(PLAN),
    ),
    listing(
        words=("plans", "moves"),
        summary="List a plan's moves in their order",
        examples=("plans moves plan_Zk1lV0pCTEq4nY6mXw2v3A",),
        arguments=(PLAN_ID,),
        call=reads(f"{PLAN}/moves"),
        columns=columns(
            "#position topic #partition from=replicas_before to=replicas_after #bytes #gain reasons"
        ),
    ),
    change(
        words=("plans", "approve"),
        summary="Approve another person's plan of a protected cluster",
        examples=("plans approve plan_Zk1lV0pCTEq4nY6mXw2v3A --reason 'checked against the quota'",),
        is_conditional=True,
        arguments=(PLAN_ID,),
        call=writes("POST", PLAN, action="approve"),
    ),
    change(
        words=("plans", "execute"),
        summary="Carry out a plan",
        examples=(
            "plans execute plan_Zk1lV0pCTEq4nY6mXw2v3A --throttle 50000000 --wait",
            "plans execute plan_Zk1lV0pCTEq4nY6mXw2v3A --not-before 2026-11-22T02:00:00Z --drifted re_plan",
        ),
        is_conditional=True,
        arguments=(
            PLAN_ID,
            *CARRY_OUT,
            argument("--moves", type=count, metavar="NUMBER", help="only the plan's first moves"),
            argument(
                "--bytes-max",
                type=id_number,
                metavar="BYTES",
                help="only as many moves as copy no more than this",
            ),
            argument(
                "--drifted",
                metavar="WHAT",
                help="partitions that have changed since: refuse (default), skip or re_plan",
            ),
        ),
        call=writes(
            "POST",
            PLAN,
            lambda options: (
                how(options)
                | given(moves=options.moves, bytes_max=options.bytes_max, drifted=options.drifted)
            ),
            action="execute",
        ),
    ),
    change(
        words=("plans", "delete"),
        summary="Delete a plan that is not running",
        examples=("plans delete plan_Zk1lV0pCTEq4nY6mXw2v3A",),
        is_conditional=True,
        arguments=(PLAN_ID,),
        call=writes("DELETE", PLAN),
    ),
)
