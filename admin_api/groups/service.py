"""Listing, showing and deleting client groups. Coordinators are asked again each time: nothing is kept."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import groupby
from typing import Annotated

from fastapi import Path

from admin_api.groups.models import (
    MEMBERS_SHOWN_MAX,
    PARTITIONS_SHOWN_MAX,
    AssignedPartitions,
    GroupMemberView,
    GroupPartitionView,
    GroupPhase,
    GroupSummary,
    GroupView,
)
from admin_api.groups.rebalances import RebalanceView
from admin_api.http.answers import Answer
from admin_api.http.models import lag_fields, optional_timestamp
from admin_api.http.problems import ProblemError
from admin_api.http.services import Services
from admin_api.http.writes import Attempt
from controller.face.cluster import ClusterImage, KnownCluster
from controller.face.groups import (
    LATEST,
    MAX_TIMESTAMP,
    CommittedPlace,
    GroupAbsent,
    GroupBusy,
    GroupListing,
    GroupsUnavailable,
    LogPosition,
    MemberDetail,
    Place,
)

#: Kafka's names are shorter than 32 KiB; a request's target is shorter by its own limit.
GroupPath = Annotated[
    str,
    Path(description="the group's id, percent-encoded: a slash is %2F", examples=["billing"], min_length=1),
]
#: Partitions whose lag is told in time, too: each takes a read of its log.
TIMED_PARTITIONS_MAX = 100
_STATES = tuple(phase.value for phase in GroupPhase)
#: How much of an id is in a page's token.
_ORDER_CHARS = 40


@contextmanager
def as_problems(services: Services, group_id: str | None = None) -> Iterator[None]:
    """Raise what coordinators refuse as coordinator_unavailable, group_not_found or group_in_use."""
    name = repr(group_id if group_id is None else group_id[:100])
    try:
        yield
    except GroupsUnavailable as error:
        raise ProblemError("coordinator_unavailable", str(error)) from error
    except GroupAbsent as error:
        raise ProblemError("group_not_found", f"there is no consumer group {name}: {error}") from error
    except GroupBusy as error:
        raise ProblemError("group_in_use", f"group {name} has members: {error}") from error


def summary(services: Services, cluster: str, group: GroupListing) -> GroupSummary:
    known = services.engine.cluster(cluster).group_lag(group.group_id)
    return GroupSummary(
        group_id=group.group_id,
        state=group.state,
        protocol_type=group.protocol_type,
        members_total=None if known is None else known.members,
        **lag_fields(None if known is None else known.total, services.clock.now_mono_ms()),
    )


def sort_value(view: KnownCluster, group: GroupListing, order: str) -> int:
    """Return the value that the list of groups is ordered by, before `order_of`. What is not known comes
    below 0."""
    known = view.group_lag(group.group_id)
    match order.removeprefix("-"):
        case "lag":
            return 0 if known is None else known.total.records + 1
        case "lag_ms":
            return 0 if known is None else known.total.ms + 1
        case "members":
            return 0 if known is None else known.members + 1
        case "state":
            return _STATES.index(group.state) if group.state in _STATES else len(_STATES)
        case _:
            return 0


def order_of(group: GroupListing) -> tuple[str, str]:
    """Return where a group stands in lists: by the beginning of its id, which is all that a page's token has
    room for."""
    digest = hashlib.sha256(group.group_id.encode()).hexdigest()
    return group.group_id[:_ORDER_CHARS], digest[:32]


async def delete_group(services: Services, cluster: str, group_id: str, attempt: Attempt) -> Answer:
    """Delete the group with its offsets, and answer 200 with the group as it was. Raise group_in_use."""
    with as_problems(services, group_id):
        found = await services.groups.described(cluster, group_id)
        if found.state != GroupPhase.EMPTY:
            raise in_use(found)
        if not attempt.dry_run:
            await services.groups.delete(cluster, group_id)
    return Answer.of(200, summary(services, cluster, found))


def in_use(group: GroupListing) -> ProblemError:
    return ProblemError(
        "group_in_use", f"group {group.group_id[:100]!r} is {group.state}", facts={"state": group.state}
    )


async def group_view(services: Services, cluster: str, group_id: str) -> GroupView:
    """Return the group, its members and how far it has read."""
    groups, view = services.groups, services.engine.cluster(cluster)
    with as_problems(services, group_id):
        found = await groups.described(cluster, group_id)
        committed = await groups.committed(cluster, group_id)
        owners = {place: member.member_id for member in found.members for place in member.assigned}
        places = sorted(owners.keys() | committed.keys())
        ends = await groups.log_offsets(cluster, dict.fromkeys(led(view.image, places), LATEST))
        lags = {place: _lag(committed[place], ends.get(place)) for place in committed}
        known = {place: lag for place, lag in lags.items() if lag}
        timed = sorted(known, key=lambda place: -known[place])[:TIMED_PARTITIONS_MAX]
        newest = await groups.log_offsets(cluster, dict.fromkeys(timed, MAX_TIMESTAMP))
        nexts = await groups.record_times(cluster, {place: committed[place].offset for place in timed})
    shown = [
        _partition(
            place,
            owner=owners.get(place),
            committed=committed.get(place),
            end=ends.get(place),
            next_ms=nexts.get(place),
            newest_ms=None if place not in newest else newest[place].timestamp_ms,
        )
        for place in places[:PARTITIONS_SHOWN_MAX]
    ]
    return GroupView(
        **summary(services, cluster, found).model_dump(exclude={"members_total"}),
        protocol="classic" if found.epoch is None else "consumer",
        epoch=found.epoch,
        target_epoch=found.target_epoch,
        assignor=found.assignor,
        coordinator_id=found.coordinator_id,
        coordinator_endpoint=found.endpoint,
        lag_by_offsets=_total(lags),
        last_rebalance=next(iter(rebalances(view, group_id)), None),
        members_total=len(found.members),
        partitions_total=len(places),
        members=[_member(member) for member in found.members[:MEMBERS_SHOWN_MAX]],
        partitions=shown,
    )


def rebalances(view: KnownCluster, group_id: str) -> list[RebalanceView]:
    """Return a group's last rebalances that this controller was told of, the newest first."""
    return [RebalanceView.of_told(told) for told in view.rebalances(group_id)]


