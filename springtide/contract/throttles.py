"""The rates at which learners may copy, as operators set them under Kafka's names (KIP-73).

Three rates bound the copying of one learner, and the lowest counts: the one of its reassignment (in the
partition's state, so it goes with the reassignment, however that ends), what its broker may take in, and what
its leader may give out. They are bytes per second and bound learners only, that is replicas being added that
are not in sync. So a forgotten rate never slows the copying that keeps a partition replicated. In Kafka it
does: there a list of throttled replicas goes stale beside the assignment.
"""

from __future__ import annotations

from collections.abc import Mapping

from springtide.contract.partition_state import PartitionState

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"


def effective_rate(name: str, broker: Mapping[str, str], cluster: Mapping[str, str]) -> int | None:
    """Return a broker's own rate, else the cluster's default; None if neither limits it. A value that is no
    rate, which the controller should have refused, counts as absent."""
    value = broker.get(name, cluster.get(name, ""))
    is_rate = value.isascii() and value.isdigit() and int(value) > 0
    return int(value) if is_rate else None


def is_learner(state: PartitionState, broker_id: int) -> bool:
    """Return whether the replica is being added and not in sync. No other replica is ever throttled."""
    return broker_id in state.adding_replicas and broker_id not in state.isr
