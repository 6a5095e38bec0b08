"""What brokers and coordinators tell the controller, with their heartbeats, of topics that clients ask for
and that are not there: for people. Nothing is decided by it, and neither side stores it."""

from __future__ import annotations

from typing import Final

import msgspec

#: In one heartbeat: those that were asked for most.
MISSING_TOLD_MAX: Final = 20
#: In the place of a name: all names of which there are too many. No topic can be called so.
OTHERS: Final = "(others)"


class MissingTopic(msgspec.Struct, frozen=True, kw_only=True):
    """asked: how often since since_ms. client_id, software: of who asked last, at last_ms. Unix times."""

    topic: str
    asked: int
    since_ms: int
    last_ms: int
    client_id: str
    software: str
