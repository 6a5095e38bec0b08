"""Bytes that rot at rest (5.7, scrubbing)."""

from __future__ import annotations

from dataplane.core.fetch import ConsumerFetch
from dataplane.core.fetch_session import FetchPosition
from dataplane.core.role import Offline
from springtide.contract.epochs import LeaderEpoch
from springtide.wire.errors import ErrorCode
from springtide.wire.record_batch import crc_is_valid
from tests.simulation.broker_node import BrokerNode
from tests.simulation.scenarios.registry import scenario
from tests.simulation.scenarios.script import Script


def first_base(s: Script) -> int:
    return s.a.disk.logs[s.key].batches[0].header.base_offset


def is_whole(s: Script, broker: BrokerNode) -> bool:
    log = broker.disk.logs[s.key]
    return not log.at_rest and all(crc_is_valid(memoryview(data), header) for header, data in log.batches)


def settle(s: Script) -> None:
    """Everybody knows of what is committed, and nothing is under way."""
    s.until("the ISR is full", lambda: s.in_isr(s.a, s.b, s.c))
    s.until("all is told", lambda: s.replica(s.c).high_watermark == s.committed == s.log_end(s.c))
    s.until("A leads", lambda: s.leads(s.a))


@scenario("S59")
def leader_rots_behind_its_page_cache(s: Script) -> None:
    """Readers get good bytes from A's memory; its disk has lost them. A's scrub finds out."""
    settle(s)
    committed = s.committed
    s.a.disk.logs[s.key].rot(first_base(s), is_cached=True)
    s.reached("A's disk has lost what its memory has", bool(s.a.disk.logs[s.key].at_rest))
    s.must("5.7", "A gives its seat up", lambda: s.a.broker_id not in s.state.isr)
    s.expect("5.7", "somebody whole leads", s.state.leader in (s.b.broker_id, s.c.broker_id))
    s.must("5.7", "A is whole again", lambda: is_whole(s, s.a))
    s.must("L2", "A is in sync again", lambda: s.in_isr(s.a, s.b, s.c))
    s.expect("I1", "nothing was cut for it", s.log_end(s.a) >= committed)


@scenario("S60")
def two_rot_at_the_same_place(s: Script) -> None:
    """A mends, but B, which leads by now, has rotted there, too: nothing of B's is written over A's. Then B's
    scrub finds out, and C leads."""
    settle(s)
    base_offset = first_base(s)
    s.a.disk.logs[s.key].rot(base_offset, is_cached=False)
    s.until("A has found it", lambda: s.a.disk.logs[s.key].rotten)
    s.run_for(20)  # B's pass of the same moment is over
    s.b.disk.logs[s.key].rot(base_offset, is_cached=False)
    s.until("A has no seat", lambda: s.a.broker_id not in s.state.isr)
    s.reached("B leads, and has not found its own rot", s.state.leader == s.b.broker_id)
    s.must("5.7", "C leads in the end", lambda: s.leads(s.c))
    s.must("5.7", "A and B are whole", lambda: is_whole(s, s.a) and is_whole(s, s.b))


@scenario("S61")
def last_copy_rots(s: Script) -> None:
    """ISR {A}; B and C are down. A stays, since nobody else could lead, gives out what is good, and goes as
    soon as B is in sync."""
    settle(s)
    s.kill(s.c)
    s.kill(s.b)
    s.until("A is alone", lambda: s.in_isr(s.a) and s.leads(s.a))
    s.a.disk.logs[s.key].rot(first_base(s), is_cached=False)
    s.until("A has found it", lambda: s.a.disk.logs[s.key].rotten)
    s.run_for(1_000)
    s.reached("a rotten replica is the only one that could lead", not s.b.is_up and not s.c.is_up)
    s.expect("5.7", "A keeps its seat", s.in_isr(s.a) and s.leads(s.a))
    alarms = s.controller.machine.alarms() if s.controller.machine is not None else ()
    s.expect("L7", "an operator is told", any(a.key.code == "replica_rotten" for a in alarms))
    s.b.start()
    s.must("5.7", "B leads", lambda: s.leads(s.b))
    s.must("5.7", "A is whole again", lambda: is_whole(s, s.a))


@scenario("S76")
def reader_meets_damage_first(s: Script) -> None:
    """Nobody can read the header of A's first batch, and a reader comes before the scrub. A goes on as
    for any other rot: it leads until another does, and is mended."""
    settle(s)
    s.run_for(20)  # A's pass of this moment is over
    s.a.disk.logs[s.key].rot(first_base(s), is_cached=False, is_header=True)
    fetch = ConsumerFetch(FetchPosition(0, LeaderEpoch(-1), LeaderEpoch(-1)), max_bytes=1_000)
    result, effects = s.replica(s.a).role.on_consumer_fetch(fetch, now_ms=s.a.now_ms)
    s.reached("a reader is the first", result.error is ErrorCode.CORRUPT_MESSAGE)
    s.a.run(s.key, effects)
    s.expect("5.7", "A is not offline for it", not isinstance(s.replica(s.a).role, Offline))
    s.run_for(5)
    s.expect("5.7", "the scrub has looked at once", bool(s.a.disk.logs[s.key].rotten))
    s.must("5.7", "A gives its seat up", lambda: s.a.broker_id not in s.state.isr)
    s.must("5.7", "A is whole again", lambda: is_whole(s, s.a))
    s.must("L2", "A is in sync again", lambda: s.in_isr(s.a, s.b, s.c))


@scenario("S77")
def rot_beyond_what_the_leader_knows_to_be_committed(s: Script) -> None:
    """A committed with B, rots there, and gives its seat up before B has heard of it; C is down. B leads
    below the minimum and commits nothing until A is in sync."""
    settle(s)
    s.cut(s.c, s.a)
    end = s.log_end(s.b)
    write = s.send(s.producer(), s.a)
    s.until("B has the record", lambda: s.log_end(s.b) > end)
    ignorant = s.hold_fetch_answers(s.a, s.b)
    s.until("A has committed without C", lambda: write.is_acked)
    s.kill(s.c)
    s.a.disk.logs[s.key].rot(end, is_cached=False)
    s.until("A has found it", lambda: s.a.disk.logs[s.key].rotten)
    s.until("B leads", lambda: s.leads(s.b))
    ignorant.drop()
    s.until("A has no seat", lambda: s.a.broker_id not in (*s.state.isr, *s.state.elr))
    s.reached(
        "B knows of less, and can't commit alone", s.replica(s.b).high_watermark <= end and write.is_acked
    )
    s.must("5.7", "A is whole again", lambda: is_whole(s, s.a))
    s.must("L2", "A is in sync again", lambda: s.in_isr(s.a, s.b))
    s.expect("I1", "the record is there", s.log_end(s.a) > end)
