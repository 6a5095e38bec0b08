"""How unevenly replicas, leaders and bytes lie on a cluster's brokers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

from pydantic import Field

from admin_api.http.models import View
from controller.face.cluster import ClusterImage
from springtide.contract.lag_report import PartitionLag
from springtide.contract.partition_state import PartitionKey


class WeightSkew(View):
    """The spread of one weight over the brokers."""

    unit: str = Field(description="`replicas`, `leaders` or `bytes`", examples=["bytes"])
    mean: float | None = Field(description="of a broker; null: not known")
    highest: int | None = Field(description="of a broker; null: not known")
    broker_id: int | None = Field(description="that has the highest; null: not known", examples=[3])
    max_over_mean: float | None = Field(
        description="the highest over the mean: 1 is even; null: not known, or there is nothing",
        examples=[1.08],
    )
    unknown_partitions: int = Field(
        description="partitions left out because no leader has reported their size: all, on a standby"
    )


class SkewSummary(View):
    """The spread of each weight over the active brokers that are not being emptied."""

    replicas: WeightSkew
    leaders: WeightSkew
    bytes: WeightSkew


def skew_of(image: ClusterImage, lags: Mapping[PartitionKey, PartitionLag]) -> SkewSummary:
    """Return the skew, in one pass over the partitions. image: its rows are enough."""
    loads: defaultdict[tuple[int, ...], list[int]] = defaultdict(lambda: [0, 0])
    leaders: defaultdict[int, int] = defaultdict(int)
    known = 0
    for key, state in image.partitions.items():
        if key[0] in image.deletions:
            continue
        leaders[state.leader] += 1
        load = loads[state.replicas]
        load[0] += 1
        lag = lags.get(key)
        if lag is not None:
            known += 1
            load[1] += lag.size_bytes
    replicas: Counter[int] = Counter()
    stored: Counter[int] = Counter()
    for ids_of_replicas, (count, size) in loads.items():
        replicas.update(dict.fromkeys(ids_of_replicas, count))
        stored.update(dict.fromkeys(ids_of_replicas, size))
    total = sum(topic.partitions for topic in image.topics.values() if not topic.deleting)
    unknown = max(0, total - known)
    ids = [
        broker.broker_id for broker in image.brokers.values() if broker.is_eligible and not broker.draining
    ]
    return SkewSummary(
        replicas=_weight("replicas", ids, replicas),
        leaders=_weight("leaders", ids, leaders),
        bytes=_weight("bytes", ids if known or not unknown else [], stored, unknown=unknown),
    )


def _weight(unit: str, ids: list[int], carried: Mapping[int, int], *, unknown: int = 0) -> WeightSkew:
    highest = max(ids, key=lambda broker_id: (carried.get(broker_id, 0), -broker_id), default=None)
    mean = sum(carried.get(broker_id, 0) for broker_id in ids) / len(ids) if ids else None
    most = None if highest is None else carried.get(highest, 0)
    return WeightSkew(
        unit=unit,
        mean=None if mean is None else round(mean, 3),
        highest=most,
        broker_id=highest,
        max_over_mean=round(most / mean, 6) if mean and most is not None else None,
        unknown_partitions=unknown,
    )
