"""What a process that serves clients is given when it starts: its settings, and the world."""

from __future__ import annotations

import random
import ssl
from dataclasses import dataclass, field
from typing import NamedTuple

import httpx

from springtide.node.clock import Clock, MachineClock
from springtide.node.listeners import (
    BoundListeners,
    ListenerSettings,
    ListenersSettings,
    bind_listener,
    bind_listeners,
)
from springtide.node.net import Listener, Net, SystemNet
from springtide.node.threads import Threads, TrioThreads
from springtide.node.tls_files import TlsMaterial
from springtide.service_manager import ServiceManager


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    cluster: str
    listeners: ListenersSettings
    controllers: tuple[str, ...]
    controller_token: str | None = field(default=None, repr=False)
    controller_tls: ssl.SSLContext | None = None
    rack: str | None = None
    metrics: ListenerSettings | None = None
    version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePorts:
    """The world: clocks, network, threads, randomness, the transport to the controller, and what started this
    process."""

    clock: Clock = field(default_factory=MachineClock)
    net: Net = field(default_factory=SystemNet)
    threads: Threads = field(default_factory=TrioThreads)
    rng: random.Random = field(default_factory=random.SystemRandom)
    controller_transport: httpx.AsyncBaseTransport | None = None
    service: ServiceManager = field(default_factory=ServiceManager)


class Bound(NamedTuple):
    """The listeners of a process, for clients and, if wanted, for the page of metrics."""

    listeners: BoundListeners
    metrics: Listener | None = None


async def bind(settings: NodeSettings, net: Net) -> Bound:
    """Bind the listeners. Raise OSError, TlsFilesInvalid."""
    metrics = settings.metrics
    all_of_them = settings.listeners.all if metrics is None else (*settings.listeners.all, metrics)
    materials = {one.name: TlsMaterial(one.tls) for one in all_of_them if one.tls is not None}
    listeners = await bind_listeners(settings.listeners, net, materials)
    if metrics is None:
        return Bound(listeners)
    try:
        return Bound(listeners, await bind_listener(metrics, net, materials))
    except BaseException:
        listeners.close()
        raise
