"""springtide brokers …"""

from __future__ import annotations

from argparse import Namespace
from typing import Final

from springtide.cli.arguments import BROKER_ID, SEARCH, broker, id_number, setting, settings_of, sort_by
from springtide.cli.call import Json, UsageError, given, reads, writes
from springtide.cli.command import Command, CommandKind, argument, change, repeated
from springtide.cli.commands.plans import CARRY_OUT, how
from springtide.cli.tables import columns

BROKERS: Final = "clusters/{cluster}/brokers"
BROKER: Final = "clusters/{cluster}/brokers/{broker_id}"


def _added(options: Namespace) -> Json:
    body: dict[str, object] = {"brokers": options.brokers}
    rebalance = given(mode=options.rebalance) | how(options)
    if options.counts_only:
        rebalance |= {"disk_target_permille": None}
    if rebalance:
        body["rebalance"] = rebalance
    return body


def _replacement(options: Namespace) -> Json:
    body: dict[str, object] = {"brokers": [{**options.broker, "replaces": options.replaced}]}
    limits = how(options)
    if limits:
        body["rebalance"] = limits
    return body


def _description(options: Namespace) -> Json:
    body: dict[str, object] = {}
    if options.rack is not None:
        body["rack"] = None if options.rack == "none" else options.rack
    if options.label:
        body["labels"] = {name: text or None for name, text in settings_of(options.label).items()}
    if not body:
        raise UsageError("name the change: --rack, --label")
    return body


COMMANDS = (
    Command(
        words=("brokers", "list"),
        summary="List brokers, those that wait to be added included",
        examples=("brokers list", "brokers list --state waiting", "brokers list --sort=-disk_used"),
        kind=CommandKind.LIST,
        arguments=(
            argument("--state", metavar="STATE", help="waiting, fenced, active or shutting_down"),
            sort_by("broker_id", "disk_used", "disk_free", "bytes_in", "bytes_out", "replicas", "leaders"),
            SEARCH,
        ),
        call=reads(BROKERS, "state", "sort", "search"),
        columns=columns(
            "#broker=broker_id state #free=disk_free_bytes:bytes #disk=disk_total_bytes:bytes "
            "#in/s=bytes_in_per_s:bytes #out/s=bytes_out_per_s:bytes #connections #requests/s=requests_per_s "
            "#leaders #replicas endpoint rack cordoned draining drained demoted version #epoch=broker_epoch "
            "registered=registered_at"
        ),
    ),
    Command(
        words=("brokers", "show"),
        summary="Look at a broker",
        examples=("brokers show 1",),
        arguments=(BROKER_ID,),
        call=reads(BROKER),
    ),
    change(
        words=("brokers", "add"),
        summary="Add brokers to a cluster: all of them, or none",
        examples=(
            "brokers add 4@store4:9092/r2 --reason 'capacity for Q4' --wait",
            "brokers add 4@store4:9092 5@store5:9092 --dry-run",
        ),
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
            argument(
                "--counts-only",
                action="store_true",
                help="even out numbers of replicas alone, with the least bytes copied",
            ),
            *CARRY_OUT,
        ),
        call=writes("POST", BROKERS, _added),
    ),
    change(
        words=("brokers", "replace"),
        summary="Put a new broker into every place of another, alive or dead",
        examples=("brokers replace 3 5@store5:9092 --reason 'the mainboard of store3 is gone' --wait",),
        arguments=(
            argument("replaced", metavar="BROKER", type=id_number, help="the broker that goes"),
            argument(
                "broker", metavar="ID@HOST:PORT", type=broker, help="the one that comes; /RACK after it, too"
            ),
            *CARRY_OUT,
        ),
        call=writes("POST", BROKERS, _replacement),
    ),
    change(
        words=("brokers", "drain"),
        summary="Move everything off a broker, before it is taken offline",
        examples=(
            "brokers drain 3 --throttle 50000000 --reason 'store3 is to go' --wait",
            "brokers drain 3 --dry-run",
        ),
        is_conditional=True,
        arguments=(BROKER_ID, *CARRY_OUT),
        call=writes("POST", BROKER, how, action="drain"),
    ),
    change(
        words=("brokers", "cordon"),
        summary="Give a broker no new replicas; it keeps those it has",
        examples=("brokers cordon 3 --reason 'its disks are getting full'",),
        is_conditional=True,
        arguments=(BROKER_ID,),
        call=writes("PATCH", BROKER, lambda _: {"cordoned": True}),
    ),
    change(
        words=("brokers", "uncordon"),
        summary="Let a broker get new replicas again",
        examples=("brokers uncordon 3",),
        is_conditional=True,
        arguments=(BROKER_ID,),
        call=writes("PATCH", BROKER, lambda _: {"cordoned": False}),
    ),
    change(
        words=("brokers", "set"),
        summary="Say in which rack a broker stands, over what it says itself; label it",
        examples=(
            "brokers set 3 --rack r2 --label owner=storage",
            "brokers set 3 --rack none --label owner=",
        ),
        is_conditional=True,
        arguments=(
            BROKER_ID,
            argument("--rack", metavar="RACK", help="`none`: what the broker says counts again"),
            repeated(
                "--label",
                type=setting,
                metavar="KEY=VALUE",
                help="a note; without a value it is removed; may be repeated",
            ),
        ),
        call=writes("PATCH", BROKER, _description),
    ),
    change(
        words=("brokers", "demote"),
        summary="Move the leaderships off a broker, before its maintenance",
        examples=("brokers demote 1 --reason 'a new kernel' --wait", "brokers demote 1 --dry-run"),
        is_conditional=True,
        arguments=(BROKER_ID,),
        call=writes("POST", BROKER, action="demote"),
    ),
    change(
        words=("brokers", "return"),
        summary="Take a broker back after its maintenance: no longer cordoned, draining or demoted",
        examples=("brokers return 1 --reason 'the new kernel runs'",),
        is_conditional=True,
        arguments=(BROKER_ID,),
        call=writes("POST", BROKER, action="return"),
    ),
    change(
        words=("brokers", "remove"),
        summary="Forget a broker that is down and holds nothing",
        examples=("brokers remove 4 --reason 'replaced by 5'",),
        is_conditional=True,
        arguments=(BROKER_ID,),
        call=writes("DELETE", BROKER),
    ),
)
