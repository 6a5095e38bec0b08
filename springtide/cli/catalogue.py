"""Every command, in the order in which help lists them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from springtide.cli.arguments import count
from springtide.cli.command import Command, CommandKind, argument
from springtide.cli.commands import (
    acls,
    audit,
    backup,
    brokers,
    clusters,
    configs,
    coordinators,
    groups,
    operations,
    partitions,
    plans,
    policies,
    problems,
    quotas,
    reassignments,
    records,
    rolls,
    topics,
    transactions,
    upgrades,
    users,
    verifications,
    webhooks,
)

COMMANDS: Final[tuple[Command, ...]] = (
    *clusters.COMMANDS,
    *brokers.COMMANDS,
    *coordinators.COMMANDS,
    *groups.COMMANDS,
    *transactions.COMMANDS,
    *topics.COMMANDS,
    *records.COMMANDS,
    *configs.COMMANDS,
    *acls.COMMANDS,
    *users.COMMANDS,
    *quotas.COMMANDS,
    *partitions.COMMANDS,
    *reassignments.COMMANDS,
    *plans.COMMANDS,
    *policies.COMMANDS,
    *webhooks.COMMANDS,
    *operations.COMMANDS,
    *verifications.COMMANDS,
    *audit.COMMANDS,
    *upgrades.COMMANDS,
    *problems.COMMANDS,
    *rolls.COMMANDS,
    *backup.COMMANDS,
    Command(
        words=("certificates", "create"),
        summary="Make a CA and certificates, to try TLS with; made again, they are renewed",
        examples=(
            "certificates create certs store1 store2 store3 localhost",
            "certificates create certs store1 --days 90",
        ),
        kind=CommandKind.CERTIFICATES,
        in_cluster=False,
        arguments=(
            argument("directory", metavar="DIRECTORY", help="where the files go; a CA in it is used again"),
            argument("names", metavar="NAME", nargs="+", help="of a host, or its address"),
            argument("--days", type=count, default=365, metavar="N", help="until they end (default 365)"),
        ),
    ),
    Command(
        words=("completion",),
        summary="Print a script that completes these commands in a shell",
        examples=("completion bash > /etc/bash_completion.d/springtide",),
        kind=CommandKind.COMPLETION,
        in_cluster=False,
        arguments=(argument("shell", choices=("bash", "zsh", "fish"), help="the shell"),),
    ),
)

#: First words that have more words after them.
NOUNS: Final[Mapping[str, str]] = {
    "clusters": "create, look at, what is wrong now",
    "brokers": "add, look at, cordon, demote, take back, remove",
    "coordinators": "admit, look at, drain, demote, take back, remove",
    "groups": "who reads what and how far; reset offsets, delete",
    "transactions": "which are open, who waits for them; end those that do not end by themselves",
    "topics": "create, look at, enlarge, delete",
    "configs": "settings of topics, brokers and the cluster: look at, set, unset, undo",
    "acls": "who may do what to which resources; why a client may not",
    "users": "who may log in: list, set a password, delete",
    "quotas": "how much users, clients and addresses may take: look at, set, unset",
    "partitions": "who leads, who is in sync, what is blocked and why",
    "reassignments": "move replicas by hand, look at what moves, cancel",
    "plans": "what would move before it does, and carrying it out",
    "policies": "what plans must keep to, as SQL: look at, write, delete",
    "webhooks": "URLs that are told alarms: look at, write, test, delete",
    "silences": "alarms of which webhooks are told nothing for a time",
    "operations": "work that outlives its request: look at, follow, throttle, cancel",
    "verifications": "whether replicas are the same, as `pipeline verify` found them",
    "audit": "who changed what, when and why; verify that it was not altered",
    "problems": "what the codes of errors mean",
    "upgrade": "which release each process runs; restart all of them one by one; finalize",
    "backup": "of ZooKeeper and SQL: create, verify, restore",
    "certificates": "a CA and certificates for TLS, to try it",
}
