"""The REST models of the last hour."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any

from pydantic import Field

from admin_api.http.models import View, timestamp
from controller.face.cluster import (
    SAMPLE_MS,
    ClusterSample,
    GroupSample,
    LastHour,
    MemberSample,
    TopicSample,
)

_HOW = "one value for each of `timestamps`; null: not known"


def _series(description: str, *examples: float | None) -> Any:
    return Field(description=f"{description}; {_HOW}", examples=[list(examples)])


Whole = list[int | None]
Tenths = list[float | None]
BytesIn = Annotated[Whole, _series("bytes a second from producers", 52_428, None)]
BytesOut = Annotated[Whole, _series("bytes a second to consumers", 104_857, None)]
Requests = Annotated[Tenths, _series("requests a second, from clients and between processes", 81.4, None)]


class SeriesView(View):
    """The last hour in samples. A rate is the average since the sample before, anything else as of the
    sample."""

    interval_ms: int = Field(description="from one sample to the next, about", examples=[SAMPLE_MS])
    timestamps: list[str] = Field(
        description=(
            "ends of the samples, oldest first: none from before this controller became active. Two that are "
            "farther apart than one and a half intervals have a gap between them"
        ),
        examples=[["2026-11-21T09:30:00.000Z"]],
    )


class ClusterSeries(View):
    bytes_in_per_s: BytesIn
    bytes_out_per_s: BytesOut
    requests_per_s: Requests
    under_replicated: Whole = _series("partitions that lack a replica in sync", 0, 3)
    leaderless: Whole = _series("partitions without a leader", 0, 0)
    lag_records_max: Whole = _series("records that the group farthest behind has yet to read", 120, None)
    lag_ms_max: Whole = _series("how far the group farthest behind in time is behind", 900, None)


class BrokerSeries(View):
    bytes_in_per_s: BytesIn
    bytes_out_per_s: BytesOut
    requests_per_s: Requests
    connections: Whole = _series("open connections", 14, None)
    disk_used_bytes: Whole = _series("of its file system", 107_374_182_400, None)
    disk_free_bytes: Whole = _series("that it may use", 429_496_729_600, None)


class TopicSeries(View):
    bytes_in_per_s: BytesIn
    bytes_out_per_s: BytesOut
    size_bytes: Whole = _series("of one copy, as leaders reported it", 1_207_959_552, None)


class GroupSeries(View):
    lag_records: Whole = _series("records that the group has yet to read", 120, None)
    lag_ms: Whole = _series("of the partition that is farthest behind in time", 900, None)


class ClusterHistory(SeriesView):
    series: ClusterSeries


class BrokerHistory(SeriesView):
    series: BrokerSeries


class TopicHistory(SeriesView):
    series: TopicSeries


class GroupHistory(SeriesView):
    series: GroupSeries


def cluster_history(hour: LastHour) -> ClusterHistory:
    found: Sequence[ClusterSample] = hour.of_cluster()
    series = ClusterSeries(
        bytes_in_per_s=_whole(each.bytes_in for each in found),
        bytes_out_per_s=_whole(each.bytes_out for each in found),
        requests_per_s=_tenths(each.requests for each in found),
        under_replicated=_whole(each.under_replicated for each in found),
        leaderless=_whole(each.leaderless for each in found),
        lag_records_max=_whole(each.lag_records for each in found),
        lag_ms_max=_whole(each.lag_ms for each in found),
    )
    return ClusterHistory(**_times(hour), series=series)


def broker_history(hour: LastHour, member_ids: Sequence[int]) -> BrokerHistory:
    found: Sequence[MemberSample] = hour.of_members(member_ids)
    series = BrokerSeries(
        bytes_in_per_s=_whole(each.bytes_in for each in found),
        bytes_out_per_s=_whole(each.bytes_out for each in found),
        requests_per_s=_tenths(each.requests for each in found),
        connections=_whole(each.connections for each in found),
        disk_used_bytes=_whole(
            None if each.disk_total is None or each.disk_free is None else each.disk_total - each.disk_free
            for each in found
        ),
        disk_free_bytes=_whole(each.disk_free for each in found),
    )
    return BrokerHistory(**_times(hour), series=series)


def topic_history(hour: LastHour, topic_id: str) -> TopicHistory:
    found: Sequence[TopicSample] = hour.of_topic(topic_id)
    series = TopicSeries(
        bytes_in_per_s=_whole(each.bytes_in for each in found),
        bytes_out_per_s=_whole(each.bytes_out for each in found),
        size_bytes=_whole(each.size for each in found),
    )
    return TopicHistory(**_times(hour), series=series)


def group_history(hour: LastHour, found: Sequence[GroupSample]) -> GroupHistory:
    series = GroupSeries(
        lag_records=_whole(each.lag_records for each in found), lag_ms=_whole(each.lag_ms for each in found)
    )
    return GroupHistory(**_times(hour), series=series)


def _times(hour: LastHour) -> dict[str, Any]:
    return {"interval_ms": SAMPLE_MS, "timestamps": [timestamp(at_ms) for at_ms in hour.times_ms]}


def _whole(values: Iterable[float | None]) -> Whole:
    return [None if value is None else round(value) for value in values]


def _tenths(values: Iterable[float | None]) -> Tenths:
    return [None if value is None else round(value, 1) for value in values]
