"""springtide users …"""

from __future__ import annotations

from argparse import Namespace
from typing import Any, Final

from springtide.cli.arguments import count
from springtide.cli.call import given, reads, writes
from springtide.cli.command import Command, argument, change, listing, repeated
from springtide.cli.tables import columns

_USERS: Final = "clusters/{cluster}/users"
_USER_PATH: Final = "clusters/{cluster}/users/{user}"
_USER: Final = argument("user", metavar="USER", help="the user's name, without User:")


def _set(options: Namespace) -> dict[str, Any]:
    return given(
        password=options.hidden_answer, mechanisms=options.mechanism or None, iterations=options.iterations
    )


COMMANDS = (
    listing(
        words=("users", "list"),
        summary="List users that can log in with a password",
        examples=("users list", "users list --prefix svc-"),
        arguments=(argument("--prefix", metavar="TEXT", help="only names that begin with this"),),
        call=reads(_USERS, "prefix"),
        columns=columns("user mechanisms changed=last_change.at by=last_change.actor"),
    ),
    Command(
        words=("users", "show"),
        summary="Look at a user: by which mechanisms it may log in",
        examples=("users show billing",),
        arguments=(_USER,),
        call=reads(_USER_PATH),
    ),
    change(
        words=("users", "set"),
        summary="Create a user, or set its password, which is asked for or read from standard input",
        examples=(
            "users set billing --reason 'the new service'",
            "users set billing --mechanism SCRAM-SHA-512 --iterations 8192",
        ),
        is_conditional=True,
        hidden_question="Password",
        arguments=(
            _USER,
            repeated(
                "--mechanism",
                metavar="NAME",
                help="SCRAM-SHA-256 or SCRAM-SHA-512; may be repeated (default: both)",
            ),
            argument("--iterations", type=count, metavar="N", help="of the hash (default 4096)"),
        ),
        call=writes("PUT", _USER_PATH, _set),
    ),
    change(
        words=("users", "delete"),
        summary="Delete a user: it can't log in any more",
        examples=("users delete billing --reason 'the service is gone'",),
        is_conditional=True,
        question="Delete user {user} of cluster {cluster}?",
        arguments=(_USER,),
        call=writes("DELETE", _USER_PATH),
    ),
)
