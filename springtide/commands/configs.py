"""springtide configs …"""

from __future__ import annotations

from argparse import Namespace

from springtide.arguments import TOPIC, setting, settings_of
from springtide.call import Call, UsageError, get, write
from springtide.command import Command, Kind, argument
from springtide.tables import text

_NAME = argument("name", metavar="NAME", help="the setting's name, such as min.insync.replicas")


def _alter(options: Namespace) -> Call:
    configs: dict[str, str | None] = dict(settings_of(options.settings))
    for name in options.unset:
        if name in configs:
            raise UsageError(f"{name!r} is both set and unset")
        configs[name] = None
    if not configs:
        raise UsageError("nothing to change: give KEY=VALUE, or --unset NAME")
    return write(
        options,
        "POST",
        "clusters",
        options.cluster,
        "topics",
        options.topic,
        "configs",
        action="alter",
        body={"configs": configs},
    )


COMMANDS = (
    Command(
        words=("configs", "list"),
        summary="List a topic's settings: what applies, and where it comes from",
        examples=("configs list orders",),
        kind=Kind.LIST,
        arguments=(TOPIC,),
        call=lambda options: get("clusters", options.cluster, "topics", options.topic, "configs"),
        columns=(
            text("name"),
            text("value"),
            text("source"),
            text("default"),
            text("cluster-config", "cluster_config"),
            text("read-only", "is_read_only"),
        ),
    ),
    Command(
        words=("configs", "show"),
        summary="Look at one of a topic's settings",
        examples=("configs show orders min.insync.replicas",),
        arguments=(TOPIC, _NAME),
        call=lambda options: get(
            "clusters", options.cluster, "topics", options.topic, "configs", options.name
        ),
    ),
    Command(
        words=("configs", "alter"),
        summary="Set and unset some of a topic's settings: all of them, or none",
        examples=(
            "configs alter orders min.insync.replicas=2 --unset retention.ms --reason 'orders are money'",
            "configs alter orders retention.ms=3600000 --dry-run",
        ),
        kind=Kind.WRITE,
        is_conditional=True,
        arguments=(
            TOPIC,
            argument(
                "settings",
                metavar="KEY=VALUE",
                nargs="*",
                type=setting,
                help="a setting under Kafka's name, and its value",
            ),
            argument(
                "--unset",
                action="append",
                default=[],
                metavar="NAME",
                help="let the default apply again; may be repeated",
            ),
        ),
        call=_alter,
    ),
)
