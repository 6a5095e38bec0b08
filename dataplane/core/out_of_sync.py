"""The partitions whose ISR lacks this broker, and what its readiness says of them: pure.

`/readyz?in-sync` is for those who take brokers away one by one: a disruption budget, a load balancer, a
script. It is red while the broker is missing from an ISR, because until it is back another broker's end costs
the partition more than one replica.

The controller decides who is in an ISR, and tells it in the metadata stream. That is current while the lease
holds and all is applied that the last heartbeat's answer named; otherwise the answer is red, without a bound,
because what this broker knows may be old. Out of sync is red for a bounded time only: a replica that can't
follow must not keep operators from emptying hosts.

A learner of a running reassignment and a replica that is being removed don't count: that they are not in the
ISR is how a move goes. Topics that are being deleted don't count either.
"""

from __future__ import annotations

from collections.abc import Callable

from springtide.contract.partition_state import PartitionKey, PartitionState
from springtide.contract.session import WORKER_ID_STEP
from springtide.contract.updates import UpdateBatch

RED_SECONDS_MAX = 600
"""How long a broker that is out of sync is not ready, where the request says nothing else."""


class OutOfSync:
    """is_own: whether an id is this broker's, or one of its workers'."""

    def __init__(self, is_own: Callable[[int], bool]) -> None:
        self._is_own = is_own
        self._keys: set[PartitionKey] = set()
        #: When the first of these partitions came; None while there is none.
        self._since_ms: int | None = None

    def apply(self, batch: UpdateBatch, *, now_ms: int) -> None:
        """Take in a batch, in the stream's order. now_ms: of a monotonic clock."""
        if batch.full:
            self._keys.clear()
        for state in batch.partitions:
            key = (state.topic_id, state.partition)
            if self._is_missing_from(state):
                self._keys.add(key)
            else:
                self._keys.discard(key)
        gone = {topic.topic_id for topic in batch.topics if topic.deleting}
        gone.update(batch.deleted_topics, batch.kept_topics or ())
        self._keys = {key for key in self._keys if key[0] not in gone}
        if not self._keys:
            self._since_ms = None
        elif self._since_ms is None:
            self._since_ms = now_ms

    def _is_missing_from(self, state: PartitionState) -> bool:
        return any(
            self._is_own(each)
            and each not in state.isr
            and each not in state.adding_replicas
            and each not in state.removing_replicas
            for each in state.replicas
        )

    def verdict(self, *, now_ms: int, is_current: bool, red_ms_max: int) -> tuple[bool, str]:
        """Return whether the broker counts as in sync, and why. is_current: whether all that the controller
        has told is applied."""
        if not is_current:
            return False, "the controller has not confirmed lately what this broker knows of its partitions"
        if self._since_ms is None:
            return True, "in sync"
        red_ms = now_ms - self._since_ms
        found = f"out of sync in {len(self._keys)} partitions for {red_ms // 1000} s"
        if red_ms < red_ms_max:
            return False, found
        return True, f"{found}, and this answer is red for {red_ms_max // 1000} s at most"


def own_ids(broker_id: int, worker_of: int | None) -> Callable[[int], bool]:
    """Return whether an id is of this broker: where it has workers, of any of them, because those who ask
    take away all of them at once."""
    if worker_of is None:
        return lambda each: each == broker_id
    return lambda each: each % WORKER_ID_STEP == worker_of
