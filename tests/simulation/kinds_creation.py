"""Many partitions at once: created, moved and deleted while roles fail over (S56 to S58).

A creation is written, and published, in parts where `records_per_write` is small, so that there are moments
between them; brokers make the logs a few at a time, now and then slowly. The active controller
or a broker may be struck meanwhile, in the middle of a creation, a deletion or a move. What was created is a
topic like all others from then on: kinds that choose among all partitions, and kill, cut off and unplug their
brokers, mostly find these.
"""

from __future__ import annotations

import base64
from random import Random
from typing import TYPE_CHECKING

from controller.core.events import AlterReassignments, ReassignmentTarget
from tests.simulation.kinds_brokers import kill_broker
from tests.simulation.kinds_controllers import expire_session, kill_controller
from tests.simulation.kinds_operators import ACTOR, LOOK_MS, LOOKS_MAX, ask
from tests.simulation.schedule import Arguments, kind

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster
    from tests.simulation.controller_node import ControllerNode

NAME = "many-0"
SIZES = (8, 8, 20)
FAMILY_SIZES = (20, 60)
MOVED_MAX = 12


def _draw_creation(cluster: Cluster, random: Random) -> Arguments | None:
    if NAME in cluster.operator.topics:
        return None
    return {
        "topic": base64.urlsafe_b64encode(random.randbytes(16)).decode().rstrip("="),
        "partitions": random.choice(FAMILY_SIZES if cluster.options.family else SIZES),
        **_draw_strike(cluster, random),
    }


def _draw_strike(cluster: Cluster, random: Random) -> Arguments:
    return {
        "then": random.choice((None, "kill", "expire", "kill_broker")),
        "after_ms": random.choice((0, 2, 10, 40, 200, 1_200)),
        "for_ms": random.randint(100, 4_000),
        "broker": random.choice(sorted(cluster.brokers)),
    }


def _strike_after(
    cluster: Cluster,
    controller: ControllerNode,
    *,
    then: str | None,
    after_ms: int,
    for_ms: int,
    broker: int,
) -> None:
    """The controller that was asked or a broker dies for so long, or the active one loses its session."""

    def strike() -> None:
        if then == "expire":
            expire_session(cluster)
        elif then == "kill" and controller.is_up:
            kill_controller(cluster, controller=controller.name, for_ms=for_ms)
        elif then == "kill_broker" and broker in cluster.brokers:
            kill_broker(cluster, broker=broker, for_ms=for_ms)

    if then is not None:
        cluster.ongoing.later(after_ms, strike)


@kind(_draw_creation, family="creation")
def create_many(
    cluster: Cluster,
    *,
    topic: str,
    partitions: int,
    then: str | None,
    after_ms: int,
    for_ms: int,
    broker: int = -1,
) -> bool:
    controller = cluster.active_controller()
    if controller is None or NAME in cluster.operator.topics:
        return False
    cluster.operator.create(controller, NAME, topic, partitions=partitions)
    _look_for(cluster, topic, LOOKS_MAX)
    _strike_after(cluster, controller, then=then, after_ms=after_ms, for_ms=for_ms, broker=broker)
    return True


def _look_for(cluster: Cluster, topic_id: str, looks: int) -> None:
    """Until it is known to exist: its answer may be lost."""
    if looks and cluster.operator.topics.get(NAME) != topic_id:
        cluster.operator.adopt()
        cluster.events.after(LOOK_MS, lambda: _look_for(cluster, topic_id, looks - 1))


def _draw_deletion(cluster: Cluster, random: Random) -> Arguments | None:
    return _draw_strike(cluster, random) if NAME in cluster.operator.topics else None


@kind(_draw_deletion, family="creation")
def delete_many(
    cluster: Cluster, *, then: str | None = None, after_ms: int = 0, for_ms: int = 0, broker: int = -1
) -> bool:
    controller = cluster.active_controller()
    if controller is None or NAME not in cluster.operator.topics:
        return False
    cluster.operator.delete(controller, NAME)
    _strike_after(cluster, controller, then=then, after_ms=after_ms, for_ms=for_ms, broker=broker)
    return True


def _draw_moves(cluster: Cluster, random: Random) -> Arguments | None:
    topic_id = cluster.operator.topics.get(NAME)
    keys = [key for key in cluster.keys if key[0] == topic_id]
    if not keys:
        return None
    count = min(cluster.options.replication_factor, len(cluster.brokers))
    brokers = sorted(cluster.brokers)
    chosen = random.sample(keys, min(len(keys), MOVED_MAX))
    moves = [[number, random.sample(brokers, count)] for _, number in chosen]
    return {"topic": topic_id, "moves": moves, **_draw_strike(cluster, random)}


@kind(_draw_moves, family="creation")
def move_many(
    cluster: Cluster,
    *,
    topic: str,
    moves: list[tuple[int, list[int]]],
    then: str | None = None,
    after_ms: int = 0,
    for_ms: int = 0,
    broker: int = -1,
) -> bool:
    """Other replicas for many of them, whether or not their logs have been made."""
    targets = tuple(
        ReassignmentTarget(topic_id=topic, partition=number, replicas=tuple(replicas))
        for number, replicas in moves
    )
    controller = cluster.active_controller()
    if controller is not None:
        _strike_after(cluster, controller, then=then, after_ms=after_ms, for_ms=for_ms, broker=broker)
    return ask(cluster, AlterReassignments(wall_ms=cluster.events.now_ms, actor=ACTOR, targets=targets))
