"""The OpenAPI document, committed under openapi/ and served at /openapi.json.

python -m admin_api.openapi --write

The application is built without a working engine or database. Nothing here connects, listens or runs.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any, Final

import anyio
from prometheus_client import CollectorRegistry

from admin_api.app import create_app
from admin_api.settings import ApiSettings
from controller.audit.outbox import AuditOutbox
from controller.core.options import ControllerOptions
from controller.database.sql import Database
from controller.shell.broker_api import create_coordinator_router, create_router
from controller.shell.clock import SystemClock
from controller.shell.engine import Engine
from controller.shell.kafka_groups import KafkaGroups
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
            client_groups=KafkaGroups(lambda name: engine.cluster(name).published, clock),
            settings=ApiSettings(),
            clock=clock,
            random_bytes=os.urandom,
            registry=CollectorRegistry(),
            internal_routers=[create_router(engine), create_coordinator_router(engine)],
        )
        return app.openapi()
    finally:
        store.close()


PATH: Final = Path(__file__).parents[2] / "openapi" / "springtide.json"


def render(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m admin_api.openapi", description="The OpenAPI document.")
    parser.add_argument("--write", action="store_true", help=f"write {PATH.name} instead of printing it")
    chosen = parser.parse_args(arguments)
    text = render(build_document())
    if chosen.write:
        PATH.parent.mkdir(exist_ok=True)
        PATH.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
    return 0
