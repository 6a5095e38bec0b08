"""springtide groups …"""

from __future__ import annotations

from argparse import ArgumentTypeError, Namespace
from dataclasses import replace
from typing import Any, Final

from springtide.cli.arguments import SEARCH, id_number, sort_by
from springtide.cli.call import Call, UsageError, given, reads, write, writes
from springtide.cli.command import Command, argument, change, listing, repeated
from springtide.cli.tables import columns

_GROUPS: Final = "clusters/{cluster}/groups"
_GROUP_PATH: Final = "clusters/{cluster}/groups/{group}"
_GROUP: Final = argument("group", metavar="GROUP", help="the group's id, as its clients have it in group.id")
#: Coordinators and leaders are asked meanwhile, each for some seconds.
_ANSWER_SECONDS_MAX: Final = 60.0


def signed(value: str) -> int:
    """Parse a number that may have a sign."""
    digits = value[1:] if value[:1] in ("-", "+") else value
    if not (digits.isascii() and digits.isdigit()):
        raise ArgumentTypeError(f"must be a number: {value!r}")
    return int(value)


def topic_or_partitions(value: str) -> tuple[str, list[int]]:
    """Parse `orders` or `orders:0,3`, as Kafka's tools take them."""
    topic, colon, numbers = value.partition(":")
    return topic, [id_number(number) for number in numbers.split(",")] if colon else []


def _target(options: Namespace) -> dict[str, Any]:
    named: list[dict[str, Any]] = [
        target
        for is_given, target in (
            (options.to_earliest, {"kind": "earliest"}),
            (options.to_latest, {"kind": "latest"}),
            (options.to_offset is not None, {"kind": "offset", "offset": options.to_offset}),
            (options.to_datetime is not None, {"kind": "time", "time": options.to_datetime}),
            (options.shift_by is not None, {"kind": "shift", "by": options.shift_by}),
        )
        if is_given
    ]
    if len(named) != 1:
        raise UsageError(
            "say where to: one of --to-earliest, --to-latest, --to-offset, --to-datetime and --shift-by"
        )
    return named[0]


def _reset(options: Namespace) -> Call:
    """Return the reset; without `--execute` a dry run of it, as Kafka's kafka-consumer-groups does it."""
    if options.all_topics == bool(options.topic):
        raise UsageError("say which partitions: --topic TOPIC[:N,N], or --all-topics")
    if options.execute and options.dry_run:
        raise UsageError("--execute and --dry-run exclude each other")
    topics = [topic for topic, numbers in options.topic if not numbers]
    partitions = [
        {"topic": topic, "partition": number} for topic, numbers in options.topic for number in numbers
    ]
    body = {"to": _target(options), **given(topics=topics or None, partitions=partitions or None)}
    names = ("clusters", options.cluster, "groups", options.group)
    call = write(options, "POST", *names, action="reset-offsets", body=body)
    query = call.query if options.execute else {"dry_run": "true"}
    return replace(call, query=query, answer_s_max=_ANSWER_SECONDS_MAX)


COMMANDS = (
    listing(
        words=("groups", "list"),
        summary="List consumer groups",
        examples=("groups list", "groups list --state empty --search bill", "groups list --sort=group_id"),
        arguments=(
            argument(
                "--state",
                metavar="STATE",
                help="only stable, empty, preparing_rebalance, completing_rebalance, assigning, "
                "reconciling or unknown ones",
            ),
            argument("--prefix", metavar="TEXT", help="only those whose ids begin with this"),
            SEARCH,
            sort_by("group_id", "lag", "lag_ms", "members", "state", default="-lag"),
        ),
        call=reads(_GROUPS, "state", "prefix", "search", "sort", answer_s_max=_ANSWER_SECONDS_MAX),
        columns=columns(
            "group=group_id #lag #behind=lag_ms:ms #gone-in=until_gone_ms:ms #members=members_total state "
            "#told=lag_age_ms:ms protocol=protocol_type"
        ),
    ),
    Command(
        words=("groups", "show"),
        summary="Look at a group: its members, how far it has read, its lag",
        examples=("groups show billing",),
        arguments=(_GROUP,),
        call=reads(_GROUP_PATH, answer_s_max=_ANSWER_SECONDS_MAX),
    ),
    change(
        words=("groups", "reset"),
        summary="Set the offsets at which a group without members continues; --execute writes them",
        examples=(
            "groups reset billing --all-topics --to-earliest",
            "groups reset billing --topic orders --to-datetime 2026-11-21T09:30:00Z --execute",
            "groups reset billing --topic orders:0,3 --shift-by -100 --execute --reason 'bad deployment'",
        ),
        arguments=(
            _GROUP,
            repeated(
                "--topic",
                type=topic_or_partitions,
                metavar="TOPIC[:N,N]",
                help="all partitions of a topic, or these; may be repeated",
            ),
            argument("--all-topics", action="store_true", help="all partitions that it has offsets of"),
            argument("--to-earliest", action="store_true", help="to the first record that there is"),
            argument("--to-latest", action="store_true", help="to the end"),
            argument("--to-offset", type=id_number, metavar="N", help="to an offset"),
            argument(
                "--to-datetime",
                metavar="TIME",
                help="to the first record since this time, such as 2026-11-21T09:30:00Z",
            ),
            argument("--shift-by", type=signed, metavar="N", help="forward, or back by -N"),
            argument("--execute", action="store_true", help="do it; without this, it is only shown"),
        ),
        call=_reset,
    ),
    change(
        words=("groups", "delete"),
        summary="Delete a group without members, with its offsets",
        examples=("groups delete billing --reason 'replaced by billing-2'", "groups delete billing --yes"),
        question="Delete group {group} of cluster {cluster}, with all its offsets?",
        arguments=(_GROUP,),
        call=writes("DELETE", _GROUP_PATH),
    ),
)
