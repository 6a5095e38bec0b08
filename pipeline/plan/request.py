"""The request to the controller: which weights to even out, how far, within which limits; and what was
measured. Pure.

The controller plans; this side adds what the controller can't know: the load of partitions over time, and the
free bytes of brokers' disks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from pipeline.plan.documents import PartitionItem

#: In the order in which they are shown; the default ones come first.
WEIGHTS: Final = ("disk", "bytes_in", "leader_bytes_in", "bytes_out", "replicas", "leaders")
WEIGHTS_DEFAULT: Final = WEIGHTS[:4]
#: The controller's limit: a rate above it is measured wrongly.
BYTE_RATE_MAX: Final = 2**40


class PartitionRates(NamedTuple):
    """One partition's bytes a second. bytes_out: to consumers, without followers."""

    bytes_in: float = 0.0
    bytes_out: float = 0.0


class Goal(NamedTuple):
    """target_permille: highest load over mean. bytes_max: copied by all moves together; None: any number.
    moves_max: partitions that may change. disk_reserve: the part of a broker's free bytes that stays free."""

    weights: tuple[str, ...] = WEIGHTS_DEFAULT
    target_permille: int = 1_100
    bytes_max: int | None = None
    moves_max: int = 10_000
    disk_reserve: float = 0.2


def plan_body(
    goal: Goal,
    partitions: Iterable[PartitionItem],
    rates: Mapping[tuple[str, int], PartitionRates],
    free: Mapping[int, int],
    *,
    reason: str | None = None,
    expires_in_s: int | None = None,
) -> dict[str, Any]:
    """Return the body for the controller's plans resource. rates: by topic id and number; a partition without
    any counts as idle. free: bytes by broker, where known."""
    counts: dict[str, int] = {}
    for item in partitions:
        counts[item.topic_id] = max(counts.get(item.topic_id, 0), item.partition + 1)
    topics = []
    for topic_id, count in sorted(counts.items()):
        found = [rates.get((topic_id, number), PartitionRates()) for number in range(count)]
        topics.append(
            {
                "topic_id": topic_id,
                "bytes_in": [_whole(one.bytes_in) for one in found],
                "bytes_out": [_whole(one.bytes_out) for one in found],
            }
        )
    body: dict[str, Any] = {
        "goal": {
            "kind": "even_out",
            "weights": list(goal.weights),
            "target_permille": goal.target_permille,
            "bytes_max": goal.bytes_max,
            "moves_max": goal.moves_max,
            "measured": {
                "topics": topics,
                "brokers": [
                    {"broker_id": broker_id, "room_bytes": int(told * (1.0 - goal.disk_reserve))}
                    for broker_id, told in sorted(free.items())
                ],
            },
        }
    }
    if reason is not None:
        body["reason"] = reason
    if expires_in_s is not None:
        body["expires_in_s"] = expires_in_s
    return body


def _whole(rate: float) -> int:
    return min(round(rate), BYTE_RATE_MAX)
