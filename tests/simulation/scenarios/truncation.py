"""Where two logs part, and who cuts what."""

from __future__ import annotations

from dataplane.core.follower import Follower
from tests.simulation.broker_node import BrokerNode
from tests.simulation.scenarios.registry import scenario
from tests.simulation.scenarios.script import Script


def contents(s: Script, broker: BrokerNode, offset: int) -> list[tuple[int, int, int]]:
    """(base offset, leader epoch, CRC) of the batches from `offset` on."""
    batches = broker.disk.logs[s.key].batches
    return [(h.base_offset, h.leader_epoch, h.crc) for h, _ in batches if h.base_offset >= offset]


@scenario("S8")
def two_failovers_with_different_records_at_one_offset(s: Script) -> None:
    """C copied A's uncommitted records, B wrote others in their place, C leads: B has to go back an epoch
    further than where C says that its own ends (KIP-279)."""
    a, b, c = s.a, s.b, s.c
    behind = s.hold_fetches(b, a)
    s.until("B asks in vain", lambda: len(behind) > 0)
    fork = s.log_end(b)
    s.send(s.producer(), a, records=3)
    s.until("C has A's records", lambda: s.log_end(c) > fork)
    s.cut(b, c)
    s.kill(a)
    behind.drop()
    s.until("B leads", lambda: s.leads(b))
    s.append(s.producer(), b, records=2)
    s.append(s.producer(), b, records=2)
    s.kill(b)
    s.until("C leads", lambda: s.leads(c))
    epochs = [[each.leader_epoch for each in x.disk.logs[s.key].epochs.entries][-2:] for x in (b, c)]
    s.reached(
        "B and C differ from the fork on, in epochs that the other does not have",
        contents(s, b, fork) != contents(s, c, fork) and epochs == [[0, 1], [0, 2]] and s.committed == fork,
    )
    s.mend()
    s.restart(b)
    s.expect("I13", "B has C's records", contents(s, b, fork) == contents(s, c, fork))


@scenario("S8")
def high_watermark_that_lags_behind_the_log(s: Script) -> None:
    """C has all that was acknowledged and an old high watermark. Its new leader dies (5.1, why not the high
    watermark)."""
    a, b, c = s.a, s.b, s.c
    end = s.log_end(c)
    write = s.send(s.producer(), a, records=3)
    s.until("C has it", lambda: s.log_end(c) > end)
    ignorant = s.hold_fetch_answers(a, c)
    s.until("it is acknowledged", lambda: write.is_acked)
    s.kill(a)
    ignorant.drop()
    silent = s.hold_fetches(c, b)
    s.until("B leads", lambda: s.leads(b))
    s.until("C follows B", lambda: s.replica(c).leader_epoch == s.state.leader_epoch)
    s.reached("C does not know what is committed", s.replica(c).high_watermark < s.committed)
    s.kill(b)
    silent.drop()
    s.until("C leads", lambda: s.leads(c))
    s.expect("I1", "C holds what was acknowledged", s.log_end(c) >= s.committed)


@scenario("S9")
def elections_without_writes(s: Script) -> None:
    """Three leaders in a row write nothing; then one comes back with records of the first."""
    a, b, c = s.a, s.b, s.c
    s.hold_fetches(b, a)
    s.hold_fetches(c, a)
    s.send(s.producer(), a, records=2)
    s.until("A has written", lambda: s.log_end(a) > s.committed)
    s.kill(a)
    s.until("B leads", lambda: s.leads(b))
    s.until("C follows", lambda: s.replica(c).leader_epoch == s.state.leader_epoch)
    s.run_for(300)
    s.kill(b)
    s.until("C leads", lambda: s.leads(c))
    s.restart(b)
    s.run_for(300)
    s.kill(c)
    s.until("B leads again", lambda: s.leads(b))
    epochs = [each.leader_epoch for each in b.disk.logs[s.key].epochs.entries]
    s.reached(
        "two leaderships are over that wrote nothing, and A has more than they",
        s.log_end(b) < s.log_end(a) and epochs[-1] == s.state.leader_epoch == 3,
    )
    s.restart(c)
    s.write_acked(s.producer(), b, records=3)
    s.restart(a)
    s.expect("I13", "A holds B's records", contents(s, a, 0) == contents(s, b, 0))


