"""Who counts as in sync, and what the high watermark waits for."""

from __future__ import annotations

from dataplane.core.leader import Leader
from dataplane.core.results import LATEST_TIMESTAMP, OffsetResult
from springtide.contract.epochs import LeaderEpoch
from springtide.contract.errors import ControllerError
from springtide.contract.lag_report import LagReportResponse
from springtide.contract.updates import UpdateBatch
from springtide.wire.errors import ErrorCode
from tests.simulation.broker_node import BrokerNode
from tests.simulation.scenarios.registry import scenario
from tests.simulation.scenarios.script import Script


def out_of_isr(s: Script, follower: BrokerNode, leader: BrokerNode) -> None:
    """Cut the two apart until the leader has got rid of the follower."""
    s.cut(follower, leader)
    producer = s.producer()
    s.send(producer, leader)  # a follower that has everything never lags
    s.until("the ISR shrinks", lambda: follower.broker_id not in s.state.isr)
    s.run_for(50)


def errors_in(answers: list[LagReportResponse]) -> set[ControllerError]:
    return {result.error for answer in answers for result in answer.results}


@scenario("S3")
def expansion_by_the_name_of_a_dead_incarnation(s: Script) -> None:
    """+B is under way; B dies, its disk is replaced, it registers; then the request arrives."""
    out_of_isr(s, s.b, s.a)
    reports = s.hold_proposals(s.a)
    answers = s.watch(LagReportResponse, source=s.controller, reply=True)
    s.mend(s.b)
    s.until("+B is under way", lambda: len(reports) > 0 and s.b.broker_id in s.replica(s.a).maximal_isr)
    epoch = s.b.broker_epoch
    s.kill(s.b)
    s.b.replace_disk()
    fetches = s.hold_fetches(s.b, s.a)
    s.b.start()
    s.until("B is registered again", lambda: s.b.broker_epoch > epoch and len(fetches) > 0)
    reports.release()
    s.until("an answer", lambda: bool(errors_in(answers)))
    s.reached("it names an incarnation that is over", s.b.broker_epoch > epoch)
    s.expect("I8", "it is refused", ControllerError.NONE not in errors_in(answers))
    s.expect("2.4", "for its member", ControllerError.INELIGIBLE_REPLICA in errors_in(answers))
    s.run_for(500)
    fetches.release()


@scenario("S3")
def late_copy_of_a_refused_expansion(s: Script) -> None:
    """+B is refused while B is fenced, and A waits for it no more; B is trusted again, a copy arrives."""
    out_of_isr(s, s.b, s.a)
    reports = s.hold_proposals(s.a)
    answers = s.watch(LagReportResponse, source=s.controller, reply=True)
    s.mend(s.b)
    s.until("+B is under way", lambda: len(reports) > 0 and s.b.broker_id in s.replica(s.a).maximal_isr)
    s.cut_off(s.b, *s.cluster.controllers)
    s.until("B is fenced", lambda: not s.controller.published.is_eligible(s.b.broker_id))
    s.until("copies are under way", lambda: len(reports) > 2)
    reports.is_over = True
    s.cut(s.b, s.a)
    copies = [arrive for _, arrive in reports.messages]
    copies.pop()()
    s.until("A waits no more", lambda: s.b.broker_id not in s.replica(s.a).maximal_isr)
    s.mend(s.controller)
    s.until("B is trusted again", lambda: s.controller.published.is_eligible(s.b.broker_id))
    before = len(answers)
    for arrive in copies:
        arrive()
    s.until("the copies are answered", lambda: len(answers) >= before + len(copies))
    s.reached("B may join again, and A does not ask for it", s.b.broker_id not in s.replica(s.a).maximal_isr)
    s.expect("I2", "no copy is accepted", s.b.broker_id not in s.state.isr)


