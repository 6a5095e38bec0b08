"""springtide partitions …, elect-leader, elect-preferred, assignment, replication"""

from __future__ import annotations

from argparse import Namespace

from springtide.cli.arguments import PARTITION, TOPIC, id_number, partition_name
from springtide.cli.call import Call, UsageError, get, given, write
from springtide.cli.command import Command, Kind, argument
from springtide.cli.tables import number, text


def _list(options: Namespace) -> Call:
    of_topic = () if options.topic is None else ("topics", options.topic)
    return get("clusters", options.cluster, *of_topic, "partitions", state=options.state)


def _elect(options: Namespace) -> Call:
    body = given(
        election=options.election_type,
        broker_id=options.broker_id,
        partition_epoch=options.partition_epoch,
        lost_records_max=options.lost_records_max,
    )
    missing = [
        name
        for name, value in (
            ("--broker-id", options.broker_id),
            ("--partition-epoch", options.partition_epoch),
            ("--reason", options.reason),
        )
        if value is None
    ]
    if options.election_type == "unclean" and missing:
        raise UsageError(
            f"an unclean election may lose acknowledged records; it needs {', '.join(missing)} too: see "
            f"springtide partitions preview-loss {options.topic} {options.partition}"
        )
    return write(
        options,
        "POST",
        "clusters",
        options.cluster,
        "topics",
        options.topic,
        "partitions",
        options.partition,
        action="elect-leader",
        body=body,
    )


def _elect_preferred(options: Namespace) -> Call:
    if options.topics and options.partitions:
        raise UsageError("name topics, or partitions with --partition, not both")
    return write(
        options,
        "POST",
        "clusters",
        options.cluster,
        "partitions",
        action="elect-preferred",
        body=given(topics=options.topics or None, partitions=options.partitions or None),
    )


_PLACEMENT = (
    number("leader"),
    text("replicas"),
    text("isr"),
    text("elr"),
    text("adding", "adding_replicas"),
    text("removing", "removing_replicas"),
)

COMMANDS = (
    Command(
        words=("partitions", "list"),
        summary="List the partitions of a topic, or of the cluster, worst first",
        examples=("partitions list orders", "partitions list --state leaderless"),
        kind=Kind.LIST,
        arguments=(
            argument("topic", metavar="TOPIC", nargs="?", help="the topic's name (default: every topic)"),
            argument(
                "--state",
                metavar="STATE",
                help="online, creating, under_replicated, under_min_isr, recovering or leaderless",
            ),
        ),
        call=_list,
        columns=(
            text("topic"),
            number("partition"),
            text("state"),
            *_PLACEMENT,
            number("leader-epoch", "leader_epoch"),
            number("high-watermark", "high_watermark"),
            number("bytes", "size_bytes"),
        ),
    ),
    Command(
        words=("partitions", "show"),
        summary="Look at a partition, and at why it is blocked when it is",
        examples=("partitions show orders 0",),
        arguments=(TOPIC, PARTITION),
        call=lambda options: get(
            "clusters", options.cluster, "topics", options.topic, "partitions", options.partition
        ),
    ),
    Command(
        words=("partitions", "preview-loss"),
        summary="Say what an unclean election would lose, for each replica that could be chosen",
        examples=("partitions preview-loss orders 0", "partitions preview-loss orders 0 --output json"),
        arguments=(TOPIC, PARTITION),
        call=lambda options: get(
            "clusters",
            options.cluster,
            "topics",
            options.topic,
            "partitions",
            options.partition,
            "loss-preview",
        ),
    ),
    Command(
        words=("partitions", "explain"),
        summary="Say why each replica is where it is, in sync or not, or the leader",
        examples=("partitions explain orders 0 --output json",),
        arguments=(TOPIC, PARTITION),
        kind=Kind.LIST,
        is_paged=False,
        call=lambda options: get(
            "clusters", options.cluster, "topics", options.topic, "partitions", options.partition, "replicas"
        ),
        columns=(
            number("broker", "broker_id"),
            text("leader", "is_leader"),
            text("in-isr", "in_isr"),
            text("placed-by", "placed.change.actor"),
            text("placed-at", "placed.change.at"),
            text("in-sync-by", "synced.change.cause"),
            text("in-sync-at", "synced.change.at"),
            text("elected-by", "elected.change.cause"),
            text("elected-at", "elected.change.at"),
        ),
    ),
    Command(
        words=("assignment",),
        summary="Show where every replica is, or was",
        examples=("assignment", "assignment --as-of 2026-11-21T09:30:00Z --topic orders"),
        kind=Kind.LIST,
        arguments=(
            argument("--as-of", metavar="TIME", help="such as 2026-11-21T09:30:00Z (default: now)"),
            argument("--topic", metavar="TOPIC", help="only this topic"),
        ),
        call=lambda options: get(
            "clusters", options.cluster, "assignment", as_of=options.as_of, topic=options.topic
        ),
        columns=(text("topic"), number("partition"), *_PLACEMENT, text("since", "changed_at")),
    ),
    Command(
        words=("replication",),
        summary="Show what each broker carries, and how far its followers are behind",
        examples=("replication",),
        call=lambda options: get("clusters", options.cluster, "replication"),
    ),
    Command(
        words=("elect-leader",),
        summary="Elect a partition's leader",
        examples=(
            "elect-leader orders 0",
            "elect-leader orders 0 --election-type unclean --broker-id 2 --partition-epoch 17 "
            "--reason 'brokers 1 and 3 are lost for good'",
        ),
        kind=Kind.WRITE,
        is_conditional=True,
        arguments=(
            TOPIC,
            PARTITION,
            argument(
                "--election-type",
                choices=("preferred", "unclean"),
                default="preferred",
                help="preferred (default): back to the first replica; unclean: for a partition that has no "
                "leader, and may lose records",
            ),
            argument("--broker-id", type=id_number, metavar="ID", help="unclean: who shall lead"),
            argument(
                "--partition-epoch",
                type=id_number,
                metavar="N",
                help="unclean: the state that was looked at; refused when it has changed",
            ),
            argument(
                "--lost-records-max",
                type=id_number,
                metavar="N",
                help="unclean: refuse when more records would be lost, as far as replicas told",
            ),
        ),
        call=_elect,
    ),
    Command(
        words=("elect-preferred",),
        summary="Give partitions their preferred leaders back; fails (1) with --wait when some can't lead",
        examples=(
            "elect-preferred --reason 'after maintenance of store1' --wait",
            "elect-preferred orders payments",
            "elect-preferred --partition orders-0 --partition orders-3 --dry-run",
        ),
        kind=Kind.WRITE,
        arguments=(
            argument(
                "topics",
                metavar="TOPIC",
                nargs="*",
                help="of these topics, all that lack theirs (default: of every topic)",
            ),
            argument(
                "--partition",
                dest="partitions",
                action="append",
                default=[],
                type=partition_name,
                metavar="TOPIC-N",
                help="this partition; may be repeated",
            ),
        ),
        call=_elect_preferred,
    ),
)
