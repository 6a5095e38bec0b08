"""Bugs around 3.10, a host that goes back."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from controller.core.sessions import Sessions
from dataplane.core import leader
from dataplane.core.fetch import ReplicaFetch
from dataplane.core.follower import Follower
from dataplane.core.leader import Leader
from springtide.node.core.heartbeats import Heartbeats
from springtide.wire.fetch_request import LogMark
from springtide.wire.fetch_response import EpochEnd
from tests.simulation.planted.plant import Patches, plant


@plant(
    breaks="I1",
    seen="a broker that has sent fewer heartbeats than were heard of it is trusted",
    scenario="S53",
    seeds_max=60,
    family="host",
)
def heartbeat_count_ignored() -> Patches:
    return [
        (Sessions, "is_outdated", lambda *_, **__: False),
        (Heartbeats, "proof", lambda *_, **__: None),
    ]


@plant(
    breaks="I13",
    seen="3.10: a leader went back and wrote as much as it had lost; offsets and epochs agree",
    scenario="S65",
    seeds_max=120,
    family="host",
)
def content_not_compared() -> Patches:
    return [(Leader, "_parts_from", lambda *_: None)]


@plant(
    breaks="I13",
    seen="3.10: a leader went back to before a deletion, and nothing is left to compare",
    scenario="S82",
    seeds_max=1,
)
def forgotten_deletion_believed() -> Patches:
    original = Follower.log_mark

    def log_mark(self: Follower) -> LogMark | None:
        mark = original(self)
        return None if mark is None else mark._replace(log_start_offset=-1)

    return [(Follower, "log_mark", log_mark)]


@plant(
    breaks="I13",
    seen="3.10: a fork is not seen by a leader whose log begins later than what is compared",
    scenario="S83",
    seeds_max=1,
)
def later_log_compared_with_nothing() -> Patches:
    original = Leader._parts_from

    def parts_from(self: Leader, mark: LogMark, fetch_offset: int) -> EpochEnd | None:
        if mark.batches and mark.batches[0][0] < self._log.log_start_offset:
            return None
        return original(self, mark, fetch_offset)

    return [(Leader, "_parts_from", parts_from)]


@plant(
    breaks="5.2",
    seen="3.10: a leader that went back led its epoch again, from an earlier offset",
    scenario="S55",
    seeds_max=1,
)
def epoch_starts_not_compared() -> Patches:
    return [(leader, "check_epoch_start", lambda *_: None)]


@plant(
    breaks="I1",
    seen="3.10: a leader that went back commits without who joined since",
    scenario="S66",
    seeds_max=1,
)
def later_state_ignored() -> Patches:
    original = Leader.on_replica_fetch

    def on_replica_fetch(self: Leader, fetch: ReplicaFetch, *, now_ms: int) -> Any:
        if fetch.mark is not None:
            fetch = replace(fetch, mark=fetch.mark._replace(partition_epoch=-1))
        return original(self, fetch, now_ms=now_ms)

    return [(Leader, "on_replica_fetch", on_replica_fetch)]


@plant(breaks="3.10", seen="what others were told of a broker is not believed", scenario="S67", seeds_max=1)
def witnesses_ignored() -> Patches:
    return [(Sessions, "_note_others", lambda *_: None)]


@plant(breaks="3.10", seen="a count that has caught up is believed", scenario="S67", seeds_max=1)
def forgotten_answers_ignored() -> Patches:
    original = Sessions.is_outdated

    def is_outdated(self: Sessions, broker_id: int, count: int, answered: int | None = None) -> bool:
        return original(self, broker_id, count)

    def proof(self: Heartbeats, response: Any, **_: Any) -> str | None:
        return "fewer" if response.heard_count > self.sent else None

    return [(Sessions, "is_outdated", is_outdated), (Heartbeats, "proof", proof)]
