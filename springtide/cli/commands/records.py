"""springtide records …"""

from __future__ import annotations

from argparse import Namespace
from typing import Final

from springtide.cli.arguments import TOPIC, count, id_number
from springtide.cli.call import Call, UsageError, get
from springtide.cli.command import Command, CommandKind, argument
from springtide.cli.tables import columns

#: A look takes ten seconds, and its process some more on a busy host.
_ANSWER_SECONDS_MAX: Final = 30.0


def _look(options: Namespace) -> Call:
    starts = {
        "--newest": options.newest or None,
        "--earliest": options.earliest or None,
        "--offset": options.offset,
        "--at": options.at,
        "--position": options.position,
    }
    named = [name for name, value in starts.items() if value is not None]
    if len(named) > 1:
        raise UsageError(f"{named[0]} and {named[1]} exclude each other: a look begins at one place")
    if options.offset is not None and options.partition is None:
        raise UsageError("--offset is one of a partition: add --partition")
    return get(
        *("clusters", options.cluster, "topics", options.topic, "records"),
        partition=options.partition,
        start="earliest" if options.earliest else None,
        offset=options.offset,
        timestamp=options.at,
        position=options.position,
        limit=options.limit,
        max_bytes=options.max_bytes,
        key=options.key,
        value=options.value,
        ignore_case="true" if options.ignore_case else None,
        format=options.format,
        answer_s_max=_ANSWER_SECONDS_MAX,
    )


COMMANDS = (
    Command(
        words=("records",),
        summary="Look at a topic's records; each look is in the audit",
        examples=(
            "records orders",
            "records orders --partition 3 --offset 1042 --limit 5 --output json",
            "records orders --at 2026-11-21T09:30:00Z --key customer-17 --value late --ignore-case",
        ),
        kind=CommandKind.LIST,
        is_paged=False,
        about=("stopped", "position", "unread"),
        arguments=(
            TOPIC,
            argument("--partition", type=id_number, metavar="P", help="only this partition"),
            argument("--newest", action="store_true", help="the newest first, which is the default"),
            argument("--earliest", action="store_true", help="from the first records on"),
            argument("--offset", type=id_number, metavar="N", help="from this offset of --partition on"),
            argument("--at", metavar="TIME", help="from this time on, such as 2026-11-21T09:30:00Z"),
            argument("--position", metavar="P-N", help="from where an earlier look ended: its position"),
            argument("--limit", type=count, metavar="N", help="at most this many (default 50, at most 1000)"),
            argument(
                "--max-bytes", type=count, metavar="N", help="at most so many bytes of JSON (default 1 MiB)"
            ),
            argument("--key", metavar="TEXT", help="only records with this in the key"),
            argument("--value", metavar="TEXT", help="only records with this in the value"),
            argument("--ignore-case", action="store_true", help="of the letters a to z, in both filters"),
            argument(
                "--format",
                metavar="FORMAT",
                help="auto (the default), text, json or hex: what is not that is shown as what it is",
            ),
        ),
        call=_look,
        columns=columns("#p=partition #offset time=timestamp key=key.data value=value.data"),
    ),
)
