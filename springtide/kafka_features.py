"""The features that Kafka clients are told of with ApiVersions, and what UpdateFeatures is answered
(KIP-584, KIP-1022).

`springtide.level` is the cluster's feature level (levels.py). The others have Kafka's names, and clients go
by them: a producer whose cluster has `transaction.version` 2 ends transactions in another way. Each is told
in the version that is served at the cluster's level, and one of which nothing is served is not told, which
means 0, as with Kafka. `metadata.version` is not told: it numbers records that only Kafka's brokers write.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from springtide.levels import CONSUMER_GROUPS, NEWEST, RELEASES, SUPPORTED, TRANSACTIONS, Level

LEVEL: Final = "springtide.level"


class KafkaFeature(msgspec.Struct, frozen=True):
    """since: the levels from which on version 1, 2 and so on of it are served."""

    name: str
    since: tuple[Level, ...] = ()

    def version_at(self, level: Level) -> int:
        return sum(since <= level for since in self.since)


KAFKA_FEATURES: Final = (
    KafkaFeature("group.version", (CONSUMER_GROUPS.since,)),  # 1: the consumer protocol of KIP-848
    KafkaFeature("transaction.version", (TRANSACTIONS.since, TRANSACTIONS.since)),  # 1, 2: KIP-890
    KafkaFeature("share.version"),  # 1: share groups, KIP-932
)


class ToldFeature(NamedTuple):
    """lowest, highest: that this release supports. finalized: that the cluster is at; 0: none."""

    name: str
    lowest: int
    highest: int
    finalized: int


class RefusedUpdate(NamedTuple):
    """is_possible: an administrator may do it in another way. text: what to do."""

    is_possible: bool
    text: str


def told_features(level: Level) -> tuple[ToldFeature, ...]:
    """Return what clients of a cluster at this level are told."""
    kafkas = (
        ToldFeature(feature.name, 0, feature.version_at(NEWEST), feature.version_at(level))
        for feature in KAFKA_FEATURES
        if feature.version_at(NEWEST)
    )
    return (ToldFeature(LEVEL, SUPPORTED.lowest, SUPPORTED.highest, level), *kafkas)


def refusal_of_update(name: str, version: int, level: Level) -> RefusedUpdate | None:
    """Return why a client may not finalize this version of a feature; None: the cluster is at it."""
    if name != LEVEL:
        known = {feature.name: feature for feature in KAFKA_FEATURES}.get(name)
        if known is None:
            return RefusedUpdate(
                False, f"this cluster has no feature {name[:100]!r}; what its release writes is {LEVEL}"
            )
        served = known.version_at(level)
        if version == served:
            return None
        return RefusedUpdate(
            False, f"{name} follows {LEVEL}: at level {level}, version {served} of it is served"
        )
    if version == level:
        return None
    if version < level:
        return RefusedUpdate(False, f"the cluster is at level {level}, and a level never falls")
    if version > SUPPORTED.highest:
        highest = f"release {RELEASES[NEWEST]} supports levels up to {SUPPORTED.highest}"
        return RefusedUpdate(False, f"{highest}: upgrade each process of the cluster first")
    return RefusedUpdate(
        True,
        "an upgrade is finalized with `springtide upgrade finalize`, which first names what stands in its "
        "way; it can't be undone and takes the role admin, which no Kafka client has",
    )
