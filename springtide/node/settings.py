"""What a process that serves clients is given when it starts: its settings, and the world."""

from __future__ import annotations

import random
import socket
import ssl
from dataclasses import dataclass, field

import httpx

from springtide.node.clock import Clock, MachineClock
from springtide.node.net import Listener, Net, SystemNet
from springtide.node.threads import Threads, TrioThreads


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """The settings of any `serve`. `advertise_*` is the address that clients and peers connect to."""

    cluster: str
    listen_host: str
    listen_port: int
    advertise_host: str | None = None
    advertise_port: int | None = None
    controllers: tuple[str, ...]
    controller_token: str | None = field(default=None, repr=False)
    controller_tls: ssl.SSLContext | None = None
    rack: str | None = None
    metrics_host: str | None = None
    metrics_port: int = 0
    version: str = ""

    def advertised(self, bound: tuple[str, int]) -> tuple[str, int]:
        """Return the address to connect to. bound: that of the listener."""
        host = self.advertise_host or bound[0]
        if host in ("0.0.0.0", "::"):  # noqa: S104 - compared, not bound
            host = socket.getfqdn()
        return host, self.advertise_port or bound[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePorts:
    """The world: clocks, network, threads, randomness, and the transport to the controller."""

    clock: Clock = field(default_factory=MachineClock)
    net: Net = field(default_factory=SystemNet)
    threads: Threads = field(default_factory=TrioThreads)
    rng: random.Random = field(default_factory=random.SystemRandom)
    controller_transport: httpx.AsyncBaseTransport | None = None


async def bind(settings: NodeSettings, net: Net) -> tuple[Listener, Listener | None]:
    """Bind the listeners for clients and, if there is to be one, for metrics. Raise OSError."""
    listener = await net.listen(settings.listen_host, settings.listen_port)
    if settings.metrics_host is None:
        return listener, None
    return listener, await net.listen(settings.metrics_host, settings.metrics_port)
