"""A topic that is deleted and made again at once, while clients that know only the old one go on writing to
it, and its leaders are slow, stand still or are cut off (I39, acknowledged in the topic that there is; S86,
made again before its leaders stop).

The name is one that the usual operator does not use. The writers ask each broker that has a replica of the
old topic, again and again, as clients do whose metadata is old. The oracle judges what they are told.
"""

from __future__ import annotations

from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from springtide.contract.partition_state import NO_LEADER, PartitionKey
from springtide.wire.records import NewRecord, encode_batch
from tests.simulation.clients import ACKS_ALL, REQUEST_TIMEOUT_MS, ProduceCall
from tests.simulation.clock import WALL_START_MS
from tests.simulation.kinds_brokers import draw_ms
from tests.simulation.kinds_controllers import kill_controller
from tests.simulation.kinds_network import cut_pairs
from tests.simulation.kinds_pauses import stand_still
from tests.simulation.schedule import Arguments, kind

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster

NAME = "side-again"
TROUBLE_MS = ((50, 600), (2_000, 12_000))
#: In values: no producer of the simulation has such an id.
WRITER_ID = 1_000_000
WRITE_MS, ASK_MS = 12, 15
#: How long after the trouble the old topic is written to; and how long the new one is asked for.
WRITE_AFTER_MS, ASK_AFTER_MS = 3_000, 20_000


def _draw_remake(cluster: Cluster, random: Random) -> Arguments | None:
    return {
        "trouble": random.choice(("none", "slow", "slow", "pause", "cut", "cut", "controller")),
        "followers": random.choice((0, 1, 1, 9)),
        "after_ms": random.choice((0, 20, 300)),
        "for_ms": draw_ms(random, TROUBLE_MS),
        "acks": random.choice((ACKS_ALL, ACKS_ALL, 1)),
    }


@kind(_draw_remake, weight=0, family="topics")
def remake_topic(
    cluster: Cluster, *, trouble: str, followers: int, after_ms: int, for_ms: int, acks: int
) -> bool:
    """Delete the topic and make it again. trouble: of its leader and so many followers; "slow", "cut": they
    hear nothing of the controllers for a moment, or for long; "controller": the active one dies."""
    operator, controller = cluster.operator, cluster.active_controller()
    operator.adopt()
    topic_id = operator.topics.get(NAME)
    if controller is None:
        return False
    if topic_id is None:
        operator.create(controller, NAME)
        return True
    key = (topic_id, 0)
    state = cluster.truth(key)
    if state is None or state.leader == NO_LEADER:
        return False
    others = [b for b in (*state.isr, *state.replicas) if b != state.leader]
    struck = [state.leader, *dict.fromkeys(others)][: followers + 1]
    names = [cluster.brokers[b].name for b in struck]
    controllers = [each.name for each in cluster.controllers]
    match trouble:
        case "slow" | "cut":
            pairs = [(c, name) for c in controllers for name in names]
            pairs += [(name, c) for c in controllers for name in names] if trouble == "cut" else []
            cut_pairs(cluster, pairs, min(for_ms, 600) if trouble == "slow" else for_ms)
        case "pause":
            stand_still(cluster, nodes=names, for_ms=for_ms)
        case "controller":
            cluster.ongoing.later(after_ms + 5, partial(_kill, cluster, for_ms))
    ends_ms = cluster.events.now_ms + for_ms
    for broker_id in state.replicas:
        _write(cluster, key, broker_id, acks, ends_ms + WRITE_AFTER_MS)
    cluster.events.after(after_ms, partial(_remake, cluster, topic_id, ends_ms + ASK_AFTER_MS))
    return True


def _kill(cluster: Cluster, for_ms: int) -> None:
    controller = cluster.active_controller()
    if controller is not None:
        kill_controller(cluster, controller=controller.name, for_ms=for_ms)


def _remake(cluster: Cluster, old: str, until_ms: int) -> None:
    """Ask whichever controller leads, until another topic has the name."""
    operator, controller = cluster.operator, cluster.active_controller()
    operator.notice_deletions()
    operator.adopt()
    held = operator.topics.get(NAME)
    if operator.stopped or held not in (None, old) or cluster.events.now_ms >= until_ms:
        return
    if controller is not None and held == old:
        operator.delete(controller, NAME)
    elif controller is not None:
        operator.create(controller, NAME)
    cluster.events.after(ASK_MS, partial(_remake, cluster, old, until_ms))


def _write(cluster: Cluster, key: PartitionKey, broker_id: int, acks: int, until_ms: int) -> None:
    """Send the next batch to this broker when the answer is there, whatever it says."""
    now_ms = cluster.events.now_ms
    if now_ms >= until_ms or cluster.operator.stopped or key in cluster.oracle.conceded:
        return
    if cluster.truth(key) is None:
        return  # every broker has said that its replica is gone
    cluster.operator.written_count += 1
    value = f"{WRITER_ID + broker_id}/{cluster.operator.written_count}"
    batch = encode_batch([NewRecord(timestamp=WALL_START_MS + now_ms, key=b"k", value=value.encode())])
    name = f"again-{cluster.operator.written_count}"
    send = cluster.history.begin_send(name, key, batch, acks=acks, values=(value,))

    def again(answer: Any = None) -> None:
        send.unanswered()  # that readers may find it is all that the history has to know
        send.give_up()
        cluster.events.after(WRITE_MS, partial(_write, cluster, key, broker_id, acks, until_ms))

    cluster.network.call(
        "client",
        cluster.brokers[broker_id].name,
        ProduceCall(key, batch, acks),
        again,
        timeout_ms=REQUEST_TIMEOUT_MS,
        on_timeout=again,
    )
