"""The life of a process that serves clients: its first tasks, those that its parts start, and its end.

    start: serve metrics, register, serve Kafka's port once no other process holds its id
    close: free the ports and end the connections to the controller

A process that is closed is not started again.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable

import trio
from prometheus_client.metrics_core import Metric

from springtide.node.authentication import Authentication
from springtide.node.controller_client import ControllerClient
from springtide.node.controller_session import ControllerSession
from springtide.node.listeners import METRICS, BoundListeners
from springtide.node.net import Listener
from springtide.node.server import Server
from springtide.node.settings import NodePorts, NodeSettings
from springtide.node.stall_watch import StallWatch
from springtide.node.status import MetricsCollector, StatusServer
from springtide.node.tls_files import keep_fresh

_log = logging.getLogger(__name__)


class NodeLife:
    """node_id: the broker's or coordinator's id, for log lines. collect, is_ready, write_more: for its page
    of metrics.

    has_begun: set once its tasks are started.
    """

    def __init__(
        self,
        settings: NodeSettings,
        ports: NodePorts,
        *,
        node_id: int,
        listeners: BoundListeners,
        authentication: Authentication,
        server: Server,
        client: ControllerClient,
        session: ControllerSession,
        metrics_listener: Listener | None,
        collect: Callable[[], Iterable[Metric]],
        is_ready: Callable[[], bool],
        write_more: Callable[[], bytes] = bytes,
    ) -> None:
        self.has_begun = trio.Event()
        self._ports = ports
        self._settings = settings
        self._node_id = node_id
        self.listeners = listeners
        self._authentication = authentication
        self._server = server
        self._client = client
        self._session = session
        self.status: StatusServer | None = None
        if metrics_listener is not None:
            self.status = StatusServer(
                listener=metrics_listener,
                collector=MetricsCollector([collect, listeners.collect, authentication.collect]),
                is_ready=is_ready,
                clock=ports.clock,
                threads=ports.threads,
                write_more=write_more,
            )
        self._nursery: trio.Nursery | None = None

    def spawn(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run a task beside the others; it ends with the process. Do nothing before `start` and after
        `close`."""
        if self._nursery is not None:
            self._nursery.start_soon(work)

    def start(self, nursery: trio.Nursery) -> None:
        """Start the tasks that each process has. The session's raises RegistrationRefused or WentBack."""
        self._nursery = nursery
        nursery.start_soon(self._server.drive)
        nursery.start_soon(StallWatch(self._ports.clock, self._server.counters).run)
        nursery.start_soon(self._serve_when_alone)
        if self.status is not None:
            nursery.start_soon(self.status.serve)
            scheme = "http" if METRICS not in self.listeners.materials else "https"
            _log.info("metrics_served url=%s", f"{scheme}://" + "{}:{}/metrics".format(*self.status.address))
        nursery.start_soon(self._session.run)
        nursery.start_soon(keep_fresh, self.listeners.materials, self._ports.clock, self._ports.threads)
        for keys in self._authentication.issuers.values():
            nursery.start_soon(keys.run)
        self.has_begun.set()

    async def _serve_when_alone(self) -> None:
        await self._session.may_listen.wait()
        for one in self.listeners.settings.all:
            bound = self.listeners.by_name[one.name].address
            told = one.endpoint(bound)
            _log.info(
                "serving_kafka cluster=%s node_id=%d listener=%s protocol=%s address=%s advertised=%s",
                self._settings.cluster,
                self._node_id,
                one.name or "-",
                one.protocol,
                "{}:{}".format(*bound),
                f"{told.host}:{told.port}",
            )
        await self._server.serve()

    async def close(self) -> None:
        self._nursery = None
        self.listeners.close()
        self._server.poller.close()
        with trio.CancelScope(shield=True):
            await self._client.aclose()
