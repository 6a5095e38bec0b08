"""Faults of controllers and of ZooKeeper."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from controller.core.events import (
    BringBackTopics,
    ElectPreferred,
    ElectUnclean,
    MetadataRecovered,
    RecoverMetadata,
    TopicsBroughtBack,
)
from springtide.contract.epochs import PartitionEpoch
from springtide.contract.partition_state import NO_LEADER
from tests.simulation.kinds_brokers import back_after
from tests.simulation.kinds_network import cut_pairs
from tests.simulation.schedule import Arguments, kind
from tests.simulation.zookeeper import Znode

#: The name that ZooKeeper has in the network, where it is only cut off.
ZOOKEEPER = "zookeeper"

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster
    from tests.simulation.controller_node import ControllerNode


def _named(cluster: Cluster, name: str) -> ControllerNode:
    return next(c for c in cluster.controllers if c.name == name)


def _draw_controller(cluster: Cluster, random: Random) -> Arguments | None:
    up = [c for c in cluster.controllers if c.is_up and not c.is_paused]
    if not up:
        return None
    return {"controller": random.choice(up).name, "for_ms": random.randint(100, 9_000)}


@kind(_draw_controller)
def kill_controller(cluster: Cluster, *, controller: str, for_ms: int) -> bool:
    node = _named(cluster, controller)
    if not node.is_up:
        return False
    node.crash()
    cluster.events.note(f"{node.name} is killed")

    def restart() -> None:
        if not node.is_up:
            node.start()

    cluster.ongoing.begin(nodes=(node.name,), for_ms=for_ms, end=restart)
    return True


@kind(_draw_controller, family="pauses")
def pause_controller(cluster: Cluster, *, controller: str, for_ms: int) -> bool:
    """S16 (a paused controller): it wakes up after its successor took over."""
    node = _named(cluster, controller)
    if not node.is_up or node.is_paused:
        return False
    node.pause()
    cluster.events.note(f"{node.name} is paused")

    def resume() -> None:
        if node.is_up and node.is_paused:
            cluster.events.note(f"{node.name} goes on")
            node.resume()

    cluster.ongoing.begin(nodes=(node.name,), for_ms=for_ms, end=resume)
    return True


def _draw_busy(cluster: Cluster, random: Random) -> Arguments | None:
    node = cluster.active_controller()
    if node is None or node.is_paused:
        return None
    grace_ms = cluster.options.grace_ms
    return {"controller": node.name, "for_ms": random.choice([grace_ms // 4, grace_ms, 3 * grace_ms])}


@kind(_draw_busy, family="pauses")
def busy_controller(cluster: Cluster, *, controller: str, for_ms: int) -> bool:
    """The active controller's loop is held by its own work. Its session lives on, for threads keep it;
    nothing that arrives is read meanwhile."""
    node = _named(cluster, controller)
    if not node.is_up or node.is_paused:
        return False
    node.hold()
    cluster.events.note(f"{node.name} is busy")

    def release() -> None:
        if node.is_up and node.is_held:
            cluster.events.note(f"{node.name} is done")
            node.resume()

    cluster.ongoing.begin(nodes=(node.name,), for_ms=for_ms, end=release)
    return True


def _draw_nothing(cluster: Cluster, random: Random) -> Arguments | None:
    return {} if cluster.zookeeper.leader is not None else None


@kind(_draw_nothing)
def expire_session(cluster: Cluster) -> bool:
    """ZooKeeper ends the session of whoever leads."""
    leader = cluster.zookeeper.leader
    if leader is None:
        return False
    cluster.zookeeper.expire(leader)
    cluster.events.note(f"session {leader} expires")
    return True


def _draw_lost_answers(cluster: Cluster, random: Random) -> Arguments | None:
    return {"rate": 0.3, "for_ms": random.randint(500, 4_000)}


@kind(_draw_lost_answers)
def lose_zookeeper_answers(cluster: Cluster, *, rate: float, for_ms: int) -> bool:
    """S17 (a write's answer was lost), after it was applied."""
    cluster.zookeeper.lose_answers(rate)
    cluster.ongoing.begin(nodes=(), for_ms=for_ms, end=lambda: cluster.zookeeper.answer_again(rate))
    return True


def _draw_bounce(cluster: Cluster, random: Random) -> Arguments | None:
    """A partition whose preferred replica is in sync and does not lead."""
    chosen = [
        state
        for key in cluster.keys
        if (state := cluster.truth(key)) is not None
        and state.leader in cluster.brokers
        and state.leader != state.preferred_leader
        and state.preferred_leader in state.isr
        and cluster.brokers[state.preferred_leader].is_up
    ]
    if not chosen:
        return None
    state = random.choice(chosen)
    return {
        "topic_id": state.topic_id,
        "partition": state.partition,
        "deaf": [state.leader, *random.sample([b for b in state.replicas if b != state.leader], 1)],
        "behind_ms": random.choice([0, 60, 150]),
        "kill_after_ms": random.choice([8, 15, 30, 60]),
        "for_ms": random.choice([150, 600, 2_000]),
    }


@kind(_draw_bounce, weight=3)
def bounce_leader(
    cluster: Cluster,
    *,
    topic_id: str,
    partition: int,
    deaf: list[int],
    behind_ms: int,
    kill_after_ms: int,
    for_ms: int,
) -> bool:
    """S7 (an epoch in between was missed): leadership goes to the preferred replica, which dies at once, and
    perhaps back to where it was, while the old leader and one more broker hear of neither. The preferred
    replica may have fallen behind by `behind_ms` before, so that the old leader knows more of the others than
    it may commit."""
    controller = cluster.active_controller()
    state = cluster.truth((topic_id, partition))
    if controller is None or state is None or state.leader == state.preferred_leader:
        return False
    preferred = cluster.brokers[state.preferred_leader]
    if not preferred.is_up:
        return False
    leader = cluster.brokers[state.leader]
    cut_pairs(cluster, [(leader.name, preferred.name)], behind_ms + kill_after_ms)

    def elect() -> None:
        current = cluster.active_controller()
        if current is None:
            return
        cut_pairs(cluster, [(c.name, f"broker-{n}") for n in deaf for c in cluster.controllers], for_ms)
        current.submit(
            ElectPreferred(
                wall_ms=cluster.events.now_ms, actor="operator", topic_id=topic_id, partition=partition
            ),
            lambda reply: None,
        )
        cluster.events.note(f"partition {topic_id[:4]}-{partition} is bounced, {deaf} do not hear of it")

    cluster.ongoing.later(behind_ms, elect)
    life = preferred.life

    def kill() -> None:
        if preferred.is_up and preferred.life == life and not preferred.is_paused:
            preferred.crash()
            back_after(cluster, preferred, for_ms)

    cluster.ongoing.later(behind_ms + kill_after_ms, kill)
    return True


def _draw_cut_off(cluster: Cluster, random: Random) -> Arguments | None:
    return {"controller": random.choice(cluster.controllers).name, "for_ms": random.randint(500, 10_000)}


@kind(_draw_cut_off)
def cut_off_zookeeper(cluster: Cluster, *, controller: str, for_ms: int) -> bool:
    """One controller does not reach ZooKeeper: its session ends there, and it learns of that late (S16)."""
    pair = (controller, ZOOKEEPER)
    cluster.network.cut(*pair)
    cluster.events.note(f"{controller} is cut off from ZooKeeper")
    cluster.ongoing.begin(nodes=(controller,), for_ms=for_ms, end=partial(cluster.network.mend, *pair))
    return True


def _draw_late_watch(cluster: Cluster, random: Random) -> Arguments | None:
    return {"delay_ms": random.choice([500, 2_000]), "for_ms": random.randint(1_000, 15_000)}


@kind(_draw_late_watch)
def late_watches(cluster: Cluster, *, delay_ms: int, for_ms: int) -> bool:
    """Standbys learn late that nobody leads."""
    delays = cluster.zookeeper.watch_delays_ms
    delays.append(delay_ms)
    cluster.ongoing.begin(nodes=(), for_ms=for_ms, end=lambda: delays.remove(delay_ms))
    return True


def _draw_age(cluster: Cluster, random: Random) -> Arguments | None:
    return {"age_ms": random.choice((300, 2_000, 8_000, 20_000))}


@kind(_draw_age, weight=0, family="metadata")
def zookeeper_goes_back(cluster: Cluster, *, age_ms: int) -> bool:
    """S45 (ZooKeeper is restored): in `age_ms` ZooKeeper will be put back to what it holds now. An operator
    then recovers the metadata as soon as the controller says that it went back. Only when every broker was
    told of more by then: what is decided with those that were not is another history (section 11, limits).
    Once in a run."""
    if cluster.options.over_budget or "head" not in cluster.zookeeper.nodes:
        return False
    copy = cluster.zookeeper.copy()

    def go_back() -> None:
        records = copy["head"].value[0]
        told = all(b.disk.seen.records > records and b.disk.cluster_id for b in cluster.brokers.values())
        if not told or cluster.budget.unknown or cluster.budget.is_exceeded or cluster.zookeeper.times_back:
            return
        deleted = set(cluster.operator.deleted)
        if any(key[0] in deleted for b in cluster.brokers.values() for key in b.disk.logs):
            return  # What was made and deleted since would be back, by its logs.
        if not living_topics(copy) <= living_topics(cluster.zookeeper.nodes):
            return  # What was deleted since would be back, and empty.
        cluster.zookeeper.put_back(copy)
        cluster.events.note(f"ZooKeeper is put back by {age_ms} ms, to {records} records")

    cluster.ongoing.later(age_ms, go_back)
    recover_when_told(cluster)
    return True


def living_topics(nodes: dict[str, Znode]) -> set[str]:
    return {
        node.value.state.topic_id
        for key, node in nodes.items()
        if key.startswith("topic/") and not node.value.state.deleting
    }


def recover_when_told(cluster: Cluster) -> None:
    """The operator looks at the alarms once a second, and asks for a recovery until it is made."""

    def look() -> None:
        controller = cluster.active_controller()
        if controller is not None and controller.machine is not None and controller.machine.went_back:
            event = RecoverMetadata(wall_ms=cluster.events.now_ms, actor="operator")
            controller.submit(event, lambda reply: _on_recovered(cluster, "recovers", reply))
        choose_undecided(cluster)
        cluster.events.after(1_000, look)

    if not cluster.is_recovery_watched:
        cluster.is_recovery_watched = True
        look()


def _on_recovered(cluster: Cluster, what: str, reply: Any) -> None:
    cluster.events.note(f"operator {what}: {reply}")
    if isinstance(reply, MetadataRecovered | TopicsBroughtBack):
        cluster.undecided.update(dict.fromkeys(reply.undecided))


def choose_undecided(cluster: Cluster) -> None:
    """The operator chooses a leader where the recovery put no replica in sync, as docs/backup.md says: when
    every replica has told of its log, the one that loses least by the loss preview. One member of the in-sync
    set has survived, so the chosen log holds every committed record."""
    controller = cluster.active_controller()
    if controller is None or controller.machine is None:
        return
    for key in list(cluster.undecided):
        state = cluster.truth(key)
        if state is None or key not in cluster.living or state.leader != NO_LEADER:
            del cluster.undecided[key]
            continue
        preview = controller.machine.loss_preview(key)
        if preview is None or preview.unheard:
            continue
        if preview.least is None:
            continue
        chosen = preview.least.broker_id
        cluster.oracle.choose(key)
        event = ElectUnclean(
            wall_ms=cluster.events.now_ms,
            actor="operator",
            topic_id=key[0],
            partition=key[1],
            broker_id=chosen,
            partition_epoch=PartitionEpoch(preview.partition_epoch),
        )

        def note(reply: object, chosen: int = chosen) -> None:
            cluster.events.note(f"operator chooses {chosen}: {reply}")

        controller.submit(event, note)


def _draw_forgotten(cluster: Cluster, random: Random) -> Arguments | None:
    topic_ids = sorted(
        {key[0] for key in cluster.keys if cluster.shards is None or key not in cluster.shards.keys}
        - set(cluster.operator.topics.values())
    )
    return {"topic_id": random.choice(topic_ids)} if topic_ids else None


@kind(_draw_forgotten, weight=0, family="metadata")
def topic_is_forgotten(cluster: Cluster, *, topic_id: str) -> bool:
    """S70 (the metadata forgets a topic): ZooKeeper loses the rows of one topic, and nothing by which anybody
    could tell. Brokers set its logs aside. The operator sees the alarm and brings it back."""
    keys = [key for key in cluster.keys if key[0] == topic_id]
    states = [cluster.truth(key) for key in keys]
    if cluster.options.over_budget or cluster.zookeeper.is_back or cluster.budget.unknown or not states:
        return False
    if any(s is None or s.leader == NO_LEADER or s.new_replicas or s.is_reassigning for s in states):
        return False
    if any(len(s.isr) < s.min_insync_replicas for s in states if s is not None):
        return False
    nodes = cluster.zookeeper.nodes
    for path in [f"topic/{topic_id}", *(f"partition/{key[0]}/{key[1]}" for key in keys)]:
        del nodes[path]
    for session in list(cluster.zookeeper.sessions):
        cluster.zookeeper.expire(session)
    cluster.events.note(f"ZooKeeper has forgotten topic {topic_id[:4]}")
    bring_back_when_told(cluster, topic_id)
    return True


def bring_back_when_told(cluster: Cluster, topic_id: str) -> None:
    """The operator looks once a second, and asks until the topic is there."""

    def look() -> None:
        controller = cluster.active_controller()
        if f"topic/{topic_id}" in cluster.zookeeper.nodes:
            return
        if controller is not None and controller.machine is not None and not controller.machine.went_back:
            event = BringBackTopics(wall_ms=cluster.events.now_ms, actor="operator", topic_ids=(topic_id,))
            controller.submit(event, lambda reply: _on_recovered(cluster, "brings back", reply))
        cluster.events.after(1_000, look)

    recover_when_told(cluster)
    cluster.events.after(1_000, look)


def _draw_outage(cluster: Cluster, random: Random) -> Arguments | None:
    return {"for_ms": random.randint(200, 8_000)}


@kind(_draw_outage)
def zookeeper_outage(cluster: Cluster, *, for_ms: int) -> bool:
    cluster.zookeeper.go_down()
    cluster.events.note("ZooKeeper is out")
    cluster.ongoing.begin(nodes=(), for_ms=for_ms, end=cluster.zookeeper.come_back)
    return True
