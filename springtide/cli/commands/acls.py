"""springtide acls …"""

from __future__ import annotations

from argparse import ArgumentTypeError, Namespace
from typing import Any, Final

from springtide.cli.call import Call, UsageError, address, given, reads, writes
from springtide.cli.command import Command, argument, change, listing
from springtide.cli.tables import columns

_ACLS: Final = "clusters/{cluster}/acls"
_CLUSTER: Final = {"resource_type": "cluster", "resource_name": "kafka-cluster"}


def resource(value: str) -> dict[str, str]:
    """Parse `topic:payments`, or `cluster`."""
    if value.lower() == "cluster":
        return dict(_CLUSTER)
    resource_type, colon, name = value.partition(":")
    if not colon or not resource_type or not name:
        raise ArgumentTypeError(f"must be TYPE:NAME, such as topic:payments, or cluster: {value!r}")
    return {"resource_type": resource_type.lower(), "resource_name": name}


def operations(value: str) -> list[str]:
    """Parse `read,describe`; Kafka's tools write `Read`."""
    return [operation.lower() for operation in value.split(",")]


_PRINCIPAL: Final = argument("principal", metavar="PRINCIPAL", help="such as User:alice; User:*: each user")
_OPERATIONS: Final = argument(
    "operations", metavar="OPERATION[,…]", type=operations, help="read, write, describe, alter, …, or all"
)
_PREFIXED: Final = argument(
    "--prefixed", action="store_true", help="each resource whose name begins with the name"
)
_FILTER: Final = (
    argument("--resource-type", metavar="TYPE", help="topic, group, cluster, transactional_id, …"),
    argument("--resource-name", metavar="NAME", help="of the resource, as the ACL has it"),
    argument(
        "--pattern-type",
        choices=("literal", "prefixed", "match", "any"),
        help="match: also '*' and prefixes that stand for the resource of this name (default: any)",
    ),
    argument("--principal", metavar="PRINCIPAL", help="such as User:alice"),
    argument("--host", metavar="ADDRESS", help="an address, or '*'"),
    argument("--operation", metavar="OPERATION", type=str.lower, help="read, write, …"),
    argument("--permission", choices=("allow", "deny"), help="only these"),
)
_FIELDS: Final = (
    "resource_type",
    "resource_name",
    "pattern_type",
    "principal",
    "host",
    "operation",
    "permission",
)


def _added(options: Namespace) -> dict[str, Any]:
    about = given(principal=options.principal, host=options.host)
    about |= {"pattern_type": "prefixed"} if options.prefixed else {}
    about |= {"permission": "deny"} if options.deny else {}
    return {
        "bindings": [
            {**one, **about, "operation": operation}
            for one in options.resources
            for operation in options.operations
        ]
    }


def _removed(options: Namespace) -> dict[str, Any]:
    named = given(**{name: getattr(options, name) for name in _FIELDS})
    if not named.keys() - {"pattern_type"}:
        raise UsageError("say which ACLs: name something that they have in common, such as --principal")
    return named


def _explained(options: Namespace) -> Call:
    about = {"resource_name": options.topic} if options.resource is None else options.resource
    query = given(
        principal=options.principal,
        operation=options.operation,
        request=options.request,
        host=options.host,
        **about,
    )
    return Call(
        method="GET", path=address("clusters", options.cluster, "acls", action="explain"), query=query
    )


COMMANDS = (
    listing(
        words=("acls", "list"),
        summary="List ACLs: who is allowed or denied what, on which resources, from which hosts",
        examples=(
            "acls list",
            "acls list --principal User:billing",
            "acls list --resource-type topic --resource-name payments --pattern-type match",
        ),
        arguments=_FILTER,
        call=reads(_ACLS, *_FIELDS),
        columns=columns(
            "type=resource_type name=resource_name pattern=pattern_type permission principal operation host"
        ),
    ),
    change(
        words=("acls", "add"),
        summary="Allow a principal operations on resources, or deny them",
        examples=(
            "acls add User:billing read,describe topic:payments group:billing --reason 'the new service'",
            "acls add User:audit read topic:audit. --prefixed",
            "acls add User:billing write topic:payments --deny --host 10.0.0.7",
        ),
        arguments=(
            _PRINCIPAL,
            _OPERATIONS,
            argument(
                "resources",
                metavar="RESOURCE",
                nargs="+",
                type=resource,
                help="TYPE:NAME, such as topic:payments ('topic:*': each topic), or cluster",
            ),
            _PREFIXED,
            argument(
                "--deny", action="store_true", help="deny instead of allow: this is stronger than any allow"
            ),
            argument("--host", metavar="ADDRESS", help="the client's address (default: each)"),
        ),
        call=writes("POST", _ACLS, _added),
    ),
    change(
        words=("acls", "remove"),
        summary="Remove each ACL that has all of what is named; --dry-run shows them",
        examples=(
            "acls remove --principal User:billing --reason 'the service is gone'",
            "acls remove --resource-type topic --resource-name payments --operation write --dry-run",
        ),
        question="Remove these ACLs of cluster {cluster} (--dry-run shows them)?",
        arguments=_FILTER,
        call=writes("POST", _ACLS, _removed, action="delete"),
    ),
    Command(
        words=("acls", "explain"),
        summary="Say why a client may, or may not, do something, and what would allow it",
        examples=(
            "acls explain User:alice read topic:payments --host 10.0.0.7",
            "acls explain User:alice --request 'POST /clusters/prod/topics' --topic orders",
        ),
        arguments=(
            _PRINCIPAL,
            argument("operation", metavar="OPERATION", nargs="?", type=str.lower, help="read, write, …"),
            argument("resource", metavar="RESOURCE", nargs="?", type=resource, help="TYPE:NAME, or cluster"),
            argument("--request", metavar="'METHOD PATH'", help="a request over REST instead of these two"),
            argument("--topic", metavar="NAME", help="the topic that the request would create"),
            argument("--host", metavar="ADDRESS", help="the client's address"),
        ),
        call=_explained,
    ),
)
