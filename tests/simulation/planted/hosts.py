"""Bugs around a host that went back: who fails to see it, and who believes it (3.10)."""

from __future__ import annotations

from typing import Any

import msgspec

from controller.core.sessions import Sessions
from dataplane.core.follower import Follower
from dataplane.core.leader import Leader
from dataplane.core.leader_epochs import EpochEnd
from dataplane.core.reads import check_position
from tests.simulation.planted.plant import Patches, plant


@plant(
    breaks="I1",
    seen="a broker that has sent fewer heartbeats than were heard of it is trusted",
    seeds_max=60,
    family="host",
)
def heartbeat_count_ignored() -> Patches:
    original = Sessions.on_heartbeat

    def on_heartbeat(self: Sessions, draft: Any, request: Any, **kwargs: Any) -> Any:
        return original(self, draft, msgspec.structs.replace(request, count=-1), **kwargs)

    return [(Sessions, "on_heartbeat", on_heartbeat)]


@plant(
    breaks="I1",
    seen="replicas cut what a leader that went back has forgotten of its own epoch",
    seeds_max=200,
    family="host",
)
def leader_that_went_back_is_obeyed() -> Patches:
    original = Leader.on_replica_fetch

    def on_replica_fetch(self: Leader, **kwargs: Any) -> Any:
        offset, epoch = kwargs["fetch_offset"], kwargs["last_fetched_epoch"]
        if epoch == kwargs["leader_epoch"] == self.leader_epoch and offset > self._log.log_end_offset:
            return check_position(self._log, offset, epoch), ()
        return original(self, **kwargs)

    obeyed = Follower._on_diverging

    def on_diverging(self: Follower, leader_end: EpochEnd) -> Any:
        state = self._state
        self._state = msgspec.structs.replace(state, leader_epoch=-2)
        try:
            return obeyed(self, leader_end)
        finally:
            self._state = state

    return [(Leader, "on_replica_fetch", on_replica_fetch), (Follower, "_on_diverging", on_diverging)]
