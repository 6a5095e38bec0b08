"""Who may lead, and who may not."""

from __future__ import annotations

from controller.core.effects import AlarmCode, AlarmKey
from controller.core.events import ElectUnclean
from dataplane.core.role import Offline
from springtide.contract.lag_report import LagReport
from springtide.contract.partition_state import NO_LEADER
from springtide.wire.errors import ErrorCode
from tests.simulation.broker_node import BrokerNode
from tests.simulation.scenarios.registry import scenario
from tests.simulation.scenarios.script import Script


def leader_alone(s: Script) -> None:
    """A is cut off from the other brokers until its ISR is A alone, and they are in the ELR or behind."""
    s.cut(s.c, s.a)
    s.send(s.producer(), s.a)
    s.until("C has to go", lambda: s.in_isr(s.a, s.b))
    s.until("what A has is committed", lambda: s.committed == s.log_end(s.a))
    s.cut(s.b, s.a)
    s.send(s.producer(), s.a)
    s.until("B has to go", lambda: s.in_isr(s.a))


@scenario("S1")
def last_in_sync_replica_returns_empty(s: Script) -> None:
    """ISR {A}; A dies and returns with an empty disk."""
    leader_alone(s)
    committed = s.committed
    s.kill(s.a)
    s.a.replace_disk()
    s.b.pause()  # so that nobody writes before A's new incarnation is there
    s.until("A is fenced", lambda: s.state.leader != s.a.broker_id)
    s.a.start()
    s.until("A is registered", lambda: s.a.session.is_registered)
    s.run_for(500)
    s.reached("A is back, and empty", s.log_end_or_0(s.a) == 0 < committed)
    s.expect(
        "I11",
        "A may not lead",
        s.a.broker_id not in (*s.state.isr, *s.state.elr, s.state.leader),
    )
    s.b.resume()
    s.mend()
    s.must("L2", "B leads from the ELR", lambda: s.leads(s.b))
    s.expect("I1", "B holds every committed record", s.log_end(s.b) >= committed)


@scenario("S90", min_insync_replicas=1)
def last_in_sync_replica_returns_with_an_older_copy_in_place(s: Script) -> None:
    """ISR {A}; A is killed, `cp -a backup/. data/` puts an older copy over its files, and the controller that
    knew how far A had come ends with it. Kernel, mount and inodes are the same."""
    copy = s.a.copy_disk()
    leader_alone(s)
    s.until("A has committed alone", lambda: s.log_end(s.b) < s.committed == s.log_end(s.a))
    committed = s.committed
    s.kill(s.a)
    controller = s.controller
    controller.crash()  # before it has fenced A: how far A had come is in no row
    s.a.restore_disk(copy, reboots=False, in_place=True)
    controller.start()
    s.a.start()
    s.until("A is registered", lambda: s.a.session.is_registered)
    s.run_for(2_000)
    s.reached("A is back, with less", s.log_end_or_0(s.a) < committed and s.a.disk.has_mount_mark)
    s.expect(
        "I11",
        "nobody leads or is eligible who can't prove its log whole",
        s.state.leader == NO_LEADER and not s.state.isr and not s.state.elr,
    )
    s.mend()
    _choose(s, s.b)


def _eligible(s: Script) -> set[int]:
    controller = s.cluster.active_controller()
    machine = None if controller is None else controller.machine
    return set() if machine is None else {n for n, r in machine.image.brokers.items() if r.is_eligible}


@scenario("S90", min_insync_replicas=3)
def older_copy_that_nothing_shows_beside_a_whole_log(s: Script) -> None:
    """ISR {A}; B and C are in the ELR and live, and nothing shows that the log of B is an older copy. The
    controllers that heard how far A had come are gone, and A dies with the last of them.
    B is the first in assignment order, and is not elected: C tells of a longer log."""
    a, b, c = s.a, s.b, s.c
    s.hold(LagReport, source=a)
    s.controller.crash()  # what it has heard of A's high watermark goes with it
    copy = b.copy_disk()
    for controller in s.cluster.controllers:
        if not controller.is_up:
            controller.start()
    s.until("another has taken over", lambda: s.cluster.active_controller() is not None)
    s.write_acked(s.producer(), a)
    s.write_acked(s.producer(), a)
    s.cut_off(a, b, c)
    for broker in (b, c):
        s.kill(broker)
    s.until("A is alone", lambda: s.in_isr(a))
    b.restore_disk(copy, reboots=False, in_place=True, is_forged=True)
    for broker in (b, c):
        broker.start()
    s.until(
        "both live",
        lambda: (
            {b.broker_id, c.broker_id} <= _eligible(s) and b.session.is_registered and c.session.is_registered
        ),
    )
    s.reached(
        "B lacks what was committed, has its seat, and no row says how much was",
        s.log_end(b) < s.committed <= s.log_end(c)
        and set(s.state.elr) == {b.broker_id, c.broker_id}
        and s.state.high_watermark_floor <= s.log_end(b),
    )
    controller = s.controller
    s.kill(a)
    controller.crash()
    controller.start()
    s.must("3.8", "C leads", lambda: s.leads(c))
    s.expect("3.5", "it was elected cleanly", s.state.unclean_leader_epoch == -1)
    s.mend()


