"""When waiting fetches are answered."""

from __future__ import annotations

import trio
import trio.testing

from dataplane.core.fetch_session import (
    HIGH_WATERMARK_TELL_MS,
    AskedPartition,
    FetchPosition,
    FetchSession,
    FetchSessions,
    FollowedPartition,
    SessionRequest,
)
from dataplane.core.fetches import Fetch, FetchedAnswer
from dataplane.core.log_port import LogSlice
from dataplane.core.results import FetchResult
from dataplane.shell.fetches import Fetches
from springtide.contract.epochs import LeaderEpoch
from springtide.wire.errors import ErrorCode
from tests.kit.clocks import VirtualClock

KEY = ("topic", 0)
SOONER, LATER = 2, 3


class Leader:
    """Two followers' fetches wait. The high watermark moves in the turn in which the sooner one is over."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.answered_ms: dict[int, int] = {}
        self.high_watermark = 0
        self.fetches = Fetches(
            sessions=FetchSessions(iter(range(1, 100))),
            evaluate=self._evaluate,
            respond=self._respond,
            clock=self.clock,
            holds_lease=lambda _now_ms: True,
        )

    def _evaluate(
        self, session: FetchSession, followed: FollowedPartition, max_bytes: int, least: bool, now_ms: int
    ) -> FetchResult:
        return FetchResult(ErrorCode.NONE, self.high_watermark, 0, LogSlice((), 0, 0), None)

    def _respond(self, fetch: Fetch, session: FetchSession, answers: list[FetchedAnswer]) -> None:
        self.answered_ms[session.replica_id] = self.clock.mono_ms()

    def end_turn(self) -> None:
        if SOONER in self.answered_ms and not self.high_watermark:
            self.high_watermark = 1
            self.fetches.on_high_watermark_moved(KEY)
        self.fetches.wake()

    def wait_for(self, replica_id: int, *, deadline_ms: int) -> None:
        """A follower, whose session has begun, asks for news."""
        session_id = 0
        for epoch in (0, 1):
            asked = [AskedPartition(KEY, FetchPosition(0, LeaderEpoch(-1), LeaderEpoch(1), -1, 100))]
            opened = self.fetches.sessions.open(
                SessionRequest(
                    session_id=session_id, session_epoch=epoch, replica_id=replica_id, partitions=asked
                ),
                now_ms=0,
            )
            assert isinstance(opened, FetchSession)
            self.fetches.start(
                Fetch(
                    session=opened,
                    min_bytes=1,
                    max_bytes=1_000,
                    deadline_ms=deadline_ms,
                    context=None,
                    is_gone=lambda: False,
                )
            )
            session_id = opened.session_id
        self.answered_ms.clear()


def test_a_wait_that_the_end_of_another_shortens_ends_in_its_own_time() -> None:
    leader = Leader()

    async def main() -> None:
        leader.wait_for(SOONER, deadline_ms=100)
        leader.wait_for(LATER, deadline_ms=10_000)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(leader.fetches.run_timers, leader.end_turn)
            await trio.sleep(20)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert leader.answered_ms == {SOONER: 100, LATER: 100 + HIGH_WATERMARK_TELL_MS}
