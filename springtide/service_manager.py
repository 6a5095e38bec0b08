"""Tells systemd, or another service manager that speaks sd_notify(3), how this process is.

Each message is a datagram to the socket that `NOTIFY_SOCKET` names: `READY=1` once clients are served,
`WATCHDOG=1` again and again while the event loop runs, `STOPPING=1` when the process begins to stop. Without
the variable nothing is told. A message that can't be sent is lost, and logged: no process fails for it.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

_log = logging.getLogger(__name__)

MICROSECONDS: Final = 1_000_000


class ServiceManager:
    """address: of its socket; "" tells nothing. watchdog_s: it gives this process up when it hears nothing
    for so long; 0 for never."""

    def __init__(self, address: str = "", *, watchdog_s: float = 0.0) -> None:
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self.watchdog_s = watchdog_s

    @classmethod
    def of_environment(cls, environment: Mapping[str, str], *, pid: int) -> ServiceManager:
        """Return the one that started this process. The watchdog waits for the process of `WATCHDOG_PID`
        only: the workers of a broker have the variables of the process above them."""
        limit, watched = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", str(pid))
        is_watched = limit.isdecimal() and watched == str(pid)
        return cls(
            environment.get("NOTIFY_SOCKET", ""), watchdog_s=int(limit) / MICROSECONDS if is_watched else 0.0
        )

    def ready(self) -> None:
        self._tell("READY=1")

    def stopping(self) -> None:
        self._tell("STOPPING=1")

    async def keep_alive(self, sleep: Callable[[float], Awaitable[None]]) -> None:
        """Tell twice in each limit of the watchdog that the loop runs, until cancelled; return at once where
        there is none. sleep: of this loop, in seconds."""
        while self.watchdog_s:
            self._tell("WATCHDOG=1")
            await sleep(self.watchdog_s / 2)

    def _tell(self, state: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.setblocking(False)
                sender.sendto(state.encode("ascii"), self._address)
        except OSError as error:
            _log.warning("service_manager_not_told state=%s cause=%s", state, error)
