"""What operators do to many partitions at once, as plans do.

Brokers are emptied, retired and taken in again, topics get another replication factor; all of it is
throttled, throttled anew, called off, or overtaken by the deletion of the topic. Only seeds whose operators
carry out plans draw these kinds. A rate is part of a fault that lasts: when that ends, at the latest when all
is healed, it is lifted, for a copy at a few bytes per second has no end in sight.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from controller.core.events import (
    AdmitBrokers,
    AlterReassignments,
    MaintainBrokers,
    ReassignmentTarget,
    RemoveMember,
)
from springtide.contract.partition_state import PartitionState
from tests.simulation.kinds_operators import ACTOR, ask
from tests.simulation.schedule import Arguments, plan_kind

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster

#: Bytes per second and broker; a producer writes some ten thousand.
RATES: tuple[int | None, ...] = (None, 2_000, 10_000, 50_000)
#: How often is asked again for what must not stay.
AGAIN_MS = 500
DOWN_MS = (300, 3_000)

#: Of each: topic id, partition, replicas; lists, as JSON has them.
Moves = list[list[Any]]


def _states(cluster: Cluster) -> list[PartitionState]:
    return [state for key in cluster.keys if (state := cluster.truth(key)) is not None]


def _move(cluster: Cluster, moves: Moves, rate: int | None) -> bool:
    """One request for all of them, whose rate they share. False: no controller leads now."""
    event = AlterReassignments(
        wall_ms=cluster.events.now_ms,
        actor=ACTOR,
        operation_id=_operation(cluster),
        targets=tuple(
            ReassignmentTarget(topic_id=topic, partition=partition, replicas=tuple(replicas))
            for topic, partition, replicas in moves
        ),
        throttled_rate=rate,
    )
    return ask(cluster, event)


def _operation(cluster: Cluster) -> str:
    return f"plan-{cluster.events.now_ms}"


def _lift(cluster: Cluster, operation: str) -> None:
    """Until no partition copies at that operation's rate any more."""
    throttled = [
        state
        for state in _states(cluster)
        if state.throttle is not None and state.throttle.operation == operation
    ]
    if not throttled:
        return
    targets = tuple(
        ReassignmentTarget(
            topic_id=state.topic_id,
            partition=state.partition,
            replicas=state.target_replicas,
            partition_epoch=state.partition_epoch,
        )
        for state in throttled
    )
    ask(cluster, AlterReassignments(wall_ms=cluster.events.now_ms, actor=ACTOR, targets=targets))
    cluster.events.after(AGAIN_MS, lambda: _lift(cluster, operation))


def _throttled_for(cluster: Cluster, for_ms: int) -> None:
    operation = _operation(cluster)
    cluster.ongoing.begin(nodes=(), for_ms=for_ms, end=lambda: _lift(cluster, operation))


def _without(cluster: Cluster, random: Random, broker: int) -> Moves:
    """Where a broker's replicas could go; one that nobody can take is dropped if the minimum allows it."""
    moves: Moves = []
    for state in _states(cluster):
        replicas = list(state.target_replicas)
        if broker not in replicas:
            continue
        others = sorted(set(cluster.brokers) - set(replicas))
        if others:
            replicas[replicas.index(broker)] = random.choice(others)
        elif len(replicas) > cluster.options.min_insync_replicas:
            replicas.remove(broker)
        else:
            continue
        moves.append([state.topic_id, state.partition, replicas])
    return moves


def _draw_drain(cluster: Cluster, random: Random) -> Arguments | None:
    broker = random.choice(sorted(cluster.brokers))
    moves = _without(cluster, random, broker)
    if not moves:
        return None
    rate, for_ms = random.choice(RATES), random.randint(1_000, 8_000)
    return {"broker": broker, "moves": moves, "rate": rate, "for_ms": for_ms}


def _drain(cluster: Cluster, broker: int, is_draining: bool) -> bool:
    event = MaintainBrokers(
        wall_ms=cluster.events.now_ms,
        actor=ACTOR,
        broker_ids=(cluster.owner_of(broker),),
        draining=is_draining,
    )
    return ask(cluster, event)


@plan_kind(_draw_drain, weight=2)
def drain_broker(cluster: Cluster, *, broker: int, moves: Moves, rate: int | None, for_ms: int) -> bool:
    """It is to be emptied, and gets nothing new until that is over, whether it has come to it or not."""
    if not _drain(cluster, broker, True):
        return False
    _move(cluster, moves, rate)
    operation = _operation(cluster)

    def end() -> None:
        _lift(cluster, operation)
        _drain(cluster, broker, False)

    cluster.ongoing.begin(nodes=(), for_ms=for_ms, end=end)
    return True


def _draw_retirement(cluster: Cluster, random: Random) -> Arguments | None:
    if len(cluster.brokers) <= cluster.options.replication_factor:
        return None
    broker = random.choice(sorted(cluster.brokers))
    return {
        "broker": broker,
        "moves": _without(cluster, random, broker),
        "after_ms": random.randint(300, 4_000),
        "for_ms": random.randint(*DOWN_MS),
    }


@plan_kind(_draw_retirement)
def retire_broker(cluster: Cluster, *, broker: int, moves: Moves, after_ms: int, for_ms: int) -> bool:
    """It is emptied. If it is by then, it stops and is forgotten; then somebody starts it once more, with
    what its disk still has, and it is taken in as a new one."""
    if not _drain(cluster, broker, True):
        return False
    if moves:
        _move(cluster, moves, None)
    cluster.ongoing.later(after_ms, lambda: _forget(cluster, broker, for_ms))
    return True


