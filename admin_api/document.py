"""The application without an engine or a database, built only for its OpenAPI document. Nothing here
connects, listens or runs."""

from __future__ import annotations

import os
from typing import Any

import anyio
from prometheus_client import CollectorRegistry

from admin_api.app import create_app
from admin_api.settings import ApiSettings
from controller.audit.outbox import AuditOutbox
from controller.core.options import ControllerOptions
from controller.database.sql import Database
from controller.shell.broker_api import create_router
from controller.shell.clock import SystemClock
from controller.shell.engine import Engine
from controller.shell.kazoo_meta import KazooMeta
from controller.shell.listeners import TcpListeners


def build_document() -> dict[str, Any]:
    """Return the document as a running controller serves it."""
    return anyio.run(_build)


async def _build() -> dict[str, Any]:
    clock = SystemClock()
    engine = Engine(
        meta=KazooMeta(hosts="127.0.0.1:1", root="/springtide", session_timeout_ms=4_000),
        clock=clock,
        random_bytes=os.urandom,
        listeners=TcpListeners(clock),
        url="http://127.0.0.1:1",
        options=ControllerOptions(),
    )
    store = Database.open("sqlite://")
    try:
        app = create_app(
            engine=engine,
            database=store,
            outbox=AuditOutbox(store, clock=clock, truth=engine.truth),
            settings=ApiSettings(),
            clock=clock,
            random_bytes=os.urandom,
            registry=CollectorRegistry(),
            internal_routers=[create_router(engine)],
        )
        return app.openapi()
    finally:
        store.close()
