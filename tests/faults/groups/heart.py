"""A member that only sends heartbeats, and looks for its coordinator at once: the servers' part of a pause.
Stock clients wait a tenth of a second, and then two, before they try again."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import suppress
from itertools import count, pairwise
from typing import Final

from bench.group_load import Address, Member, Wire
from bench.protocol import BadAnswer
from controller.core.shards import SHARDS
from springtide.node.sharding import shard_of
from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode

BEAT_SECONDS: Final = 0.02
AGAIN_SECONDS: Final = 0.005
STOP_SECONDS_MAX: Final = 5.0
NS_PER_MS: Final = 1_000_000


class Heart:
    """A thread with one member of a group of its own, in the shard of `beside`."""

    def __init__(self, bootstrap_servers: str, beside: str) -> None:
        host, _, port = bootstrap_servers.split(",", maxsplit=1)[0].rpartition(":")
        self._bootstrap: Address = (host, int(port))
        names = (f"heart-{number}" for number in count())
        self._group = next(name for name in names if shard_of(name, SHARDS) == shard_of(beside, SHARDS))
        self._answered_ns: list[int] = []
        self._ends = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="heart", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ends.set()
        if self._thread.ident is not None:
            self._thread.join(STOP_SECONDS_MAX)

    def longest_gap_ms(self, since_ns: int) -> float:
        """Return for how long no heartbeat was answered, at most."""
        answered = [at_ns for at_ns in list(self._answered_ns) if at_ns > since_ns]
        times = [since_ns, *answered, time.monotonic_ns()]
        return max(after - before for before, after in pairwise(times)) / NS_PER_MS

    async def _run(self) -> None:
        broker = await Wire.open(self._bootstrap)
        member: Member | None = None
        while not self._ends.is_set():
            with suppress(OSError, BadAnswer):  # it was killed: another has the shard soon
                wire = await self._reach(broker)
                if wire is not None:
                    if member is None:
                        member = Member(self._group, wire)
                        await member.join()
                    member.wire = wire
                    await self._beat(member)
                    await wire.close()
            await asyncio.sleep(AGAIN_SECONDS)
        await broker.close()

    async def _reach(self, broker: Wire) -> Wire | None:
        asked = {"key_type": 0, "coordinator_keys": [self._group]}
        (found,) = (await broker.ask(ApiKey.FIND_COORDINATOR, asked)).coordinators
        return await Wire.open((found.host, found.port)) if found.error_code == ErrorCode.NONE else None

    async def _beat(self, member: Member) -> None:
        while not self._ends.is_set() and await member.beat() == ErrorCode.NONE:
            self._answered_ns.append(time.monotonic_ns())
            await asyncio.sleep(BEAT_SECONDS)
