"""A topic that is deleted by mistake, kept and restored, while brokers and controllers die in between (S92,
deleted by mistake).

Each strike of this kind takes the next step in the life of one topic: it is created, deleted, and restored,
or now and then purged; and something breaks with it. The oracle remembers what was committed in it: each
broker that may lead the restored topic must hold all of that (I1, candidates are complete).
"""

from __future__ import annotations

from functools import partial
from random import Random
from typing import TYPE_CHECKING

from tests.simulation.kinds_brokers import draw_ms, kill_broker, power_cut
from tests.simulation.kinds_controllers import kill_controller
from tests.simulation.schedule import Arguments, kind

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster

NAME = "side-kept"
DOWN_MS = ((50, 600), (2_000, 8_000))
FOR_EVER_MS, SHORT_MS = 10**9, 4_000
#: So many are not restored by one write of a run with small ones: a controller dies between them. One topic
#: in so many has them.
MANY, MANY_EVERY = 9, 3


def _draw(cluster: Cluster, random: Random) -> Arguments | None:
    return {
        "then": random.choice(("none", "kill", "kill", "power", "power", "controller")),
        "broker": random.choice(sorted(cluster.brokers)),
        "retention_ms": random.choice((FOR_EVER_MS, FOR_EVER_MS, SHORT_MS)),
        "purge": random.random() < 0.1,
        "after_ms": random.choice((0, 30, 400)),
        "for_ms": draw_ms(random, DOWN_MS),
        "salt": random.randrange(2**32),
    }


@kind(_draw, weight=0, family="kept")
def keep_topic(
    cluster: Cluster,
    *,
    then: str,
    broker: int,
    retention_ms: int,
    purge: bool,
    after_ms: int,
    for_ms: int,
    salt: int,
) -> bool:
    """Take the next step; then a broker's process or machine dies, or the active controller."""
    operator, controller = cluster.operator, cluster.active_controller()
    operator.notice_deletions()
    operator.adopt()
    if controller is None or operator.stopped:
        return False
    kept = next(iter(operator.kept), None)
    if NAME in operator.topics:
        operator.delete(controller, NAME)
    elif kept is None:
        configs = {"deleted.topic.retention.ms": str(retention_ms)}
        partitions = 1 if salt % MANY_EVERY else MANY
        operator.create(controller, NAME, partitions=partitions, configs=configs)
    elif purge:
        operator.purge(controller, kept)
    else:
        operator.restore(controller, kept)
    if then != "none":
        strike = partial(_strike, cluster, then=then, broker=broker, for_ms=for_ms, salt=salt)
        cluster.ongoing.later(after_ms, strike)
    return True


def _strike(cluster: Cluster, *, then: str, broker: int, for_ms: int, salt: int) -> None:
    controller = cluster.active_controller()
    if then == "controller" and controller is not None:
        kill_controller(cluster, controller=controller.name, for_ms=for_ms)
    elif then == "kill" and broker in cluster.brokers:
        kill_broker(cluster, broker=broker, for_ms=for_ms)
    elif then == "power" and broker in cluster.brokers:
        power_cut(cluster, broker=broker, for_ms=for_ms, salt=salt)
