"""Asks another process's TCP listener whether the process lives.

A refused connection is the one proof of death that needs no timeout: the kernel of that machine says that no
process listens on the port. Everything else (accepted, no answer, unreachable, a name that does not resolve)
is no proof: a full backlog or a dropped packet look like silence, and a restarted process accepts. Acting on
a wrong proof is safe, because durability rests on epochs and set inclusion; it only costs an election.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import StrEnum
from typing import Protocol

import anyio
import anyio.abc

from controller.shell.clock import ControllerClock

log = logging.getLogger(__name__)

PROBE_TIMEOUT_MS = 1_000
#: Between the two refusals that make a proof: a process that re-opens its listener gets a chance.
PROBE_PAUSE_MS = 3
READ_BYTES = 64


class ListenerAnswer(StrEnum):
    ACCEPTED = "accepted"
    REFUSED = "refused"
    SILENT = "silent"


class Listeners(Protocol):
    """Outgoing TCP connections, as far as asking who lives needs them."""

    async def ask(self, host: str, port: int) -> ListenerAnswer:
        """Connect and close. Bounded in time."""
        ...

    async def hold(self, host: str, port: int, *, on_accepted: Callable[[], None]) -> bool:
        """Connect, say so, and wait until the other side ends the connection; False when it was never
        accepted."""
        ...


class TcpListeners:
    """Real sockets."""

    def __init__(self, clock: ControllerClock) -> None:
        self._clock = clock

    async def ask(self, host: str, port: int) -> ListenerAnswer:
        with self._clock.timeout_ms(PROBE_TIMEOUT_MS):
            try:
                stream = await anyio.connect_tcp(host, port)
            except OSError as error:
                return ListenerAnswer.REFUSED if is_refusal(error) else ListenerAnswer.SILENT
            await anyio.aclose_forcefully(stream)
            return ListenerAnswer.ACCEPTED
        return ListenerAnswer.SILENT

    async def hold(self, host: str, port: int, *, on_accepted: Callable[[], None]) -> bool:
        stream: anyio.abc.SocketStream | None = None
        with self._clock.timeout_ms(PROBE_TIMEOUT_MS):
            try:
                stream = await anyio.connect_tcp(host, port)
            except OSError:
                return False
        if stream is None:
            return False
        on_accepted()
        try:
            while True:
                await stream.receive(READ_BYTES)
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            return True
        finally:
            await anyio.aclose_forcefully(stream)


def is_refusal(error: OSError) -> bool:
    """Return whether every address of the host refused; anyio wraps what happened at each of them."""
    if isinstance(error, ConnectionRefusedError):
        return True
    cause = error.__cause__
    if isinstance(cause, BaseExceptionGroup):
        return all(isinstance(inner, ConnectionRefusedError) for inner in cause.exceptions)
    return isinstance(cause, ConnectionRefusedError)


async def is_proven_dead(listeners: Listeners, clock: ControllerClock, *, host: str, port: int) -> bool:
    """Two refusals a moment apart."""
    if await listeners.ask(host, port) is not ListenerAnswer.REFUSED:
        return False
    await clock.sleep_ms(PROBE_PAUSE_MS)
    return await listeners.ask(host, port) is ListenerAnswer.REFUSED
