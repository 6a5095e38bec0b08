"""Reserves loopback TCP ports that stay ours while the process behind them is dead.

A broker that is killed must come back on the same port, and meanwhile nothing else may take it: neither
another cluster on this machine nor the kernel, when it picks a source port for an outgoing connection (the
client that retries against the dead broker is the likeliest thief, and TCP's simultaneous open even lets it
connect to itself). Two measures, each with its own reason:

- free ports are drawn from outside the kernel's ephemeral range;
- a *placeholder* socket stays bound to each port, with SO_REUSEADDR and without listening. Linux then lets
  a server that also sets SO_REUSEADDR (trio, uvicorn, ZooKeeper: all do) bind and listen beside it, refuses
  every other server, and answers connections with a reset while no server listens: exactly what a dead
  process looks like.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

LOOPBACK = "127.0.0.1"
PORT_MIN = 20_000
PORT_MAX = 65_535
DRAWS_MAX = 500
"""Random draws before giving up; with a thousand free ports the chance to get there is nil."""

_EPHEMERAL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_EPHEMERAL_DEFAULT = (32_768, 60_999)
_TCP_TABLE = Path("/proc/net/tcp")
_TIME_WAIT = "06"


class PortTaken(RuntimeError):
    """A port was asked for by number and is in use, or no free one was found."""


def ephemeral_range() -> tuple[int, int]:
    """The kernel's source ports, both ends inclusive; Linux's default where /proc does not say."""
    try:
        low, high = _EPHEMERAL_RANGE.read_text(encoding="ascii").split()
        return int(low), int(high)
    except (OSError, ValueError):
        return _EPHEMERAL_DEFAULT


class PortReservation:
    """A set of reserved ports. Close it (or leave its `with` block) to give them back."""

    def __init__(self) -> None:
        self._placeholders: dict[int, socket.socket] = {}

    @property
    def ports(self) -> Sequence[int]:
        """The reserved ports in the order in which they were reserved."""
        return tuple(self._placeholders)

    def reserve(self, port: int, *, count: int = 1) -> int:
        """Reserve one chosen port and those after it, `count` in all, and return the first.

        Raises:
            PortTaken: one of them is in use.
        """
        taken = self._try(port, count)
        if taken is not None:
            raise PortTaken(
                f"port {taken} on {LOOPBACK} is in use; choose another or stop what listens there"
            )
        return port

    def reserve_free(self, *, preferred: int | None = None, count: int = 1) -> int:
        """Reserve `preferred` and those after it, `count` in all, when they are free, else random free ones
        outside the ephemeral range. Return the first."""
        if preferred is not None and self._try(preferred, count) is None:
            return preferred
        low, high = ephemeral_range()
        firsts = range(PORT_MIN, PORT_MAX - count + 1)
        candidates = [port for port in firsts if port + count <= low or port > high]
        if not candidates:  # An administrator gave everything to the kernel: the placeholder alone must do.
            candidates = list(firsts)
        for _ in range(DRAWS_MAX):
            port = random.choice(candidates)
            if self._try(port, count) is None:
                return port
        raise PortTaken(f"no free port on {LOOPBACK} after {DRAWS_MAX} draws")

    def _try(self, first: int, count: int) -> int | None:
        """Reserve these ports and return None; or reserve none, and return one that is taken."""
        bound: dict[int, socket.socket] = {}
        for port in range(first, first + count):
            placeholder = _bind_placeholder(port)
            if placeholder is None:
                for each in bound.values():
                    each.close()
                return port
            bound[port] = placeholder
        self._placeholders |= bound
        return None

    def close(self) -> None:
        for placeholder in self._placeholders.values():
            placeholder.close()
        self._placeholders.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _bind_placeholder(port: int) -> socket.socket | None:
    """Bind `port` if it is free, then let servers that set SO_REUSEADDR share it; None when it is taken.

    The bind is made without SO_REUSEADDR: with it, it would succeed beside another cluster's placeholder.
    The option is set afterwards; Linux looks at it again when the server binds. Connections that a stopped
    server left in TIME_WAIT refuse such a bind for a minute; then, and only then, the port is bound with
    the option from the start.
    """
    placeholder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        try:
            placeholder.bind((LOOPBACK, port))
        except OSError:
            if not _has_time_wait(port):
                raise
            placeholder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            placeholder.bind((LOOPBACK, port))
        placeholder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    except OSError:
        placeholder.close()
        return None
    return placeholder


def _has_time_wait(port: int) -> bool:
    """Return whether the kernel keeps a closed connection of this local port (Linux; False where /proc does
    not say)."""
    try:
        rows = _TCP_TABLE.read_text(encoding="ascii").splitlines()[1:]
    except OSError:
        return False
    local_ends = ((row.split()[1], row.split()[3]) for row in rows)
    return any(local.endswith(f":{port:04X}") and state == _TIME_WAIT for local, state in local_ends)


def is_accepting(port: int, *, address: str = LOOPBACK, timeout_seconds: float = 0.5) -> bool:
    """Return whether a process listens on the port and accepts a connection."""
    try:
        with socket.create_connection((address, port), timeout=timeout_seconds):
            return True
    except OSError:
        return False
