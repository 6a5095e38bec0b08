"""What operators do to a partition while parts of the cluster fail."""

from __future__ import annotations

from controller.core.events import (
    AlterReassignments,
    ConfigureTopic,
    ReassignmentsAltered,
    ReassignmentTarget,
    TopicConfigured,
)
from dataplane.core.leader import Leader
from springtide.contract.errors import ControllerError
from springtide.contract.lag_report import LagReportResponse
from springtide.contract.updates import UpdateBatch
from tests.simulation.broker_node import BrokerNode
from tests.simulation.scenarios.registry import scenario
from tests.simulation.scenarios.script import NO_LEADER, Held, Script


def ids(*brokers: BrokerNode) -> tuple[int, ...]:
    return tuple(broker.broker_id for broker in brokers)


def spare(s: Script) -> BrokerNode:
    """The first broker that holds no replica of the partition."""
    return next(b for n, b in sorted(s.cluster.brokers.items()) if n not in s.state.replicas)


def alteration(s: Script, replicas: tuple[int, ...] | None) -> AlterReassignments:
    target = ReassignmentTarget(topic_id=s.key[0], partition=s.key[1], replicas=replicas)
    return AlterReassignments(wall_ms=s.events.now_ms, actor="operator", targets=(target,))


def move(s: Script, *brokers: BrokerNode) -> None:
    """Ask for these replicas, or without any for the end of the move that is on its way."""
    reply = s.submit(alteration(s, ids(*brokers) or None))
    s.expect("4.2", f"it is accepted: {reply}", isinstance(reply, ReassignmentsAltered))
    refusal = reply.results[0].refusal
    s.expect("4.2", f"it is accepted: {refusal}", refusal is None)


def moved(s: Script, *brokers: BrokerNode) -> None:
    """It must come to that: exactly these, all in sync, and nobody else has a log of it."""
    s.must("L5", "the move is complete", lambda: not s.state.is_reassigning)
    s.expect("4.2", f"as asked: {s.state}", s.state.replicas == ids(*brokers))
    s.must("L2", "all are in sync", lambda: set(s.state.isr) == set(s.state.replicas))
    others = [b for b in s.cluster.brokers.values() if b not in brokers]
    s.must(
        "L5",
        "what was moved away is deleted or set aside",
        lambda: all(not b.is_up or s.key not in b.disk.logs for b in others),
    )


def deafen(s: Script, broker: BrokerNode) -> Held:
    """It hears nothing of the metadata stream until what is held is dropped: then the next answer holds all
    that has happened, each partition once."""
    return s.hold(UpdateBatch, target=broker, reply=True)


def set_minimum(s: Script, minimum: int) -> None:
    configs: dict[str, str | None] = {"min.insync.replicas": str(minimum)}
    event = ConfigureTopic(wall_ms=s.events.now_ms, actor="operator", topic_id=s.key[0], configs=configs)
    reply = s.submit(event)
    s.expect("2.6", f"it is accepted: {reply}", isinstance(reply, TopicConfigured))


@scenario("S12", replication_factor=2, min_insync_replicas=2)
def lower_minimum_and_back(s: Script) -> None:
    """ISR {A}, ELR {B}; with a minimum of 1 A commits alone and dies: B must not lead."""
    a, b = s.a, s.b
    s.kill(b)
    s.until("B is eligible", lambda: s.state.elr == ids(b))
    set_minimum(s, 1)
    s.until("A knows it", lambda: s.replica(a).state == s.state and s.state.min_insync_replicas == 1)
    s.write_acked(s.producer(), a, records=3)
    s.reached("A has committed what B lacks", s.committed > b.disk.logs[s.key].log_end_offset)
    s.expect("I12", "B is eligible no more", s.state.elr == ())
    set_minimum(s, 2)
    s.until("A knows it", lambda: s.replica(a).state == s.state)
    s.kill(a)
    s.until("nobody leads", lambda: s.state.leader == NO_LEADER)
    b.start()
    s.until("B is trusted", lambda: s.controller.published.is_eligible(b.broker_id))
    s.run_for(1_000)
    s.expect("I1", "B is not elected", s.state.leader == NO_LEADER)
    s.restart(a)


