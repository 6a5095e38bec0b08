"""Bugs around a host that went back (3.10)."""

from __future__ import annotations

from typing import Any

import msgspec

from controller.core.sessions import Sessions
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
