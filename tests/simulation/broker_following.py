"""A simulated broker's requests to its leaders, in one life: dataplane/core/following.py at the pace of the
simulation."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from dataplane.core.effects import NO_EFFECTS, Effects
from dataplane.core.following import FollowedLeader, Following
from dataplane.core.hosted import Hosted
from dataplane.core.results import LeaderAnswer
from springtide.contract.partition_state import PartitionKey
from tests.simulation.broker_requests import FetchAnswer, FetchCall, HurryCall

if TYPE_CHECKING:
    from tests.simulation.broker_node import BrokerNode

FETCH_SLACK_MS = 600
LOST_MS = 20
"""The pause after a request that was not answered, or whose answer is of no use."""


class SimulatedLeader(FollowedLeader[Hosted]):
    """One leader, asked by one request at a time."""

    def __init__(self, following: BrokerFollowing, leader_id: int) -> None:
        super().__init__(leader_id, following.turns)
        self._node = following.node
        self._name = f"broker-{leader_id}"
        #: A request is under way, or the next one is about to be sent.
        self._is_busy = False
        #: The answer of one is pending, and the leader was not asked to hurry.
        self._may_hurry = False
        #: Of the last partition that was answered.
        self._effects: Effects = NO_EFFECTS

    def _carry_out(self, hosted: Hosted, effects: Effects) -> None:
        self._effects = effects
        self._node.run(hosted.key, effects)

    def _ask_at_once(self) -> None:
        if self._may_hurry:
            self._may_hurry = False
            self._node.cluster.marks.reached("fetch.hurried")
            hurry = HurryCall(self._node.broker_id)
            self._node.call(self._name, hurry, lambda _: None, lambda: None)
        self._ask_in_turn()

    def _ask_in_turn(self) -> None:
        if not self._is_busy:
            self._ask_after(1)

    def _look_again(self) -> None:
        """It is done when the next request is built."""

    def _ask_after(self, delay_ms: float) -> None:
        self._is_busy = True
        self._node.after(delay_ms, self._ask)

    def _ask(self) -> None:
        node = self._node
        if not self.has_positions:
            self._is_busy = False
            if not self.has_waiting_learner:
                self.session.on_failure()  # a session that follows nothing is worth no connection
            return
        wait_ms = node.cluster.options.fetch_wait_ms
        asked = self.session.build()
        marks = {key: mark for key in asked.unproven if (mark := self.mark_of(key)) is not None}
        call = FetchCall(node.broker_id, node.broker_epoch, asked, marks)
        self._is_busy = True
        self._may_hurry = wait_ms > 0
        node.call(self._name, call, self._answered, self._lost, timeout_ms=wait_ms + FETCH_SLACK_MS)

    def _lost(self) -> None:
        self._may_hurry = False
        self.session.on_failure()
        self._ask_after(LOST_MS)

    def _answered(self, answer: FetchAnswer) -> None:
        node = self._node
        self._may_hurry = False
        if not self.session.on_answer(answer.error, session_id=answer.session_id):
            self._ask_after(LOST_MS)
            return
        for key, fetched in answer.items():
            self._take(key, fetched)
        if node.cluster.options.fetch_wait_ms or any(fetched.records for fetched in answer.values()):
            self._ask()
        else:
            self._ask_after(15 + 30 * node.random.random())

    def _take(self, key: PartitionKey, fetched: LeaderAnswer) -> None:
        node = self._node
        hosted, position = self._followed.get(key), self.session.asked(key)
        if hosted is not None and position is not None:
            node.cluster.marks.on_fetched(hosted.replica, position)
        self._effects = NO_EFFECTS
        if self.take(key, fetched, now_ms=node.now_ms, wall_ms=node.time.wall_ms()):
            if fetched.diverging is not None:
                node.cluster.marks.on_diverged(self._effects)
            node.cluster.oracle.on_replica_touched(node, key)


class BrokerFollowing(Following[Hosted, SimulatedLeader]):
    """Of one life."""

    def __init__(self, node: BrokerNode) -> None:
        options = node.cluster.options
        super().__init__(
            broker_id=node.broker_id,
            grant_bytes_max=options.fetch_bytes_max,
            fetch_wait_ms=options.fetch_wait_ms,
            new_leader=partial(SimulatedLeader, self),
            on_waiting=self._on_waiting,
        )
        self.node = node
        self._is_looking = False

    def back_off(self, key: PartitionKey, delay_ms: int) -> None:
        leader = self.leader_of(key)
        if leader is not None:
            self.node.cluster.marks.reached("replica.rests")
            rest_ms = leader.rest(key, delay_ms) * self.node.random.uniform(0.75, 1.25)
            self.node.after(rest_ms, lambda: self.end_rest(leader, key, self.node.now_ms))

    def _on_waiting(self) -> None:
        self.node.cluster.marks.reached("move.throttled")
        look_ms = self.turns.look_ms(self.node.now_ms)
        if look_ms is not None and not self._is_looking:
            self._is_looking = True
            self.node.after(look_ms, self._look)

    def _look(self) -> None:
        self._is_looking = False
        self.turns.give(self.node.now_ms)