@scenario("S2", min_insync_replicas=2)
def power_lost_everywhere(s: Script) -> None:
    """All three lose power and different tails: nobody is elected until a person chooses."""
    a, b, c = s.a, s.b, s.c
    for broker in (a, b, c):
        broker.disk.logs[s.key].flush()
    behind = s.hold_fetches(c, a)
    s.until("C asks in vain", lambda: len(behind) > 0)
    for _ in range(3):
        s.send(s.producer(), a)
    s.until("B has three that are not committed", lambda: s.log_end(b) == s.committed + 3)
    for count, broker in ((1, a), (2, b), (0, c)):
        s.power_cut(broker, batches_kept=count)
    behind.drop()
    kept = {len(broker.disk.logs[s.key].batches) for broker in (a, b, c)}
    s.reached("three machines are down with three different tails", len(kept) == 3)
    for broker in (a, b, c):
        broker.start()
    s.until("all are registered", lambda: all(broker.session.is_registered for broker in (a, b, c)))
    s.run_for(2_000)
    s.expect(
        "I11",
        "nobody leads or is eligible who can't prove its log whole",
        s.state.leader == NO_LEADER and not s.state.isr and not s.state.elr,
    )
    _choose(s, a)
    s.reached("what B had beyond A is copied", b.disk.asides > 0)


@scenario("S2", min_insync_replicas=2)
def a_mark_of_an_unclean_election_counts_once(s: Script) -> None:
    """An operator chooses A after a power loss, and all agree with A's log. Nothing is written until B's disk
    loses a batch without a word, in the moment in which B comes to lead: that is no election that anybody
    asked for, and C keeps its log, though the partition's state still has the mark."""
    a, b, c = s.a, s.b, s.c
    for broker in (a, b, c):
        broker.disk.logs[s.key].flush()
    for broker in (a, b, c):
        s.power_cut(broker)
    for broker in (a, b, c):
        broker.start()
    s.until("all are registered", lambda: all(broker.session.is_registered for broker in (a, b, c)))
    s.run_for(2_000)
    _choose(s, a)
    s.run_for(1_000)
    mark, end, log = s.state.unclean_leader_epoch, s.log_end(c), c.disk.logs[s.key]
    s.hold_fetches(b, a)
    s.kill(a)
    shorter = b.disk.logs[s.key].batches[-1].header.base_offset
    b.disk.logs[s.key].truncate_to(shorter)
    s.replica(b).watermark.on_log_cut()
    s.cluster.oracle.on_disk_lied(s.key, shorter)
    s.reached(
        "C has agreed with A's log, in which nothing was written under the mark",
        log.epochs.latest < mark <= log.epochs.reconciled and s.replica(c).high_watermark == end > shorter,
    )
    s.until("B leads", lambda: s.leads(b))
    s.run_for(2_000)
    s.expect("I15", "C has not cut what it knows to be committed", s.log_end(c) == end)
    controller = s.controller
    controller.crash()
    controller.start()
    s.must("L7", "the next controller hears that C keeps what B lacks", lambda: _names_quarantine(s, c))
    for broker in (a, c):  # the way out: a person who has looked at both gives these two new disks
        if broker.is_up:
            s.kill(broker)
        broker.replace_disk()
        broker.start()


def _choose(s: Script, broker: BrokerNode) -> None:
    """An operator gives up what this replica's log lacks, and elects it."""
    s.cluster.oracle.concede(s.key)
    s.submit(
        ElectUnclean(
            wall_ms=s.events.now_ms,
            actor="operator",
            topic_id=s.key[0],
            partition=s.key[1],
            broker_id=broker.broker_id,
            partition_epoch=s.state.partition_epoch,
        )
    )
    s.until(f"broker {broker.broker_id} leads", lambda: s.leads(broker))
    s.until("all are in sync", lambda: s.in_isr(s.a, s.b, s.c))


