"""springtide clusters …, resilience"""

from __future__ import annotations

from typing import Final

from springtide.cli.arguments import CONFIG, settings_of
from springtide.cli.call import reads, writes
from springtide.cli.command import Command, CommandKind, argument, change, listing, repeated
from springtide.cli.tables import columns

CLUSTER: Final = "clusters/{cluster}"
_NAME = argument("name", metavar="CLUSTER", help="the cluster's name")
#: Instead of --cluster; without it: the only cluster.
_NAME_OR_ONLY = argument(
    "cluster_name", metavar="CLUSTER", nargs="?", help="the cluster's name (default: the only one)"
)
_GONE = repeated(
    "--gone",
    metavar="ID",
    type=int,
    dest="gone_brokers",
    help="a broker that will never come back; may be repeated",
)

COMMANDS = (
    Command(
        words=("clusters", "list"),
        summary="List clusters and how they are",
        examples=("clusters list", "clusters list --output json"),
        kind=CommandKind.LIST,
        in_cluster=False,
        call=reads("clusters"),
        columns=columns(
            "cluster=name health #brokers=brokers.active #waiting=brokers.waiting #topics "
            "#partitions=partitions.total #leaderless=partitions.leaderless "
            "#under-min-isr=partitions.under_min_isr #under-replicated=partitions.under_replicated "
            "controller=controller.active_url"
        ),
    ),
    change(
        words=("clusters", "create"),
        summary="Create a cluster, which is empty until brokers are added",
        examples=("clusters create prod --config default.replication.factor=3",),
        in_cluster=False,
        arguments=(_NAME, CONFIG),
        call=writes(
            "POST",
            "clusters",
            lambda options: {"name": options.name, "configs": settings_of(options.config)},
        ),
    ),
    Command(
        words=("clusters", "show"),
        summary="Look at a cluster",
        examples=("clusters show prod",),
        arguments=(_NAME_OR_ONLY,),
        call=reads(CLUSTER),
    ),
    listing(
        words=("clusters", "alarms"),
        summary="List what needs attention now",
        examples=("clusters alarms",),
        arguments=(_NAME_OR_ONLY,),
        call=reads(f"{CLUSTER}/alarms"),
        columns=columns("code topic #partition #broker=broker_id follows detail"),
    ),
    change(
        words=("clusters", "recover-metadata"),
        summary="Rebuild a cluster whose ZooKeeper went back from what its brokers hold",
        examples=(
            "clusters recover-metadata --dry-run",
            "clusters recover-metadata --reason 'restored from backup'",
        ),
        arguments=(_GONE,),
        call=writes(
            "POST",
            CLUSTER,
            lambda options: {"gone_brokers": options.gone_brokers},
            action="recover-metadata",
        ),
    ),
    Command(
        words=("clusters", "set-aside-logs"),
        summary="List the logs that brokers have set aside in quarantine",
        examples=("clusters set-aside-logs",),
        kind=CommandKind.LIST,
        arguments=(_NAME_OR_ONLY,),
        call=reads(f"{CLUSTER}/set-aside-logs"),
        columns=columns(
            "#broker=broker_id topic topic-id=topic_id #partition #end=log_end_offset "
            "#high-watermark=high_watermark #bytes=size_bytes can-come-back=can_come_back since why "
            "directory"
        ),
    ),
    change(
        words=("clusters", "bring-back"),
        summary="Recreate topics from the logs that brokers have set aside",
        examples=(
            "clusters bring-back --dry-run",
            "clusters bring-back --topic-id Zk1lV0pCTEq4nY6mXw2v3A --reason 'made after the backup'",
        ),
        arguments=(
            repeated(
                "--topic-id",
                metavar="ID",
                dest="topic_ids",
                help="only this topic; may be repeated (default: all that are set aside and unknown)",
            ),
            _GONE,
        ),
        call=writes(
            "POST",
            CLUSTER,
            lambda options: {"topic_ids": options.topic_ids, "gone_brokers": options.gone_brokers},
            action="bring-back-topics",
        ),
    ),
    Command(
        words=("resilience",),
        summary="Ask what losing brokers, hosts or racks, all at once, would do",
        examples=("resilience broker:3", "resilience rack:r1 broker:5 --state leaderless"),
        kind=CommandKind.LIST,
        arguments=(
            argument("lose", metavar="LOSS", nargs="+", help="broker:ID, host:NAME or rack:NAME"),
            argument(
                "--state",
                metavar="STATE",
                help="only what would be leaderless, recovering, under_min_isr or under_replicated",
            ),
        ),
        call=reads(f"{CLUSTER}/resilience", "lose", "state"),
        columns=columns(
            "topic #partition state now=state_now stops-acks-all=stops_acks_all #leader isr "
            "#min-isr=min_insync_replicas replicas"
        ),
    ),
)
