"""springtide brokers …"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable

from springtide.cli.arguments import BROKER_ID, broker, id_number, setting, settings_of, sort_by
from springtide.cli.call import Call, UsageError, get, given, write
from springtide.cli.command import Command, Kind, argument
from springtide.cli.commands.plans import CARRY_OUT, how
from springtide.cli.tables import number, text


def _add(options: Namespace) -> Call:
    body: dict[str, object] = {"brokers": options.brokers}
    rebalance = given(mode=options.rebalance) | how(options)
    if rebalance:
        body["rebalance"] = rebalance
    return write(options, "POST", "clusters", options.cluster, "brokers", body=body)


def _replace(options: Namespace) -> Call:
    body: dict[str, object] = {"brokers": [{**options.broker, "replaces": options.replaced}]}
    limits = how(options)
    if limits:
        body["rebalance"] = limits
    return write(options, "POST", "clusters", options.cluster, "brokers", body=body)


def _maintain(action: str) -> Callable[[Namespace], Call]:
    return lambda options: write(
        options, "POST", "clusters", options.cluster, "brokers", options.broker_id, action=action
    )


def _cordon(*, cordoned: bool) -> Callable[[Namespace], Call]:
    return lambda options: write(
        options,
        "PATCH",
        "clusters",
        options.cluster,
        "brokers",
        options.broker_id,
        body={"cordoned": cordoned},
    )


def _describe(options: Namespace) -> Call:
    body: dict[str, object] = {}
    if options.rack is not None:
        body["rack"] = None if options.rack == "none" else options.rack
    if options.label:
        body["labels"] = {name: text or None for name, text in settings_of(options.label).items()}
    if not body:
        raise UsageError("name what is to be set: --rack, --label")
    return write(options, "PATCH", "clusters", options.cluster, "brokers", options.broker_id, body=body)


COMMANDS = (
    Command(
        words=("brokers", "list"),
        summary="List brokers, those that wait to be added included",
        examples=("brokers list", "brokers list --state waiting", "brokers list --sort=-leaders"),
        kind=Kind.LIST,
        arguments=(
            argument("--state", metavar="STATE", help="waiting, fenced, active or shutting_down"),
            sort_by("broker_id", "replicas", "leaders"),
        ),
        call=lambda options: get(
            "clusters", options.cluster, "brokers", state=options.state, sort=options.sort
        ),
        columns=(
            number("broker", "broker_id"),
            text("state"),
            text("cordoned"),
            text("draining"),
            text("demoted"),
            text("endpoint"),
            text("rack"),
            number("replicas"),
            number("leaders"),
            number("epoch", "broker_epoch"),
            text("version"),
            text("registered", "registered_at"),
        ),
    ),
    Command(
        words=("brokers", "show"),
        summary="Look at a broker",
        examples=("brokers show 1",),
        arguments=(BROKER_ID,),
        call=lambda options: get("clusters", options.cluster, "brokers", options.broker_id),
    ),
    Command(
        words=("brokers", "add"),
        summary="Add brokers to a cluster: all of them, or none",
        examples=(
            "brokers add 4@store4:9092/r2 --reason 'capacity for Q4' --wait",
            "brokers add 4@store4:9092 5@store5:9092 --dry-run",
        ),
        kind=Kind.WRITE,
        arguments=(
            argument(
                "brokers",
                metavar="ID@HOST:PORT",
                nargs="+",
                type=broker,
                help="id and address, as the broker advertises it; /RACK after it: checked, too",
            ),
            argument(
                "--rebalance",
                metavar="MODE",
                help="what happens to data that is there: new_only (the default: they get their share), "
                "full (everything is evened out), none",
            ),
            *CARRY_OUT,
        ),
        call=_add,
    ),
    Command(
        words=("brokers", "replace"),
        summary="Put a new broker into every place of another, alive or dead",
        examples=("brokers replace 3 5@store5:9092 --reason 'the mainboard of store3 is gone' --wait",),
        kind=Kind.WRITE,
        arguments=(
            argument("replaced", metavar="BROKER", type=id_number, help="the broker that goes"),
            argument(
                "broker", metavar="ID@HOST:PORT", type=broker, help="the one that comes; /RACK after it, too"
            ),
            *CARRY_OUT,
        ),
        call=_replace,
    ),
    Command(
        words=("brokers", "drain"),
        summary="Move everything off a broker, before it is taken offline",
        examples=(
            "brokers drain 3 --throttle 50000000 --reason 'store3 is to go' --wait",
            "brokers drain 3 --dry-run",
        ),
        kind=Kind.WRITE,
        is_conditional=True,
        arguments=(BROKER_ID, *CARRY_OUT),
        call=lambda options: write(
            options,
            "POST",
            "clusters",
            options.cluster,
            "brokers",
            options.broker_id,
            action="drain",
            body=how(options),
        ),
    ),
    Command(
        words=("brokers", "cordon"),
        summary="Give a broker no new replicas; it keeps those it has",
        examples=("brokers cordon 3 --reason 'its disks are getting full'",),
        kind=Kind.WRITE,
        is_conditional=True,
        arguments=(BROKER_ID,),
        call=_cordon(cordoned=True),
    ),
    Command(
        words=("brokers", "uncordon"),
        summary="Let a broker get new replicas again",
        examples=("brokers uncordon 3",),
        kind=Kind.WRITE,
        is_conditional=True,
        arguments=(BROKER_ID,),
        call=_cordon(cordoned=False),
    ),
    Command(
        words=("brokers", "set"),
        summary="Say in which rack a broker stands, over what it says itself; label it",
        examples=(
            "brokers set 3 --rack r2 --label owner=storage",
            "brokers set 3 --rack none --label owner=",
        ),
        kind=Kind.WRITE,
        is_conditional=True,
        arguments=(
            BROKER_ID,
            argument("--rack", metavar="RACK", help="`none`: what the broker says counts again"),
            argument(
                "--label",
                action="append",
                default=[],
                type=setting,
                metavar="KEY=VALUE",
                help="a note; without a value it is removed; may be repeated",
            ),
        ),
        call=_describe,
    ),
    Command(
        words=("brokers", "demote"),
        summary="Move the leaderships off a broker, before its maintenance",
        examples=("brokers demote 1 --reason 'a new kernel' --wait", "brokers demote 1 --dry-run"),
        kind=Kind.WRITE,
        is_conditional=True,
        arguments=(BROKER_ID,),
        call=_maintain("demote"),
    ),
    Command(
        words=("brokers", "return"),
        summary="Take a broker back after its maintenance: no longer cordoned, draining or demoted",
        examples=("brokers return 1 --reason 'the new kernel runs'",),
        kind=Kind.WRITE,
        is_conditional=True,
        arguments=(BROKER_ID,),
        call=_maintain("return"),
    ),
    Command(
        words=("brokers", "remove"),
        summary="Forget a broker that is down and holds nothing",
        examples=("brokers remove 4 --reason 'replaced by 5'",),
        kind=Kind.WRITE,
        is_conditional=True,
        arguments=(BROKER_ID,),
        call=lambda options: write(
            options, "DELETE", "clusters", options.cluster, "brokers", options.broker_id
        ),
    ),
)
