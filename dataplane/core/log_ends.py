"""Which replicas without a leader the controller has not been told the log end of (contract.lag_report).

A state without a leader is told about once: until another one comes, nothing is appended. A FULL state brings
every state again, so that a controller that took over is told again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dataplane.core.replica import Replica
from dataplane.core.role import Offline
from springtide.contract.lag_report import LOG_EPOCHS_MAX, ReplicaLogEnd
from springtide.contract.partition_state import NO_LEADER, PartitionKey


def log_end_of(replica: Replica) -> ReplicaLogEnd | None:
    """Return where the replica's log ends, or None while the partition has a leader or the log can't be
    read."""
    state = replica.state
    if state is None or state.leader != NO_LEADER or isinstance(replica.role, Offline):
        return None
    log = replica.log
    return ReplicaLogEnd(
        topic_id=state.topic_id,
        partition=state.partition,
        leader_epoch=state.leader_epoch,
        log_start_offset=log.log_start_offset,
        log_end_offset=log.log_end_offset,
        high_watermark=replica.high_watermark,
        epochs=tuple(
            (entry.leader_epoch, entry.start_offset) for entry in log.epochs.entries[-LOG_EPOCHS_MAX:]
        ),
        seal_chain_epoch=log.seal_chain_epoch,
    )


class UntoldLogEnds:
    __slots__ = ("_untold",)

    def __init__(self) -> None:
        self._untold: dict[PartitionKey, Replica] = {}

    def on_applied(self, key: PartitionKey, replica: Replica) -> bool:
        """Note that a replica has applied a state. Return true if there is something to tell."""
        if log_end_of(replica) is None:
            self._untold.pop(key, None)
            return False
        self._untold[key] = replica
        return True

    def forget(self, key: PartitionKey) -> None:
        self._untold.pop(key, None)

    def next(self, *, count_max: int) -> Sequence[ReplicaLogEnd]:
        """Return up to `count_max` untold ends, as they are now; they stay untold until `on_told`."""
        ends: list[ReplicaLogEnd] = []
        for key, replica in list(self._untold.items())[:count_max]:
            end = log_end_of(replica)
            if end is None:
                del self._untold[key]
            else:
                ends.append(end)
        return ends

    def on_told(self, ends: Iterable[ReplicaLogEnd]) -> bool:
        """Note that the controller has these ends. Return true if there are more. One that has changed
        since is told again."""
        for end in ends:
            key = (end.topic_id, end.partition)
            replica = self._untold.get(key)
            if replica is not None and log_end_of(replica) == end:
                del self._untold[key]
        return bool(self._untold)
