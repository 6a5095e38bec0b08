"""What a broker fetches from its leaders: who follows whom, positions, rests and turns. Pure.

A partition is never dropped for an error: it rests and comes back (L6, every follower is fetched for). A rest
is short at first: often the leader has not heard yet that it leads.

A learner, being added and not in sync, may be throttled: it has a position only while it holds a grant of
bytes (throttle.py), and waits for its turn without one, outside the session. Other replicas cost one test per
answered partition: whether it is a learner.

The process (shell/replica_fetcher.py, shell/leader_fetcher.py) and the simulated brokers drive the same: they
send what `positions` ask for, one request at a time, and hand each answered partition to `take`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from dataplane.core.effects import Effects
from dataplane.core.fetch_session import FetchPosition, FollowerSession
from dataplane.core.hosted import H
from dataplane.core.learner_turns import LearnerTurns
from dataplane.core.results import LeaderAnswer
from springtide.contract.epochs import LeaderEpoch
from springtide.contract.partition_state import PartitionKey
from springtide.wire.errors import ErrorCode
from springtide.wire.fetch_request import LogMark

REST_MS_MIN: Final = 25
"""Of a partition after its first error; doubled with each further one (KIP-580)."""


class FollowedLeader(Generic[H]):
    """One leader: a session over everything that it leads here. session: the driver builds requests from it.
    A driver overrides what is to be done about changes."""

    def __init__(self, leader_id: int, turns: LearnerTurns) -> None:
        self.leader_id = leader_id
        self.session = FollowerSession()
        self._turns = turns
        self._followed: dict[PartitionKey, H] = {}
        self._positions: dict[PartitionKey, FetchPosition] = {}
        self._resting: dict[PartitionKey, None] = {}
        #: The next rest of each partition that has rested since its last good answer.
        self._next_rest_ms: dict[PartitionKey, int] = {}

    # What a driver does

    def _carry_out(self, hosted: H, effects: Effects) -> None:
        """Carry out what a replica asked for."""
        raise NotImplementedError

    def _ask_at_once(self) -> None:
        """Ask, and have a pending answer come at once: a new partition must not wait for the end of the
        pending long poll. Its first fetch in a new leader epoch lets the high watermark move again."""
        raise NotImplementedError

    def _ask_in_turn(self) -> None:
        """Ask, if no answer is pending: there is more to ask for."""
        raise NotImplementedError

    def _look_again(self) -> None:
        """There is less to ask for, or nothing."""
        raise NotImplementedError

    # What the table says

    @property
    def has_positions(self) -> bool:
        return bool(self._positions)

    def follows(self, key: PartitionKey) -> bool:
        """Return whether the partition is fetched, or will be after its rest or in its turn."""
        return (
            key in self._positions or key in self._resting or (key in self._followed and key in self._turns)
        )

    def follow(self, hosted: H, now_ms: int) -> None:
        key = hosted.key
        self._followed[key] = hosted
        self._resting.pop(key, None)
        self._next_rest_ms.pop(key, None)
        self._place_at_once(hosted, now_ms)

    def unfollow(self, key: PartitionKey) -> None:
        self._followed.pop(key, None)
        self._resting.pop(key, None)
        self._next_rest_ms.pop(key, None)
        self._drop_position(key)
        self._look_again()

    def rest(self, key: PartitionKey, rest_ms_max: int) -> int:
        """Let a partition rest; return for how many milliseconds. Then call `end_rest`."""
        rest_ms = min(self._next_rest_ms.get(key, REST_MS_MIN), rest_ms_max)
        self._next_rest_ms[key] = 2 * rest_ms
        self._resting[key] = None
        self._drop_position(key)
        self._look_again()
        return rest_ms

    def end_rest(self, key: PartitionKey, now_ms: int) -> None:
        if key in self._resting:
            del self._resting[key]
            hosted = self._followed.get(key)
            if hosted is not None:
                self._place_at_once(hosted, now_ms)

    def on_turn(self, key: PartitionKey, now_ms: int) -> None:
        """A learner that waited has been granted its next fetch."""
        hosted = self._followed.get(key)
        if hosted is not None:
            self._place(hosted, now_ms)
            self._ask_in_turn()

    def on_room_changed(self, now_ms: int) -> None:
        """Ask each replica again what it fetches: records, or for want of room none."""
        for hosted in self._followed.values():
            self._place(hosted, now_ms)
        self._ask_at_once()

    @property
    def has_waiting_learner(self) -> bool:
        """Return whether there may be something to ask for after a learner's turn."""
        return any(key in self._turns and key not in self._resting for key in self._followed)

    def mark_of(self, key: PartitionKey) -> LogMark | None:
        """Return what proves to the leader that it knows this follower's log."""
        hosted = self._followed.get(key)
        follower = None if hosted is None else hosted.replica.following
        return None if follower is None else follower.log_mark()

    # Answers

    def take(self, key: PartitionKey, fetched: LeaderAnswer, *, now_ms: int, wall_ms: int) -> bool:
        """Give an answered partition to its replica, and set where it goes on. False: it was forgotten while
        the request was under way."""
        hosted = self._followed.get(key)
        asked = self.session.asked(key)
        if hosted is None or asked is None:
            return False
        follower = hosted.replica.following
        if follower is not None:
            effects = follower.on_fetched(fetched, asked=asked, now_ms=now_ms, wall_ms=wall_ms)
            if effects:
                self._carry_out(hosted, effects)
        if self._next_rest_ms and key not in self._resting:
            self._next_rest_ms.pop(key, None)
        if key in self._followed:
            if hosted.is_learner:
                self._learn_on(hosted, fetched, asked.leader_epoch, now_ms)
            else:
                self._set_position(hosted)
        return True

    def _learn_on(self, hosted: H, fetched: LeaderAnswer, leader_epoch: LeaderEpoch, now_ms: int) -> None:
        """A learner's fetch was answered."""
        is_sound = fetched.error is ErrorCode.NONE and fetched.diverging is None
        self._turns.on_answer(
            hosted,
            len(fetched.records),
            leader_epoch=leader_epoch,
            high_watermark=fetched.high_watermark if is_sound else -1,
            now_ms=now_ms,
        )
        self._place(hosted, now_ms)
        self._turns.give(now_ms)

    # Positions

    def _set_position(self, hosted: H) -> None:
        """Ask the replica where to go on, and tell the session if that is news."""
        key = hosted.key
        position = None if key in self._resting else hosted.replica.next_fetch()
        if position is None:
            self._drop_position(key)
        else:
            self._positions[key] = position
            self.session.set_position(key, position)

    def _place(self, hosted: H, now_ms: int) -> None:
        if hosted.key in self._turns:
            self._set_learners_position(hosted, now_ms)
        else:
            self._set_position(hosted)

    def _place_at_once(self, hosted: H, now_ms: int) -> None:
        before = self._positions.get(hosted.key)
        self._place(hosted, now_ms)
        position = self._positions.get(hosted.key)
        if position is not None and (before is None or position.tells_more_than(before)):
            self._ask_at_once()

    def _set_learners_position(self, hosted: H, now_ms: int) -> None:
        """Let the learner fetch on as far as its grant reaches; without a grant, not before its turn."""
        key = hosted.key
        position = None if key in self._resting else hosted.replica.next_fetch()
        if position is None:
            self._turns.release(key, now_ms)
            self._drop_position(key)
            return
        granted = self._turns.ask(key, now_ms)
        if not granted:
            self._drop_position(key)
            return
        position = position._replace(max_bytes=min(granted, position.max_bytes))
        self._positions[key] = position
        self.session.set_position(key, position)

    def _drop_position(self, key: PartitionKey) -> None:
        if self._positions.pop(key, None) is not None:
            self.session.remove(key)


