"""springtide policies …"""

from __future__ import annotations

from typing import Final

from springtide.cli.call import get, given, write
from springtide.cli.command import Command, Kind, argument
from springtide.cli.tables import text

_NAME: Final = argument("name", metavar="NAME", help="the policy's name, such as prod_rf3")
_SQL: Final = "SELECT topic, partition FROM planned_replicas GROUP BY topic, partition HAVING count(*) < 3"

COMMANDS = (
    Command(
        words=("policies", "list"),
        summary="List the SELECTs that must return no rows for a plan to be carried out",
        examples=("policies list",),
        kind=Kind.LIST,
        call=lambda options: get("clusters", options.cluster, "policies"),
        columns=(
            text("policy", "name"),
            text("description"),
            text("reads", "tables"),
            text("by", "actor"),
            text("since", "updated_at"),
        ),
    ),
    Command(
        words=("policies", "show"),
        summary="Look at a policy",
        examples=("policies show prod_rf3",),
        arguments=(_NAME,),
        call=lambda options: get("clusters", options.cluster, "policies", options.name),
    ),
    Command(
        words=("policies", "put"),
        summary="Write a policy; --dry-run: what it says about the cluster now",
        examples=(
            f"policies put prod_rf3 --sql '{_SQL}' --reason 'three of everything'",
            "policies put small --sql 'SELECT bytes FROM plan WHERE bytes > 1e12' --dry-run",
        ),
        kind=Kind.WRITE,
        is_conditional=True,
        arguments=(
            _NAME,
            argument("--sql", required=True, metavar="SELECT", help="returns what is wrong with a plan"),
            argument("--description", metavar="TEXT", help="what it is for"),
        ),
        call=lambda options: write(
            options,
            "PUT",
            "clusters",
            options.cluster,
            "policies",
            options.name,
            body=given(sql=options.sql, description=options.description),
        ),
    ),
    Command(
        words=("policies", "delete"),
        summary="Delete a policy",
        examples=("policies delete prod_rf3 --reason 'the topic is gone'",),
        kind=Kind.WRITE,
        is_conditional=True,
        arguments=(_NAME,),
        call=lambda options: write(options, "DELETE", "clusters", options.cluster, "policies", options.name),
    ),
)
