"""springtide topics …"""

from __future__ import annotations

from argparse import Namespace

from springtide.cli.arguments import CONFIG, TOPIC, assignment, count, settings_of, sort_by
from springtide.cli.call import Call, get, given, write
from springtide.cli.command import Command, Kind, argument
from springtide.cli.commands.plans import CARRY_OUT, how
from springtide.cli.tables import number, text


def _create(options: Namespace) -> Call:
    body = given(
        name=options.topic,
        partitions=options.partitions,
        replication_factor=options.replication_factor,
        assignments=options.replica_assignment,
        configs=settings_of(options.config),
        if_not_exists=options.if_not_exists or None,
    )
    return write(options, "POST", "clusters", options.cluster, "topics", body=body)


COMMANDS = (
    Command(
        words=("topics", "list"),
        summary="List topics",
        examples=("topics list", "topics list --sort=-partitions --limit 10"),
        kind=Kind.LIST,
        arguments=(sort_by("name", "partitions"),),
        call=lambda options: get("clusters", options.cluster, "topics", sort=options.sort),
        columns=(
            text("topic", "name"),
            text("state"),
            number("partitions"),
            number("factor", "replication_factor"),
            number("min-isr", "min_insync_replicas"),
            number("online", "online_partitions"),
            number("under-replicated", "under_replicated_partitions"),
            number("under-min-isr", "under_min_isr_partitions"),
            text("configs"),
        ),
    ),
    Command(
        words=("topics", "create"),
        summary="Create a topic",
        examples=(
            "topics create orders --partitions 12 --replication-factor 3 --config min.insync.replicas=2",
            "topics create orders --replica-assignment 1:2:3,2:3:1 --dry-run",
        ),
        kind=Kind.WRITE,
        arguments=(
            TOPIC,
            argument("--partitions", type=count, metavar="N", help="(default: the cluster's)"),
            argument("--replication-factor", type=count, metavar="N", help="(default: the cluster's)"),
            argument(
                "--replica-assignment",
                type=assignment,
                metavar="IDS",
                help="brokers of each partition, such as 1:2:3,2:3:1, instead of our placement",
            ),
            CONFIG,
            argument("--if-not-exists", action="store_true", help="accept the topic that exists"),
        ),
        call=_create,
    ),
    Command(
        words=("topics", "show"),
        summary="Look at a topic",
        examples=("topics show orders",),
        arguments=(TOPIC,),
        call=lambda options: get("clusters", options.cluster, "topics", options.topic),
    ),
    Command(
        words=("topics", "configs"),
        summary="Show what a topic overrides of the defaults",
        examples=("topics configs orders",),
        arguments=(TOPIC,),
        call=lambda options: get("clusters", options.cluster, "topics", options.topic),
        pick="configs",
    ),
    Command(
        words=("topics", "add-partitions"),
        summary="Give a topic more partitions",
        examples=(
            "topics add-partitions orders 24 --reason 'twice as many consumers' --wait",
            "topics add-partitions orders 13 --replica-assignment 2:3:1 --dry-run",
        ),
        kind=Kind.WRITE,
        is_conditional=True,
        arguments=(
            TOPIC,
            argument("partitions", metavar="TOTAL", type=count, help="how many it shall have"),
            argument(
                "--replica-assignment",
                type=assignment,
                metavar="IDS",
                help="brokers of each new partition, such as 1:2:3,2:3:1, instead of our placement",
            ),
        ),
        call=lambda options: write(
            options,
            "PATCH",
            "clusters",
            options.cluster,
            "topics",
            options.topic,
            body=given(partitions=options.partitions, assignments=options.replica_assignment),
        ),
    ),
    Command(
        words=("topics", "set-replication-factor"),
        summary="Give each partition of a topic more replicas, or fewer",
        examples=(
            "topics set-replication-factor orders 3 --throttle 50000000 --wait",
            "topics set-replication-factor orders 2 --dry-run",
        ),
        kind=Kind.WRITE,
        is_conditional=True,
        arguments=(
            TOPIC,
            argument("factor", metavar="REPLICAS", type=count, help="how many each partition shall have"),
            *CARRY_OUT,
        ),
        call=lambda options: write(
            options,
            "PATCH",
            "clusters",
            options.cluster,
            "topics",
            options.topic,
            body=given(replication_factor=options.factor, **how(options)),
        ),
    ),
    Command(
        words=("topics", "delete"),
        summary="Delete a topic and its data",
        examples=("topics delete orders --reason 'moved to shop.orders'", "topics delete orders --dry-run"),
        kind=Kind.WRITE,
        is_conditional=True,
        arguments=(TOPIC,),
        call=lambda options: write(options, "DELETE", "clusters", options.cluster, "topics", options.topic),
    ),
)
