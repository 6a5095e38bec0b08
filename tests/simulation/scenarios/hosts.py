"""A host that is resumed from a snapshot (3.10, a host that goes back)."""

from __future__ import annotations

from springtide.contract.session import HeartbeatRequest
from tests.simulation.broker_node import BrokerNode
from tests.simulation.clients import Producer
from tests.simulation.kinds_hosts import Snapshot, resume, take
from tests.simulation.scenarios.registry import scenario
from tests.simulation.scenarios.script import Script

AGE_MS = 2_000
"""Of a snapshot: some heartbeats."""


def live_on(s: Script, broker: BrokerNode) -> Snapshot:
    """A snapshot, and what its host does afterwards: records are written, and copied everywhere."""
    s.until("A leads", lambda: s.leads(s.a))
    s.until("all are in sync", lambda: s.in_isr(s.a, s.b, s.c))
    snapshot = take(broker)
    s.traffic()
    s.run_for(AGE_MS)
    s.quiet()
    return snapshot


def lead_on(s: Script) -> tuple[Snapshot, Producer]:
    """Return a snapshot of A, which leads, before three writes; and a producer that did not write them."""
    s.until("A leads", lambda: s.leads(s.a))
    snapshot = take(s.a)
    before, after = s.producer(), s.producer()
    for _ in range(3):
        s.write_acked(before, s.a)
    s.run_for(AGE_MS)
    return snapshot, after


def go_back(s: Script, broker: BrokerNode, snapshot: Snapshot) -> None:
    end = s.log_end(broker)
    s.kill(broker)
    resume(broker, snapshot)
    s.reached(f"{broker.name} is as it was", s.log_end(broker) <= end)


def is_over(broker: BrokerNode) -> bool:
    """It has found out that it went back, or was found out."""
    return not broker.is_resumed


def was_told(s: Script) -> bool:
    return any("finds out that it went back" in line for line in s.events.recent)


def gave_up(broker: BrokerNode) -> bool:
    return any(each.code == "went_back" and each.broker_id < 0 for each in broker.problems_seen)


@scenario("S53")
def follower_resumed(s: Script) -> None:
    """The next answer to a heartbeat tells it; it comes back without its seat, and copies what it lost."""
    snapshot = live_on(s, s.b)
    go_back(s, s.b, snapshot)
    s.must("3.10", "B ends", lambda: not s.b.is_up)
    s.must("3.10", "B has no seat", lambda: s.b.broker_id not in (*s.state.isr, *s.state.elr))
    s.must("L2", "B is in sync again", lambda: s.in_isr(s.a, s.b, s.c))


@scenario("S54")
def follower_resumed_that_only_its_leader_knows(s: Script) -> None:
    """No controller answers it. It asks A for less than it has had, and A tells."""
    snapshot = live_on(s, s.b)
    s.cut_off(s.b, *s.cluster.controllers)
    go_back(s, s.b, snapshot)
    s.must(
        "3.10", "B has no seat", lambda: s.b.broker_id not in (*s.state.isr, *s.state.elr), within_ms=1_000
    )
    told = [each for each in s.a.problems_seen if each.code == "went_back"]
    s.expect("3.10", "its leader has told", [each.broker_id for each in told] == [s.b.broker_id])


@scenario("S55")
def leader_resumed(s: Script) -> None:
    """No controller answers it. Its followers have more of its own epoch than it."""
    a = s.a
    snapshot = live_on(s, a)
    committed = s.committed
    s.cut_off(a, *s.cluster.controllers)
    go_back(s, a, snapshot)
    s.must("3.10", "A gives up", lambda: gave_up(a))
    s.expect("3.10", "A serves nobody", not s.replica(a).role.may_serve(a.now_ms))
    s.expect("I15", "nobody cuts anything", min(s.log_end(s.b), s.log_end(s.c)) >= committed)
    s.mend()
    s.must("3.10", "another leads", lambda: s.leads(s.b) or s.leads(s.c))


@scenario("S55")
def leader_resumed_that_leads_its_epoch_anew(s: Script) -> None:
    """A has forgotten that it leads, hears so again, and its epoch begins before what it lost. The process
    after it has a log that is a prefix of B's, and an epoch that is not."""
    a, b = s.a, s.b
    s.until("A leads", lambda: s.leads(a))
    s.kill(a)
    s.until("B leads", lambda: s.leads(b))
    s.restart(a)
    snapshot = take(a)
    producer = s.producer()
    s.write_acked(producer, b)
    s.elect_preferred()
    s.until("A leads again", lambda: s.leads(a))
    s.write_acked(producer, a)
    s.run_for(AGE_MS)
    epoch = s.state.leader_epoch
    unheard = s.hold(HeartbeatRequest, source=a)
    go_back(s, a, snapshot)
    s.until("A leads its epoch anew", lambda: a.disk.logs[s.key].epochs.latest == epoch)
    starts = [each.disk.logs[s.key].epochs.start_offset_of(epoch) for each in (a, b)]
    s.reached("it begins earlier there", starts[0] < starts[1])
    a.disk.logs[s.key].flush()
    unheard.release()
    s.must("3.10", "A ends", lambda: not a.is_up)
    s.must("L2", "A is in sync again", lambda: s.in_isr(a, b, s.c))


