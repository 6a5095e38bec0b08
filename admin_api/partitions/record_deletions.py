"""…/partitions/{partition}:delete-records: delete the records before a place in a partition's log.

The partition's leader deletes them, as for a Kafka client (DeleteRecords); the controller finds the offset
and asks. A leader asks the controller before it deletes anything, and is permitted what the operator asked
for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable
from functools import partial as bound
from typing import Annotated, Final, NamedTuple, Self

from fastapi import APIRouter, Response
from pydantic import ConfigDict, Field, model_validator

from admin_api.http.answers import Answer, done
from admin_api.http.conditions import IfMatch, Precondition
from admin_api.http.models import (
    INT64_MAX,
    BodyMoment,
    ClusterPath,
    PartitionPath,
    Reason,
    RequestBody,
    TopicPath,
    View,
    milliseconds,
)
from admin_api.http.problems import CONDITION_PROBLEMS, FieldProblem, ProblemError
from admin_api.http.routes import StrictRoute
from admin_api.http.services import Services, Serving
from admin_api.http.writes import Asked, Attempt, Write
from admin_api.partitions.service import decided_partition
from controller.face.cluster import Entity
from controller.face.commands import NotInForce
from controller.face.groups import (
    EARLIEST,
    LATEST,
    DeletionNotStored,
    DeletionRefused,
    GroupsUnavailable,
    Place,
)
from controller.face.settings import effective

router = APIRouter(route_class=StrictRoute, tags=["Partitions"])

CLEANUP: Final = "cleanup.policy"
_BEFORE: Final = ("before_offset", "before_time", "all")


def deletion_permit(cluster: str, place: Place, before_offset: int) -> Hashable:
    """Return the permit to delete all before one offset of one log."""
    return ("delete_records", cluster, place, before_offset)


class DeleteRecords(RequestBody):
    """The records to delete: all before an offset, all before the first record since a time, or all."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"before_offset": 1200, "reason": "a broken release wrote them"},
                {"before_time": "2026-11-21T09:30:00Z"},
                {"all": True},
            ]
        }
    )

    before_offset: Annotated[int, Field(ge=0, le=INT64_MAX)] | None = Field(
        default=None, description="the first offset to keep"
    )
    before_time: BodyMoment | None = Field(
        default=None, description="the first record at or after it is kept, with all behind it"
    )
    all: bool = Field(default=False, description="every record that there is now")
    reason: Reason | None = None

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if (self.before_offset is not None) + (self.before_time is not None) + self.all != 1:
            raise ValueError("before_offset, before_time or all is needed, one of them")
        return self


class RecordsDeleted(View):
    """The log before and after. Offsets are counted, and a compacted log has fewer records than offsets."""

    topic: str
    partition: int
    log_start_offset_before: int
    log_start_offset: int = Field(description="the first offset that is kept")
    log_end_offset: int
    deleted: int = Field(description="offsets that are deleted", examples=[1200])


class _Log(NamedTuple):
    start: int
    end: int
    first_kept: int


@router.post(
    "/clusters/{cluster}/topics/{topic}/partitions/{partition:int}:delete-records",
    operation_id="deleteRecords",
    summary="Delete the records before a place in a partition",
    response_model=RecordsDeleted,
    responses=done(
        "Done; of a dry run, what would be deleted",
        "cluster_not_found",
        "topic_not_found",
        "partition_not_found",
        "log_unavailable",
        "records_kept",
        "not_in_force",
        *CONDITION_PROBLEMS,
    ),
)
async def delete_them(
    *,
    body: DeleteRecords,
    services: Serving,
    write: Write,
    condition: IfMatch,
    cluster: ClusterPath,
    topic: TopicPath,
    partition: PartitionPath,
) -> Response:
    """Delete the records before an offset or a time, or all that there are; the answer comes when each
    replica that may be elected has done so. They do not come back, and a group that has not read them never
    will."""
    asked = Asked(
        cluster=cluster,
        action="delete_records",
        entity=Entity.TOPIC,
        entity_id=topic,
        body=body.model_dump(mode="json"),
        reason=body.reason,
        topic=topic,
        partition=partition,
    )
    place = (topic, partition)
    return await write.carry_out(asked, bound(_delete, services, cluster, place, body, condition))


async def _delete(
    services: Services,
    cluster: str,
    place: Place,
    body: DeleteRecords,
    condition: Precondition,
    attempt: Attempt,
) -> Answer:
    """Find the offset, have the leader delete, and answer 200. Raise records_kept, log_unavailable,
    not_in_force."""
    _check_leader(services, cluster, place, condition)
    log = await _log(services, cluster, place, body)
    start = max(log.start, log.first_kept)
    if not attempt.dry_run:
        _check_leader(services, cluster, place, condition)
        try:
            with services.permits.opened(deletion_permit(cluster, place, start)):
                await services.groups.delete_records(cluster, place, start)
        except GroupsUnavailable as error:
            raise _unavailable(place, str(error)) from error
        except DeletionRefused as error:
            raise ProblemError("records_kept", f"the leader of {_name(place)} refuses: {error}") from error
        except DeletionNotStored as error:
            raise NotInForce(()) from error
    shown = RecordsDeleted(
        topic=place[0],
        partition=place[1],
        log_start_offset_before=log.start,
        log_start_offset=start,
        log_end_offset=log.end,
        deleted=start - log.start,
    )
    told = (
        f"offsets {log.start} to {start} of {_name(place)}"
        if shown.deleted
        else "there was nothing to delete"
    )
    return dataclasses.replace(Answer.of(200, shown), detail=told)


def _check_leader(services: Services, cluster: str, place: Place, condition: Precondition) -> None:
    topic, number = place
    state = decided_partition(services.engine, cluster, topic, number, condition)
    image = services.engine.cluster(cluster).image
    if state.leader < 0:
        raise _unavailable(place, "it has no leader")
    configs = image.topics[state.topic_id].configs
    if (state.topic_id, number) in image.shards or effective(CLEANUP, configs, image.configs) == "compact":
        what = f"{CLEANUP} of topic {topic!r} is compact: its log keeps the newest record of each key"
        raise ProblemError("records_kept", what)


async def _log(services: Services, cluster: str, place: Place, body: DeleteRecords) -> _Log:
    """Return where the log begins and ends, and the first offset that the request keeps. Raise
    log_unavailable; raise invalid_request for an offset behind the end."""
    groups = services.groups
    try:
        starts = await groups.log_offsets(cluster, {place: EARLIEST})
        ends = await groups.log_offsets(cluster, {place: LATEST})
        since = milliseconds(body.before_time)
        times = {} if since is None else await groups.log_offsets(cluster, {place: max(0, since)})
    except GroupsUnavailable as error:
        raise _unavailable(place, str(error)) from error
    if place not in starts or place not in ends or (since is not None and place not in times):
        raise _unavailable(place, "its leader does not answer")
    start, end = starts[place].offset, ends[place].offset
    if body.before_offset is not None and body.before_offset > end:
        field = FieldProblem(pointer="/before_offset", message=f"must be at most {end}, the end", limit=end)
        raise ProblemError("invalid_request", f"before_offset {field.message}", errors=(field,))
    if body.before_offset is not None:
        return _Log(start, end, body.before_offset)
    found = times[place].offset if place in times else -1
    return _Log(start, end, found if found >= 0 else end)


def _unavailable(place: Place, why: str) -> ProblemError:
    field = FieldProblem(parameter="partition", message=_name(place))
    return ProblemError("log_unavailable", f"{_name(place)}: {why}", errors=(field,))


def _name(place: Place) -> str:
    return f"{place[0]}-{place[1]}"
