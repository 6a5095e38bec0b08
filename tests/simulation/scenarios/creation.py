"""Many partitions, whose logs are made while everything else goes on."""

from __future__ import annotations

from springtide.contract.updates import UpdateBatch
from tests.simulation.broker_node import BrokerNode
from tests.simulation.scenarios.registry import scenario
from tests.simulation.scenarios.script import Script

NAME = "many-0"
PARTITIONS = 24


def create(s: Script) -> None:
    s.cluster.operator.create(s.controller, NAME, partitions=PARTITIONS)
    s.until("the creation is acknowledged", lambda: NAME in s.cluster.operator.topics)


def made(s: Script, broker: BrokerNode) -> int:
    topic_id = s.cluster.operator.topics.get(NAME)
    return sum(key[0] == topic_id for key in broker.replicas)


@scenario("S56", controllers=2, records_per_write=4)
def creation_in_parts_and_a_failover(s: Script) -> None:
    """Brokers poll while the rows of partitions are written and their topic's is not: they are answered with
    nothing, and have applied it. Then the announcement is late, and the controller dies."""
    announcement = s.hold(UpdateBatch, reply=True, choose=lambda batch: len(batch.partitions) >= PARTITIONS)
    create(s)
    held = {b.name for b in s.cluster.brokers.values()}
    s.until("nobody has been told", lambda: {m.target for m, _ in announcement.messages} == held)
    s.run_for(1_500)  # a round of confirmations
    topic_id = s.cluster.operator.topics[NAME]
    first = s.cluster.zookeeper.nodes[f"partition/{topic_id}/0"].value
    position = first.state.partition_epoch
    s.reached("rows were written in parts, and applied by brokers without a log", not made(s, s.a))
    s.expect("I11", "who has no log is new", len(first.state.new_replicas) == 3 and position == 0)
    old = s.controller
    announcement.drop()
    old.crash()
    s.until("another controller leads", lambda: s.cluster.active_controller() not in (None, old))
    s.must(
        "L2", "every log is made", lambda: all(made(s, b) == PARTITIONS for b in s.cluster.brokers.values())
    )
    s.must(
        "L4",
        "and known to exist",
        lambda: not any(s.cluster.truth(key).new_replicas for key in s.cluster.keys),  # type: ignore[union-attr]
    )


@scenario("S57")
def leader_killed_while_logs_are_made(s: Script) -> None:
    """Disks take their time with the new logs; the partitions that exist have a new leader at once."""
    for broker in s.cluster.brokers.values():
        broker.disk.hung = True
    create(s)
    s.until("they know of it", lambda: all(b.creations.wanted for b in s.cluster.brokers.values()))
    a, b = s.a, s.b
    s.kill(a)
    s.controller.on_session_closed(a.broker_id, a.broker_epoch, "h", 1)
    s.must("I25", "B leads what it has", lambda: s.leads(b), within_ms=400)
    s.reached("no log of the new topic is made yet", not made(s, b) and not made(s, s.c))
    for broker in s.cluster.brokers.values():
        broker.disk.hung = False
    s.restart(a)
    s.must(
        "L2", "every log is made", lambda: all(made(s, x) == PARTITIONS for x in s.cluster.brokers.values())
    )


@scenario("S58")
def deleted_while_logs_are_made(s: Script) -> None:
    """The deletion has had its effect when the logs in hand, too, are gone, and not before."""
    operator = s.cluster.operator
    s.c.disk.hung = True
    create(s)
    s.until("C makes its first logs", lambda: bool(s.c.metadata.in_hand))
    topic_id = operator.topics[NAME]
    operator.delete(s.controller, NAME)
    s.until("it is deleted", lambda: NAME not in operator.topics)
    s.until("A has none of it", lambda: not any(key[0] == topic_id for key in s.a.replicas))
    s.run_for(1_000)
    s.reached("C still makes logs that nobody wants", bool(s.c.metadata.in_hand) and not s.c.creations.wanted)
    s.expect("I25", "its deletion is not over", f"topic/{topic_id}" in s.cluster.zookeeper.nodes)
    s.c.disk.hung = False
    s.must("L5", "the deletion ends", lambda: operator.is_settled() is None)
