"""Logs that are still to be made, and new logs that the controller has not been told of.

Logs are made outside the metadata stream: thousands of them take their time, and a change of leader must not
wait for them (2.8, applying LeaderAndIsr batches). Until its log exists, a replica has no effect: it leads
nothing, follows no leader and vouches for nothing. A newer state replaces the one that a log waits under.
Deletion, or a state or FULL state without this replica, gives the log up; a log that is being made at that
moment is deleted as soon as it exists.

Once a log is durable, its broker tells each controller so by name (3.8, how a broker returns): once after
that controller's FULL state, until a state no longer calls this replica new.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from springtide.contract.lag_report import CreatedLogs
from springtide.contract.partition_state import PartitionKey, PartitionState


def may_create(state: PartitionState, broker_id: int, *, is_known_lost: bool = False) -> bool:
    """Return whether this broker may make an empty log for the replica. A replica in ISR or ELR that is not
    new had a log: an empty one in its place would be believed to hold every committed record. Any other
    replica starts from nothing and fetches.

    is_known_lost: the log was found damaged just now, so the replica is not new, even if the controller still
    calls it new.
    """
    is_new = broker_id in state.new_replicas and not is_known_lost
    return is_new or not has_seat(state, broker_id)


def has_seat(state: PartitionState, broker_id: int) -> bool:
    """Return whether the controller takes the replica to hold every committed record."""
    return broker_id in state.isr or broker_id in state.elr or broker_id == state.leader


class PendingCreations:
    """Logs to be made, in the order in which they were asked for. wanted: the state that each log begins
    under."""

    __slots__ = ("_given_up", "_in_hand", "wanted")

    def __init__(self) -> None:
        self.wanted: dict[PartitionKey, PartitionState] = {}
        self._in_hand: dict[PartitionKey, None] = {}
        self._given_up = False

    def want(self, state: PartitionState) -> None:
        """Ask for a log. The caller has checked that it may be created."""
        key = (state.topic_id, state.partition)
        known = self.wanted.get(key)
        if known is None or state.partition_epoch > known.partition_epoch:
            self.wanted[key] = state

    def give_up(self, key: PartitionKey) -> None:
        if self.wanted.pop(key, None) is not None and key in self._in_hand:
            self._given_up = True

    @property
    def must_settle(self) -> bool:
        """Return whether a log is being made that was given up. Giving it up takes effect only when the log
        is gone again (I25, applied is said afterwards)."""
        return self._given_up

    def begin(self, *, count_max: int) -> Sequence[PartitionState]:
        """Return the next logs to make. Called only while none is being made."""
        assert not self._in_hand, "one slice at a time"
        keys = list(self.wanted)[:count_max]
        self._in_hand = dict.fromkeys(keys)
        return [self.wanted[key] for key in keys]

    def end(self, key: PartitionKey) -> PartitionState | None:
        """Take the log off the list: it was made, or can't be. Return its latest state, or None if it was
        given up meanwhile."""
        del self._in_hand[key]
        if not self._in_hand:
            self._given_up = False
        return self.wanted.pop(key, None)


class UntoldCreations:
    """Logs of replicas that the controller calls new."""

    __slots__ = ("_broker_id", "_told", "_untold")

    def __init__(self, broker_id: int) -> None:
        self._broker_id = broker_id
        self._untold: dict[PartitionKey, None] = {}
        self._told: dict[PartitionKey, None] = {}

    def on_applied(self, state: PartitionState) -> bool:
        """Note that a replica with a log has applied a state. Return true if there is something to tell."""
        key = (state.topic_id, state.partition)
        if self._broker_id not in state.new_replicas:
            self.forget(key)
            return False
        if key in self._told:
            return False
        self._untold[key] = None
        return True

    def on_full_state(self) -> None:
        """Forget what was told: this controller may not have heard it. Called before the states are
        applied."""
        self._told = {}

    def forget(self, key: PartitionKey) -> None:
        self._untold.pop(key, None)
        self._told.pop(key, None)

    def next(self, *, count_max: int) -> tuple[CreatedLogs, ...]:
        """Return logs to tell the controller of. They stay untold until `on_told`."""
        by_topic: dict[str, list[int]] = {}
        for topic_id, partition in list(self._untold)[:count_max]:
            by_topic.setdefault(topic_id, []).append(partition)
        return tuple(CreatedLogs(topic_id=t, partitions=tuple(p)) for t, p in by_topic.items())

    def on_told(self, created: Iterable[CreatedLogs]) -> bool:
        """Note that the controller knows these logs. Return true if there are more to tell."""
        for logs in created:
            for partition in logs.partitions:
                key = (logs.topic_id, partition)
                if key in self._untold:
                    del self._untold[key]
                    self._told[key] = None
        return bool(self._untold)
