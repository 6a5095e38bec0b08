"""Makes logs beside the metadata stream, a slice at a time, in threads.

A topic of thousands of partitions is known as soon as its batch is applied; its logs follow in the order in
which they were asked for, and the rest of the stream overtakes them (2.8, applying batches). Which logs are
made, and what begins with them, is decided by the core (core/creations.py, core/broker.py).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import trio

from dataplane.core.broker import DeleteLog, Home
from dataplane.core.log_port import LogError
from dataplane.shell.data_directory import DataDirectory
from dataplane.shell.effect_runner import EffectRunner
from dataplane.shell.hosted import HostedPartition
from springtide.contract.partition_state import PartitionState
from springtide.node.clock import Clock

CREATIONS_AT_ONCE: Final = 64
"""Logs of one slice: they share an fsync of the directory, and the loop's turn in which they begin."""


class LogCreator:
    """discard: deletes a log that was given up while it was made."""

    def __init__(
        self,
        store: DataDirectory,
        effects: EffectRunner,
        *,
        home: Home[HostedPartition],
        clock: Clock,
        discard: Callable[[DeleteLog], Awaitable[object]],
    ) -> None:
        self._store = store
        self._effects = effects
        self._broker = effects.broker
        self._home = home
        self._clock = clock
        self._discard = discard
        self._wake = trio.Event()
        self._slice = trio.Lock()
        self._is_stopped = False

    def wake(self) -> None:
        """Note that the core wants logs."""
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
            pending = self._broker.creations
            states = () if self._is_stopped else pending.begin(count_max=CREATIONS_AT_ONCE)
            if states:
                await self._make(states)
        return bool(states)

    async def _make(self, states: Sequence[PartitionState]) -> None:
        keys = [(state.topic_id, state.partition) for state in states]
        try:
            with trio.CancelScope(shield=True):
                await self._store.create_logs(states)
        except LogError as error:
            self._effects.carry_out(self._broker.on_not_made(keys, error))
            return
        for key in keys:
            await trio.lowlevel.checkpoint_if_cancelled()
            steps = self._broker.on_made(key, self._home, now_ms=self._clock.mono_ms())
            if isinstance(steps, DeleteLog):
                with trio.CancelScope(shield=True):
                    await self._discard(steps)
            else:
                self._effects.carry_out(steps)

    async def settle(self) -> None:
        """Wait until logs that were given up while they were being made are deleted."""
        if self._broker.creations.must_settle:
            await self._slice_done()

    async def stop(self) -> None:
        """Begin no slice any more; wait for the one that is being made."""
        self._is_stopped = True
        await self._slice_done()

    async def _slice_done(self) -> None:
        async with self._slice:
            pass
