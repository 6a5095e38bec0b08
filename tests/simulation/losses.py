"""When more was lost than the promise covers: nothing may be lost silently.

A seed that goes over its budget is watched by the same oracle all along, for even then a replica that lacks
committed records is no candidate, and nobody cuts below a high watermark. What is excused is that a partition
stops: without a candidate it has no leader, refuses, and the controller's alarm says so (`concede` checks
that). Then the operator chooses a log by hand. From there on what that log lacks is lost for all to see: the
partition's state carries the mark of an unclean election, and the ghost is cut back to what was chosen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controller.core.events import ElectUnclean
from springtide.contract.partition_state import NO_LEADER, PartitionKey, PartitionState
from tests.simulation.violation import Violation

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster

#: How long brokers have to be back and be told before a partition counts as stopped.
PATIENCE_MS = 12_000
#: A controller that has just taken over admits no new life of a broker before the old one's grace is over.
REGISTERED_MS_MAX = 60_000
ATTEMPTS_MAX = 20


def concede(cluster: Cluster) -> None:
    """Wait for all to be back, then elect by hand whatever has no candidate left."""
    cluster.run_until(cluster.events.now_ms + PATIENCE_MS)
    cluster.run_until(cluster.events.now_ms + REGISTERED_MS_MAX, lambda: not cluster.budget.unknown)
    for _ in range(ATTEMPTS_MAX):
        stopped = [key for key in cluster.keys if _is_stopped(cluster.truth(key))]
        if not stopped:
            return
        for key in stopped:
            _check_alarm(cluster, key)
            _elect(cluster, key)
        cluster.run_until(cluster.events.now_ms + 500)


def _is_stopped(state: PartitionState | None) -> bool:
    return state is not None and state.leader == NO_LEADER and not state.isr and not state.elr


def _check_alarm(cluster: Cluster, key: PartitionKey) -> None:
    """Somebody is told that this partition has no leader."""
    controller = cluster.active_controller()
    if controller is None or controller.machine is None:
        return
    if not any(alarm.key.partition_key == key for alarm in controller.machine.alarms()):
        raise Violation("L7", f"{key} has no leader and no alarm says so")


def _elect(cluster: Cluster, key: PartitionKey) -> None:
    state = cluster.truth(key)
    controller = cluster.active_controller()
    if state is None or controller is None:
        return
    up = [b for b in state.replicas if cluster.brokers[b].is_up and key in cluster.brokers[b].disk.logs]
    if not up:
        return
    logs = {b: cluster.brokers[b].disk.logs[key] for b in up}
    chosen = max(up, key=lambda b: (logs[b].is_whole, logs[b].log_end_offset))
    cluster.oracle.concede(key)

    def answered(reply: Any) -> None:
        cluster.events.note(f"operator chooses broker {chosen} for {key[1]}: {type(reply).__name__}")

    controller.submit(
        ElectUnclean(
            wall_ms=cluster.events.now_ms,
            actor="operator",
            topic_id=key[0],
            partition=key[1],
            broker_id=chosen,
            partition_epoch=state.partition_epoch,
        ),
        answered,
    )
