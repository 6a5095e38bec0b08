"""Does it come back? A core of nodes is healed, every other fault becomes permanent, and L1 to L8 must hold.

Safety alone is easy: a cluster that refuses everything loses nothing. So after the faults a core of brokers
and controllers is drawn that can serve every partition: enough replicas for the minimum, and one that may be
elected. Its nodes come back and reach each other. All others are dead, paused or cut off for good. Within
CORE_MS_MAX of virtual time, measured from there, the core must be in order (`missing_in_core`), though nobody
helps the rest. Only then is everything healed, and must come into order once more.

Who has a seat may change after the core was drawn: a controller that was paused, or took over while brokers
restarted, rightly fences the core's members first and leaves the last seat with a broker outside. No core can
do without that one, so it joins the core, and the time begins anew (`depended_on`).

L1  no producer has a batch in flight; brokers check by themselves that nobody is owed an answer
L2  every partition is led from the core, and its ISR is exactly its replicas in the core
L3  no proposal is pending
L4  every broker of the core has applied what the controller has published
L5  (when all is healed) what was deleted is gone; asked to stop, brokers have stopped
L6  every follower that wants to fetch is being fetched for
L7  (when all is healed) the controller has no alarm up
L8  (when all is healed) every broker knows by what time records expire
5.7 (when all is healed) nothing is rotten any more
"""

from __future__ import annotations

from collections.abc import Collection
from random import Random
from typing import TYPE_CHECKING

from controller.core.effects import Alarm, AlarmCode
from springtide.contract.partition_state import NO_LEADER, PartitionKey, PartitionState
from tests.simulation.kinds_controllers import ZOOKEEPER

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster

CORE_MS_MAX = 60_000
#: Producers write on for so long after the core was healed.
TRAFFIC_MS = 2_000
FOR_EVER_MS = 10**9


def draw_core(cluster: Cluster, random: Random) -> frozenset[str]:
    """Names of brokers and controllers that can do without the others, as the promise has it."""
    brokers = set(cluster.brokers)
    count_max = random.randrange(len(brokers))
    for broker_id in random.sample(sorted(brokers), count_max):
        if can_serve(cluster, brokers - {broker_id}):
            brokers.discard(broker_id)
    count = random.randint(1, len(cluster.controllers))
    controllers = random.sample([c.name for c in cluster.controllers], count)
    return frozenset({f"broker-{n}" for n in brokers} | set(controllers))


def can_serve(cluster: Cluster, brokers: Collection[int]) -> bool:
    """Enough replicas for every minimum, and one with a seat that it can't have lost unnoticed."""
    unknown = cluster.budget.unknown
    for key in cluster.keys:
        state = cluster.truth(key)
        if state is None:
            return False
        out = unknown | outreached(cluster, key, state)
        whole = [b for b in (*state.isr, *state.elr) if b in brokers and b not in out]
        if not whole or sum(b in brokers for b in state.replicas) < state.min_insync_replicas:
            return False
    return True


def depended_on(cluster: Cluster, core: Collection[str]) -> frozenset[str]:
    """Brokers outside the core without which some partition can't be led, or not by its minimum."""
    unknown = cluster.budget.unknown
    found: set[str] = set()
    for key in cluster.keys:
        state = cluster.truth(key)
        if state is None:
            continue
        out = unknown | outreached(cluster, key, state)
        whole = {f"broker-{b}" for b in (*state.isr, *state.elr) if b not in out}
        if not whole & set(core):
            found |= whole
        replicas = {f"broker-{b}" for b in state.replicas}
        if len(replicas & set(core)) < state.min_insync_replicas:
            found |= replicas - set(core)
    return frozenset(found)


def outreached(cluster: Cluster, key: PartitionKey, state: PartitionState) -> set[int]:
    """Members of the ELR that the controller has heard to be shorter than another one: what only that one has
    may be committed, so it is waited for, though it died, until an operator decides (3.8)."""
    controller = cluster.active_controller()
    machine = None if controller is None else controller.machine
    preview = None if machine is None else machine.loss_preview(key)
    if preview is None:
        return set()
    reach = {
        one.broker_id: (one.log.latest_epoch, one.log.log_end_offset)
        for one in preview.candidates
        if one.log is not None and one.broker_id in state.elr
    }
    return {broker_id for broker_id in reach if reach[broker_id] < max(reach.values())}


def heal_core(cluster: Cluster, core: frozenset[str], random: Random) -> None:
    """End the core's faults; put everybody else out, each in a way of its own."""
    cluster.ongoing.end_within(core)
    for name in cluster.node_names:
        if name not in core:
            _put_out(cluster, name, random.choice(("dead", "paused", "cut off")))
    cluster.events.note(f"healed: {sorted(core)}")


