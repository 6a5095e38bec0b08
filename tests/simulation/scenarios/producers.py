"""Batches of an idempotent producer that come again, or too early."""

from __future__ import annotations

from springtide.wire.errors import ErrorCode
from tests.simulation.clients import ProduceAnswer
from tests.simulation.scenarios.reassignment import move, moved, spare
from tests.simulation.scenarios.registry import scenario
from tests.simulation.scenarios.script import CLIENT, Script


@scenario("S21")
def five_in_flight_retried_at_the_next_leader(s: Script) -> None:
    """Appended and copied, the answers lost with the leader: the same offsets, after the wait."""
    answers = s.hold(ProduceAnswer, source=s.a, target=CLIENT, reply=True)
    producer = s.producer()
    end = s.log_end(s.a)
    writes = [s.send(producer, s.a, records=2)]
    for _ in range(4):
        s.until("it has arrived", lambda: s.log_end(s.a) == end + 2 * len(writes))
        writes.append(s.send(producer, s.a, records=2))
    s.until("B and C have all five", lambda: min(s.log_end(s.b), s.log_end(s.c)) == end + 10)
    s.kill(s.a)
    answers.drop()
    slow = s.hold_fetches(s.c, s.b)
    s.until("B leads", lambda: s.leads(s.b))
    for write in writes:
        s.resend(write, s.b)
    s.run_for(20)
    s.reached("nothing is acknowledged before C has asked", not any(write.is_acked for write in writes))
    slow.release()
    s.until("all are acknowledged", lambda: all(write.is_acked for write in writes))
    s.expect(
        "I23",
        "at their first offsets",
        [write.answers[-1].base_offset for write in writes] == [end + 2 * n for n in range(5)]
        and s.log_end(s.b) == end + 10,
    )


@scenario("S22")
def appended_truncated_and_retried(s: Script) -> None:
    """A wrote it, nobody copied it, A cut it as a follower, A leads again: no duplicate of anything."""
    a, b, c = s.a, s.b, s.c
    lost = [s.hold_fetches(b, a), s.hold_fetches(c, a)]
    blind = s.blind(a)
    s.until("nobody reads A", lambda: all(len(held) > 0 for held in (*lost, blind)))
    fork = s.log_end(a)
    producer = s.producer()
    write = s.send(producer, a, records=2)
    s.until("A has written it", lambda: s.log_end(a) == fork + 2)
    s.cut_off(a, *s.cluster.controllers)
    s.until("B leads", lambda: s.leads(b))
    s.write_acked(s.producer(), b, records=3)
    s.mend()
    blind.drop()
    for held in lost:
        held.drop()
    s.until("A has cut it and is in sync", lambda: s.in_isr(a, b, c) and s.log_end(a) == fork + 3)
    s.elect_preferred()
    s.until("A leads again", lambda: s.leads(a))
    s.resend(write, a)
    s.run_for(1)
    s.reached(
        "the retry reaches A, which once had the batch and has it no more",
        all(header.producer_id != producer.producer_id for header, _ in b.disk.logs[s.key].batches)
        and s.replica(a).leader_epoch == s.state.leader_epoch >= 2,
    )
    s.retry(write, a)
    s.expect("I23", "as a new batch", write.answers[-1].base_offset == fork + 3)


@scenario("S23")
def retry_of_an_older_batch_at_a_restarted_leader(s: Script) -> None:
    """B rebuilt its producers from its disk, leads, and is asked for batch n-3 again."""
    producer = s.producer()
    writes = [s.write_acked(producer, s.a) for _ in range(5)]
    s.until("B has all", lambda: s.log_end(s.b) == s.log_end(s.a))
    s.kill(s.b)
    s.restart(s.b)
    s.kill(s.a)
    s.until("B leads", lambda: s.leads(s.b))
    end = s.log_end(s.b)
    s.retry(writes[1], s.b)
    first, *_, again = writes[1].answers
    s.reached("B knows the producer from its disk alone", s.b.life == 2 and len(writes[1].answers) > 1)
    s.expect(
        "I23",
        "a retry of the last batches but three is a duplicate of its first offset",
        again.base_offset == first.base_offset and s.log_end(s.b) == end,
    )


@scenario("S84")
def first_batch_after_the_leader_forgot_its_producer_is_late(s: Script) -> None:
    """A forgot the producer, and takes its third batch before its second. B did not forget it, and leads."""
    a, b, c = s.a, s.b, s.c
    producer = s.producer()
    s.write_acked(producer, a)
    assert a.disk.logs[s.key].producers.expire(now_ms=2**62)
    early = s.send(producer, b)
    s.until("B refuses it", lambda: bool(early.answers))
    s.write_acked(producer, a)
    s.until("B and C have it", lambda: min(s.log_end(b), s.log_end(c)) == s.log_end(a))
    s.reached("there is a gap in the log where the second batch should be", not early.is_acked)
    s.kill(a)
    s.until("B leads", lambda: s.leads(b))
    refusals = len(early.answers)
    s.resend(early, b)
    s.until("B answers", lambda: len(early.answers) > refusals)
    s.expect("I4", "nobody vouches for what fell into the gap", not early.is_acked)


