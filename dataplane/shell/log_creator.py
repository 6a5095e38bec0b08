"""Makes logs beside the metadata stream, a slice at a time, in threads.

A topic of thousands of partitions is known as soon as its batch is applied; its logs follow in the order in
which they were asked for, and the rest of the stream overtakes them (2.8, applying batches).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import trio

from dataplane.core.creations import PendingCreations
from dataplane.core.log_port import LogError
from dataplane.shell.data_directory import DataDirectory
from dataplane.storage.partition_log import PartitionLog
from springtide.contract.partition_state import PartitionState

CREATIONS_AT_ONCE: Final = 64
"""Logs of one slice: they share an fsync of the directory, and the loop's turn in which they begin."""


class LogCreator:
    """pending: what is still to be made. on_made: the log is there, and wanted under this state.
    discard: it is there, but was given up meanwhile."""

    def __init__(
        self,
        store: DataDirectory,
        pending: PendingCreations,
        *,
        on_made: Callable[[PartitionState, PartitionLog], None],
        on_failed: Callable[[PartitionState, LogError], None],
        discard: Callable[[PartitionLog], Awaitable[None]],
    ) -> None:
        self.pending = pending
        self._store = store
        self._on_made = on_made
        self._on_failed = on_failed
        self._discard = discard
        self._wake = trio.Event()
        self._slice = trio.Lock()
        self._is_stopped = False

    def want(self, state: PartitionState) -> None:
        self.pending.want(state)
        self._wake.set()

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            while await self.make_next():
                pass

    async def make_next(self) -> bool:
        """Make one slice; false: there is none. The disk's part is never given up half way. If the broker
        ends meanwhile, nothing is begun with the new logs: its next life finds them."""
        async with self._slice:
            states = () if self._is_stopped else self.pending.begin(count_max=CREATIONS_AT_ONCE)
            if states:
                await self._make(states)
        return bool(states)

    async def _make(self, states: Sequence[PartitionState]) -> None:
        keys = [(state.topic_id, state.partition) for state in states]
        try:
            with trio.CancelScope(shield=True):
                logs = await self._store.create_logs(states)
        except LogError as error:
            for key in keys:
                wanted = self.pending.end(key)
                if wanted is not None:
                    self._on_failed(wanted, error)
            return
        for key, log in zip(keys, logs, strict=True):
            await trio.lowlevel.checkpoint_if_cancelled()
            wanted = self.pending.end(key)
            if wanted is None:
                with trio.CancelScope(shield=True):
                    await self._discard(log)
            else:
                self._on_made(wanted, log)

    async def settle(self) -> None:
        """Wait until logs that were given up while they were being made are deleted."""
        if self.pending.must_settle:
            await self._slice_done()

    async def stop(self) -> None:
        """Begin no slice any more; wait for the one that is being made."""
        self._is_stopped = True
        await self._slice_done()

    async def _slice_done(self) -> None:
        async with self._slice:
            pass
