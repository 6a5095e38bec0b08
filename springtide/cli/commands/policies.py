"""springtide policies …"""

from __future__ import annotations

from typing import Final

from springtide.cli.call import given, reads, writes
from springtide.cli.command import Command, argument, change, listing
from springtide.cli.tables import columns

_POLICY: Final = "clusters/{cluster}/policies/{name}"
_NAME: Final = argument("name", metavar="NAME", help="the policy's name, such as prod_rf3")
_SQL: Final = "SELECT topic, partition FROM planned_replicas GROUP BY topic, partition HAVING count(*) < 3"

COMMANDS = (
    listing(
        words=("policies", "list"),
        summary="List the SELECTs that must return no rows for a plan to be carried out",
        examples=("policies list",),
        call=reads("clusters/{cluster}/policies"),
        columns=columns("policy=name description reads=tables by=actor since=updated_at"),
    ),
    Command(
        words=("policies", "show"),
        summary="Look at a policy",
        examples=("policies show prod_rf3",),
        arguments=(_NAME,),
        call=reads(_POLICY),
    ),
    change(
        words=("policies", "put"),
        summary="Write a policy; --dry-run: what it says about the cluster now",
        examples=(
            f"policies put prod_rf3 --sql '{_SQL}' --reason 'three of everything'",
            "policies put small --sql 'SELECT bytes FROM plan WHERE bytes > 1e12' --dry-run",
        ),
        is_conditional=True,
        arguments=(
            _NAME,
            argument("--sql", required=True, metavar="SELECT", help="returns what is wrong with a plan"),
            argument("--description", metavar="TEXT", help="what it is for"),
        ),
        call=writes("PUT", _POLICY, lambda options: given(sql=options.sql, description=options.description)),
    ),
    change(
        words=("policies", "delete"),
        summary="Delete a policy",
        examples=("policies delete prod_rf3 --reason 'the topic is gone'",),
        is_conditional=True,
        arguments=(_NAME,),
        call=writes("DELETE", _POLICY),
    ),
)
