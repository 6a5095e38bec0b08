"""Maintenance while replicas are on their way: topics deleted, rates kept, brokers drained."""

from __future__ import annotations

from controller.core.events import (
    AlterReassignments,
    MaintainBrokers,
    ReassignmentsAltered,
    ReassignmentTarget,
    RefusalCode,
)
from dataplane.core.results import LeaderAnswer
from springtide.contract.partition_state import PartitionKey
from tests.simulation.broker_node import BrokerNode
from tests.simulation.scenarios.reassignment import alteration, ids, move, moved, spare
from tests.simulation.scenarios.registry import scenario
from tests.simulation.scenarios.script import NO_LEADER, Held, Script

NAME = "side-0"


def hold_copies(s: Script, learner: BrokerNode) -> Held:
    """Nobody serves it."""
    return s.hold(dict, target=learner, reply=True)


@scenario("S24", brokers=4, fetch_bytes_max=200)
def deleted_and_made_again_while_it_was_moved(s: Script) -> None:
    """D has copied a part and is down while the topic is deleted and made again under its name."""
    operator = s.cluster.operator
    operator.create(s.controller, NAME)
    s.until("it exists", lambda: NAME in operator.topics)
    old = (operator.topics[NAME], 0)
    s.traffic()
    s.until("it is written to", lambda: s.cluster.ghosts[old].end_offset > 20)
    s.quiet()
    state = s.cluster.truth(old)
    assert state is not None
    d = next(b for n, b in sorted(s.cluster.brokers.items()) if n not in state.replicas)

    def brings_records(answer: dict[PartitionKey, LeaderAnswer]) -> bool:
        return old in answer and len(answer[old].records) > 0

    first = s.hold(dict, target=d, reply=True, choose=brings_records)
    target = ReassignmentTarget(topic_id=old[0], partition=0, replicas=(*state.replicas[1:], d.broker_id))
    event = AlterReassignments(wall_ms=s.events.now_ms, actor="operator", targets=(target,))
    reply = s.submit(event)
    s.expect("4.2", f"it is accepted: {reply}", isinstance(reply, ReassignmentsAltered))

    def copied() -> int:
        log = d.disk.logs.get(old)
        return 0 if log is None else log.log_end_offset

    s.until("D is being served", lambda: len(first) > 0)
    further = s.hold(dict, target=d, reply=True, choose=brings_records)
    first.release()
    s.until("D has copied something", lambda: copied() > 0)
    s.kill(d)
    further.drop()
    moving = s.cluster.truth(old)
    s.reached(
        "D has a part of it, and the move is under way",
        moving is not None and moving.is_reassigning and copied() < s.cluster.ghosts[old].end_offset,
    )
    operator.delete(s.controller, NAME)
    s.until("it is deleted", lambda: NAME not in operator.topics)
    s.run_for(500)  # its leaders have stopped, and its name is free
    operator.create(s.controller, NAME)
    s.until("it exists again", lambda: NAME in operator.topics)
    new = (operator.topics[NAME], 0)
    s.traffic()
    s.run_for(500)
    s.expect("4.2", "nothing of it is on its way", old not in s.controller.published.reassigning)
    s.reached("D is about to come back with bytes of the old one", new != old and old in d.disk.logs)
    d.start()
    s.must("L5", "D has deleted them", lambda: old not in d.disk.logs)
    s.must("L5", "the tombstone is gone", lambda: operator.is_settled() is None)
    served = d.disk.logs.get(new)
    s.expect("I21", "no old byte under the new id", served is None or served.log_start_offset == 0)


