"""springtide coordinators …"""

from __future__ import annotations

from typing import Final

from springtide.cli.arguments import id_number
from springtide.cli.call import reads, writes
from springtide.cli.command import Command, argument, change, listing
from springtide.cli.tables import columns

_COORDINATORS: Final = "clusters/{cluster}/coordinators"
_COORDINATOR: Final = "clusters/{cluster}/coordinators/{coordinator_id}"
_ID: Final = argument("coordinator_id", metavar="COORDINATOR", type=id_number, help="the coordinator's id")

COMMANDS = (
    listing(
        words=("coordinators", "list"),
        summary="List coordinators, those that wait to be admitted included",
        examples=("coordinators list",),
        call=reads(_COORDINATORS),
        columns=columns(
            "#coordinator=coordinator_id state draining drained demoted endpoint rack #shards "
            "#followed=followed_shards #epoch=coordinator_epoch version registered=registered_at"
        ),
    ),
    Command(
        words=("coordinators", "show"),
        summary="Look at a coordinator",
        examples=("coordinators show 1001",),
        arguments=(_ID,),
        call=reads(_COORDINATOR),
    ),
    change(
        words=("coordinators", "admit"),
        summary="Let coordinators that wait serve client groups: all of them, or none",
        examples=("coordinators admit 1001 1002 --reason 'the first of prod'",),
        arguments=(
            argument(
                "coordinator_ids", metavar="COORDINATOR", nargs="+", type=id_number, help="coordinators' ids"
            ),
        ),
        call=writes("POST", _COORDINATORS, lambda options: {"coordinator_ids": options.coordinator_ids}),
    ),
    change(
        words=("coordinators", "drain"),
        summary="Have a coordinator give its shards away, before it is stopped",
        examples=("coordinators drain 1001 --reason 'its host is to be replaced'",),
        is_conditional=True,
        arguments=(_ID,),
        call=writes("PATCH", _COORDINATOR, lambda _: {"draining": True}),
    ),
    change(
        words=("coordinators", "demote"),
        summary="Let a coordinator own only what no other may",
        examples=("coordinators demote 1001 --reason 'a new kernel'",),
        is_conditional=True,
        arguments=(_ID,),
        call=writes("PATCH", _COORDINATOR, lambda _: {"demoted": True}),
    ),
    change(
        words=("coordinators", "return"),
        summary="Take a coordinator back: no longer draining or demoted",
        examples=("coordinators return 1001",),
        is_conditional=True,
        arguments=(_ID,),
        call=writes("PATCH", _COORDINATOR, lambda _: {"draining": False, "demoted": False}),
    ),
    change(
        words=("coordinators", "remove"),
        summary="Forget a coordinator that is down",
        examples=("coordinators remove 1001 --reason 'replaced by 1003'",),
        is_conditional=True,
        arguments=(_ID,),
        call=writes("DELETE", _COORDINATOR),
    ),
)
