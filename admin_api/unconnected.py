"""The application without a working engine or database. Nothing here connects, listens or runs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from fastapi import FastAPI

from admin_api.app import create_app
from admin_api.settings import ApiSettings
from controller.audit.outbox import AuditOutbox
from controller.core.options import ControllerOptions
from controller.database.sql import Database
from controller.shell.clock import SystemClock
from controller.shell.engine import Engine
from controller.shell.kafka_groups import KafkaGroups
from controller.shell.kafka_transactions import KafkaTransactions
from controller.shell.kazoo_meta import KazooMeta
from controller.shell.listeners import TcpListeners


@contextmanager
def unconnected_app() -> Iterator[FastAPI]:
    """Yield it, with the routes that a running controller has. Needs an event loop."""
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
        yield create_app(
            engine=engine,
            database=store,
            outbox=AuditOutbox(store, clock=clock, truth=engine.truth),
            client_groups=KafkaGroups(lambda name: engine.cluster(name).published, clock),
            client_transactions=KafkaTransactions(lambda name: engine.cluster(name).published, clock),
            settings=ApiSettings(),
            clock=clock,
            random_bytes=os.urandom,
        )
    finally:
        store.close()
