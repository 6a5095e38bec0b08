"""Arguments that several commands share, and their checks. Pure.

Numbers and pairs are checked here, for a quick and plain answer. Only the API checks names, ranges and words,
so that an older command line does not refuse those of a newer controller.
"""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Iterable, Mapping

from springtide.cli.call import UsageError
from springtide.cli.command import Argument, argument, repeated


def count(value: str) -> int:
    """Parse a number, 1 or more."""
    return _integer(value, at_least=1)


def count_or_none(value: str) -> int | None:
    """Parse a number, 1 or more, or `none`."""
    return None if value == "none" else count(value)


def id_number(value: str) -> int:
    """Parse a number, 0 or more: of a broker, a partition, an epoch, a row."""
    return _integer(value, at_least=0)


def _integer(value: str, *, at_least: int) -> int:
    # `int` alone would take ' 1', '1_000' and digits of other scripts.
    if not (value.isascii() and value.isdigit()) or int(value) < at_least:
        raise ArgumentTypeError(f"must be a number, at least {at_least}: {value!r}")
    return int(value)


def seconds(value: str) -> float:
    """Parse a length of time, not negative and finite."""
    try:
        found = float(value)
    except ValueError:
        found = -1.0
    if not 0 <= found <= 1e6:
        raise ArgumentTypeError(f"must be a number of seconds: {value!r}")
    return found


def setting(value: str) -> tuple[str, str]:
    """Parse `key=value`, as Kafka's tools take it; the value may have an `=` in it."""
    key, equals, text = value.partition("=")
    if not equals or not key.strip():
        raise ArgumentTypeError(f"must be key=value: {value!r}")
    return key.strip(), text.strip()


def settings_of(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the settings; raise UsageError if a key comes twice, because either value may be meant."""
    settings: dict[str, str] = {}
    for key, value in pairs:
        if key in settings:
            raise UsageError(f"--config: {key!r} is given twice")
        settings[key] = value
    return settings


def broker(value: str) -> Mapping[str, object]:
    """Parse `4@store4:9092` or `4@store4:9092/r2`: id and address as Kafka writes them, and the rack."""
    number, at, rest = value.partition("@")
    endpoint, slash, rack = rest.partition("/")
    if not at or not (number.isascii() and number.isdigit()) or ":" not in endpoint or (slash and not rack):
        raise ArgumentTypeError(f"must be ID@HOST:PORT or ID@HOST:PORT/RACK: {value!r}")
    spec: dict[str, object] = {"broker_id": int(number), "endpoint": endpoint}
    return spec | {"rack": rack} if slash else spec


def hours(value: str) -> Mapping[str, object] | None:
    """Parse `22:00-06:00` or `22:00-06:00+01:00`: a time of day, in UTC or in a zone; or `none`."""
    if value == "none":
        return None
    start, dash, rest = value.partition("-")
    if not dash:
        raise ArgumentTypeError(f"must be START-END, such as 22:00-06:00, or none: {value!r}")
    return {"start": start, "end": rest[:5], "utc_offset": rest[5:] or "Z"}


def replicas(value: str) -> list[int]:
    """Parse `1:2:3`: brokers of one partition, the preferred leader first."""
    return [id_number(part) for part in value.split(":")]


def assignment(value: str) -> list[list[int]]:
    """Parse `1:2:3,2:3:1`: brokers of each partition in turn, as in Kafka's tools, preferred leaders
    first."""
    return [replicas(one) for one in value.split(",")]


def partition_name(value: str) -> Mapping[str, object]:
    """Parse `orders-0`; the topic may have a `-` in its name."""
    topic, dash, number = value.rpartition("-")
    if not dash or not topic or not (number.isascii() and number.isdigit()):
        raise ArgumentTypeError(f"must be TOPIC-NUMBER: {value!r}")
    return {"topic": topic, "partition": int(number)}


CONFIG = repeated(
    "--config",
    type=setting,
    metavar="KEY=VALUE",
    help="a setting under Kafka's name; may be repeated",
)
TOPIC = argument("topic", metavar="TOPIC", help="the topic's name")
PARTITION = argument("partition", metavar="PARTITION", type=id_number, help="the partition's number")
BROKER_ID = argument("broker_id", metavar="BROKER", type=id_number, help="the broker's id")
OPERATION_ID = argument("operation_id", metavar="OPERATION", help="the operation's id, such as op_Zk1lV0pC")

#: For lists that are not about one cluster: `--cluster` narrows them and has no default.
ACTOR = argument("--by", dest="by", metavar="ACTOR", help="only what this actor did")
SINCE = argument("--since", metavar="TIME", help="not before this time, such as 2026-11-21T09:30:00Z")
UNTIL = argument("--until", metavar="TIME", help="before this time")


SEARCH = argument("--search", metavar="TEXT", help="only those with this in their name")


def sort_by(*orders: str, default: str | None = None) -> Argument:
    """Return the option of a list's order. default: None: the API's own, which is the first."""
    return argument(
        "--sort",
        metavar="ORDER",
        default=default,
        help=f"{', '.join(orders)}; with a minus before it (--sort=-…): descending; default: "
        f"{default or orders[0]}",
    )
