"""A controller in one process, asked over REST: the real engine on a ZooKeeper in memory, SQL in memory, the
real application behind httpx, all in virtual time."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import anyio
import httpx
import sqlalchemy as sa
from fastapi import FastAPI

from admin_api.app import create_app
from admin_api.http.oidc import OidcIssuer
from admin_api.http.tokens import Tokens, load_tokens
from admin_api.settings import ApiSettings
from controller.audit.outbox import AuditOutbox
from controller.database.sql import Database, DatabaseUnavailable, create_sql_engine
from controller.shell.engine import Engine
from tests.kit.admin_api.groups import MemoryGroups
from tests.kit.admin_api.records import MemoryRooms
from tests.kit.admin_api.transactions import MemoryTransactions
from tests.kit.clocks import VirtualClock
from tests.kit.controller.shell import AddressBook, Broker, form_cluster, make_engine, until_active
from tests.kit.controller.sql import make_tables, run_in_place
from tests.kit.memory.zookeeper import MemoryMeta, MemoryZooKeeper

T = TypeVar("T")

CLIENT_ADDRESS = ("10.0.0.7", 50_000)
ACTOR = "anonymous@10.0.0.7"


class Sql:
    """Runs SQL work in place, unless the database is `down`; it may be made to go down after some writes."""

    def __init__(self) -> None:
        self.down = False
        self.writes_left: int | None = None

    async def __call__(self, work: Callable[[], T], *, exclusive: bool) -> T:
        if exclusive and self.writes_left is not None:
            self.down = self.writes_left == 0
            self.writes_left -= 1
        if self.down:
            raise DatabaseUnavailable("down")
        return await run_in_place(work, exclusive=exclusive)


@dataclass
class Rest:
    """One controller and a client that talks to it."""

    client: httpx.AsyncClient
    app: FastAPI
    engine: Engine
    store: Database
    outbox: AuditOutbox
    clock: VirtualClock
    meta: MemoryMeta
    sql: Sql
    listeners: AddressBook
    groups: MemoryGroups
    rooms: MemoryRooms
    transactions: MemoryTransactions

    async def post(self, path: str, body: Any, **headers: str) -> httpx.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.client.post(path, json=body, headers=named)

    async def form(self, brokers: int = 3) -> list[Broker]:
        formed = await form_cluster(self.engine, brokers=brokers)
        for broker in formed:
            self.listeners.open("127.0.0.1", 9000 + broker.broker_id)
        return formed

    async def create_topic(self, name: str = "orders", **fields: Any) -> dict[str, Any]:
        body = {"name": name, "cluster": "prod", "partitions": 3, "replication_factor": 3} | fields
        response = await self.post("/topics", body)
        assert response.status_code == 201, response.text
        created: dict[str, Any] = response.json()
        return created

    async def recorded(self, **filters: Any) -> list[dict[str, Any]]:
        """Audit rows, newest first, once everything told so far is written."""
        await self.outbox.flush()
        response = await self.client.get("/audit", params={"limit": 1000} | filters)
        assert response.status_code == 200, response.text
        items: list[dict[str, Any]] = response.json()["items"]
        return items


@asynccontextmanager
async def speaking(rest: Rest, brokers: list[Broker]) -> AsyncIterator[None]:
    """The brokers are heard, and apply what they are told, until the block ends."""

    async def speak() -> None:
        while True:
            for broker in brokers:
                await broker.heartbeat()
                await broker.apply()
            await rest.clock.sleep_ms(100)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(speak)
        yield
        tasks.cancel_scope.cancel()


async def silence(rest: Rest, brokers: list[Broker], *still_alive: int) -> None:
    """Time passes in which only some brokers speak, until the others are fenced."""
    for _ in range(30):
        await rest.clock.sleep_ms(400)
        for broker in brokers:
            if broker.broker_id in still_alive:
                await broker.heartbeat()
                await broker.apply()


def problem(response: httpx.Response) -> tuple[int, str]:
    """Status and code of a problem document, after checking that it is a whole one."""
    assert response.headers["content-type"] == "application/problem+json", response.text
    body = response.json()
    assert body["status"] == response.status_code
    assert body["type"] == f"/problems/{body['code']}"
    assert body["request_id"] == response.headers["x-request-id"]
    assert body["title"]
    assert body["detail"]
    return response.status_code, body["code"]


def pointers(response: httpx.Response) -> list[str]:
    return [
        item.get("pointer", item.get("parameter", item.get("header"))) for item in response.json()["errors"]
    ]


@asynccontextmanager
async def controller(
    zookeeper: MemoryZooKeeper,
    *,
    name: str = "c1",
    settings: ApiSettings | None = None,
    tokens: Tokens | None = None,
    issuer: OidcIssuer | None = None,
    is_active: bool = True,
    run_outbox: bool = False,
    sql_engine: sa.Engine | None = None,
) -> AsyncIterator[Rest]:
    """Run a controller until the block ends, which begins, with `is_active`, once it is active. Without an
    sql_engine its SQL is in memory."""
    meta = zookeeper.connect()
    clock = VirtualClock()
    listeners = AddressBook()
    engine = make_engine(meta, clock, name=name, listeners=listeners)
    sql = Sql()
    sql_engine = sql_engine or create_sql_engine("sqlite://")
    make_tables(sql_engine)
    store = Database(sql_engine, sql)
    outbox = AuditOutbox(store, clock=clock, truth=engine.truth)
    engine.attach_outbox(outbox)
    groups, rooms, transactions = MemoryGroups(), MemoryRooms(), MemoryTransactions()
    app = create_app(
        engine=engine,
        database=store,
        outbox=outbox,
        client_groups=groups,
        client_transactions=transactions,
        rooms=rooms,
        settings=settings or ApiSettings(),
        clock=clock,
        random_bytes=random.Random(f"rest {name}").randbytes,
        tokens=tokens,
        issuer=issuer,
    )
    transport = httpx.ASGITransport(app, client=CLIENT_ADDRESS)
    try:
        async with (
            anyio.create_task_group() as tasks,
            httpx.AsyncClient(transport=transport, base_url=f"http://{name}:8080") as client,
        ):
            await tasks.start(engine.run)
            tasks.start_soon(app.state.operations.run)
            if run_outbox:
                tasks.start_soon(outbox.run)
            if is_active:
                await until_active([engine])
            parts = (engine, store, outbox, clock, meta, sql, listeners)
            yield Rest(client, app, *parts, groups, rooms, transactions)
            tasks.cancel_scope.cancel()
    finally:
        store.close()


SECRETS = {role: f"the-token-of-a-{role}-0123456789" for role in ("viewer", "operator", "admin", "broker")}
TOKENS = load_tokens(
    file=None, environment=";".join(f"the-{role} {role} {secret}" for role, secret in SECRETS.items())
)


def bearer(role: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {SECRETS[role]}"}


async def ask(rest: Rest, method: str, path: str, role: str, **options: Any) -> httpx.Response:
    headers = bearer(role) | options.pop("headers", {})
    return await rest.client.request(method, path, headers=headers, **options)
