"""What is waited for before the four sides are compared."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing

from springtide.contract.epochs import LeaderEpoch, PartitionEpoch
from springtide.contract.partition_state import PartitionState
from tests.fullstack.ending import AGREE_MS_MAX, FACTS, agree
from tests.fullstack.failure import Failure

KEY = ("AAECAwQFBgcICQoLDA0ODw", 0)
STATE = PartitionState(
    topic="orders",
    topic_id=KEY[0],
    partition=0,
    leader=1,
    leader_epoch=LeaderEpoch(1),
    partition_epoch=PartitionEpoch(1),
    replicas=(1, 2),
    isr=(1, 2),
    min_insync_replicas=1,
)


class OneController:
    """A cluster whose controller is active from a moment on. REST and audit never cease to tell."""

    topic = "orders"
    data_keys = (KEY,)

    def __init__(self, *, active_after_ms: float) -> None:
        self.brokers: dict[int, Any] = {}
        self._active_after_ms = active_after_ms
        facts = {fact: getattr(STATE, fact) for fact in FACTS}
        self._rest = [{"partition": 0, **facts}]
        change = {"entity": "partition", "topic": "orders", "kind": "change", "partition": 0}
        self._audit = [{**change, "after": facts}]
        self.operator = self

    @property
    def world(self) -> SimpleNamespace:
        return SimpleNamespace(now_ms=trio.current_time() * 1_000)

    async def partitions(self, topic: str) -> list[dict[str, Any]]:
        await trio.lowlevel.checkpoint()
        return self._rest

    async def audit(self) -> list[dict[str, Any]]:
        await trio.lowlevel.checkpoint()
        return self._audit

    def truth(self, key: object) -> PartitionState | None:
        return STATE if self.world.now_ms >= self._active_after_ms else None


def play(active_after_ms: float) -> object:
    async def main() -> object:
        cluster: Any = OneController(active_after_ms=active_after_ms + trio.current_time() * 1_000)
        return await agree(cluster)

    return trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_a_role_that_was_lost_at_the_last_moment_is_waited_for() -> None:
    """Whole brokers in virtual time, seed 269000715: the last fault had ended less than a session ago."""
    assert play(active_after_ms=900.0) == ()


def test_a_cluster_without_an_active_controller_in_the_end_has_failed() -> None:
    with pytest.raises(Failure, match="no controller was active"):
        play(active_after_ms=10 * AGREE_MS_MAX)
