"""What operators do while everything else breaks: replicas are moved, moves are cancelled or changed,
partitions added, minimums changed, brokers cordoned and demoted, leaders sent home, records deleted (S12, the
minimum goes down and up; S25, deaths during a reassignment; S26, removed and added again; I37, what a client
deleted stays deleted).

They are strikes like all others: chosen by the seed, printed, cut down and played again as values. A strike
asks whichever controller leads at the time, and does not care for the answer, which may be lost: what became
of it stands in ZooKeeper, and the oracle looks there. None gives away what the promise covers: no assignment
and no minimum is smaller than the run's own minimum in sync.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from controller.core.events import (
    AddPartitions,
    AlterReassignments,
    ConfigureTopic,
    ElectPreferredLeaders,
    Event,
    MaintainBrokers,
    ReassignmentTarget,
)
from springtide.contract.partition_state import NO_LEADER, PartitionKey
from tests.simulation.schedule import Arguments, kind

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster

ACTOR = "operator"
#: Partitions that a topic may come to have beyond those it began with.
ADDED_MAX = 2
#: How often, and for how long, it is looked for what was added, if the answer was lost.
LOOKS_MAX = 60
LOOK_MS = 500


def ask(cluster: Cluster, event: Event) -> bool:
    """False: no controller leads now."""
    controller = cluster.active_controller()
    if controller is None:
        return False
    controller.submit(event, _ignore)
    return True


def _ignore(reply: Any) -> None:
    """Granted, refused or lost: ZooKeeper knows."""


def _alter(cluster: Cluster, topic: str, partition: int, replicas: list[int] | None) -> bool:
    target = ReassignmentTarget(
        topic_id=topic, partition=partition, replicas=None if replicas is None else tuple(replicas)
    )
    return ask(cluster, AlterReassignments(wall_ms=cluster.events.now_ms, actor=ACTOR, targets=(target,)))


def _draw_move(cluster: Cluster, random: Random) -> Arguments | None:
    topic, partition = random.choice(cluster.keys)
    options = cluster.options
    count = options.replication_factor + random.choice((-1, 0, 0, 0, 0, 1))
    count = max(options.min_insync_replicas, min(count, len(cluster.brokers)))
    replicas = random.sample(sorted(cluster.brokers), count)
    return {"topic": topic, "partition": partition, "replicas": replicas}


@kind(_draw_move, weight=2)
def move_replicas(cluster: Cluster, *, topic: str, partition: int, replicas: list[int]) -> bool:
    """Other replicas, more, fewer, or another order; perhaps over a move that is on its way."""
    return _alter(cluster, topic, partition, replicas)


def _draw_changed_move(cluster: Cluster, random: Random) -> Arguments | None:
    first, second = _draw_move(cluster, random), _draw_move(cluster, random)
    if first is None or second is None:
        return None
    then = random.choice((None, second["replicas"]))
    return first | {"then": then, "after_ms": random.choice((3, 30, 100, 400))}


@kind(_draw_changed_move)
def change_move(
    cluster: Cluster,
    *,
    topic: str,
    partition: int,
    replicas: list[int],
    then: list[int] | None,
    after_ms: int,
) -> bool:
    """A move, and another one over it, or its end (None), before it can be complete."""
    if not _alter(cluster, topic, partition, replicas):
        return False
    cluster.ongoing.later(after_ms, lambda: _alter(cluster, topic, partition, then))
    return True


def _draw_moving(cluster: Cluster, random: Random) -> Arguments | None:
    moving = [key for key in cluster.keys if (state := cluster.truth(key)) and state.is_reassigning]
    if not moving:
        return None
    topic, partition = random.choice(moving)
    return {"topic": topic, "partition": partition}


@kind(_draw_moving)
def cancel_move(cluster: Cluster, *, topic: str, partition: int) -> bool:
    return _alter(cluster, topic, partition, None)


def _draw_minimum(cluster: Cluster, random: Random) -> Arguments | None:
    options = cluster.options
    if options.replication_factor <= options.min_insync_replicas:
        return None
    topic, _ = random.choice(cluster.keys)
    return {"topic": topic, "minimum": options.min_insync_replicas + random.choice((0, 1))}


@kind(_draw_minimum)
def set_minimum(cluster: Cluster, *, topic: str, minimum: int) -> bool:
    """S12: one more must be in sync than the run began with, or as many as then."""
    controller = cluster.active_controller()
    if controller is None:
        return False
    configs: dict[str, str | None] = {"min.insync.replicas": str(minimum)}
    event = ConfigureTopic(wall_ms=cluster.events.now_ms, actor=ACTOR, topic_id=topic, configs=configs)
    controller.submit(event, cluster.oracle.on_minimum_asked(topic, minimum), waits=True)
    return True


def _draw_addition(cluster: Cluster, random: Random) -> Arguments | None:
    topic = cluster.keys[0][0]
    count = sum(key[0] == topic for key in cluster.keys)
    if count >= cluster.options.partitions + ADDED_MAX or random.random() < 0.5:
        return None
    return {"topic": topic, "partitions": count + 1}


@kind(_draw_addition)
def add_partition(cluster: Cluster, *, topic: str, partitions: int) -> bool:
    """Clients find the new partition when it stands in ZooKeeper."""
    event = AddPartitions(wall_ms=cluster.events.now_ms, actor=ACTOR, topic_id=topic, partitions=partitions)
    if not ask(cluster, event):
        return False
    _look_for(cluster, (topic, partitions - 1), LOOKS_MAX)
    return True


def _look_for(cluster: Cluster, key: PartitionKey, looks: int) -> None:
    if key in cluster.living:
        return
    node = cluster.zookeeper.nodes.get(f"topic/{key[0]}")
    if node is None or node.value.state.deleting:
        return
    if key[1] < node.value.state.partitions:
        cluster.events.note(f"partition {key[1]} of {key[0][:4]} is added")
        cluster.keys.append(key)
        cluster.living.add(key)
        stopped = any(producer.stopped for producer in cluster.producers)
        for producer in cluster.add_clients(key):
            producer.stopped = stopped
        cluster.start_clients(key)
    elif looks:
        cluster.events.after(LOOK_MS, lambda: _look_for(cluster, key, looks - 1))


def _draw_maintenance(cluster: Cluster, random: Random) -> Arguments | None:
    broker = random.choice(sorted(cluster.brokers))
    return {
        "broker": broker,
        "cordoned": random.random() < 0.4,
        "demoted": random.random() < 0.7,
        "for_ms": random.randint(500, 8_000),
    }


@kind(_draw_maintenance)
def maintain_broker(cluster: Cluster, *, broker: int, cordoned: bool, demoted: bool, for_ms: int) -> bool:
    """For so long it gets nothing new, or leads only what nobody else may. It stays so when no controller
    leads at the end, or all is healed before."""

    def set_to(is_cordoned: bool, is_demoted: bool) -> bool:
        return ask(
            cluster,
            MaintainBrokers(
                wall_ms=cluster.events.now_ms,
                actor=ACTOR,
                broker_ids=(cluster.owner_of(broker),),
                cordoned=is_cordoned,
                demoted=is_demoted,
            ),
        )

    if not set_to(cordoned, demoted):
        return False
    cluster.ongoing.later(for_ms, lambda: set_to(False, False))
    return True


def _draw_nothing(cluster: Cluster, random: Random) -> Arguments | None:
    return {}


@kind(_draw_nothing)
def send_leaders_home(cluster: Cluster) -> bool:
    """Every partition that its preferred replica may lead is led by it."""
    keys = tuple(cluster.keys)
    return ask(
        cluster,
        ElectPreferredLeaders(wall_ms=cluster.events.now_ms, actor=ACTOR, partitions=keys),
    )


def _draw_deletion(cluster: Cluster, random: Random) -> Arguments | None:
    key = random.choice(cluster.keys)
    state, committed = cluster.truth(key), cluster.oracle.ghosts[key].batches
    if state is None or state.leader == NO_LEADER or not committed:
        return None
    before = random.choice((-1, random.choice(committed).base_offset))
    return {"topic": key[0], "partition": key[1], "broker": state.leader, "before": before}


@kind(_draw_deletion, weight=3)
def delete_records(cluster: Cluster, *, topic: str, partition: int, broker: int, before: int) -> bool:
    """A client deletes the beginning of a log, or all that is committed (I37). Not a shard's."""
    if (topic, partition) not in cluster.living or broker not in cluster.brokers:
        return False
    if cluster.shards is not None and cluster.shards.judges((topic, partition)):
        return False
    cluster.clients.delete((topic, partition), broker, before)
    return True
