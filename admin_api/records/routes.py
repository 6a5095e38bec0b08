"""/clusters/{cluster}/topics/{topic}/records"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response

from admin_api.http.models import INT64_MAX, ClusterPath, Moment, PartitionNumber, TopicPath, milliseconds
from admin_api.http.problems import FieldProblem, ProblemError, problems
from admin_api.http.routes import StrictRoute
from admin_api.http.services import Asking, Serving
from admin_api.records import service
from admin_api.records.models import LookStart, RecordList
from admin_api.records.room.questions import (
    BYTES_DEFAULT,
    BYTES_MAX,
    BYTES_MIN,
    EARLIEST,
    LIMIT_DEFAULT,
    LIMIT_MAX,
    RecordFormat,
    RecordLook,
)
from admin_api.records.service import Place

router = APIRouter(route_class=StrictRoute, tags=["Topics"])

FILTER_CHARS_MAX = 1_000


async def place_of(
    partition: Annotated[PartitionNumber | None, Query(description="only this; else all, up to 256")] = None,
    start: Annotated[LookStart | None, Query(description="the newest records (the default), or all")] = None,
    offset: Annotated[
        int | None, Query(ge=0, le=INT64_MAX, description="from there on; of one partition")
    ] = None,
    timestamp: Annotated[
        Moment | None, Query(description="from the first record at or after this time on (RFC 3339)")
    ] = None,
    position: Annotated[
        str | None,
        Query(
            pattern=service.POSITION_PATTERN,
            description="from there on: the `position` of an earlier answer",
        ),
    ] = None,
) -> Place:
    _check_one_start(partition, start=start, offset=offset, timestamp=timestamp, position=position)
    at_ms = milliseconds(timestamp)
    if at_ms is not None:
        at_ms = max(0, at_ms)  # below are Kafka's words for the ends of a log
    elif start is LookStart.EARLIEST:
        at_ms = EARLIEST
    return Place(partition, at_ms=at_ms, offset=offset, position=position)


async def look_at(
    topic: TopicPath,
    limit: Annotated[int, Query(ge=1, le=LIMIT_MAX, description="the most records")] = LIMIT_DEFAULT,
    max_bytes: Annotated[
        int, Query(ge=BYTES_MIN, le=BYTES_MAX, description="of all records, as JSON")
    ] = BYTES_DEFAULT,
    key: Annotated[
        str | None,
        Query(min_length=1, max_length=FILTER_CHARS_MAX, description="only records with this in the key"),
    ] = None,
    value: Annotated[
        str | None,
        Query(min_length=1, max_length=FILTER_CHARS_MAX, description="only records with this in the value"),
    ] = None,
    ignore_case: Annotated[bool, Query(description="of the letters a to z, in both filters")] = False,
    format: Annotated[
        RecordFormat,
        Query(description="`auto`: JSON objects and lists, else text without control characters, else hex"),
    ] = RecordFormat.AUTO,
) -> RecordLook:
    return RecordLook(
        topic=topic,
        limit=limit,
        bytes_max=max_bytes,
        key=key,
        value=value,
        ignore_case=ignore_case,
        format=format,
    )


@router.get(
    "/clusters/{cluster}/topics/{topic}/records",
    operation_id="listRecords",
    summary="Look at a topic's records",
    response_model=RecordList,
    responses=problems(
        "cluster_not_found",
        "topic_not_found",
        "partition_not_found",
        "offset_out_of_range",
        "log_unavailable",
        "too_many_looks",
        "look_failed",
        "audit_unavailable",
    ),
)
async def list_records(
    *,
    request: Request,
    services: Serving,
    caller: Asking,
    cluster: ClusterPath,
    asked: Annotated[RecordLook, Depends(look_at)],
    place: Annotated[Place, Depends(place_of)],
) -> Response:
    """Read records for the caller, who needs READ on the topic by the cluster's ACLs; without an authorizer
    each caller may. Each look is in the audit, and reads 64 MiB and takes 10 seconds at most."""
    return await service.look(request, services, caller, cluster, asked, place)


def _check_one_start(partition: int | None, **starts: object) -> None:
    """Raise invalid_request unless at most one says where to begin, and an offset is of one partition."""
    given = [name for name, value in starts.items() if value is not None]
    if len(given) > 1:
        field = FieldProblem(parameter=given[1], message=f"can't be given beside {given[0]}")
    elif given == ["offset"] and partition is None:
        field = FieldProblem(parameter="partition", message="is needed beside an offset")
    elif given == ["position"] and partition is not None:
        field = FieldProblem(parameter="partition", message="can't be given beside a position, which has it")
    else:
        return
    raise ProblemError("invalid_request", f"{field.parameter} {field.message}", errors=(field,))