@scenario("S84")
def second_batch_of_a_new_producer_is_there_first(s: Script) -> None:
    """B, which does not lead, refuses a new producer's first batch; the second reaches A before the retry."""
    a, b = s.a, s.b
    producer = s.producer()
    end = s.log_end(a)
    writes = [s.send(producer, b), s.send(producer, a)]
    s.until("both are answered", lambda: all(write.answers for write in writes))
    s.reached("B refused the first", not writes[0].is_acked)
    s.expect("I4", "no answer vouches for what is stored nowhere", not writes[1].is_acked)
    for write in writes:
        s.retry(write, a)
    s.expect("I24", "stored in order", [write.answers[-1].base_offset for write in writes] == [end, end + 1])


@scenario("S84")
def producer_in_the_middle_of_its_sequences_goes_on_in_a_log_that_does_not_know_it(s: Script) -> None:
    """Its topic was made again: nothing is acknowledged at once, and all when it comes again, in order."""
    a = s.a
    producer = s.producer()
    producer.sequence = 7
    end = s.log_end(a)
    writes = []
    for _ in range(3):
        writes.append(s.send(producer, a))
        s.until("it is answered", lambda: bool(writes[-1].answers))
    s.reached("A has nothing of it", s.log_end(a) == end)
    s.expect("I4", "nobody vouches for what came before", not any(write.is_acked for write in writes))
    for write in writes:
        s.resend(write, a)
        s.until("it is answered again", lambda: len(write.answers) > 1)  # noqa: B023
    s.expect(
        "I23",
        "it goes on, in order",
        [write.answers[-1].base_offset for write in writes] == [end, end + 1, end + 2],
    )


@scenario("S84")
def batch_before_a_newcomers_is_refused_as_its_own_comes_again(s: Script) -> None:
    """A has refused its second batch as one of an unknown producer. Its client sends both again; the first
    meets too few replicas, which are there again as the second arrives."""
    a, b, c = s.a, s.b, s.c
    producer = s.producer()
    producer.sequence = 7
    writes = [s.send(producer, b), s.send(producer, a)]
    s.until("both are answered", lambda: all(write.answers for write in writes))
    for other in (b, c):
        s.kill(other)
    s.until("A is alone", lambda: len(s.replica(a).maximal_isr) == 1)
    s.resend(writes[0], a)
    s.until("A refuses the first", lambda: len(writes[0].answers) > 1)
    for other in (b, c):
        s.restart(other)
    s.until("all are in sync", lambda: s.in_isr(a, b, c))
    s.resend(writes[1], a)
    s.until("the second is answered", lambda: len(writes[1].answers) > 1)
    s.reached("A still leads as it did", s.leads(a) and not writes[0].is_acked)
    s.expect("I4", "no answer vouches for what is stored nowhere", not writes[1].is_acked)
    for write in writes:
        s.retry(write, a)


@scenario("S87", brokers=4)
def producer_at_rest_whose_records_are_deleted_and_whose_partition_moves(s: Script) -> None:
    """A client deletes all records, D becomes a replica and leads: no record that it copied names the
    producer, whose last batch comes again, and the next one."""
    a, b, d = s.a, s.b, spare(s)
    producer = s.producer()
    writes = [s.write_acked(producer, a, records=2) for _ in range(3)]
    end = s.committed
    s.delete(a, end)
    s.reached("no record is left", s.replica(a).log.log_start_offset == end)
    move(s, d, a, b)
    moved(s, d, a, b)
    s.kill(d)
    s.restart(d)
    s.elect_preferred()
    s.until("D leads", lambda: s.leads(d))
    s.reached("D has none of the records", not d.disk.logs[s.key].batches)
    first = writes[-1].answers[0].base_offset
    s.until("D has committed its epoch", lambda: s.replica(d).role.may_serve(d.now_ms))
    s.resend(writes[-1], d)
    write = s.send(producer, d)
    s.until("both are answered", lambda: len(writes[-1].answers) > 1 and bool(write.answers))
    again = writes[-1].answers[-1]
    s.expect("I23", f"the last batch is a duplicate: {again}", again == ProduceAnswer(ErrorCode.NONE, first))
    s.expect("I23", f"the next one is taken: {write.answers[-1]}", write.is_acked)
    s.expect("I23", "once", s.log_end(d) == end + 1)
