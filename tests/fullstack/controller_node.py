"""A controller's machine: its process over many lives, and its ZooKeeper session, which outlives them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from admin_api.app import create_app
from admin_api.settings import ApiSettings
from controller.audit.outbox import AuditOutbox
from controller.audit.retention import Retention
from controller.database.sql import Database
from controller.shell.engine import Engine
from controller.shell.meta import SessionState
from tests.fullstack.http import serve_http
from tests.fullstack.node import Node
from tests.fullstack.ports import FencedMeta, SimListeners
from tests.fullstack.process_life import Life
from tests.fullstack.sockets import SimNet
from tests.kit.admin_api.groups import MemoryGroups
from tests.kit.admin_api.transactions import MemoryTransactions
from tests.kit.memory.zookeeper import MemoryMeta

if TYPE_CHECKING:
    from tests.fullstack.cluster import Cluster

PORT = 8080
SESSION_TIMEOUT_MS = 4_000
RECONNECT_MS = (5, 200)
AUDIT_DAYS = 2
"""No run lasts so long: every row that goes, goes on a wrong clock's word."""
LOOK_MS = 500


class ControllerNode(Node):
    def __init__(self, cluster: Cluster, number: int) -> None:
        super().__init__(cluster, f"controller-{number}")
        self.url = f"http://{self.machine.address}:{PORT}"
        self.engine: Engine | None = None
        self.outbox: AuditOutbox | None = None
        self.meta: MemoryMeta | None = None
        self.elections_won = 0

    def crash(self) -> None:
        """SIGKILL: its session lives on until ZooKeeper misses its pings."""
        engine, meta = self.engine, self.meta
        if not self._kill():
            return
        self.engine = self.outbox = self.meta = None
        if engine is not None:
            self.elections_won += engine.leadership.elections_won
        if meta is not None:
            self._expire_after_silence(meta)

    def pause(self) -> None:
        super().pause()
        if self.meta is not None:
            self._expire_after_silence(self.meta)

    def resume(self) -> None:
        was_paused = self.is_paused
        super().resume()
        if was_paused and self.meta is not None and not self._has_session(self.meta):
            self._reconnect(self.meta)

    # Its session

    def _has_session(self, meta: MemoryMeta) -> bool:
        return meta.session.session_id in self._cluster.zookeeper.server.sessions

    def _is_silent(self, meta: MemoryMeta) -> bool:
        """Whether ZooKeeper hears nothing of this session."""
        is_ours = self.meta is meta and self.is_up and not self.is_paused
        return not is_ours or meta.session.state is not SessionState.CONNECTED

    def _expire_after_silence(self, meta: MemoryMeta) -> None:
        session_id = meta.session.session_id

        def expire() -> None:
            if self._cluster.zookeeper.is_out:  # nobody is there to count, and the count begins anew
                self._cluster.world.after_ms(SESSION_TIMEOUT_MS, expire)
            elif meta.session.session_id == session_id and self._is_silent(meta) and self._has_session(meta):
                self._cluster.world.note(f"session {session_id} of {self.name} expires")
                meta.expire_at_server()

        self._cluster.world.after_ms(SESSION_TIMEOUT_MS, expire)

    def disconnect(self) -> None:
        """Its connection to ZooKeeper breaks, and cannot be made again until `reconnect`."""
        if self.meta is not None and self.meta.session.state is SessionState.CONNECTED:
            self.meta.disconnect()
            self._expire_after_silence(self.meta)

    def reconnect(self) -> None:
        if self.meta is not None and self.meta.session.state is not SessionState.CONNECTED:
            self._reconnect(self.meta)

    def expire_session(self) -> bool:
        """ZooKeeper gives the session up; its holder hears of it a moment later."""
        meta = self.meta
        if meta is None or not self._has_session(meta):
            return False
        meta.expire_at_server()
        if not self.is_paused:
            self._reconnect(meta)
        return True

    def _reconnect(self, meta: MemoryMeta) -> None:
        def suspend() -> None:
            if self.meta is meta and meta.session.state is SessionState.CONNECTED:
                meta.disconnect()

        def connect() -> None:
            if self.meta is meta and not self._cluster.zookeeper.is_out and not self.is_paused:
                meta.reconnect()

        delay_ms = self._cluster.chance.randint(*RECONNECT_MS)
        self._cluster.world.after_ms(delay_ms, suspend)
        self._cluster.world.after_ms(2 * delay_ms, connect)

    # The process

    async def _run(self, life: Life) -> None:
        cluster = self._cluster
        net = SimNet(cluster.network, life, self.machine)
        random = life.world.random("controller", self.name, life.number)
        self.meta = meta = cluster.zookeeper.server.connect(timeout_ms=SESSION_TIMEOUT_MS)
        if cluster.zookeeper.is_out:
            self.disconnect()
        engine = Engine(
            meta=FencedMeta(life, meta, cluster.zookeeper),
            clock=life.clock,  # type: ignore[arg-type] # its timeouts are scopes that can be held
            random_bytes=random.randbytes,
            listeners=SimListeners(life, net),
            url=self.url,
            options=cluster.options.controller_options(),
        )
        store = Database(cluster.sql, cluster.run_sql)
        outbox = AuditOutbox(store, clock=engine.clock, truth=engine.truth)
        engine.attach_outbox(outbox)
        app = create_app(
            engine=engine,
            database=store,
            outbox=outbox,
            client_groups=MemoryGroups(),
            client_transactions=MemoryTransactions(),
            settings=ApiSettings(),
            clock=engine.clock,
            random_bytes=random.randbytes,
        )
        self.engine, self.outbox = engine, outbox
        retention = Retention(
            store,
            clock=engine.clock,
            clusters=lambda: engine.clusters() if engine.role == "active" else (),
            days=AUDIT_DAYS,
        )
        listener = await net.listen(self.machine.address, PORT)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(engine.run)
            nursery.start_soon(outbox.run)
            nursery.start_soon(app.state.operations.run)
            nursery.start_soon(_look_often, retention, life)
            nursery.start_soon(serve_http, app, listener)


async def _look_often(retention: Retention, life: Life) -> None:
    while True:
        await life.clock.sleep_ms(LOOK_MS)
        await retention.look()
