"""Topics that go and come back, and logs whose beginning has gone."""

from __future__ import annotations

from springtide.contract.partition_state import PartitionKey
from tests.simulation import kinds_topics
from tests.simulation.clients import ACKS_ALL
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
    s.run_for(500)  # its leaders have stopped, and its name is free
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


def _made(s: Script) -> PartitionKey:
    """The topic of kinds_topics.py, written to."""
    operator = s.cluster.operator
    operator.create(s.controller, kinds_topics.NAME)
    s.until("it exists", lambda: kinds_topics.NAME in operator.topics)
    key = (operator.topics[kinds_topics.NAME], 0)
    s.traffic()
    s.until("it is written to", lambda: s.cluster.ghosts[key].end_offset > 5)
    return key


def _is_made_again(s: Script, old: PartitionKey) -> bool:
    return s.cluster.operator.topics.get(kinds_topics.NAME, old[0]) != old[0]


@scenario("S86")
def made_again_before_its_leader_has_heard_of_it(s: Script) -> None:
    """Leader and followers hear nothing of the controllers, and go on: the name waits for them."""
    old = _made(s)
    kinds_topics.remake_topic(s.cluster, trouble="cut", followers=9, after_ms=20, for_ms=2_000, acks=ACKS_ALL)
    s.until("it is deleted", lambda: kinds_topics.NAME not in s.cluster.operator.topics)
    end_offset = s.cluster.ghosts[old].end_offset
    s.run_for(500)
    s.reached("it is still written to", s.cluster.ghosts[old].end_offset > end_offset + 3)
    s.expect("I39", "the name waits", not _is_made_again(s, old))
    s.must("L5", "it is made again", lambda: _is_made_again(s, old))


@scenario("S86", brokers=5, replication_factor=2, min_insync_replicas=2)
def made_again_while_leader_and_follower_are_cut_off_together(s: Script) -> None:
    """Both are fenced, and acknowledge for as long as they vouch for each other: no lease frees the name."""
    old = _made(s)
    kinds_topics.remake_topic(
        s.cluster, trouble="cut", followers=1, after_ms=20, for_ms=25_000, acks=ACKS_ALL
    )
    s.run_for(3 * s.cluster.options.grace_ms)
    state = s.cluster.truth(old)
    assert state is not None
    brokers = s.controller.published.brokers
    s.reached("both are fenced", all(brokers[b].fenced for b in state.replicas))
    end_offset = s.cluster.ghosts[old].end_offset
    s.run_for(300)
    s.reached("they go on", s.cluster.ghosts[old].end_offset > end_offset + 3)
    s.expect("I39", "the name waits", not _is_made_again(s, old))
    s.must("L5", "it is made again", lambda: _is_made_again(s, old))


@scenario("S86", brokers=4)
def made_again_after_a_dead_leader(s: Script) -> None:
    """A process that has ended holds no name, also under a controller that has to find that out."""
    old = _made(s)
    state = s.cluster.truth(old)
    assert state is not None
    leader = s.cluster.brokers[state.leader]
    s.kill(leader)
    kinds_topics.remake_topic(
        s.cluster, trouble="controller", followers=0, after_ms=0, for_ms=500, acks=ACKS_ALL
    )
    s.must("L5", "it is made again", lambda: _is_made_again(s, old))
    s.reached("the dead leader has its log", old in leader.disk.logs and not leader.is_up)
    leader.start()
    s.must("L5", "its old log is gone", lambda: old not in leader.disk.logs)


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
