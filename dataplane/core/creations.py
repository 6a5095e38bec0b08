"""Logs that are still to be made, and made ones that the controller has not been told of.

A log is made beside the metadata stream, because thousands take their time and a change of leader must not
wait for them (2.8). Until then its replica has no effect: it leads nothing, follows nobody and vouches for
nothing. A newer state replaces the one that a log waits under; deletion, or a state or FULL state without
this replica, gives it up, and what is just then being made is deleted as soon as it is there.

That a log is durably there is told by name (3.8): to each controller once, after its FULL state, until a
state no longer calls this replica new.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from controller.contract.lag_report import CreatedLogs
from controller.contract.partition_state import PartitionKey, PartitionState


def may_create(state: PartitionState, broker_id: int, *, is_known_lost: bool = False) -> bool:
    """A replica that stands in ISR or ELR without being new had a log: an empty one in its place would be
    believed to hold every committed record. Anyone else starts from nothing and fetches.

    is_known_lost: its log was found damaged just now, so it is not new, whatever the controller had time to
    note."""
    is_new = broker_id in state.new_replicas and not is_known_lost
    return is_new or not has_seat(state, broker_id)


def has_seat(state: PartitionState, broker_id: int) -> bool:
    """Whether it is taken to hold every committed record."""
    return broker_id in state.isr or broker_id in state.elr or broker_id == state.leader


class PendingCreations:
    """In the order in which they were asked for. wanted: the state that each log will begin under."""

    __slots__ = ("_given_up", "_in_hand", "wanted")

    def __init__(self) -> None:
        self.wanted: dict[PartitionKey, PartitionState] = {}
        self._in_hand: dict[PartitionKey, None] = {}
        self._given_up = False

    def want(self, state: PartitionState) -> None:
        """The caller has looked whether the log may be created."""
        key = (state.topic_id, state.partition)
        known = self.wanted.get(key)
        if known is None or state.partition_epoch > known.partition_epoch:
            self.wanted[key] = state

    def give_up(self, key: PartitionKey) -> None:
        if self.wanted.pop(key, None) is not None and key in self._in_hand:
            self._given_up = True

    @property
    def must_settle(self) -> bool:
        """One that is being made is not wanted any more: whoever gave it up has had its effect only when it
        is gone again (I25)."""
        return self._given_up

    def begin(self, *, count_max: int) -> Sequence[PartitionState]:
        """The next ones to be made, while none is."""
        assert not self._in_hand, "one slice at a time"
        keys = list(self.wanted)[:count_max]
        self._in_hand = dict.fromkeys(keys)
        return [self.wanted[key] for key in keys]

    def end(self, key: PartitionKey) -> PartitionState | None:
        """It is there, or can't be made. Returns the latest state, None if it was given up meanwhile."""
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
        """A replica with a log has applied a state; true if there is something to tell."""
        key = (state.topic_id, state.partition)
        if self._broker_id not in state.new_replicas:
            self.forget(key)
            return False
        if key in self._told:
            return False
        self._untold[key] = None
        return True

    def on_full_state(self) -> None:
        """Before its states are applied: who sends it may have heard of nothing."""
        self._told = {}

    def forget(self, key: PartitionKey) -> None:
        self._untold.pop(key, None)
        self._told.pop(key, None)

    def next(self, *, count_max: int) -> tuple[CreatedLogs, ...]:
        """They stay untold until `on_told`."""
        by_topic: dict[str, list[int]] = {}
        for topic_id, partition in list(self._untold)[:count_max]:
            by_topic.setdefault(topic_id, []).append(partition)
        return tuple(CreatedLogs(topic_id=t, partitions=tuple(p)) for t, p in by_topic.items())

    def on_told(self, created: Iterable[CreatedLogs]) -> bool:
        """The controller has them; true if there are more."""
        for logs in created:
            for partition in logs.partitions:
                key = (logs.topic_id, partition)
                if key in self._untold:
                    del self._untold[key]
                    self._told[key] = None
        return bool(self._untold)
