"""What a simulated broker fetches from its leaders, in one life."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataplane.core.effects import (
    NO_EFFECTS,
    Effects,
)
from dataplane.core.fetch_session import (
    FetchPosition,
    FollowerSession,
)
from dataplane.core.replica import Replica
from dataplane.core.throttle import LearnerThrottle
from springtide.contract.partition_state import PartitionKey
from springtide.contract.throttles import is_learner
from tests.simulation.broker_requests import FetchAnswer, FetchCall

if TYPE_CHECKING:
    from tests.simulation.broker_node import BrokerNode

FETCH_SLACK_MS = 600
THROTTLE_WINDOW_MS = 1_000


class Following:
    """A follower's end of all that it fetches from one leader."""

    def __init__(self) -> None:
        self.session = FollowerSession()
        self.positions: dict[PartitionKey, FetchPosition] = {}

    def place(self, positions: dict[PartitionKey, FetchPosition]) -> None:
        for key in [key for key in self.positions if key not in positions]:
            self.leave(key)
        for key, position in positions.items():
            self.session.set_position(key, position)
        self.positions = positions

    def leave(self, key: PartitionKey) -> None:
        if self.positions.pop(key, None) is not None:
            self.session.remove(key)


class BrokerFollowing:
    """Of one life."""

    def __init__(self, node: BrokerNode) -> None:
        self.node = node
        options = node.cluster.options
        self.throttle = LearnerThrottle(
            grant_bytes_max=options.fetch_bytes_max,
            window_ms=max(THROTTLE_WINDOW_MS, 2 * options.fetch_wait_ms),
        )
        self.fetching: dict[PartitionKey, int] = {}
        self.backing_off: set[PartitionKey] = set()
        self.fetch_tasks: set[int] = set()
        self.leaders: dict[int, Following] = {}
        self.caught_up: dict[PartitionKey, int] = {}

    def classify(self, key: PartitionKey, replica: Replica) -> None:
        """Whether its fetches wait for their turn: a learner's do until it has reached the high watermark."""
        node = self.node
        state = replica.state
        if (
            state is not None
            and state.throttle is not None
            and is_learner(state, node.broker_id)
            and self.caught_up.get(key) != state.leader_epoch
        ):
            self.throttle.add(key, state.throttle, node.now_ms)
        else:
            self.throttle.remove(key, node.now_ms)

    def fetch(self, leader_id: int) -> None:
        """One fetch to one leader, for all partitions followed there; then the next."""
        node = self.node
        positions: dict[PartitionKey, FetchPosition] = {}
        self.throttle.admit(node.now_ms)
        for key in sorted(key for key, leader in self.fetching.items() if leader == leader_id):
            position = None if key in self.backing_off else node.replicas[key].next_fetch()
            if position is not None and key in self.throttle:
                position = self._when_its_turn_comes(key, position)
            elif key in self.throttle:
                self.throttle.release(key, node.now_ms)
            if position is not None:
                positions[key] = position
        if leader_id not in self.fetching.values():
            self.fetch_tasks.discard(leader_id)
            return

        def again(delay_ms: float) -> None:
            node.after(delay_ms, lambda: self.fetch(leader_id))

        following = self.leaders.setdefault(leader_id, Following())
        following.place(positions)
        if not positions:
            again(30 + node.cluster.options.fetch_wait_ms / 5)
            return

        def lost() -> None:
            following.session.on_failure()
            begin_anew()

        def begin_anew() -> None:
            for key in positions:
                if key in self.throttle:
                    self.throttle.release(key, node.now_ms)
            again(20)

        def answered(answer: FetchAnswer) -> None:
            if not following.session.on_answer(answer.error, session_id=answer.session_id):
                begin_anew()
                return
            got = False
            for key, fetched in answer.items():
                replica, position = node.replicas.get(key), following.session.asked(key)
                if replica is None or position is None:
                    continue
                if key in self.throttle:
                    self.throttle.settle(key, len(fetched.records), node.now_ms)
                got = got or len(fetched.records) > 0
                node.cluster.marks.on_fetched(replica, position)
                effects: Effects = NO_EFFECTS
                if (follower := replica.following) is not None:
                    effects = follower.on_fetched(
                        fetched, asked=position, now_ms=node.now_ms, wall_ms=node.time.wall_ms()
                    )
                if fetched.diverging is not None:
                    node.cluster.marks.on_diverged(effects)
                node.run(key, effects)
                if key in self.throttle and 0 <= fetched.high_watermark <= replica.log.log_end_offset:
                    self.caught_up[key] = position.leader_epoch
                    self.classify(key, replica)
                node.cluster.oracle.on_replica_touched(node, key)
            if got or wait_ms:
                self.fetch(leader_id)
            else:
                again(15 + 30 * node.random.random())

        wait_ms = node.cluster.options.fetch_wait_ms
        asked = following.session.build()
        marks = {
            key: mark
            for key in asked.unproven
            if (follower := node.replicas[key].following) is not None
            and (mark := follower.log_mark()) is not None
        }
        request = FetchCall(node.broker_id, node.broker_epoch, asked, marks)
        node.call(
            f"broker-{leader_id}",
            request,
            answered,
            lost,
            timeout_ms=wait_ms + FETCH_SLACK_MS,
        )

    def leave_leaders(self, key: PartitionKey, *, but: int | None = None) -> None:
        for leader_id, following in self.leaders.items():
            if leader_id != but:
                following.leave(key)

    def _when_its_turn_comes(self, key: PartitionKey, position: FetchPosition) -> FetchPosition | None:
        node = self.node
        size_bytes = self.throttle.ask(key, node.now_ms)
        if not size_bytes:
            node.cluster.marks.reached("move.throttled")
            return None
        return position._replace(max_bytes=size_bytes)
