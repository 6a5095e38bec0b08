"""The wait until the name of a deleted topic is free (docs/replication.md 4.6, deletion).

A deletion is answered when no leader of the topic can acknowledge anything any more, and a creation waits for
that, too. Both wait for a bounded time. In a calm cluster it is over when each broker has heard of the
deletion. A broker that is silent is fenced first, and then no other may vouch for it any more.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from admin_api.http.services import Services
from controller.face.commands import NotActive

NAME_WAIT_MS: Final = 15_000
"""A silent broker is fenced after the grace of 6 s, and a second one later no broker vouches for it."""


async def until_free(services: Services, cluster: str, names: Iterable[str], wait_ms: int) -> bool:
    """Wait until no topic that is being deleted holds one of the names. Return False if that is not known to
    be so after `wait_ms`, or when this controller leads no more."""
    try:
        view = services.engine.cluster(cluster)
        with services.clock.timeout_ms(wait_ms):
            await view.until_free(set(names))
            return True
    except NotActive:
        return False  # what is answered about the rest is answered by the caller's next step
    return False