def _names_quarantine(s: Script, broker: BrokerNode) -> bool:
    """Whether alarm and loss preview name the replica."""
    controller = s.cluster.active_controller()
    if controller is None or controller.machine is None:
        return False
    alarm = AlarmKey(
        code=AlarmCode.REPLICA_QUARANTINED,
        topic_id=s.key[0],
        partition=s.key[1],
        broker_id=broker.broker_id,
    )
    way_out = controller.machine.way_out(s.key, None) or ""
    return (
        alarm in {a.key for a in controller.machine.alarms()}
        and f"broker {broker.broker_id} holds" in way_out
    )


def _seal_all(s: Script) -> None:
    s.until(
        "all logs are sealed",
        lambda: all(broker.disk.logs[s.key].seal_chain_epoch >= 0 for broker in (s.a, s.b, s.c)),
    )


def _lose_power_everywhere(s: Script) -> None:
    for broker in (s.a, s.b, s.c):
        s.power_cut(broker)


def _all_lack(s: Script, committed: int) -> bool:
    """No disk has the last committed record. A log's end is what it was until it recovers."""
    logs = [broker.disk.logs[s.key] for broker in (s.a, s.b, s.c)]
    return all(log.batches[-1].header.next_offset < committed for log in logs)


def _come_back(s: Script) -> None:
    for broker in (s.a, s.b, s.c):
        if not broker.is_up:
            broker.start()
    s.until("all are registered", lambda: all(broker.session.is_registered for broker in (s.a, s.b, s.c)))


@scenario("S62", min_insync_replicas=2)
def power_lost_everywhere_while_nothing_was_written(s: Script) -> None:
    """All three logs were sealed: each proves itself whole, and one leads without an operator."""
    s.write_acked(s.producer(), s.a)
    _seal_all(s)
    _lose_power_everywhere(s)
    s.reached("no machine runs", not any(broker.is_up for broker in (s.a, s.b, s.c)))
    _come_back(s)
    s.must("L1", "a sealed log is elected", lambda: s.state.leader != NO_LEADER)
    s.expect("I15", "nobody was elected uncleanly", s.state.unclean_leader_epoch == -1)
    s.until("all are in sync", lambda: s.in_isr(s.a, s.b, s.c))


@scenario("S63", min_insync_replicas=2)
def power_lost_everywhere_after_a_seal_was_opened(s: Script) -> None:
    """A record is acknowledged after all logs were sealed, and all lose it: no seal may stand for it."""
    producer = s.producer()
    s.write_acked(producer, s.a)
    _seal_all(s)
    s.write_acked(producer, s.a)
    committed = s.committed
    _lose_power_everywhere(s)
    s.reached("all have lost the record", _all_lack(s, committed))
    _come_back(s)
    s.run_for(2_000)
    s.expect("I1", "nobody is elected who lacks a committed record", s.state.leader == NO_LEADER)
    _choose(s, s.a)


@scenario("S64", min_insync_replicas=2)
def older_copies_of_sealed_disks(s: Script) -> None:
    """Two disks come back as they were sealed under earlier incarnations; the third loses what came after."""
    producer = s.producer()
    s.write_acked(producer, s.a)
    _seal_all(s)
    copies = {broker.broker_id: broker.disk.copy() for broker in (s.b, s.c)}
    for broker in (s.b, s.c):
        s.kill(broker)
        s.restart(broker)
        s.until("all are in sync again", lambda: s.in_isr(s.a, s.b, s.c))
    s.until("A leads", lambda: s.leads(s.a))
    s.write_acked(producer, s.a)
    log = s.a.disk.logs[s.key]
    while log._flushed_batches == len(log.batches):  # a flush has just come between
        s.write_acked(producer, s.a)
    committed = s.committed
    _lose_power_everywhere(s)
    for broker in (s.b, s.c):
        broker.restore_disk(copies[broker.broker_id])
    s.reached("all lack the record", _all_lack(s, committed))
    s.b.start()
    s.until("B is registered", lambda: s.b.session.is_registered)
    _come_back(s)
    s.run_for(2_000)
    s.expect("I1", "nobody is elected who lacks a committed record", s.state.leader == NO_LEADER)
    _choose(s, s.a)


