"""springtide quotas …"""

from __future__ import annotations

from argparse import ArgumentTypeError, Namespace
from typing import Any, Final

from springtide.cli.arguments import setting
from springtide.cli.call import UsageError, given, reads, writes
from springtide.cli.command import argument, change, listing
from springtide.cli.tables import columns

_QUOTAS: Final = "clusters/{cluster}/quotas"
_WHOSE: Final = (
    argument("--user", metavar="NAME", help="a user's; '<default>': of each that has none of its own"),
    argument(
        "--client-id", metavar="NAME", help="a client id's, or, with --user, of this user by this client id"
    ),
    argument("--ip", metavar="ADDRESS", help="an address's"),
)


def quota(value: str) -> tuple[str, float]:
    """Parse `producer_byte_rate=1000000`."""
    name, text = setting(value)
    try:
        return name, float(text)
    except ValueError:
        raise ArgumentTypeError(f"must be NAME=NUMBER: {value!r}") from None


def _altered(options: Namespace, quotas: dict[str, float | None]) -> dict[str, Any]:
    entity = given(user=options.user, client_id=options.client_id, ip=options.ip)
    if not entity:
        raise UsageError("say whose quotas: --user, --client-id or --ip")
    return {"entities": [{**entity, "quotas": quotas}]}


def _set(options: Namespace) -> dict[str, Any]:
    quotas = dict[str, float | None](options.quotas)
    if len(quotas) < len(options.quotas):
        raise UsageError("a quota is given twice")
    return _altered(options, quotas)


COMMANDS = (
    listing(
        words=("quotas", "list"),
        summary="List quotas of users, client ids and addresses",
        examples=("quotas list", "quotas list --user billing"),
        arguments=_WHOSE,
        call=reads(_QUOTAS, "user", "client_id", "ip"),
        columns=columns("user client-id=client_id ip quotas by=last_change.actor"),
    ),
    change(
        words=("quotas", "set"),
        summary="Set quotas of a user, a client id, both, or an address",
        examples=(
            "quotas set producer_byte_rate=10000000 --user billing --reason 'it floods the others'",
            "quotas set request_percentage=50 --user '<default>' --client-id '<default>'",
            "quotas set connection_creation_rate=10 --ip 10.0.0.7",
        ),
        arguments=(
            argument(
                "quotas",
                metavar="NAME=NUMBER",
                nargs="+",
                type=quota,
                help="producer_byte_rate, consumer_byte_rate, request_percentage, controller_mutation_rate; "
                "of an address connection_creation_rate",
            ),
            *_WHOSE,
        ),
        call=writes("POST", _QUOTAS, _set, action="alter"),
    ),
    change(
        words=("quotas", "unset"),
        summary="Remove quotas: those of the default apply again",
        examples=("quotas unset producer_byte_rate --user billing",),
        arguments=(argument("quotas", metavar="NAME", nargs="+", help="the quota's name"), *_WHOSE),
        call=writes(
            "POST",
            _QUOTAS,
            lambda options: _altered(options, dict.fromkeys(options.quotas)),
            action="alter",
        ),
    ),
)