@scenario("S25", brokers=4, controllers=2, fetch_bytes_max=200)
def rate_of_a_move_outlives_its_controller(s: Script) -> None:
    """D copies at 150 bytes per second; the controller dies; D goes on at that rate until the move ends."""
    rate = 150
    b, c, d = s.b, s.c, spare(s)
    for _ in range(15):
        s.write_acked(s.producer(), s.a, records=3)
    target = ReassignmentTarget(topic_id=s.key[0], partition=s.key[1], replicas=ids(b, c, d))
    event = AlterReassignments(
        wall_ms=s.events.now_ms, actor="operator", targets=(target,), throttled_rate=rate
    )
    reply = s.submit(event)
    s.expect("4.2", f"it is accepted: {reply}", isinstance(reply, ReassignmentsAltered))
    s.until("D has copied something", lambda: s.log_end_or_0(d) > 0)
    first = s.controller
    first.crash()
    s.until("another controller leads", lambda: s.cluster.active_controller() not in (None, first))
    size_bytes = sum(len(batch.data) for batch in s.a.disk.logs[s.key].batches)
    left_bytes = size_bytes - sum(len(batch.data) for batch in d.disk.logs[s.key].batches)
    began_ms = s.events.now_ms
    s.reached(
        "D is on its way, at its rate",
        s.state.throttle is not None and s.state.throttle.rate == rate and left_bytes > 2 * rate,
    )
    s.must("L5", "the move is complete", lambda: not s.state.is_reassigning, 60_000)
    took_ms = s.events.now_ms - began_ms
    least_ms = (left_bytes - 2 * rate) * 1_000 // rate
    s.expect("4.2", f"{left_bytes} bytes took {took_ms} of {least_ms} ms", took_ms >= least_ms)
    s.expect("4.2", "the rate has ended with the move", s.state.throttle is None)
    moved(s, b, c, d)


@scenario("S25", brokers=5)
def cancelled_while_the_original_replicas_are_down(s: Script) -> None:
    """A, B, C become A, D, E; D is in sync, B and C are down: what only A and D have would go with D."""
    a, b, c, d = s.a, s.b, s.c, spare(s)
    e = next(n for n in s.cluster.brokers.values() if n not in (a, b, c, d))
    slow = hold_copies(s, e)
    move(s, a, d, e)
    s.until("D is in sync", lambda: d.broker_id in s.state.isr)
    s.kill(b)
    s.kill(c)
    s.until("A and D alone are in sync", lambda: s.in_isr(a, d))
    s.write_acked(s.producer(), a, records=3)
    before = s.state
    reply = s.submit(alteration(s, None))
    s.reached("it is asked to go back to A, B, C", isinstance(reply, ReassignmentsAltered))
    refusal = reply.results[0].refusal
    s.expect(
        "4.4",
        f"it is refused: {refusal}",
        refusal is not None and refusal.code is RefusalCode.REASSIGNMENT_NOT_SAFE and s.state == before,
    )
    s.restart(b)
    s.restart(c)
    move(s)
    s.expect("4.4", "B and C are back: it is granted", s.state.replicas == ids(a, b, c))
    slow.drop()
    moved(s, a, b, c)


@scenario("S27", brokers=4)
def drained_broker_stops_while_its_replica_is_on_its_way(s: Script) -> None:
    """A leads, is to be emptied, and is stopped before D has what A had."""
    a, b, c, d = s.a, s.b, s.c, spare(s)
    s.submit(
        MaintainBrokers(wall_ms=s.events.now_ms, actor="operator", broker_ids=(a.broker_id,), draining=True)
    )
    slow = hold_copies(s, d)
    move(s, b, c, d)
    s.until("D is being served", lambda: len(slow) > 0)
    s.traffic()
    a.session.wants_shutdown = True
    s.must("L5", "A may stop", lambda: not a.is_up)
    s.reached(
        "A has handed over, and D lacks what A had",
        s.state.leader in ids(b, c) and s.state.is_reassigning and d.broker_id not in s.state.isr,
    )
    s.expect("3.7", "nobody in sync has left but A", s.in_isr(b, c))
    slow.drop()
    moved(s, b, c, d)
    a.start()
    s.must("I22", "A's log is set aside", lambda: a.session.is_registered and s.key in a.disk.quarantined)


@scenario("S36", brokers=5, controllers=2)
def two_expire_in_one_tick_and_one_of_them_was_just_added(s: Script) -> None:
    """A leads, and D, which A, B, C are being moved to, is in sync: both fall silent together."""
    a, b, c, d = s.a, s.b, s.c, spare(s)
    e = next(n for n in s.cluster.brokers.values() if n not in (a, b, c, d))
    hold_copies(s, e)
    move(s, d, b, e)
    s.until("D is in sync", lambda: s.in_isr(a, b, c, d))
    s.write_acked(s.producer(), a, records=2)
    s.expire_together(a, d)
    s.expect("3.4", "nobody who was silent leads", s.state.leader in ids(b, c))
    s.expect("3.4", "nobody who is silent is in the ISR", s.in_isr(b, c))
    s.expect("4.2", "the move goes on", s.state.is_reassigning and s.state.leader != NO_LEADER)
