"""Feature levels: what a cluster may write while processes of two releases run in it.

A cluster has one level, a row of its own in ZooKeeper (`/clusters/{cluster}/level`), and each release knows a
range of levels. As long as a release has not been finalized the cluster stays at the level of the release
before, and the new one then writes exactly the bytes that the old one would: that is why one can go back.
An operator finalizes (`springtide upgrade finalize`); from then on what is new in the release is written, and
there is no way back. Kafka does it in the same way since KIP-584 and KIP-778, with one number since KIP-1022.

`allows` is the only question that code asks. What is new in a release is a `Feature` here, since its level.

    level   release
    0       0.1, which knew no levels and says nothing of them
    1       0.2
    2, 3    0.3, which a cluster takes in one step
"""

from __future__ import annotations

from typing import Final, NewType

import msgspec

#: A feature level. It never falls.
Level = NewType("Level", int)

#: What a process that says nothing supports, and what a cluster without a row is at: release 0.1.
UNTOLD: Final = Level(0)
#: The highest level of this release: that of clusters that it makes.
NEWEST: Final = Level(3)
#: The first release of each level that this one knows.
RELEASES: Final[dict[Level, str]] = {Level(0): "0.1", Level(1): "0.2", Level(2): "0.3", Level(3): "0.3"}


class LevelRange(msgspec.Struct, frozen=True):
    """The levels that a process can run at, both ends included. A process that tells none has (0, 0)."""

    lowest: Level = UNTOLD
    highest: Level = UNTOLD

    def has(self, level: Level) -> bool:
        return self.lowest <= level <= self.highest


#: A release runs at its own levels and at the last of the release before: upgrades skip none.
SUPPORTED: Final = LevelRange(
    max(level for level, release in RELEASES.items() if release != RELEASES[NEWEST]), NEWEST
)


class Feature(msgspec.Struct, frozen=True):
    """Something that is written, or asked of another process, since a level only."""

    name: str
    since: Level


#: Rows of brokers and coordinators have the levels that each can run at.
RANGES_IN_ROWS: Final = Feature("ranges_in_rows", Level(1))
#: A deleted topic's records and settings are kept for `deleted.topic.retention.ms`, to be brought back.
KEPT_DELETED_TOPICS: Final = Feature("kept_deleted_topics", Level(1))
#: Producers with a transactional id, and all that is stored for them: `__transaction_state`, transactional
#: batches and markers, indexes of aborted transactions, pending offsets.
TRANSACTIONS: Final = Feature("transactions", Level(2))
#: Groups of the `consumer` protocol (KIP-848) and their records in `__consumer_offsets`.
CONSUMER_GROUPS: Final = Feature("consumer_groups", Level(3))


def allows(level: Level, feature: Feature) -> bool:
    """Return whether what is new with `feature` may be written in a cluster at `level`."""
    return level >= feature.since


def explain_level(level: Level) -> str:
    """Return a level that this release can't run at, in words that say which release to install."""
    mine = f"this release, {RELEASES[NEWEST]}, runs at levels {SUPPORTED.lowest} to {SUPPORTED.highest}"
    if level > SUPPORTED.highest:
        return f"level {level}, and {mine}: install the release that finalized the upgrade, or one after it"
    return f"level {level}, and {mine}: finalize the releases in between first, one after the other"
