"""The REST models of policies."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field, StringConstraints

from admin_api.http.models import Reason, RequestBody, View, ViewList, timestamp
from controller.face.policies import SQL_CHARS_MAX, TABLES, PolicyRow, Shape

PolicyName = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,63}$"),
    Field(description="small letters, digits, '_' and '-'; begins with a letter", examples=["prod_rf3"]),
]
_RF3 = (
    "SELECT topic, partition, count(*) AS replicas FROM planned_replicas "
    "GROUP BY topic, partition HAVING count(*) < 3"
)


class PutPolicy(RequestBody):
    """One SELECT that must return no rows; each row that it returns is a fault of a plan."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "sql": _RF3,
                    "description": "three replicas of everything",
                    "reason": "lost a topic with two",
                }
            ]
        }
    )

    sql: Annotated[
        str,
        StringConstraints(min_length=1, max_length=SQL_CHARS_MAX),
        Field(
            description="SQLite's SQL over the tables "
            + "; ".join(f"`{table}` ({columns})" for table, columns in TABLES.items())
        ),
    ]
    description: Annotated[str, StringConstraints(max_length=1_000)] | None = None
    reason: Reason | None = None


class PolicyView(View):
    """A policy: plans of the cluster are carried out only if it returns no rows."""

    name: str = Field(examples=["prod_rf3"])
    cluster: str = Field(examples=["prod"])
    sql: str
    description: str | None
    columns: list[str] = Field(description="what a breach shows")
    tables: list[str] = Field(description="what it reads")
    actor: str = Field(description="who wrote it as it is")
    reason: str | None
    created_at: str
    updated_at: str


class PolicyList(ViewList[PolicyView]): ...


class VerdictView(View):
    """The verdict of a policy."""

    name: str = Field(examples=["prod_rf3"])
    ok: bool
    error: str | None = Field(description="why it could not be judged; what can't be is not passed")
    columns: list[str]
    rows: list[list[str | int | float | None]] = Field(description="up to twenty of what it returned")
    rows_total: int


class PolicyTried(View):
    """A dry run: the policy as it would be stored, and its verdict on the cluster's current state."""

    policy: PolicyView
    verdict: VerdictView


def policy_view(row: PolicyRow, shape: Shape | None) -> PolicyView:
    """Return the view of a policy. shape: None if a release with weaker rules stored the policy."""
    return PolicyView.of(
        row,
        columns=[] if shape is None else shape.columns,
        tables=[] if shape is None else shape.tables,
        created_at=timestamp(row.created_at_ms),
        updated_at=timestamp(row.updated_at_ms),
    )
