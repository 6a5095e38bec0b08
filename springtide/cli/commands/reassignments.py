"""springtide reassignments …"""

from __future__ import annotations

from springtide.cli.arguments import PARTITION, TOPIC, count, replicas
from springtide.cli.call import get, given, write
from springtide.cli.command import Command, Kind, argument
from springtide.cli.tables import number, text

COMMANDS = (
    Command(
        words=("reassignments", "list"),
        summary="List the partitions that are on their way to other brokers, and what holds them up",
        examples=("reassignments list", "reassignments list --topic orders --blocked"),
        kind=Kind.LIST,
        arguments=(
            argument("--topic", metavar="TOPIC", help="only this topic's"),
            argument(
                "--blocked",
                action="store_const",
                const="true",
                help="only those that do not get on by themselves",
            ),
        ),
        call=lambda options: get(
            "clusters", options.cluster, "reassignments", topic=options.topic, blocked=options.blocked
        ),
        columns=(
            text("topic"),
            number("partition"),
            text("from", "original_replicas"),
            text("to", "target_replicas"),
            number("in-sync", "targets_in_sync"),
            number("remaining", "remaining_bytes"),
            number("bytes", "size_bytes"),
            text("blocked", "blocked.code"),
            text("detail", "blocked.detail"),
            text("operation", "operation_id"),
        ),
    ),
    Command(
        words=("reassignments", "start"),
        summary="Move a partition's replicas to these brokers",
        examples=(
            "reassignments start orders 0 4:2:3 --reason 'store1 is to be replaced' --wait",
            "reassignments start orders 0 4:2:3 --throttle 50000000",
            "reassignments start orders 0 4:2:3 --dry-run",
        ),
        kind=Kind.WRITE,
        is_conditional=True,
        arguments=(
            TOPIC,
            PARTITION,
            argument(
                "replicas",
                metavar="IDS",
                type=replicas,
                help="brokers, such as 4:2:3, the preferred leader first; as many as there shall be",
            ),
            argument(
                "--throttle",
                type=count,
                metavar="BYTES",
                help="how much each broker may copy for it in a second (default: as much as it can)",
            ),
        ),
        call=lambda options: write(
            options,
            "PUT",
            "clusters",
            options.cluster,
            "topics",
            options.topic,
            "partitions",
            options.partition,
            "assignment",
            body=given(replicas=options.replicas, throttle_bytes_per_s=options.throttle),
        ),
    ),
    Command(
        words=("reassignments", "cancel"),
        summary="Bring a partition's original replicas back",
        examples=("reassignments cancel orders 0 --reason 'clients time out'",),
        kind=Kind.WRITE,
        is_conditional=True,
        arguments=(TOPIC, PARTITION),
        call=lambda options: write(
            options,
            "DELETE",
            "clusters",
            options.cluster,
            "topics",
            options.topic,
            "partitions",
            options.partition,
            "assignment",
        ),
    ),
)