def _put_out(cluster: Cluster, name: str, how: str) -> None:
    node = cluster.node(name)
    if how == "dead" and node.is_up:
        node.crash()

        def end() -> None:
            if not node.is_up:
                node.start()

    elif how == "paused" and node.is_up and not node.is_paused:
        node.pause()

        def end() -> None:
            if node.is_paused:
                node.resume()

    else:
        pairs = [(name, other) for other in (*cluster.node_names, ZOOKEEPER) if other != name]
        pairs += [(other, one) for one, other in pairs]
        for pair in pairs:
            cluster.network.cut(*pair)

        def end() -> None:
            for pair in pairs:
                cluster.network.mend(*pair)

    cluster.events.note(f"{name} is {how} for good")
    cluster.ongoing.begin(nodes=(name,), for_ms=FOR_EVER_MS, end=end)


def _is_of_deleted(alarm: Alarm, deleted: Collection[str]) -> bool:
    """A host that was resumed brings back logs of a topic that was deleted on purpose. They are set aside;
    the operator removes them by hand (docs/backup.md)."""
    return alarm.key.code == AlarmCode.LOG_SET_ASIDE and alarm.key.topic_id in deleted


def missing_in_core(cluster: Cluster, core: Collection[str]) -> tuple[str, str] | None:
    """The first rule that does not hold yet, and how; None when all do."""
    waiting = [p.name for p in cluster.producers if p.in_flight and p.key in cluster.living]
    if waiting:
        return "L1", f"{waiting[0]} waits"
    if cluster.shards is not None and (missing := cluster.shards.missing()) is not None:
        return missing
    controller = cluster.active_controller()
    if controller is None or controller.name not in core:
        return "L4", "no controller of the core leads"
    brokers = [b for b in cluster.brokers.values() if b.name in core]
    for broker in brokers:
        position = (controller.controller_epoch, controller.published.sequence)
        if broker.session.applied != position:
            return "L4", f"{broker.name} has applied {broker.session.applied} of {position}"
    inside = {broker.broker_id for broker in brokers}
    for key in cluster.keys:
        state = cluster.truth(key)
        if state is None or state.leader == NO_LEADER:
            return "L2", f"{key} has no leader"
        if set(state.isr) != inside & set(state.replicas):
            return "L2", f"{key} isr {state.isr}, replicas {state.replicas}, core {sorted(inside)}"
        if inside & set(state.new_replicas):
            return "L4", f"{key} is still new on {state.new_replicas}"
        leader = cluster.brokers[state.leader].replicas.get(key)
        if leader is None or leader.leading is None:
            return "L2", f"{key} broker {state.leader} does not lead yet"
        if leader.leading.in_sync.pending is not None:
            return "L3", f"{key} a proposal is pending"
        if leader.high_watermark != leader.log.log_end_offset:
            return "L2", f"{key} high watermark {leader.high_watermark} of {leader.log.log_end_offset}"
        for broker_id in inside & set(state.replicas) - {state.leader}:
            broker = cluster.brokers[broker_id]
            replica = broker.replicas.get(key)
            if replica is None or replica.following is None:
                return "L6", f"{key} {broker.name} does not follow"
            asked = broker.following.leader_of(key)
            is_fetched = asked is not None and asked.leader_id == state.leader and asked.follows(key)
            if not is_fetched or replica.next_fetch() is None:
                return "L6", f"{key} {broker.name} does not fetch from broker {state.leader}"
    return None


def missing_at_end(cluster: Cluster) -> tuple[str, str] | None:
    """When everything is healed: the same of everybody, and L5, L7 and L8."""
    unsettled = cluster.is_settled()
    if unsettled is not None:
        return "L2", unsettled
    undone = cluster.operator.is_settled()
    if undone is not None:
        return "L5", undone
    stopping = [b.name for b in cluster.brokers.values() if b.is_up and b.session.wants_shutdown]
    if stopping:
        return "L5", f"{stopping[0]} does not stop"
    rotten = [b.name for b in cluster.brokers.values() if b.is_rotten]
    if rotten:
        return "5.7", f"{rotten[0]} is rotten"
    controller = cluster.active_controller()
    if controller is None or controller.machine is None:
        return "L4", "no controller leads"
    deleted = set(cluster.operator.deleted)
    alarms = [a for a in controller.machine.alarms() if not _is_of_deleted(a, deleted)]
    if alarms:
        return "L7", f"an alarm is still up: {alarms[0].detail}"
    undecided = [b.name for b in cluster.brokers.values() if b.time.expiry_ms() is None]
    if undecided:
        return "L8", f"{undecided[0]} would let nothing expire"
    return missing_in_core(cluster, cluster.node_names)


def not_told(cluster: Cluster) -> tuple[str, str] | None:
    """A leader that may not serve yet, or a follower that has not heard yet that everything in its log is
    committed (L6)."""
    for key in cluster.keys:
        state = cluster.truth(key)
        if state is None or state.leader == NO_LEADER:
            return "L2", f"{key} has no leader"
        for broker_id in state.replicas:
            broker = cluster.brokers[broker_id]
            replica = broker.replicas.get(key)
            if broker_id == state.leader and (replica is None or not replica.role.may_serve(broker.now_ms)):
                return "L2", f"{key} broker {broker_id} may not serve yet"
            if replica is None or replica.high_watermark != replica.log.log_end_offset:
                return "L6", f"{key} broker {broker_id} has not heard of the end"
    return None