@scenario("S12", replication_factor=3, min_insync_replicas=1)
def raised_minimum_is_answered_when_its_leader_obeys_it(s: Script) -> None:
    """ISR {A, B}; the minimum rises to 3 while A hears nothing and commits under the old one."""
    a, c = s.a, s.c
    s.kill(c)
    s.until("C has left", lambda: c.broker_id not in s.state.isr)
    s.until("A knows it", lambda: s.replica(a).state == s.state)
    news = deafen(s, a)
    answers: list[object] = []
    configs: dict[str, str | None] = {"min.insync.replicas": "3"}
    event = ConfigureTopic(wall_ms=s.events.now_ms, actor="operator", topic_id=s.key[0], configs=configs)
    told = s.cluster.oracle.on_minimum_asked(s.key[0], 3)

    def answered(reply: object) -> None:
        answers.append(reply)
        told(reply)

    s.controller.submit(event, answered, waits=True)
    s.until("it is stored", lambda: s.state.min_insync_replicas == 3)
    s.write_acked(s.producer(), a, records=2)
    state = s.replica(a).state
    s.reached("A has committed under the old minimum", state is not None and state.min_insync_replicas == 1)
    s.expect("2.12", "no answer has said that it is in force", not answers)
    news.drop()
    s.until("the operator is answered", lambda: bool(answers))
    state = s.replica(a).state
    s.expect("2.12", "A obeys it", state is not None and state.min_insync_replicas == 3)


@scenario("S12", replication_factor=3, min_insync_replicas=1)
def member_leaves_under_a_higher_minimum_that_its_leader_has_not_heard_of(s: Script) -> None:
    """The minimum rises to 3 while A hears nothing; C is fenced, is eligible, and is still waited for."""
    a, c = s.a, s.c
    news = deafen(s, a)
    set_minimum(s, 3)
    s.kill(c)
    s.until("C is eligible", lambda: c.broker_id in s.state.elr)
    end = s.committed
    write = s.send(s.producer(), a, records=2)
    s.run_for(300)
    held = s.replica(a).state
    assert held is not None
    s.reached(
        "A knows the old minimum, and has written",
        held.min_insync_replicas == 1 and s.log_end(a) > end and not write.is_acked,
    )
    s.expect("I2", "nothing is committed without C", s.committed == end)
    s.kill(a)
    news.drop()


@scenario("S25", brokers=4, controllers=2)
def controller_and_leader_die_while_a_learner_catches_up(s: Script) -> None:
    """A, B, C become B, C, D; the controller dies once the move is written, the leader once D is served."""
    a, b, c, d = s.a, s.b, s.c, spare(s)
    slow = s.hold_fetch_answers(a, d)
    move(s, b, c, d)
    s.until("D is being served", lambda: len(slow) > 0)
    first = s.controller
    first.crash()
    s.reached(
        "the controller is dead and the move is under way",
        s.state.is_reassigning and d.broker_id not in s.state.isr,
    )
    s.until("another controller leads", lambda: s.cluster.active_controller() not in (None, first))
    s.expect("4.2", "it knows of the move", s.key in s.controller.published.reassigning)
    s.kill(a)
    slow.drop()
    s.until("B leads", lambda: s.leads(b))
    s.write_acked(s.producer(), b, records=2)
    moved(s, b, c, d)
    first.start()
    a.start()
    s.must("I22", "A's log is set aside", lambda: a.session.is_registered and s.key in a.disk.quarantined)


@scenario("S25", brokers=4, controllers=2)
def controller_dies_in_the_write_of_the_completion(s: Script) -> None:
    """The completion has set out for ZooKeeper and does not arrive: the next controller completes it."""
    a, b, c, d = s.a, s.b, s.c, spare(s)
    slow = s.hold_fetch_answers(a, d)
    move(s, b, c, d)
    s.until("D is being served", lambda: len(slow) > 0)
    s.until("the replicas are known to exist", lambda: not s.controller.queue)
    first = s.controller
    writes = s.hold_writes(first)
    slow.release()
    s.until("the completion is under way", lambda: len(writes) > 0)
    s.run_for(50)
    first.pause()
    s.reached("the move is not complete for anybody", s.state.is_reassigning)
    s.must(
        "L4",
        "another controller leads",
        lambda: s.cluster.active_controller() not in (None, first),
    )
    writes.release()
    first.resume()
    moved(s, b, c, d)
    s.expect("I5", "the old controller's write was refused", s.state.leader in ids(b, c, d))