@scenario("S10", lag_ms_max=2_000)
def missed_epoch_of_the_same_leader(s: Script) -> None:
    """C follows A in epoch 1 and in epoch 3, knows nothing of epoch 2, and has records that A has cut."""
    a, b, c = s.b, s.a, s.c  # B of the rule book is the preferred leader here
    s.kill(b)
    s.until("A leads", lambda: s.leads(a))
    s.restart(b)
    s.quiet()
    first = s.replica(a).leader_epoch
    behind = s.hold_fetches(b, a)
    s.until("B asks in vain", lambda: len(behind) > 0)
    fork = s.log_end(b)
    s.send(s.producer(), a, records=3)
    s.until("C has it", lambda: s.log_end(c) > fork)
    blind = s.blind(c)
    s.until("C polls in vain", lambda: len(blind) > 0)
    behind.drop()
    s.elect_preferred()
    s.until("B leads", lambda: s.leads(b))
    s.append(s.producer(), b)
    s.append(s.producer(), b)
    s.until("A has B's records", lambda: s.log_end(a) == fork + 2)
    s.kill(b)
    s.until("A leads again", lambda: s.leads(a))
    s.reached(
        "C still follows A's first epoch, and holds what A has replaced",
        s.replica(c).leader_epoch == first
        and isinstance(s.replica(c).role, Follower)
        and contents(s, a, fork) != contents(s, c, fork),
    )
    s.cut(b, a)
    blind.release()
    s.until("C has A's records", lambda: contents(s, c, fork) == contents(s, a, fork))


@scenario("S11")
def killed_in_the_middle_of_an_append(s: Script) -> None:
    """The follower dies with half a batch written, and comes back to the end of what it had whole."""
    answers = s.hold_fetch_answers(s.a, s.b)
    s.until("B waits", lambda: len(answers) > 0)
    end = s.log_end(s.b)
    s.send(s.producer(), s.a, records=3)
    s.until("A and C have it", lambda: s.log_end(s.a) == s.log_end(s.c) > end)
    s.kill(s.b)
    answers.drop()
    last = s.a.disk.logs[s.key].batches[-1].data
    torn = s.random.randrange(1, len(last))
    s.b.disk.logs[s.key].die_in_append(last[:torn])
    s.reached("B holds a piece of a batch that it lacks", s.log_end(s.b) == end < s.log_end(s.a))
    s.b.start()
    s.expect("5.4", "the torn bytes are cut", s.log_end(s.b) == end)
    s.must("L2", "B is in sync", lambda: s.b.session.is_registered and s.in_isr(s.a, s.b, s.c))
    s.kill(s.a)
    s.until("B leads", lambda: s.leads(s.b))


@scenario("S34")
def diverging_answer_from_a_leader_that_is_ahead(s: Script) -> None:
    """A comes back with records that were never committed; the leader's high watermark is beyond its log."""
    a, b, c = s.a, s.b, s.c
    s.hold_fetches(b, a)
    s.hold_fetches(c, a)
    s.send(s.producer(), a, records=2)
    s.until("A has written", lambda: s.log_end(a) > s.committed)
    fork = s.committed
    s.kill(a)
    s.until("B leads", lambda: s.leads(b))
    for _ in range(3):
        s.write_acked(s.producer(), b, records=2)
    answers = s.watch(dict, source=b, reply=True)
    a.start()

    def has_diverged() -> bool:
        parts = [answer[s.key] for answer in answers if s.key in answer]
        return any(part.diverging is not None for part in parts)

    s.until("B says where they part", has_diverged)
    s.reached(
        "B's high watermark is beyond A's log, of which nothing beyond the fork is committed",
        s.replica(b).high_watermark > s.log_end(a) > fork >= s.replica(a).high_watermark,
    )
    s.until("A is back", lambda: s.in_isr(a, b, c))
    s.expect("I13", "A has cut it", contents(s, a, fork) == contents(s, b, fork))