@scenario("S14")
def leader_cut_off_from_its_followers(s: Script) -> None:
    """Jepsen 2013: A shrinks its ISR to itself, then loses the controllers too."""
    a, b, c = s.a, s.b, s.c
    s.cut_off(a, b, c)
    producer = s.producer()
    writes = [s.send(producer, a) for _ in range(3)]
    s.until("A is alone", lambda: s.in_isr(a))
    more = [s.send(s.producer(), a) for _ in range(3)]
    s.run_for(500)
    s.reached(
        "A alone acknowledges nothing; who left below the minimum is eligible",
        not any(write.is_acked for write in (*writes, *more))
        and s.state.elr != ()
        and s.log_end(a) > s.committed,
    )
    s.cut_off(a, *s.cluster.controllers)
    s.until("another leads from the ELR", lambda: s.leads(b) or s.leads(c))
    s.mend()
    s.until("all are in sync", lambda: s.in_isr(a, b, c))
    s.expect("I24", "nothing that was refused is acknowledged", not any(write.is_acked for write in more))


@scenario("S18", controllers=2)
def successor_after_the_last_heartbeats(s: Script) -> None:
    """A controller takes over when the brokers' last heartbeats are almost a grace old: it waits another."""
    first = s.controller
    other = next(c for c in s.cluster.controllers if c is not first)
    grace_ms = other.options.grace_ms
    first.crash()
    heard_ms = s.events.now_ms
    s.cut_off(other, *s.cluster.brokers.values())
    s.until("the other has taken over", lambda: other.machine is not None)
    took_over_ms = s.events.now_ms
    epoch = s.state.leader_epoch
    s.run_for(grace_ms - 300)
    s.reached(
        "everybody was silent for longer than the grace",
        s.events.now_ms - heard_ms > grace_ms + 1_000 and took_over_ms > heard_ms,
    )
    s.expect(
        "2.10",
        "nobody is fenced before a whole grace from the take-over",
        not any(r.fenced for r in other.published.brokers.values()) and s.state.leader_epoch == epoch,
    )
    s.mend()


@scenario("S27")
def successor_dies_at_the_hand_over(s: Script) -> None:
    """A is asked to stop, B is to lead in its place, and dies at that moment."""
    a, b, c = s.a, s.b, s.c
    s.traffic()
    a.session.wants_shutdown = True
    s.until("B is to lead", lambda: s.state.leader == b.broker_id)
    was_up = a.is_up
    s.kill(b)
    s.until("C leads, or A again", lambda: s.leads(c) or s.leads(a))
    s.reached("A was still there", was_up)
    s.run_for(3_000)
    a.session.wants_shutdown = False
    if a.is_up:
        s.kill(a)


@scenario("S28")
def disk_error_at_the_leader(s: Script) -> None:
    """EIO: the directory is over, its seats are gone, and it does not come back by itself."""
    a = s.a
    a.disk.logs[s.key].failing = "Input/output error"
    write = s.send(s.producer(), a)
    s.until("the producer is refused", lambda: bool(write.answers))
    s.until("another leads", lambda: s.leads(s.b) or s.leads(s.c))
    s.reached(
        "A is offline and out",
        isinstance(s.replica(a).role, Offline)
        and write.answers[0].error is ErrorCode.KAFKA_STORAGE_ERROR
        and a.broker_id not in (*s.state.isr, *s.state.elr),
    )
    a.disk.logs[s.key].failing = None
    s.traffic()
    s.run_for(1_000)
    s.expect("5.4", "the process does not trust that disk again", isinstance(s.replica(a).role, Offline))
    s.kill(a)
    a.replace_disk()


@scenario("S36", controllers=2)
def two_expire_in_one_tick(s: Script) -> None:
    """A and B fall silent together, and one look finds both over their grace."""
    a, b, c = s.a, s.b, s.c
    s.expire_together(a, b)
    s.expect("3.4", "nobody who was silent leads", s.state.leader == c.broker_id)
    s.expect("3.4", "nobody who is silent is in the ISR", s.in_isr(c))


@scenario("S38")
def only_eligible_candidate_is_dead(s: Script) -> None:
    """ISR {A}, ELR {B}: both die, C lives. C has missed what they committed."""
    a, b, c = s.a, s.b, s.c
    s.cut(c, a)
    s.send(s.producer(), a)
    s.until("C has to go", lambda: s.in_isr(a, b))
    s.write_acked(s.producer(), a, records=2)
    s.kill(b)
    s.until("B is eligible", lambda: s.in_isr(a) and s.state.elr == (b.broker_id,))
    s.kill(a)
    s.mend()
    s.must("3.4", "A leads no more", lambda: s.state.leader != a.broker_id)
    s.run_for(3_000)
    s.expect("3.4", "no dead broker leads", s.state.leader not in (a.broker_id, b.broker_id))
    s.expect("I1", "nobody leads who lacks what is committed", s.state.leader != c.broker_id)
    s.reached("nobody leads while C lives", s.state.leader == NO_LEADER and s.log_end(c) < s.committed)
    b.start()
    s.until("B leads", lambda: s.leads(b))