@scenario("S25", brokers=4)
def leader_that_goes_does_not_hear_of_the_completion(s: Script) -> None:
    """A proposes D, the move is complete and B leads; A knows nothing of it and is written to."""
    a, b, c, d = s.a, s.b, s.c, spare(s)
    answers = s.hold(LagReportResponse, target=a, reply=True, choose=lambda answer: bool(answer.results))
    move(s, b, c, d)
    s.until("A leads D", lambda: s.replica(a).state == s.state)
    news = deafen(s, a)
    s.until("the move is complete", lambda: not s.state.is_reassigning)
    end = s.log_end(a)
    write = s.send(s.producer(), a, records=2)
    s.until("B leads", lambda: s.leads(b))
    s.run_for(100)
    s.reached(
        "A believes that it leads, and has written", s.replica(a).role.name == "leader" and s.log_end(a) > end
    )
    s.expect("I4", "nothing of that is acknowledged", not write.is_acked and s.committed <= end)
    answers.release()
    news.drop()
    s.retry(write, b)
    moved(s, b, c, d)


@scenario("S25", brokers=4)
def cancelled_while_its_last_addition_is_under_way(s: Script) -> None:
    """+D is on its way when the operator cancels: it arrives afterwards and brings nobody in."""
    a, b, c, d = s.a, s.b, s.c, spare(s)
    reports = s.hold_proposals(a)
    answers = s.watch(LagReportResponse, source=s.controller, reply=True)
    move(s, a, b, d)
    s.until("+D is under way", lambda: len(reports) > 0 and d.broker_id in s.replica(a).maximal_isr)
    before = s.state.leader_epoch
    move(s)
    s.reached(
        "the move is cancelled, in a higher leader epoch",
        s.state.replicas == ids(a, b, c) and s.state.leader_epoch > before,
    )
    seen = len(answers)
    reports.release()
    s.until("the late request is answered", lambda: len(answers) > seen)
    errors = {result.error for answer in answers[seen:] for result in answer.results}
    s.expect("I7", f"it is fenced: {errors}", ControllerError.NONE not in errors)
    moved(s, a, b, c)


@scenario("S26", brokers=4)
def removed_and_added_again_within_one_batch(s: Script) -> None:
    """A hears of neither, then of both at once: C's position from before is worth nothing, for C is empty."""
    a, b, c = s.a, s.b, s.c
    leader = s.replica(a).role
    position = leader.in_sync.follower(c.broker_id) if isinstance(leader, Leader) else None
    s.expect("I3", "A has seen all of C's log", getattr(position, "log_end_offset", -1) == s.committed)
    news = deafen(s, a)
    move(s, a, b)
    s.until("C has deleted its log", lambda: s.key not in c.disk.logs)
    fetches = s.hold_fetches(c, a)
    move(s, a, b, c)
    s.until("C has begun anew", lambda: s.key in c.disk.logs and len(fetches) > 0)
    end = s.committed
    s.reached(
        "C is an empty learner, and A believes it to be in sync",
        s.log_end(c) == 0 < end
        and c.broker_id in s.replica(a).maximal_isr
        and c.broker_id not in s.state.isr,
    )
    news.drop()
    s.until("A has heard of the outcome", lambda: s.replica(a).state == s.state)
    s.run_for(50)
    s.expect("I9", "C is not asked for", c.broker_id not in s.replica(a).maximal_isr)
    s.write_acked(s.producer(), a, records=2)
    s.expect("I3", "it is committed without C", s.committed > end and s.log_end(c) == 0)
    fetches.release()
    moved(s, a, b, c)