def led(image: ClusterImage, places: Iterable[Place]) -> list[Place]:
    """Return the places that exist and have a leader. One that no leader answers for would keep the question
    about all others waiting."""
    found = []
    for name, number in places:
        topic = image.topic_named(name)
        state = None if topic is None else image.partitions.get((topic.topic_id, number))
        if state is not None and state.leader >= 0:
            found.append((name, number))
    return found


def _lag(committed: CommittedPlace, end: LogPosition | None) -> int | None:
    return None if end is None else max(0, end.offset - committed.offset)


def _total(lags: Mapping[Place, int | None]) -> int | None:
    known = [lag for lag in lags.values() if lag is not None]
    return sum(known) if len(known) == len(lags) else None


def _partition(
    place: Place,
    *,
    owner: str | None,
    committed: CommittedPlace | None,
    end: LogPosition | None,
    next_ms: int | None,
    newest_ms: int | None,
) -> GroupPartitionView:
    lag = None if committed is None else _lag(committed, end)
    lag_ms = 0 if lag == 0 else None
    if next_ms is not None and newest_ms is not None:
        lag_ms = max(0, newest_ms - next_ms)
    return GroupPartitionView(
        topic=place[0],
        partition=place[1],
        member_id=owner,
        committed_offset=None if committed is None else committed.offset,
        leader_epoch=None if committed is None else committed.leader_epoch,
        log_end_offset=None if end is None else end.offset,
        lag=lag,
        lag_ms=lag_ms,
        next_record_at=optional_timestamp(next_ms),
        newest_record_at=optional_timestamp(newest_ms),
    )


def _member(member: MemberDetail) -> GroupMemberView:
    return GroupMemberView.of(
        member,
        assigned=_by_topic(member.assigned),
        target=None if member.target is None else _by_topic(member.target),
        protocol="classic" if member.is_classic else "consumer",
    )


def _by_topic(places: Iterable[Place]) -> list[AssignedPartitions]:
    return [
        AssignedPartitions(topic=topic, partitions=[number for _, number in of_topic])
        for topic, of_topic in groupby(sorted(places), key=lambda place: place[0])
    ]
