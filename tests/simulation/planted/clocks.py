"""Bugs of whoever deletes by time, or counts a lease: one clock is believed, or not heard to be wrong."""

from __future__ import annotations

from springtide.contract.agreed_time import AgreedTime
from springtide.contract.session import ClockLeap, HeartbeatResponse
from springtide.node.lease import Lease
from tests.simulation.planted.plant import Patches, plant


@plant(breaks="I36", seen="a leader's clock was 8 days ahead for 7 s", seeds_max=60, family="clocks")
def own_clock_expires() -> Patches:
    return [(AgreedTime, "expiry_ms", lambda self, *, wall_ms, mono_ms: wall_ms)]


@plant(breaks="I36", seen="the controller's clock instead of one's own", seeds_max=60, family="clocks")
def controllers_clock_expires() -> Patches:
    def expiry_ms(self: AgreedTime, *, wall_ms: int, mono_ms: int) -> int | None:
        return None if self._other is None else self._other.at(mono_ms)

    return [(AgreedTime, "expiry_ms", expiry_ms)]


@plant(
    breaks="I36",
    seen="two clocks, of which the later one is believed: a leap ahead of either",
    seeds_max=60,
    family="clocks",
)
def the_latest_clock_expires() -> Patches:
    def expiry_ms(self: AgreedTime, *, wall_ms: int, mono_ms: int) -> int | None:
        return max(self._clocks(wall_ms, mono_ms))

    return [(AgreedTime, "expiry_ms", expiry_ms)]


@plant(breaks="L7", seen="a leap is looked for ahead, and not back", seeds_max=60, family="clocks")
def leaps_back_untold() -> Patches:
    original = AgreedTime.leap

    def leap(self: AgreedTime, *, wall_ms: int, mono_ms: int) -> ClockLeap | None:
        found = original(self, wall_ms=wall_ms, mono_ms=mono_ms)
        return None if found is None or found.ahead_of_controller_ms < 0 else found

    return [(AgreedTime, "leap", leap)]


@plant(
    breaks="I36",
    seen="a process that starts with a wrong clock counts the time that passes from there",
    seeds_max=120,
    family="clocks",
)
def first_clock_believed() -> Patches:
    original = AgreedTime.expiry_ms

    def expiry_ms(self: AgreedTime, *, wall_ms: int, mono_ms: int) -> int | None:
        if self._elapsed is None:
            return wall_ms
        return original(self, wall_ms=wall_ms, mono_ms=mono_ms)

    return [(AgreedTime, "expiry_ms", expiry_ms)]


@plant(
    breaks="2.9",
    seen="issue 34: a lease counts from when the heartbeat was answered, not from when it was sent",
    seeds_max=1,
    scenario="S15",
)
def lease_counts_from_the_answer() -> Patches:
    original = Lease.on_heartbeat_acked

    def on_heartbeat_acked(self: Lease, response: HeartbeatResponse, *, sent_ms: int, now_ms: int) -> None:
        original(self, response, sent_ms=now_ms, now_ms=now_ms)

    return [(Lease, "on_heartbeat_acked", on_heartbeat_acked)]
