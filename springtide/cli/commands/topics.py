"""springtide topics …"""

from __future__ import annotations

from argparse import Namespace
from typing import Final

from springtide.cli.arguments import CONFIG, SEARCH, TOPIC, assignment, count, settings_of, sort_by
from springtide.cli.call import Json, given, reads, writes
from springtide.cli.command import Command, CommandKind, argument, change
from springtide.cli.commands.plans import CARRY_OUT, how
from springtide.cli.tables import columns

TOPICS: Final = "clusters/{cluster}/topics"
TOPIC_PATH: Final = "clusters/{cluster}/topics/{topic}"
DELETED: Final = "clusters/{cluster}/deleted-topics"
DELETED_PATH: Final = "clusters/{cluster}/deleted-topics/{topic_id}"
TOPIC_ID: Final = argument("topic_id", metavar="TOPIC_ID", help="its id, as `topics deleted` lists it")


def _created(options: Namespace) -> Json:
    return given(
        name=options.topic,
        partitions=options.partitions,
        replication_factor=options.replication_factor,
        assignments=options.replica_assignment,
        configs=settings_of(options.config),
        if_not_exists=options.if_not_exists or None,
        wait_ms=options.wait_ms,
    )


COMMANDS = (
    Command(
        words=("topics", "list"),
        summary="List topics",
        examples=("topics list", "topics list --sort=-bytes_in --limit 10", "topics list --search order"),
        kind=CommandKind.LIST,
        arguments=(
            sort_by("name", "partitions", "size", "bytes_in", "bytes_out", "groups"),
            SEARCH,
        ),
        call=reads(TOPICS, "sort", "search"),
        columns=columns(
            "topic=name state #parts=partitions #size=size_bytes:bytes #in/s=bytes_in_per_s:bytes "
            "#out/s=bytes_out_per_s:bytes #groups #factor=replication_factor #min-isr=min_insync_replicas "
            "#under-min-isr=under_min_isr_partitions #under-replicated=under_replicated_partitions "
            "#online=online_partitions configs"
        ),
    ),
    Command(
        words=("topics", "missing"),
        summary="List the topics that clients ask for and that are not there",
        examples=("topics missing",),
        kind=CommandKind.LIST,
        call=reads("clusters/{cluster}/missing-topics"),
        columns=columns("topic #asked since last-asked=last_asked clients nodes"),
    ),
    change(
        words=("topics", "create"),
        summary="Create a topic",
        examples=(
            "topics create orders --partitions 12 --replication-factor 3 --config min.insync.replicas=2",
            "topics create orders --replica-assignment 1:2:3,2:3:1 --dry-run",
        ),
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
            argument("--wait-ms", type=count, metavar="MS", help="wait so long until clients can use it"),
        ),
        call=writes("POST", TOPICS, _created),
    ),
    Command(
        words=("topics", "show"),
        summary="Look at a topic",
        examples=("topics show orders",),
        arguments=(TOPIC,),
        call=reads(TOPIC_PATH),
    ),
    Command(
        words=("topics", "configs"),
        summary="Show what a topic overrides of the defaults",
        examples=("topics configs orders",),
        arguments=(TOPIC,),
        call=reads(TOPIC_PATH),
        pick="configs",
    ),
    change(
        words=("topics", "add-partitions"),
        summary="Give a topic more partitions",
        examples=(
            "topics add-partitions orders 24 --reason 'twice as many consumers' --wait",
            "topics add-partitions orders 13 --replica-assignment 2:3:1 --dry-run",
        ),
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
        call=writes(
            "PATCH",
            TOPIC_PATH,
            lambda options: given(partitions=options.partitions, assignments=options.replica_assignment),
        ),
    ),
    change(
        words=("topics", "set-replication-factor"),
        summary="Give each partition of a topic more replicas, or fewer",
        examples=(
            "topics set-replication-factor orders 3 --throttle 50000000 --wait",
            "topics set-replication-factor orders 2 --dry-run",
        ),
        is_conditional=True,
        arguments=(
            TOPIC,
            argument("factor", metavar="REPLICAS", type=count, help="how many each partition shall have"),
            *CARRY_OUT,
        ),
        call=writes(
            "PATCH",
            TOPIC_PATH,
            lambda options: given(replication_factor=options.factor, **how(options)),
        ),
    ),
    change(
        words=("topics", "delete"),
        summary="Delete a topic and its data",
        examples=(
            "topics delete orders --reason 'moved to shop.orders'",
            "topics delete orders --dry-run",
            "topics delete orders --yes",
        ),
        question="Delete topic {topic} of cluster {cluster}, with all its records?",
        is_conditional=True,
        arguments=(TOPIC,),
        call=writes("DELETE", TOPIC_PATH),
    ),
    Command(
        words=("topics", "deleted"),
        summary="List deleted topics whose records are kept (deleted.topic.retention.ms)",
        examples=("topics deleted",),
        kind=CommandKind.LIST,
        call=reads(DELETED),
        columns=columns(
            "topic=name topic-id=topic_id #parts=partitions #size=size_bytes:bytes deleted=deleted_at "
            "by=deleted_by kept-until=kept_until"
        ),
    ),
    change(
        words=("topics", "restore"),
        summary="Restore a deleted topic with its records",
        examples=(
            "topics restore Zk1lV0pCTEq4nY6mXw2v3A --reason 'deleted by mistake'",
            "topics restore Zk1lV0pCTEq4nY6mXw2v3A --name orders-restored --dry-run",
        ),
        arguments=(
            TOPIC_ID,
            argument("--name", metavar="TOPIC", help="another name (default: the one that it had)"),
        ),
        call=writes("POST", DELETED_PATH, lambda options: given(name=options.name), action="restore"),
    ),
    change(
        words=("topics", "purge"),
        summary="Delete the records of a deleted topic now",
        examples=("topics purge Zk1lV0pCTEq4nY6mXw2v3A --reason 'the disks are full' --wait",),
        question="Delete the records of the deleted topic {topic_id} of cluster {cluster} for good?",
        arguments=(TOPIC_ID,),
        call=writes("POST", DELETED_PATH, action="purge"),
    ),
)