L = TypeVar("L", bound=FollowedLeader)  # type: ignore[type-arg]  # of the entries that its owner has


class Following(Generic[H, L]):
    """All that a broker fetches. new_leader: makes the driver's for a leader; it stays, also while nothing is
    followed there. on_waiting: as LearnerTurns has it."""

    def __init__(
        self,
        *,
        broker_id: int,
        grant_bytes_max: int,
        fetch_wait_ms: int,
        new_leader: Callable[[int], L],
        on_waiting: Callable[[], None],
    ) -> None:
        self.turns = LearnerTurns(
            broker_id=broker_id,
            grant_bytes_max=grant_bytes_max,
            fetch_wait_ms=fetch_wait_ms,
            on_turn=self._on_turn,
            on_waiting=on_waiting,
        )
        self._new_leader = new_leader
        self.leaders: dict[int, L] = {}
        self._leader_of: dict[PartitionKey, int] = {}

    def leader_of(self, key: PartitionKey) -> L | None:
        """Return the leader that the partition is fetched from."""
        leader_id = self._leader_of.get(key)
        return None if leader_id is None else self.leaders.get(leader_id)

    def follow(self, hosted: H, leader_id: int, now_ms: int) -> None:
        """Idempotent: what is fetched already in this leader epoch is left alone."""
        key = hosted.key
        earlier = self._leader_of.get(key)
        if earlier is not None and earlier != leader_id:
            self.unfollow(key, now_ms)
        self._leader_of[key] = leader_id
        self.turns.classify(hosted, now_ms)
        leader = self.leaders.get(leader_id)
        if leader is None:
            leader = self.leaders[leader_id] = self._new_leader(leader_id)
        leader.follow(hosted, now_ms)
        self.turns.give(now_ms)

    def unfollow(self, key: PartitionKey, now_ms: int) -> None:
        leader = self.leader_of(key)
        self._leader_of.pop(key, None)
        self.turns.forget(key, now_ms)
        if leader is not None:
            leader.unfollow(key)

    def end_rest(self, leader: L, key: PartitionKey, now_ms: int) -> None:
        """The time of a rest at this leader is over."""
        leader.end_rest(key, now_ms)
        self.turns.give(now_ms)

    def on_room_changed(self, now_ms: int) -> None:
        """The log directory has no room for records any more, or has it again."""
        for leader in self.leaders.values():
            leader.on_room_changed(now_ms)

    def _on_turn(self, key: PartitionKey, now_ms: int) -> None:
        leader = self.leader_of(key)
        if leader is not None:
            leader.on_turn(key, now_ms)
