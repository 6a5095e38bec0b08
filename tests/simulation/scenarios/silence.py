"""Leases. They buy silence; what is committed never rests on them (2.9, leases)."""

from __future__ import annotations

from dataplane.core.leader import Leader
from springtide.contract.session import HeartbeatResponse
from springtide.wire.errors import ErrorCode
from springtide.wire.records import NewRecord, encode_batch
from tests.simulation.broker_node import BrokerNode
from tests.simulation.clients import ProduceAnswer, ProduceCall, ReadAnswer, ReadCall
from tests.simulation.oracle import CLOCK_SLACK
from tests.simulation.scenarios.registry import scenario
from tests.simulation.scenarios.script import Script


def holds_lease(s: Script, broker: BrokerNode) -> bool:
    return broker.lease.is_held(s.events.now_ms)


def may_serve(s: Script, broker: BrokerNode) -> bool:
    return s.replica(broker).role.may_serve(s.events.now_ms)


@scenario("S13")
def leader_cut_off_from_the_controllers_only(s: Script) -> None:
    """Its followers vouch for it until the controller gives them another leader; then it is quiet."""
    a = s.a
    s.traffic()
    s.cut_off(a, *s.cluster.controllers)
    s.until("A's lease has run out", lambda: not holds_lease(s, a))
    acked = s.cluster.acked
    s.reached("its followers stand in for it", may_serve(s, a) and s.state.leader == a.broker_id)
    s.run_for(300)
    s.expect("2.9", "a leader whose followers vouch for it goes on", s.cluster.acked > acked)
    s.until("another leads", lambda: s.leads(s.b) or s.leads(s.c))
    s.until("A is quiet", lambda: not may_serve(s, a))
    epoch = s.replica(a).leader_epoch
    s.reached("A believes that it leads", epoch < s.state.leader_epoch)
    write = s.send(s.producer(), a)
    s.until("A refuses", lambda: bool(write.answers))
    s.expect("2.9", "a quiet leader acknowledges nothing", not write.is_acked)


@scenario("S15")
def requests_arrive_and_answers_do_not(s: Script) -> None:
    """A's heartbeats reach the controller, so it stays unfenced; but nothing renews A's lease."""
    a = s.a
    controller = s.controller
    s.cut(controller, a, one_way=True)
    s.cut_off(a, s.b, s.c)
    s.until("A's lease has run out", lambda: not holds_lease(s, a))
    s.run_for(3_000)
    s.reached(
        "the controller trusts A, and A does not serve",
        controller.published.is_eligible(a.broker_id)
        and s.state.leader == a.broker_id
        and not holds_lease(s, a)
        and not may_serve(s, a),
    )
    write = s.send(s.producer(), a)
    s.until("A refuses", lambda: bool(write.answers))
    s.expect("2.9", "without lease and followers it acknowledges nothing", not write.is_acked)
    s.mend()
    s.until("A serves again", lambda: may_serve(s, a))


@scenario("S15")
def answers_arrive_late(s: Script) -> None:
    """The controller hears A's heartbeat at once; the answer takes nearly as long as A waits."""
    a, lease_ms = s.a, s.cluster.options.lease_ms
    s.traffic()
    late = s.hold(HeartbeatResponse, target=a, reply=True)
    s.until("an answer is on its way", lambda: len(late) > 0)
    began_ms = s.events.now_ms
    s.cut(a, s.controller, one_way=True)
    s.run_for(800)
    late.release()
    s.run_for(10)
    s.reached("A has the answer, and its lease", holds_lease(s, a))
    s.run_for(began_ms + lease_ms * CLOCK_SLACK - s.events.now_ms)
    s.expect("2.9", "its lease counts from the question", not holds_lease(s, a))


@scenario("S35")
def leader_paused_beyond_its_lease(s: Script) -> None:
    """The leader's process stops for longer than the grace, with a producer's batch in its hands."""
    a = s.a
    s.traffic()
    s.run_for(200)
    for _ in range(3):
        s.send(s.producer(), a)
    s.run_for(1)
    a.pause()
    s.until("another leads", lambda: s.leads(s.b) or s.leads(s.c))
    committed = s.committed
    s.until("the others go on", lambda: s.committed > committed + 10)
    epoch = s.replica(a).leader_epoch
    late = s.send(s.producer(), a)
    s.run_for(5)
    a.resume()
    s.reached(
        "A wakes up as the leader of an epoch that is over",
        s.replica(a).leader_epoch == epoch < s.state.leader_epoch and not holds_lease(s, a),
    )
    s.until("A answers", lambda: bool(late.answers))
    s.expect("2.9", "A acknowledges nothing that it wrote in its sleep", not late.is_acked)


@scenario("S52", fetch_wait_ms=500)
def leader_asked_in_its_sleep(s: Script) -> None:
    """The leader stands still for 18 s. Its followers' last fetches, and questions of clients that were asked
    long after the next election, lie in its sockets; one fetch was parked before. It answers none of them."""
    a = s.a
    s.traffic()
    s.run_for(2_000)
    s.reached("its followers vouch for it", may_vouch(s, a))
    s.quiet()
    s.run_for(100)
    s.reached("fetches of both followers are parked", a.requests.fetches.parked == 2)
    a.pause()
    s.until("another leads", lambda: s.leads(s.b) or s.leads(s.c))
    s.run_for(12_000)
    answers: list[ReadAnswer | ProduceAnswer] = []
    batch = encode_batch([NewRecord(timestamp=0, key=None, value=b"late")])
    for call in (ReadCall(s.key, -1, None), ReadCall(s.key, -1, 0), ProduceCall(s.key, batch, acks=1)):
        s.network.call("client", a.name, call, answers.append, timeout_ms=5_000, on_timeout=lambda: None)
    s.run_for(5)
    a.resume()
    s.until("A answers", lambda: len(answers) == 3)
    refused = [answer.error is ErrorCode.NOT_LEADER_OR_FOLLOWER for answer in answers]
    s.expect("2.9", "A gives neither end nor records, and takes no batch with acks=1", all(refused))


def may_vouch(s: Script, broker: BrokerNode) -> bool:
    """Whether the followers alone would carry its leadership."""
    leader = s.replica(broker).role
    return isinstance(leader, Leader) and leader.in_sync.stands_in_for_the_lease(
        now_ms=broker.now_ms, lease_ms=broker.lease.lease_ms
    )