@scenario("S4")
def fetch_of_a_dead_incarnation(s: Script) -> None:
    """B asks from the end, loses its tail with the machine, and is back; then its old fetch arrives."""
    producer = s.producer()
    for broker in (s.a, s.b, s.c):
        broker.disk.logs[s.key].flush()
    s.write_acked(producer, s.a, records=3)
    s.cut(s.a, s.c)
    old = s.hold_fetches(s.b, s.a)
    s.until("B's fetch is under way", lambda: len(old) > 0)
    old.is_over = True
    s.power_cut(s.b)
    epoch = s.b.broker_epoch
    served = s.watch(dict, source=s.a, reply=True)
    s.b.start()
    new = s.hold_fetches(s.b, s.a)
    s.until("A knows the new incarnation", lambda: s.a.view.brokers[s.b.broker_id].broker_epoch > epoch)
    s.until("the new incarnation asks", lambda: len(new) > 0)
    before = len(served)
    for _, arrive in old.messages:
        arrive()
    s.run_for(1)
    refused = [answer[s.key].error for answer in served[before:] if s.key in answer]
    s.reached(
        "the dead incarnation's fetch is refused while B lacks the record",
        refused == [ErrorCode.STALE_BROKER_EPOCH] and s.log_end(s.b) < s.log_end(s.a),
    )


@scenario("S5")
def joining_before_the_epoch_start(s: Script) -> None:
    """B leads with a high watermark that lags behind what A committed; C has reached only that."""
    s.cut(s.c, s.a)
    end = s.log_end(s.b)
    write = s.send(s.producer(), s.a, records=3)
    s.until("B has the records", lambda: s.log_end(s.b) > end)
    ignorant = s.hold_fetch_answers(s.a, s.b)
    s.until("A has committed without C", lambda: s.committed == s.log_end(s.a))
    s.kill(s.a)
    ignorant.drop()
    s.until("B leads", lambda: s.leads(s.b))
    slow = s.hold_fetch_answers(s.b, s.c)
    s.mend(s.c)
    s.until("C asks B", lambda: len(slow) > 0 and isinstance(s.replica(s.b).role, Leader))
    follower = s.replica(s.b).role.in_sync.follower(s.c.broker_id)  # type: ignore[attr-defined]
    s.reached(
        "C has what B knows to be committed, and not what is",
        follower is not None
        and s.replica(s.b).high_watermark <= follower.log_end_offset < s.log_end(s.b)
        and s.log_end(s.c) < s.committed
        and write.is_acked,
    )
    latest = s.replica(s.b).role.list_offset(
        LATEST_TIMESTAMP, leader_epoch=LeaderEpoch(-1), now_ms=s.b.now_ms
    )
    s.expect(
        "I19",
        "B does not say where the log ends",
        isinstance(latest, OffsetResult) and latest.error is ErrorCode.OFFSET_NOT_AVAILABLE,
    )
    s.run_for(450)
    slow.release()


@scenario("S6")
def applied_expansion_whose_answer_was_lost(s: Script) -> None:
    """The controller has C in the ISR, A has not heard so; A goes on writing, and C is elected."""
    out_of_isr(s, s.c, s.a)
    results = s.hold(LagReportResponse, target=s.a, reply=True)
    pushes = s.hold(UpdateBatch, target=s.a, reply=True)
    s.mend(s.c)
    s.until("C is in sync for the controller", lambda: s.c.broker_id in s.state.isr)
    s.cut(s.c, s.a)
    producer = s.producer()
    end = s.log_end(s.c)
    write = s.send(producer, s.a, records=2)
    s.until("B has it", lambda: s.log_end(s.b) > end)
    s.run_for(1_500)
    held = s.replica(s.a).state
    assert held is not None
    s.reached(
        "A writes past C, and its committed ISR is without C",
        s.c.broker_id not in held.isr and s.c.broker_id in s.state.isr and s.log_end(s.a) > s.log_end(s.c),
    )
    s.kill(s.a)
    s.kill(s.b)
    results.drop()
    pushes.drop()
    s.until("C leads", lambda: s.leads(s.c))
    assert not write.is_acked or s.log_end(s.c) > end


