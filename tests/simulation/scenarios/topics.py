"""Topics that go and come back, and logs whose beginning has gone."""

from __future__ import annotations

from tests.simulation.scenarios.registry import scenario
from tests.simulation.scenarios.script import Script

NAME = "side-0"


@scenario("S24", brokers=4)
def deleted_and_made_again_while_a_replica_was_away(s: Script) -> None:
    """C has the topic's records and is down while it is deleted and made again under its name."""
    operator = s.cluster.operator
    operator.create(s.controller, NAME)
    s.until("it exists", lambda: NAME in operator.topics)
    old = (operator.topics[NAME], 0)
    s.traffic()
    s.until("it is written to", lambda: s.cluster.ghosts[old].end_offset > 5)
    s.quiet()
    state = s.cluster.truth(old)
    assert state is not None
    away = s.cluster.brokers[state.replicas[-1]]
    s.kill(away)
    s.run_for(100)
    operator.delete(s.controller, NAME)
    s.until("it is deleted", lambda: NAME not in operator.topics)
    operator.create(s.controller, NAME)
    s.until("it exists again", lambda: NAME in operator.topics)
    new = (operator.topics[NAME], 0)
    s.traffic()
    s.run_for(500)
    s.reached(
        "C is about to come back with bytes of a topic whose name another has now",
        new != old and old in away.disk.logs and away.disk.logs[old].log_end_offset > 5,
    )
    away.start()
    s.until("C has applied the deletion", lambda: old not in away.disk.logs)
    s.until("the tombstone is gone", lambda: operator.is_settled() is None)
    served = away.disk.logs.get(new)
    s.expect("I21", "no old byte under the new id", served is None or served.log_start_offset == 0)


@scenario("S30")
def learner_below_the_leaders_log_start(s: Script) -> None:
    """While C is away the leader's log start passes C's end: C begins anew there, watermark and all."""
    s.kill(s.c)
    s.until("C is fenced", lambda: s.c.broker_id not in s.state.isr)
    for _ in range(4):
        s.write_acked(s.producer(), s.a, records=3)
    replica = s.replica(s.a)
    s.cluster.clients.delete(s.key, s.a.broker_id, s.committed - 3)
    s.until("it is deleted", lambda: s.cluster.oracle.deleted)
    s.reached("the leader's log begins beyond C's end", s.log_end(s.c) < replica.log.log_start_offset)
    s.restart(s.c)
    log = s.replica(s.c).log
    s.expect(
        "I26",
        "C begins where the leader does",
        log.log_start_offset == replica.log.log_start_offset <= s.replica(s.c).high_watermark,
    )
