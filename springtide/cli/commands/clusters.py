"""springtide clusters …, resilience"""

from __future__ import annotations

from springtide.cli.arguments import CONFIG, settings_of
from springtide.cli.call import get, write
from springtide.cli.command import Command, Kind, argument
from springtide.cli.tables import number, text

_NAME = argument("name", metavar="CLUSTER", help="the cluster's name")
#: Into the place of --cluster; left out: the only one.
_NAME_OR_ONLY = argument(
    "cluster_name", metavar="CLUSTER", nargs="?", help="the cluster's name (default: the only one)"
)
_GONE = argument(
    "--gone",
    metavar="ID",
    type=int,
    action="append",
    default=[],
    dest="gone_brokers",
    help="a broker that will never come back; may be repeated",
)

COMMANDS = (
    Command(
        words=("clusters", "list"),
        summary="List clusters and how they are",
        examples=("clusters list", "clusters list --output json"),
        kind=Kind.LIST,
        in_cluster=False,
        call=lambda options: get("clusters"),
        columns=(
            text("cluster", "name"),
            text("health"),
            number("brokers", "brokers.active"),
            number("waiting", "brokers.waiting"),
            number("topics"),
            number("partitions", "partitions.total"),
            number("leaderless", "partitions.leaderless"),
            number("under-min-isr", "partitions.under_min_isr"),
            number("under-replicated", "partitions.under_replicated"),
            text("controller", "controller.active_url"),
        ),
    ),
    Command(
        words=("clusters", "create"),
        summary="Create a cluster, which is empty until brokers are added",
        examples=("clusters create prod --config default.replication.factor=3",),
        kind=Kind.WRITE,
        in_cluster=False,
        arguments=(_NAME, CONFIG),
        call=lambda options: write(
            options,
            "POST",
            "clusters",
            body={"name": options.name, "configs": settings_of(options.config)},
        ),
    ),
    Command(
        words=("clusters", "show"),
        summary="Look at a cluster",
        examples=("clusters show prod",),
        arguments=(_NAME_OR_ONLY,),
        call=lambda options: get("clusters", options.cluster),
    ),
    Command(
        words=("clusters", "alarms"),
        summary="List what needs somebody's attention now",
        examples=("clusters alarms",),
        kind=Kind.LIST,
        arguments=(_NAME_OR_ONLY,),
        call=lambda options: get("clusters", options.cluster, "alarms"),
        columns=(
            text("code"),
            text("topic"),
            number("partition"),
            number("broker", "broker_id"),
            text("detail"),
        ),
    ),
    Command(
        words=("clusters", "recover-metadata"),
        summary="Rebuild a cluster whose ZooKeeper went back from what its brokers hold",
        examples=(
            "clusters recover-metadata --dry-run",
            "clusters recover-metadata --reason 'restored from backup'",
        ),
        kind=Kind.WRITE,
        arguments=(_GONE,),
        call=lambda options: write(
            options,
            "POST",
            "clusters",
            options.cluster,
            action="recover-metadata",
            body={"gone_brokers": options.gone_brokers},
        ),
    ),
    Command(
        words=("clusters", "set-aside-logs"),
        summary="List the logs that brokers have set aside in quarantine",
        examples=("clusters set-aside-logs",),
        kind=Kind.LIST,
        arguments=(_NAME_OR_ONLY,),
        call=lambda options: get("clusters", options.cluster, "set-aside-logs"),
        columns=(
            number("broker", "broker_id"),
            text("topic"),
            text("topic-id", "topic_id"),
            number("partition"),
            number("end", "log_end_offset"),
            number("high-watermark", "high_watermark"),
            number("bytes", "size_bytes"),
            text("can-come-back", "can_come_back"),
            text("since"),
            text("why"),
            text("directory"),
        ),
    ),
    Command(
        words=("clusters", "bring-back"),
        summary="Recreate topics from the logs that brokers have set aside",
        examples=(
            "clusters bring-back --dry-run",
            "clusters bring-back --topic-id Zk1lV0pCTEq4nY6mXw2v3A --reason 'made after the backup'",
        ),
        kind=Kind.WRITE,
        arguments=(
            argument(
                "--topic-id",
                metavar="ID",
                action="append",
                default=[],
                dest="topic_ids",
                help="only this topic; may be repeated (default: all that are set aside and unknown)",
            ),
            _GONE,
        ),
        call=lambda options: write(
            options,
            "POST",
            "clusters",
            options.cluster,
            action="bring-back-topics",
            body={"topic_ids": options.topic_ids, "gone_brokers": options.gone_brokers},
        ),
    ),
    Command(
        words=("resilience",),
        summary="Ask what losing brokers, hosts or racks, all at once, would do",
        examples=("resilience broker:3", "resilience rack:r1 broker:5 --state leaderless"),
        kind=Kind.LIST,
        arguments=(
            argument("lose", metavar="LOSS", nargs="+", help="broker:ID, host:NAME or rack:NAME"),
            argument(
                "--state",
                metavar="STATE",
                help="only what would be leaderless, recovering, under_min_isr or under_replicated",
            ),
        ),
        call=lambda options: get(
            "clusters", options.cluster, "resilience", lose=options.lose, state=options.state
        ),
        columns=(
            text("topic"),
            number("partition"),
            text("state"),
            text("now", "state_now"),
            text("stops-acks-all", "stops_acks_all"),
            number("leader"),
            text("isr"),
            number("min-isr", "min_insync_replicas"),
            text("replicas"),
        ),
    ),
)
