"""A virtual machine that is resumed from a snapshot: memory, page cache and disk of everything on it go back
together, to one earlier moment (3.10, S53 to S55).

What a snapshot keeps is the essential: logs and watermarks, the applied states, incarnation, broker epoch and
lease. What leaders knew of followers and open connections it does not keep; a real one finds its connections
broken and its sessions refused. Two things are left out, which are gaps (section 10): its death before anyone
could find out, and a time in which nobody who runs has heard more of it than it remembers (G6). A process
that gets so far is ended, and its successor vouches for nothing.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from springtide.contract.partition_state import PartitionKey, PartitionState, TopicState
from springtide.contract.updates import BrokerEndpoint
from springtide.node.core.session import MemberSession
from springtide.node.lease import NEVER_MS
from tests.simulation.broker_link import BrokerLink
from tests.simulation.disk import Disk
from tests.simulation.kinds_brokers import draw_loss
from tests.simulation.kinds_network import cut_pairs
from tests.simulation.schedule import Arguments, kind

if TYPE_CHECKING:
    from tests.simulation.broker_node import BrokerNode
    from tests.simulation.cluster import Cluster


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Of a broker's host, at `taken_ms` of its monotonic clock."""

    life: int
    taken_ms: int
    disk: Disk
    incarnation: str
    session: MemberSession
    endpoints: dict[int, BrokerEndpoint]
    topics: dict[str, TopicState]
    states: dict[PartitionKey, PartitionState]
    high_watermarks: dict[PartitionKey, int]


def _copied(session: MemberSession) -> MemberSession:
    copied = copy(session)
    copied.lease, copied.heartbeats = copy(session.lease), copy(session.heartbeats)
    return copied


def take(broker: BrokerNode) -> Snapshot:
    disk = broker.disk.copy()
    disk.has_mount_mark = broker.disk.has_mount_mark  # memory goes with it
    return Snapshot(
        life=broker.life,
        taken_ms=broker.now_ms,
        disk=disk,
        incarnation=broker.incarnation,
        session=_copied(broker.session),
        endpoints=dict(broker.view.brokers),
        topics=dict(broker.view.topics),
        states={key: replica.state for key, replica in broker.replicas.items() if replica.state is not None},
        high_watermarks={key: replica.high_watermark for key, replica in broker.replicas.items()},
    )


def resume(broker: BrokerNode, snapshot: Snapshot) -> None:
    broker.begin_life()
    broker.disk = snapshot.disk
    broker.cluster.oracle.on_log_replaced(broker.broker_id)
    broker.incarnation = snapshot.incarnation
    broker.link = BrokerLink(broker, _copied(snapshot.session))
    broker.is_resumed = True
    broker.cluster.oracle.resumed.add(broker.broker_id)
    broker.view.brokers.update(snapshot.endpoints)
    broker.view.topics = dict(snapshot.topics)
    broker.heard_ms = broker.events.now_ms  # by its own clock, at most a lease of which is left
    lease = broker.lease
    slept_ms = broker.now_ms - snapshot.taken_ms  # of which its own clock knows nothing
    if lease._held_until_ms != NEVER_MS:
        lease._held_until_ms += slept_ms
    if lease._granted_until_ms != NEVER_MS:
        lease._granted_until_ms += slept_ms
    broker.network.listen(broker.name, broker.requests.on_request)
    broker.events.note(f"{broker.name} is resumed as it was {slept_ms} ms ago")
    for key, state in sorted(snapshot.states.items()):
        if key not in broker.disk.logs:
            continue
        broker.states[key] = state
        hosted = broker.core.partitions[key] = broker.metadata.host(
            state, checkpointed=snapshot.high_watermarks[key]
        )
        broker.run(key, hosted.replica.on_partition_state(state, now_ms=broker.now_ms))
    broker.core.found = {key: None for key in broker.disk.logs if key not in broker.replicas}
    broker.upkeep.start()
    broker.link.begin()


def _is_enough_alone(state: PartitionState, broker_id: int) -> bool:
    return state.leader == broker_id and state.isr == (broker_id,) and state.min_insync_replicas <= 1


def _draw_resumed(cluster: Cluster, random: Random) -> Arguments | None:
    drawn = draw_loss(cluster, random)
    if drawn is None or not cluster.brokers[drawn["broker"]].session.is_registered:
        return None
    return drawn | {
        "age_ms": random.choice((1_000, 3_000, 8_000)),
        "for_ms": random.choice((20, 20, 200, 2_000, 9_000)),
        "deaf_ms": random.choice((0, 2_000, 4_000)),
        "lonely_ms": random.choice((0, 300, 1_000)),
    }


@kind(_draw_resumed, family="host")
def resume_host(
    cluster: Cluster,
    *,
    broker: int,
    age_ms: int,
    for_ms: int,
    deaf_ms: int,
    lonely_ms: int = 0,
    salt: int,
    over_budget: bool = False,
) -> bool:
    """A snapshot is taken now. The host dies `age_ms` from now and is resumed `for_ms` later as it was; for
    `deaf_ms` it reaches no controller, and for `lonely_ms` no peer: clients come first."""
    del salt
    node = cluster.brokers[broker]
    if not node.is_up or not node.session.is_registered or node.is_paused:
        return False
    snapshot = take(node)

    def die() -> None:
        if not node.is_up or node.life != snapshot.life or node.broker_epoch != snapshot.session.broker_epoch:
            return  # what it was has ended
        if not cluster.budget.spend(node, over_budget=over_budget):
            return
        node.crash()
        life = node.life

        def wake() -> None:
            if node.is_up or node.life != life:
                return
            # G5: beyond the budget a whole in-sync set may go back, and nobody whom it reaches would know.
            is_whole_set = cluster.budget.is_exceeded and (
                any(each.is_resumed for each in cluster.brokers.values())
                or any(_is_enough_alone(state, broker) for state in snapshot.states.values())
            )
            if node.disk.boot_id != snapshot.disk.boot_id or is_whole_set:
                node.vouch_for_nothing()
                node.start()
                return
            if deaf_ms:
                cut_pairs(cluster, [(node.name, c.name) for c in cluster.controllers], deaf_ms)
            if lonely_ms:
                others = [other.name for other in cluster.brokers.values() if other is not node]
                cut_pairs(cluster, [(node.name, other) for other in others], lonely_ms)
            resume(node, snapshot)

        cluster.ongoing.begin(nodes=(node.name,), for_ms=for_ms, end=wake)

    cluster.ongoing.later(age_ms, die)
    return True
