"""Random schedules of three replicas keep what they acknowledged; and planted bugs don't get past them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dataplane.core import leader as leader_module
from dataplane.core.effects import NO_EFFECTS, Effects
from dataplane.core.follower import Follower
from dataplane.core.isr import FollowerProgress, InSyncSet
from dataplane.core.leader import Leader
from dataplane.core.log_port import LogPort
from dataplane.core.replica import Replica
from dataplane.core.results import AppendResult, FetchResult
from dataplane.core.role import out_of_range
from dataplane.core.watermarks import StoredLogStart
from springtide.contract.partition_state import PartitionState
from springtide.wire.errors import ErrorCode
from tests.kit.dataplane.mini_cluster import MiniCluster, Violation

SEEDS = 120
STEPS = 600


@pytest.mark.parametrize("block", range(4))
def test_no_schedule_loses_or_splits_what_was_committed(block: int) -> None:
    size = SEEDS // 4
    for seed in range(block * size, (block + 1) * size):
        cluster = MiniCluster(seed)
        try:
            cluster.run(STEPS)
        except AssertionError as error:
            tail = "\n".join(cluster.log[-40:])
            raise AssertionError(f"seed {seed}: {error}\n{tail}") from error


def test_the_schedules_reach_what_they_are_for() -> None:
    reached: set[str] = set()
    acked = 0
    for seed in range(40):
        cluster = MiniCluster(seed)
        cluster.run(STEPS)
        reached |= cluster.reached
        acked += len(cluster.acked)
    assert acked > 0
    assert reached >= {
        "bounced",
        "coalesced epochs at a leader",
        "crash kill",
        "crash power",
        "crash tear",
        "crash wipe",
        "deleted",
        "divergent",
        "diverging",
        "proposal fenced_leader_epoch",
        "proposal ineligible_replica",
        "proposal invalid_update_version",
        "proposal none",
        "storage_error",
    }


Plant = Callable[[pytest.MonkeyPatch], None]


def _keep_follower_positions_when_the_same_leader_is_elected_again(patch: pytest.MonkeyPatch) -> None:
    correct = Replica._lead

    def lead(self: Replica, state: PartitionState, now_ms: int) -> Effects:
        before = self.role
        effects = correct(self, state, now_ms)
        after = self.role
        if not isinstance(before, Leader) or not isinstance(after, Leader) or after is before:
            return effects
        after.in_sync._followers.update(before.in_sync._followers)
        after.in_sync._arrange(now_ms)
        return effects + after.commit(now_ms)

    patch.setattr(Replica, "_lead", lead)


def _call_the_leaders_own_end_committed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(leader_module, "committable_offset", lambda end_offset, _: end_offset)


def _truncate_to_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    correct = Follower.__init__

    def init(self: Follower, *parts: Any) -> None:
        correct(self, *parts)
        self._log.truncate_to(self._watermark.offset)

    patch.setattr(Follower, "__init__", init)


def _commit_below_the_minimum(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(InSyncSet, "is_under_min", property(lambda _: False))


def _acknowledge_duplicates_at_once(patch: pytest.MonkeyPatch) -> None:
    def answer(self: Leader, duplicate: Any, **_: Any) -> tuple[AppendResult, Effects]:
        return AppendResult(ErrorCode.NONE, duplicate.base_offset), NO_EFFECTS

    patch.setattr(Leader, "_answer_duplicate", answer)


def _never_compare_epochs(patch: pytest.MonkeyPatch) -> None:
    def check(log: LogPort, fetch_offset: int, last_fetched_epoch: int) -> FetchResult | None:
        return None if fetch_offset <= log.log_end_offset else out_of_range(log)

    patch.setattr(leader_module, "check_position", check)


def _tell_a_log_start_that_is_not_stored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(StoredLogStart, "offset", property(lambda self: self._log.log_start_offset))


def _let_followers_join_with_what_was_deleted(patch: pytest.MonkeyPatch) -> None:
    correct = InSyncSet.may_join

    def may_join(self: InSyncSet, follower: FollowerProgress, *, high_watermark: int) -> bool:
        self.deleted_offset = 0
        return correct(self, follower, high_watermark=high_watermark)

    patch.setattr(InSyncSet, "may_join", may_join)


def _answer_deletions_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Leader, "low_watermark", property(lambda self: self._log_start.offset))


def _answer_deletions_without_the_eligible(patch: pytest.MonkeyPatch) -> None:
    def stored(self: InSyncSet) -> int | None:
        return min((follower.log_start_offset for follower in self.waited_for), default=None)

    patch.setattr(InSyncSet, "stored_log_start_offset", property(stored))


@pytest.mark.parametrize(
    ("plant", "seeds_max"),
    [
        (_keep_follower_positions_when_the_same_leader_is_elected_again, 80),
        (_call_the_leaders_own_end_committed, 10),
        (_truncate_to_the_high_watermark, 40),
        (_commit_below_the_minimum, 10),
        (_acknowledge_duplicates_at_once, 80),
        (_never_compare_epochs, 40),
        (_tell_a_log_start_that_is_not_stored, 80),
        (_let_followers_join_with_what_was_deleted, 80),
        (_answer_deletions_at_once, 80),
        (_answer_deletions_without_the_eligible, 80),
    ],
)
def test_a_planted_bug_is_caught(plant: Plant, seeds_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(Violation):
        for seed in range(seeds_max):
            MiniCluster(seed).run(STEPS)
