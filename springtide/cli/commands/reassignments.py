"""springtide reassignments …"""

from __future__ import annotations

from springtide.cli.arguments import PARTITION, TOPIC, count, replicas
from springtide.cli.call import given, reads, writes
from springtide.cli.command import Command, CommandKind, argument, change
from springtide.cli.commands.partitions import PARTITION_PATH
from springtide.cli.tables import columns

COMMANDS = (
    Command(
        words=("reassignments", "list"),
        summary="List the partitions that are on their way to other brokers, and what holds them up",
        examples=("reassignments list", "reassignments list --topic orders --blocked"),
        kind=CommandKind.LIST,
        arguments=(
            argument("--topic", metavar="TOPIC", help="only this topic's"),
            argument(
                "--blocked",
                action="store_const",
                const="true",
                help="only those that do not get on by themselves",
            ),
        ),
        call=reads("clusters/{cluster}/reassignments", "topic", "blocked"),
        columns=columns(
            "topic #partition from=original_replicas to=target_replicas #in-sync=targets_in_sync "
            "#remaining=remaining_bytes #bytes=size_bytes blocked=blocked.code detail=blocked.detail "
            "operation=operation_id"
        ),
    ),
    change(
        words=("reassignments", "start"),
        summary="Move a partition's replicas to these brokers",
        examples=(
            "reassignments start orders 0 4:2:3 --reason 'store1 is to be replaced' --wait",
            "reassignments start orders 0 4:2:3 --throttle 50000000",
            "reassignments start orders 0 4:2:3 --dry-run",
        ),
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
        call=writes(
            "PUT",
            f"{PARTITION_PATH}/assignment",
            lambda options: given(replicas=options.replicas, throttle_bytes_per_s=options.throttle),
        ),
    ),
    change(
        words=("reassignments", "cancel"),
        summary="Bring a partition's original replicas back",
        examples=("reassignments cancel orders 0 --reason 'clients time out'",),
        is_conditional=True,
        arguments=(TOPIC, PARTITION),
        call=writes("DELETE", f"{PARTITION_PATH}/assignment"),
    ),
)