@scenario("S7", lag_ms_max=2_000)
def leads_again_without_having_followed(s: Script) -> None:
    """A leads epoch 1, B leads 2, A leads 3; A saw only 1 and 3, and remembers C at a place that C cut."""
    a, b, c = s.b, s.a, s.c  # B of the rule book is the preferred leader here
    s.kill(b)
    s.until("A leads", lambda: s.leads(a))
    s.restart(b)
    s.quiet()
    first = s.replica(a).leader_epoch
    behind = s.hold_fetches(b, a)
    blind = s.blind(a)
    s.until("A polls in vain", lambda: len(blind) > 0)
    producer = s.producer()
    write = s.send(producer, a, records=3)
    s.until("C has it, and A knows", lambda: position(s, a, c) == s.log_end(a) > s.committed)
    old = s.hold_fetches(c, a)
    s.until("C asks A again", lambda: len(old) > 0)
    s.elect_preferred()
    s.until("B leads", lambda: s.leads(b))
    s.until("C has cut it", lambda: s.log_end(c) < s.log_end(a) and s.replica(c).leader_epoch > first)
    s.kill(b)
    s.until("A is to lead again", lambda: s.state.leader == a.broker_id and s.state.leader_epoch == first + 2)
    seen = s.replica(a).leader_epoch
    silent = s.hold_fetches(c, a)
    behind.drop()
    served = s.watch(dict, source=a, reply=True)
    blind.release()
    s.until("A leads again", lambda: s.leads(a))
    s.reached(
        "A went from epoch 1 to 3 as leader, with records that C no longer has",
        seen == first and s.log_end(c) < s.log_end(a) and not write.is_acked,
    )
    old.release()
    s.run_for(1)
    s.expect(
        "I7",
        "a fetch of the first epoch is fenced in the third",
        {answer[s.key].error for answer in served} == {ErrorCode.FENCED_LEADER_EPOCH},
    )
    s.run_for(100)
    silent.release()


def position(s: Script, leader: BrokerNode, follower: BrokerNode) -> int:
    """Where the leader believes the follower to be; -1: unknown, or it does not lead."""
    role = s.replica(leader).role
    if not isinstance(role, Leader):
        return -1
    progress = role.in_sync.follower(follower.broker_id)
    return -1 if progress is None else progress.log_end_offset


@scenario("S19")
def shrink_and_fencing_from_one_base(s: Script) -> None:
    """A asks to drop C while the controller fences B; both start from the same state."""
    reports = s.hold_proposals(s.a)
    answers = s.watch(LagReportResponse, source=s.controller, reply=True)
    out = s.producer()
    s.cut(s.c, s.a)
    s.send(out, s.a)
    s.until("the request to drop C is under way", lambda: len(reports) > 0)
    base = s.state.partition_epoch
    s.kill(s.b)
    s.until("B is fenced", lambda: s.b.broker_id not in s.state.isr)
    s.until("A has seen it", lambda: epoch_held(s, s.a) > base)
    reports.release()
    s.until("an answer", lambda: bool(errors_in(answers)))
    s.reached("the request is behind", s.state.partition_epoch > base)
    s.expect("I6", "the loser is told so", errors_in(answers) == {ControllerError.INVALID_UPDATE_VERSION})
    s.until("C leaves by another request", lambda: s.in_isr(s.a))
    s.reached(
        "and stays eligible, unlike B, without whom more was committed", s.state.elr == (s.c.broker_id,)
    )


def epoch_held(s: Script, broker: BrokerNode) -> int:
    state = s.replica(broker).state
    return -1 if state is None else state.partition_epoch


@scenario("S19")
def request_of_a_deposed_leader(s: Script) -> None:
    """A's request to drop C is under way while A is fenced; it arrives when B leads and has committed."""
    reports = s.hold_proposals(s.a)
    answers = s.watch(LagReportResponse, source=s.controller, reply=True)
    s.cut(s.c, s.a)
    s.send(s.producer(), s.a)
    s.until("the request is under way", lambda: len(reports) > 0)
    s.isolate(s.a)
    s.until("B leads", lambda: s.leads(s.b))
    s.write_acked(s.producer(), s.b, records=3)
    before = len(answers)
    reports.release()
    s.until("it is answered", lambda: len(answers) > before)
    s.reached("it arrives in a later leader epoch", s.replica(s.a).leader_epoch < s.state.leader_epoch)
    refused = errors_in(answers[before:])
    s.expect("I7", "it is fenced", refused == {ControllerError.FENCED_LEADER_EPOCH})


