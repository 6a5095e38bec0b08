"""springtide partitions …, elect-leader, elect-preferred, assignment, replication"""

from __future__ import annotations

from argparse import Namespace
from typing import Final

from springtide.cli.arguments import PARTITION, TOPIC, id_number, partition_name
from springtide.cli.call import Call, Json, UsageError, get, given, reads, writes
from springtide.cli.command import Command, CommandKind, argument, change, listing, repeated
from springtide.cli.tables import columns

PARTITION_PATH: Final = "clusters/{cluster}/topics/{topic}/partitions/{partition}"


def _list(options: Namespace) -> Call:
    of_topic = () if options.topic is None else ("topics", options.topic)
    return get("clusters", options.cluster, *of_topic, "partitions", state=options.state)


def _election(options: Namespace) -> Json:
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
    return body


def _preferred(options: Namespace) -> Json:
    if options.topics and options.partitions:
        raise UsageError("name topics, or partitions with --partition, not both")
    return given(topics=options.topics or None, partitions=options.partitions or None)


def _deletion(options: Namespace) -> Json:
    body = given(
        before_offset=options.before_offset, before_time=options.before_time, all=options.all or None
    )
    if len(body) != 1:
        raise UsageError("say which records: one of --before-offset, --before-time and --all")
    return body


_PLACEMENT = columns("#leader replicas isr elr adding=adding_replicas removing=removing_replicas")

COMMANDS = (
    listing(
        words=("partitions", "list"),
        summary="List the partitions of a topic, or of the cluster, worst first",
        examples=("partitions list orders", "partitions list --state leaderless"),
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
            *columns("topic #partition state"),
            *_PLACEMENT,
            *columns("#leader-epoch=leader_epoch #high-watermark=high_watermark #bytes=size_bytes"),
        ),
    ),
    Command(
        words=("partitions", "show"),
        summary="Look at a partition, and at why it is blocked when it is",
        examples=("partitions show orders 0",),
        arguments=(TOPIC, PARTITION),
        call=reads(PARTITION_PATH),
    ),
    Command(
        words=("partitions", "preview-loss"),
        summary="Say what an unclean election would lose, for each replica that could be chosen",
        examples=("partitions preview-loss orders 0", "partitions preview-loss orders 0 --output json"),
        arguments=(TOPIC, PARTITION),
        call=reads(f"{PARTITION_PATH}/loss-preview"),
    ),
    Command(
        words=("partitions", "explain"),
        summary="Say why each replica is where it is, in sync or not, or the leader",
        examples=("partitions explain orders 0 --output json",),
        arguments=(TOPIC, PARTITION),
        kind=CommandKind.LIST,
        is_paged=False,
        call=reads(f"{PARTITION_PATH}/replicas"),
        columns=columns(
            "#broker=broker_id leader=is_leader in-isr=in_isr placed-by=placed.change.actor "
            "placed-at=placed.change.at in-sync-by=synced.change.cause in-sync-at=synced.change.at "
            "elected-by=elected.change.cause elected-at=elected.change.at"
        ),
    ),
    listing(
        words=("assignment",),
        summary="Show where every replica is, or was",
        examples=("assignment", "assignment --as-of 2026-11-21T09:30:00Z --topic orders"),
        arguments=(
            argument("--as-of", metavar="TIME", help="such as 2026-11-21T09:30:00Z (default: now)"),
            argument("--topic", metavar="TOPIC", help="only this topic"),
        ),
        call=reads("clusters/{cluster}/assignment", "as_of", "topic"),
        columns=(*columns("topic #partition"), *_PLACEMENT, *columns("since=changed_at")),
    ),
    Command(
        words=("replication",),
        summary="Show what each broker carries, and how far its followers are behind",
        examples=("replication",),
        call=reads("clusters/{cluster}/replication"),
    ),
    change(
        words=("elect-leader",),
        summary="Elect a partition's leader",
        examples=(
            "elect-leader orders 0",
            "elect-leader orders 0 --election-type unclean --broker-id 2 --partition-epoch 17 "
            "--reason 'brokers 1 and 3 are lost for good'",
        ),
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
                help="unclean: refuse when more records would be lost, by what replicas reported",
            ),
        ),
        call=writes("POST", PARTITION_PATH, _election, action="elect-leader"),
    ),
    change(
        words=("elect-preferred",),
        summary="Give partitions their preferred leaders back; fails (1) with --wait when some can't lead",
        examples=(
            "elect-preferred --reason 'after maintenance of store1' --wait",
            "elect-preferred orders payments",
            "elect-preferred --partition orders-0 --partition orders-3 --dry-run",
        ),
        arguments=(
            argument(
                "topics",
                metavar="TOPIC",
                nargs="*",
                help="of these topics, all that lack theirs (default: of every topic)",
            ),
            repeated(
                "--partition",
                dest="partitions",
                type=partition_name,
                metavar="TOPIC-N",
                help="this partition; may be repeated",
            ),
        ),
        call=writes("POST", "clusters/{cluster}/partitions", _preferred, action="elect-preferred"),
    ),
    change(
        words=("partitions", "delete-records"),
        summary="Delete the records before a place in a partition",
        examples=(
            "partitions delete-records orders 0 --before-offset 1200 --reason 'a broken release wrote them'",
            "partitions delete-records orders 0 --before-time 2026-11-21T09:30:00Z --dry-run",
            "partitions delete-records orders 0 --all --yes",
        ),
        question="Delete records of {topic}-{partition} of cluster {cluster}?",
        is_conditional=True,
        arguments=(
            TOPIC,
            PARTITION,
            argument("--before-offset", type=id_number, metavar="OFFSET", help="the first offset to keep"),
            argument("--before-time", metavar="TIME", help="keep the first record since, and all behind it"),
            argument("--all", action="store_true", help="all records that there are now"),
        ),
        call=writes("POST", PARTITION_PATH, _deletion, action="delete-records"),
    ),
)
