"""The possible changes of a topic: more partitions, or another replication factor."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

from admin_api.names import BrokerId
from admin_api.plans.models import CarryOut
from admin_api.problem import FieldProblem, ProblemError
from admin_api.topics.models import PARTITIONS_PER_REQUEST_MAX, REPLICATION_FACTOR_MAX

#: Fields of the body that limit moves of replicas. They apply only to a change of the replication factor.
_OF_MOVES = ("throttle_bytes_per_s", "max_concurrent_moves", "not_before")


class ChangeTopic(CarryOut):
    """More partitions for a topic, or more or fewer replicas for each of them."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"partitions": 24, "reason": "twice as many consumers"},
                {
                    "replication_factor": 3,
                    "throttle_bytes_per_s": 50_000_000,
                    "reason": "orders must survive any one broker",
                },
            ]
        }
    )

    partitions: Annotated[int, Field(ge=1, le=PARTITIONS_PER_REQUEST_MAX)] | None = Field(
        default=None, description="how many it shall have; never fewer than it has"
    )
    assignments: (
        Annotated[
            list[Annotated[list[BrokerId], Field(min_length=1, max_length=REPLICATION_FACTOR_MAX)]],
            Field(min_length=1, max_length=PARTITIONS_PER_REQUEST_MAX),
        ]
        | None
    ) = Field(
        default=None,
        description="brokers of each new partition, the preferred leader first; instead of our placement",
    )
    replication_factor: Annotated[int, Field(ge=1, le=REPLICATION_FACTOR_MAX)] | None = Field(
        default=None, description="replicas that each partition shall have; instead of `partitions`"
    )


def check_one_change(body: ChangeTopic) -> None:
    """Raise invalid_request unless the request is exactly one change and has no field that would be
    ignored."""
    if (body.partitions is None) == (body.replication_factor is None):
        field = FieldProblem(
            pointer="/replication_factor" if body.partitions is not None else "/partitions",
            message="name partitions or replication_factor, one of them",
        )
        raise ProblemError("invalid_request", field.message, errors=(field,))
    idle = ("assignments",) if body.partitions is None else _OF_MOVES
    given = [name for name in idle if name in body.model_fields_set]
    if given:
        field = FieldProblem(pointer=f"/{given[0]}", message="does not belong to this change")
        raise ProblemError("invalid_request", f"{given[0]} {field.message}", errors=(field,))
