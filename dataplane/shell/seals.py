"""Seals idle logs, and opens them again when something is written (docs/replication.md 3.9, storage/seal.py).

A log is sealed when nothing was written to it since the last round and this replica has a seat. Its first
record after that waits until the seal is durably gone: one unlink and one fsync, in a thread. With
`flush.messages=1` the seal stays: each record is fsynced before this replica vouches for it, and a power cut
can't take what it vouched for.

One thing is done to a log at a time: what is asked for meanwhile is done afterwards.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Final

from dataplane.core.log_port import LogError
from dataplane.shell.hosted import HostedPartition
from dataplane.storage.health import ClosedLog
from springtide.contract.epochs import BrokerEpoch
from springtide.contract.partition_state import PartitionKey
from springtide.node.threads import Threads

ROUND_MS: Final = 5_000
SEALS_A_ROUND_MAX: Final = 100
"""Each costs some fsyncs now and one when it is removed."""


class Seals:
    def __init__(
        self,
        *,
        broker_id: int,
        threads: Threads,
        spawn: Callable[[Callable[[], Awaitable[None]]], None],
        on_storage_error: Callable[[str], None],
    ) -> None:
        self._broker_id = broker_id
        self._threads = threads
        self._spawn = spawn
        self._on_storage_error = on_storage_error
        #: Of the registration; -1: not registered, nothing is sealed.
        self.chain_epoch = -1
        self._busy: set[PartitionKey] = set()
        self._wanted: dict[PartitionKey, Callable[[], None]] = {}
        self._seen: dict[PartitionKey, int] = {}

    def start_vouching(self, hosted: HostedPartition, done: Callable[[], None]) -> None:
        """Carry out the effect `Vouch`; `done` is called on the loop afterwards."""
        self._wanted[hosted.key] = done
        if hosted.key not in self._busy:
            self._busy.add(hosted.key)
            self._spawn(partial(self._vouch, hosted))

    async def _vouch(self, hosted: HostedPartition) -> None:
        log = hosted.log
        try:
            while (done := self._wanted.pop(hosted.key, None)) is not None:
                if log.options.flush_messages == 1:
                    await self._threads.run(log.durability.flush)
                    log.seal.vouch_for_flushed()
                else:
                    await self._threads.run(log.seal.remove)
                    log.seal.open()
                done()
        except LogError as error:
            self._wanted.pop(hosted.key, None)
            self._fail(error)
        finally:
            self._busy.discard(hosted.key)

    async def seal_idle(self, table: Iterable[HostedPartition]) -> None:
        """One round: seal what has been idle since the last one."""
        seen, self._seen = self._seen, {}
        count = 0
        for hosted in table:
            end_offset = hosted.log.log_end_offset
            self._seen[hosted.key] = end_offset
            is_idle = seen.get(hosted.key) == end_offset or hosted.log.options.flush_messages == 1
            if is_idle and count < SEALS_A_ROUND_MAX and self._may_seal(hosted):
                count += 1
                await self._seal(hosted)

    def _may_seal(self, hosted: HostedPartition) -> bool:
        replica, state = hosted.replica, hosted.replica.state
        return (
            self.chain_epoch >= 0
            and hosted.log.seal.current is None
            and hosted.key not in self._busy
            and replica.role.is_assigned
            and state is not None
            and (self._broker_id in state.isr or self._broker_id in state.elr)
        )

    async def _seal(self, hosted: HostedPartition) -> None:
        self._busy.add(hosted.key)
        try:
            hosted.log.seal.begin(BrokerEpoch(self.chain_epoch), end_offset=hosted.log.log_end_offset)
            await self._threads.run(hosted.log.seal.store)
        except LogError as error:
            self._fail(error)
        finally:
            if hosted.key in self._wanted:
                self._spawn(partial(self._vouch, hosted))
            else:
                self._busy.discard(hosted.key)

    def _fail(self, error: LogError) -> None:
        if not isinstance(error, ClosedLog):  # deleted or set aside meanwhile
            self._on_storage_error(str(error))
