"""Resetting a group's offsets: which partitions, and to where."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import partial
from typing import assert_never

from admin_api.groups.models import (
    PARTITIONS_PER_RESET_MAX,
    GroupPhase,
    OffsetReset,
    OffsetsReset,
    ResetByShift,
    ResetOffsets,
    ResetTarget,
    ResetToEarliest,
    ResetToLatest,
    ResetToOffset,
    ResetToTime,
)
from admin_api.groups.service import as_problems, in_use, led
from admin_api.http.answers import Answer
from admin_api.http.problems import ERRORS_SHOWN_MAX, FieldProblem, ProblemError
from admin_api.http.services import Services
from admin_api.http.writes import Attempt
from controller.face.cluster import ClusterImage
from controller.face.groups import (
    EARLIEST,
    LATEST,
    CommittedPlace,
    GroupAbsent,
    GroupDetail,
    LogPosition,
    Place,
)

#: Of what the audit keeps beside the request.
DETAIL_CHARS_MAX = 1_000


async def reset_offsets(
    services: Services, cluster: str, group_id: str, attempt: Attempt, *, body: ResetOffsets
) -> Answer:
    """Set the offsets and answer 200 with those before and after. Raise group_in_use while the group has
    members: they would go on from where they are, and commit over it."""
    groups, image = services.groups, services.engine.cluster(cluster).image
    means_all = body.topics is None and body.partitions is None
    with as_problems(services, group_id):
        if (
            found := await _found(services, cluster, group_id)
        ) is not None and found.state != GroupPhase.EMPTY:
            raise in_use(found)
        committed = await groups.committed(cluster, group_id)
        # An offset of a topic that was deleted stays until the coordinator hears of it; it can't be set.
        places = sorted(filter(partial(_exists, image), committed) if means_all else _named(image, body))
        if found is None and means_all:
            raise GroupAbsent("topics or partitions that are named make one")
        _check(image, places)
        starts = await groups.log_offsets(cluster, dict.fromkeys(places, EARLIEST))
        ends = await groups.log_offsets(cluster, dict.fromkeys(places, LATEST))
        at: Mapping[Place, LogPosition] = {}
        if isinstance(body.to, ResetToTime):
            time_ms = max(0, int(body.to.time.timestamp() * 1000))
            at = await groups.log_offsets(cluster, dict.fromkeys(places, time_ms))
            _check_answered(places, at)
        _check_answered(places, starts)
        _check_answered(places, ends)
        items = [
            _item(
                place,
                body.to,
                committed=committed.get(place),
                start=starts[place],
                end=ends[place],
                at=at.get(place),
            )
            for place in places
        ]
        if not attempt.dry_run and items:
            wanted = {(item.topic, item.partition): item.after for item in items}
            _check_set(await groups.commit(cluster, group_id, wanted), of=len(wanted))
    answer = Answer.of(200, OffsetsReset(group_id=group_id, changed=not attempt.dry_run, items=items))
    return dataclasses.replace(answer, detail=_detail(items))


async def _found(services: Services, cluster: str, group_id: str) -> GroupDetail | None:
    """Return the group, or None if there is none: offsets may be set before its first member comes."""
    try:
        return await services.groups.described(cluster, group_id)
    except GroupAbsent:
        return None


def _named(image: ClusterImage, body: ResetOffsets) -> set[Place]:
    """Return the partitions that the body names. Raise unknown_topic."""
    places = {(one.topic, one.partition) for one in body.partitions or ()}
    for number, one in enumerate(body.partitions or ()):
        if not _exists(image, (one.topic, one.partition)):
            error = FieldProblem(pointer=f"/partitions/{number}", message="does not exist")
            raise ProblemError("unknown_topic", f"there is no {one.topic}-{one.partition}", errors=(error,))
    for number, name in enumerate(body.topics or ()):
        topic = image.topic_named(name)
        if topic is None:
            error = FieldProblem(pointer=f"/topics/{number}", message="does not exist")
            raise ProblemError("unknown_topic", f"there is no topic {name!r}", errors=(error,))
        places |= {(name, partition) for partition in range(topic.partitions)}
    return places


def _exists(image: ClusterImage, place: Place) -> bool:
    topic = image.topic_named(place[0])
    return topic is not None and place[1] < topic.partitions


def _check(image: ClusterImage, places: list[Place]) -> None:
    """Raise invalid_request if they are too many, log_unavailable if one has no leader."""
    if len(places) > PARTITIONS_PER_RESET_MAX:
        message = f"{len(places)} partitions are meant: at most {PARTITIONS_PER_RESET_MAX} at once"
        field = FieldProblem(pointer="/partitions", message=message, limit=PARTITIONS_PER_RESET_MAX)
        raise ProblemError("invalid_request", message, errors=(field,))
    _check_answered(places, led(image, places))


def _check_answered(places: list[Place], answered: Mapping[Place, object] | list[Place]) -> None:
    there = set(answered)
    missing = [place for place in places if place not in there]
    if missing:
        raise ProblemError(
            "log_unavailable",
            f"no leader answers for the offsets of {_names(missing)}",
            errors=tuple(
                FieldProblem(pointer="/partitions", message=f"{topic}-{number}")
                for topic, number in missing[:ERRORS_SHOWN_MAX]
            ),
        )


def _item(
    place: Place,
    to: ResetTarget,
    *,
    committed: CommittedPlace | None,
    start: LogPosition,
    end: LogPosition,
    at: LogPosition | None,
) -> OffsetReset:
    match to:
        case ResetToEarliest():
            wanted = start.offset
        case ResetToLatest():
            wanted = end.offset
        case ResetToOffset(offset=offset):
            wanted = offset
        case ResetToTime():
            wanted = at.offset if at is not None and at.offset >= 0 else end.offset
        case ResetByShift(by=by):
            if committed is None:
                message = f"{place[0]}-{place[1]} has no committed offset to shift"
                field = FieldProblem(pointer="/to/by", message=message)
                raise ProblemError("invalid_request", message, errors=(field,))
            wanted = committed.offset + by
        case _:
            assert_never(to)
    return OffsetReset(
        topic=place[0],
        partition=place[1],
        before=None if committed is None else committed.offset,
        after=max(start.offset, min(wanted, end.offset)),
        log_start_offset=start.offset,
        log_end_offset=end.offset,
    )


def _check_set(failed: Mapping[Place, str], *, of: int) -> None:
    if failed:
        raise ProblemError(
            "reset_incomplete",
            f"{len(failed)} of {of} offsets were not set: {_names(list(failed))}",
            errors=tuple(
                FieldProblem(pointer="/partitions", message=f"{topic}-{number}: {why}")
                for (topic, number), why in list(failed.items())[:ERRORS_SHOWN_MAX]
            ),
            facts={"failed": len(failed), "set": of - len(failed)},
        )


def _names(places: list[Place]) -> str:
    more = f" and {len(places) - 3} more" if len(places) > 3 else ""
    return ", ".join(f"{topic}-{number}" for topic, number in places[:3]) + more


def _detail(items: list[OffsetReset]) -> str:
    """Return the offsets before and after, as far as there is room."""
    told = ", ".join(
        f"{item.topic}-{item.partition} {'-' if item.before is None else item.before}->{item.after}"
        for item in items
    )
    return told if len(told) <= DETAIL_CHARS_MAX else f"{told[:DETAIL_CHARS_MAX]}…"