@scenario("S20")
def newer_push_before_an_older_answer(s: Script) -> None:
    """The controller accepts A's request (epoch 8), then fences B (epoch 9); A hears of 9 first."""
    results = s.hold(LagReportResponse, target=s.a, reply=True, choose=lambda answer: bool(answer.results))
    s.cut(s.c, s.a)
    s.send(s.producer(), s.a)
    s.until("the answer is under way", lambda: len(results) > 0 and not s.in_isr(s.a, s.b, s.c))
    accepted = s.state.partition_epoch
    s.kill(s.b)
    s.until("A has the newer state", lambda: epoch_held(s, s.a) > accepted)
    newer = s.replica(s.a).state
    [(message, _), *_] = results.messages
    state = message.content.results[0].state
    results.release()
    s.reached(
        "the answer is older than what A has",
        newer is not None and state is not None and state.partition_epoch == accepted < newer.partition_epoch,
    )
    s.expect("I6", "it changes nothing", s.replica(s.a).state == newer)


@scenario("S31")
def below_the_minimum_after_the_append(s: Script) -> None:
    """The leader has written it, then loses both followers: no success, and a retry that succeeds once."""
    s.cut_off(s.a, s.b, s.c)
    producer = s.producer()
    write = s.send(producer, s.a, records=2)
    s.until("the ISR is the leader alone", lambda: s.in_isr(s.a))
    s.until("the producer is answered", lambda: bool(write.answers))
    s.reached(
        "written, and not acknowledged",
        write.answer is not None
        and write.answer.error is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        and s.log_end(s.a) > s.committed,
    )
    refused = s.send(s.producer(), s.a)
    s.until("an answer", lambda: bool(refused.answers))
    s.reached(
        "what comes later is refused before it is written",
        refused.answer is not None and refused.answer.error is ErrorCode.NOT_ENOUGH_REPLICAS,
    )
    s.mend()
    s.until("all are back", lambda: s.in_isr(s.a, s.b, s.c))
    offset = write.answers[0].base_offset
    s.resend(write, s.a)
    s.until("the retry succeeds", lambda: write.is_acked)
    s.expect("I23", "at its old place", write.answers[-1].base_offset == offset)


@scenario("S39")
def late_push_of_the_base(s: Script) -> None:
    """A builds +C on epoch 8, which an answer brought it; then the push of 8 arrives."""
    s.cut(s.c, s.a)
    s.cut(s.b, s.a)
    s.send(s.producer(), s.a)
    s.until("A is alone", lambda: s.in_isr(s.a) and epoch_held(s, s.a) == s.state.partition_epoch)
    first = s.hold_proposals(s.a)
    s.mend(s.b)
    s.until("+B is under way", lambda: len(first) > 0)
    pushes = s.hold(UpdateBatch, target=s.a, reply=True, choose=lambda batch: bool(batch.partitions))
    first.release()
    second = s.hold_proposals(s.a)
    s.mend(s.c)
    s.until("+C is under way", lambda: has_promised(s, s.a, s.c) and len(second) > 0)
    base = s.replica(s.a).role.in_sync.pending.proposal.partition_epoch  # type: ignore[attr-defined]
    late = [state for message, _ in pushes.messages for state in message.content.partitions]
    s.reached("the push of its base is late", any(state.partition_epoch == base for state in late))
    pushes.release()
    s.expect("I2", "the promise is kept", has_promised(s, s.a, s.c))
    s.cut(s.c, s.a)
    write = s.send(s.producer(), s.a)
    s.run_for(150)
    second.release()
    s.until("C is in sync for the controller", lambda: s.c.broker_id in s.state.isr)
    s.expect("I2", "nothing was committed without C", not write.is_acked)


def has_promised(s: Script, leader: BrokerNode, member: BrokerNode) -> bool:
    state = s.replica(leader).state
    return (
        state is not None
        and member.broker_id not in state.isr
        and member.broker_id in s.replica(leader).maximal_isr
    )