@scenario("S65")
def leader_resumed_that_writes_as_much_as_it_lost(s: Script) -> None:
    """Clients reach it before its followers and controllers do: offsets and epochs are as they should be."""
    a = s.a
    snapshot, after = lead_on(s)
    end = s.log_end(a)
    s.isolate(a)
    go_back(s, a, snapshot)
    for _ in range(3):
        s.append(after, a)
    s.reached("A holds other records up to the same offset", s.log_end(a) == end == s.log_end(s.b))
    s.mend()
    s.cut_off(a, *s.cluster.controllers)
    s.must("3.10", "A gives up", lambda: gave_up(a))
    s.expect("I13", "nobody has copied them", s.log_end(s.b) == s.log_end(s.c) == end)


@scenario("S82")
def leader_resumed_that_has_forgotten_a_deletion(s: Script) -> None:
    """S65, but its followers hold nothing any more with which its records could be compared."""
    a = s.a
    snapshot, after = lead_on(s)
    end = s.log_end(a)
    s.delete(a, end)
    s.isolate(a)
    go_back(s, a, snapshot)
    writes = [s.append(after, a) for _ in range(3)]
    s.reached(
        "the others' logs begin where A holds its last record",
        s.log_end(a) == end and {s.replica(each).log.log_start_offset for each in (s.b, s.c)} == {end},
    )
    s.mend()
    s.cut_off(a, *s.cluster.controllers)
    s.must("3.10", "A gives up", lambda: gave_up(a))
    s.expect("I4", "nothing of it is acknowledged", not any(write.is_acked for write in writes))


@scenario("S83")
def fork_of_a_leader_that_began_before_its_successors_log(s: Script) -> None:
    """Of what A remembers, B has deleted the beginning. What A wrote when it had gone back must go."""
    a = s.a
    s.until("A leads", lambda: s.leads(a))
    producer, other = s.producer(), s.producer()
    s.write_acked(producer, a)
    s.run_for(200)
    snapshot = take(a)
    start = s.log_end(a)
    for _ in range(2):
        s.write_acked(producer, a)
    s.run_for(AGE_MS)
    end = s.log_end(a)
    s.delete(a, start)
    s.isolate(a)
    go_back(s, a, snapshot)
    for _ in range(2):
        s.append(other, a)
    s.reached("A holds other records up to the same offset", s.log_end(a) == end == s.log_end(s.b))
    last = s.replica(a).log.last_batches(end)
    s.reached("the last batches of A begin earlier", last is not None and last[0].base_offset < start)
    s.mend(*s.cluster.controllers)
    s.must("3.10", "another leads", lambda: s.leads(s.b) or s.leads(s.c))
    s.mend()
    s.must("5.2", "A has written its own records aside", lambda: a.disk.asides > 0)
    s.must("L2", "A is in sync again", lambda: s.in_isr(a, s.b, s.c))


@scenario("S66", min_insync_replicas=2)
def leader_resumed_that_has_forgotten_who_joined(s: Script) -> None:
    """C joined after the snapshot, and nothing was written since. A and B alone must commit nothing."""
    a, b, c = s.a, s.b, s.c
    s.until("A leads", lambda: s.leads(a))
    s.kill(c)
    s.until("C is out", lambda: s.in_isr(a, b))
    s.run_for(200)
    snapshot = take(a)
    s.run_for(AGE_MS)
    s.restart(c)
    s.run_for(200)
    s.cut_off(a, c, *s.cluster.controllers)
    go_back(s, a, snapshot)
    states = [s.replica(each).state for each in (a, b)]
    s.reached(
        "B knows that C is in sync, and A does not",
        [c.broker_id in state.isr for state in states if state is not None] == [False, True],
    )
    write = s.send(s.producer(), a)
    s.run_for(1_500)
    s.expect("I2", "nothing is committed without C", not write.is_acked)
    s.mend()
    s.must("3.10", "A finds out", lambda: is_over(a))


@scenario("S67", controllers=2)
def follower_resumed_under_another_controller(s: Script) -> None:
    """The controller that heard its heartbeats is gone. The other brokers tell the next one."""
    snapshot = live_on(s, s.b)
    first = s.controller
    first.crash()
    s.cut_off(s.b, s.a, s.c)
    go_back(s, s.b, snapshot)
    other = next(each for each in s.cluster.controllers if each is not first)
    s.until("the other leads", lambda: other.machine is not None)
    s.reached("B is as it was", s.b.is_resumed and s.b.session.heartbeats.sent > 0)
    s.must("3.10", "B ends", lambda: not s.b.is_up, within_ms=5_000)
    s.expect("3.10", "an answer has told it", was_told(s))


@scenario("S67")
def follower_resumed_that_nobody_answers(s: Script) -> None:
    """Until it has sent as many heartbeats as were heard of it before."""
    heard = s.b.session.heartbeats
    snapshot = live_on(s, s.b)
    before = heard.sent
    s.cut_off(s.b, s.a, s.c, *s.cluster.controllers)
    go_back(s, s.b, snapshot)
    s.until("its count has caught up", lambda: s.b.session.heartbeats.sent > before)
    s.reached(
        "it remembers an earlier answer", s.b.is_resumed and s.b.session.heartbeats.answered < before - 1
    )
    s.mend(s.b)
    s.must("3.10", "B ends", lambda: not s.b.is_up, within_ms=5_000)
    s.expect("3.10", "an answer has told it", was_told(s))