def _forget(cluster: Cluster, broker: int, for_ms: int) -> None:
    node = cluster.brokers[broker]
    is_forgotten = any(
        cluster.truth(key) is None for key in cluster.keys
    )  # its rows cannot tell who is empty
    is_empty = not is_forgotten and all(broker not in state.replicas for state in _states(cluster))
    if not is_empty or not node.is_up or node.is_paused:
        _drain(cluster, broker, False)
        return
    node.crash()

    def back() -> None:
        if not node.is_up:
            node.start()
        _take_in(cluster, broker)

    cluster.ongoing.begin(nodes=(node.name,), for_ms=for_ms, end=back)
    _remove(cluster, broker)


def _remove(cluster: Cluster, broker: int) -> None:
    """As long as it is down: the controller must know that first."""
    if cluster.brokers[broker].is_up or cluster.registered_epoch(broker) < 0:
        return
    owner = cluster.owner_of(broker)
    ask(cluster, RemoveMember(wall_ms=cluster.events.now_ms, actor=ACTOR, member_id=owner))
    cluster.events.after(AGAIN_MS / 5, lambda: _remove(cluster, broker))


def _take_in(cluster: Cluster, broker: int) -> None:
    """Until it may hold data again."""
    node = cluster.zookeeper.nodes.get(f"broker/{broker}")
    if node is not None and node.value.registration.admitted:
        cluster.events.note(f"broker-{broker} is taken in")
        _drain(cluster, broker, False)
        return
    if node is not None:
        cluster.marks.reached("broker.forgotten.and.back")
        owner = cluster.owner_of(broker)
        ask(cluster, AdmitBrokers(wall_ms=cluster.events.now_ms, actor=ACTOR, broker_ids=(owner,)))
    cluster.events.after(AGAIN_MS, lambda: _take_in(cluster, broker))


def _draw_shuffle(cluster: Cluster, random: Random) -> Arguments | None:
    """One number of replicas for all."""
    options = cluster.options
    count = options.replication_factor + random.choice((-1, 0, 0, 1))
    count = max(options.min_insync_replicas, min(count, len(cluster.brokers)))
    brokers = sorted(cluster.brokers)
    return {
        "moves": [[*key, random.sample(brokers, count)] for key in cluster.keys],
        "rate": random.choice(RATES),
        "for_ms": random.randint(500, 6_000),
    }


@plan_kind(_draw_shuffle)
def move_everything(cluster: Cluster, *, moves: Moves, rate: int | None, for_ms: int) -> bool:
    """Every partition, at once: to others, and with more or fewer replicas than it had."""
    if not _move(cluster, moves, rate):
        return False
    _throttled_for(cluster, for_ms)
    return True


def _draw_rate(cluster: Cluster, random: Random) -> Arguments | None:
    if not any(state.is_reassigning for state in _states(cluster)):
        return None
    return {"rate": random.choice(RATES), "for_ms": random.randint(500, 4_000)}


@plan_kind(_draw_rate)
def throttle_moves(cluster: Cluster, *, rate: int | None, for_ms: int) -> bool:
    """Whatever is on its way goes on at another rate."""
    moving = [state for state in _states(cluster) if state.is_reassigning]
    moves = [[state.topic_id, state.partition, list(state.target_replicas)] for state in moving]
    if not moves or not _move(cluster, moves, rate):
        return False
    _throttled_for(cluster, for_ms)
    return True


def _draw_moving(cluster: Cluster, random: Random) -> Arguments | None:
    return {} if any(state.is_reassigning for state in _states(cluster)) else None


@plan_kind(_draw_moving)
def call_moves_off(cluster: Cluster) -> bool:
    """Whatever is on its way goes back, in one request."""
    targets = tuple(
        ReassignmentTarget(topic_id=state.topic_id, partition=state.partition, replicas=None)
        for state in _states(cluster)
        if state.is_reassigning
    )
    if not targets:
        return False
    return ask(cluster, AlterReassignments(wall_ms=cluster.events.now_ms, actor=ACTOR, targets=targets))


def _draw_moved_topic(cluster: Cluster, random: Random) -> Arguments | None:
    names = sorted(cluster.operator.topics)
    if not names:
        return None
    count = min(cluster.options.replication_factor, len(cluster.brokers))
    return {
        "topic": random.choice(names),
        "replicas": random.sample(sorted(cluster.brokers), count),
        "after_ms": random.choice((0, 3, 30, 300)),
    }


@plan_kind(_draw_moved_topic, weight=2)
def delete_moved_topic(cluster: Cluster, *, topic: str, replicas: list[int], after_ms: int) -> bool:
    """A topic goes while its replicas are on their way; its name may come back before they are gone (S24,
    deleted and made again)."""
    topic_id = cluster.operator.topics.get(topic)
    if topic_id is None or not _move(cluster, [[topic_id, 0, replicas]], RATES[1]):
        return False

    def delete() -> None:
        controller = cluster.active_controller()
        if controller is not None and cluster.operator.topics.get(topic) == topic_id:
            cluster.marks.reached("topic.deleted.while.moving")
            cluster.operator.delete(controller, topic)

    cluster.ongoing.later(after_ms, delete)
    _throttled_for(cluster, after_ms + AGAIN_MS)
    return True
