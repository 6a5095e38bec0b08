"""A process's listeners with SASL, on a network in memory: a test sends requests and sees what is answered.

It runs under trio.testing.MockClock(autojump_threshold=0), so that delays take no time. Requests of METADATA
are answered with nothing, and the principals that asked are noted.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import trio
import trio.testing

from dataplane.shell.config import BrokerConfig
from springtide.contract.security import UserSecrets
from springtide.levels import UNTOLD
from springtide.node.authentication import Authentication
from springtide.node.cluster_view import ClusterView
from springtide.node.counters import NodeCounters
from springtide.node.handlers import api_versions, sasl_authenticate, sasl_handshake
from springtide.node.handlers.context import NodeContext, Request
from springtide.node.handlers.dispatch import Handler, make_dispatch, reads
from springtide.node.listeners import parse_listeners
from springtide.node.server import Server
from springtide.node.server_limits import ServerLimits
from springtide.node.threads import Threads
from springtide.wire import codec
from springtide.wire.apis import ApiKey, response_header_version
from springtide.wire.errors import ErrorCode
from springtide.wire.messages import ApiVersionsRequest, SaslAuthenticateRequest, SaslHandshakeRequest
from tests.kit.clocks import VirtualClock
from tests.kit.dataplane.node import InlineThreads
from tests.kit.dataplane.raw import request
from tests.kit.springtide.memory_net import MemoryChannel, MemoryPoller, NoListener, turn

CONFIGS = {
    "listeners": "INTERNAL://127.0.0.1:1,CLIENTS://127.0.0.1:2",
    "listener.security.protocol.map": "INTERNAL:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
    "inter.broker.listener.name": "INTERNAL",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
}


class DeskClient:
    """One client's end of a connection. Requests go out with version 1 unless a test says otherwise."""

    def __init__(self, desk: SaslDesk, channel: MemoryChannel) -> None:
        self._desk = desk
        self.channel = channel

    @property
    def is_closed(self) -> bool:
        return self.channel.is_closed

    def send(self, api_key: int, fields: dict[str, Any], *, version: int = 1) -> None:
        self.channel.incoming += request(api_key, version, fields)

    def take(self, api_key: int, *, version: int = 1) -> Any:
        """Return the next answer that has come, or None."""
        size = int.from_bytes(self.channel.outgoing[:4])
        frame = bytes(self.channel.outgoing[4 : 4 + size])
        del self.channel.outgoing[: 4 + size]
        if not frame:
            return None
        position = 4 + response_header_version(api_key, version)
        return codec.decode(codec.response_type(api_key, version), memoryview(frame), position)

    async def ask(self, api_key: int, fields: dict[str, Any], *, version: int = 1) -> Any:
        """Send and let everything happen; return the answer, None if the connection ended without one."""
        self.send(api_key, fields, version=version)
        await self._desk.settle()
        return self.take(api_key, version=version)

    async def handshake(self, mechanism: str) -> ErrorCode:
        answer = await self.ask(ApiKey.SASL_HANDSHAKE, {"mechanism": mechanism})
        return ErrorCode(answer.error_code)

    async def authenticate(self, token: bytes) -> Any:
        return await self.ask(ApiKey.SASL_AUTHENTICATE, {"auth_bytes": token})

    async def log_in(self, client: Any, mechanism: str) -> ErrorCode:
        """Go through the exchange of one of our own clients; return the last error."""
        assert await self.handshake(mechanism) is ErrorCode.NONE
        challenge = b""
        while hasattr(reply := client.step(challenge), "token") and not hasattr(reply, "principal"):
            answer = await self.authenticate(reply.token)
            if answer is None or answer.error_code != 0:
                return ErrorCode.NETWORK_EXCEPTION if answer is None else ErrorCode(answer.error_code)
            challenge = answer.auth_bytes
        return ErrorCode.NONE

    async def use(self) -> str | None:
        """Ask for something that is for known clients; return the principal that asked, None if refused."""
        before = len(self._desk.principals)
        self.send(ApiKey.METADATA, {"topics": ()})
        await self._desk.settle()
        return self._desk.principals[-1] if len(self._desk.principals) > before else None


class SaslDesk:
    """See the module. view: its users may be replaced at any time."""

    def __init__(
        self, nursery: trio.Nursery, users: Mapping[str, UserSecrets], threads: Threads, **configs: str
    ) -> None:
        self.principals: list[str] = []
        #: Whether the controller has told of the users.
        self.knows_users = True
        self.poller = MemoryPoller()
        self.view = ClusterView()
        self.view.cluster_id = "cluster"
        self.view.users = dict(users)
        settings = CONFIGS | {name.replace("_", "."): text for name, text in configs.items()}
        config = BrokerConfig.parse(settings.items())
        listeners = parse_listeners(config)
        assert listeners is not None
        clock = VirtualClock()
        self._nursery = nursery
        self.authentication = Authentication(
            listeners,
            view=self.view,
            is_view_complete=lambda: self.knows_users,
            clock=clock,
            threads=threads,
            rng=random.Random(7),
            request_bytes_max=config.server_limits.request_bytes_max,
            spawn=self._spawn,
        )
        handlers: dict[int, Handler[NodeContext]] = {
            ApiKey.API_VERSIONS: reads(ApiVersionsRequest, api_versions.handle),
            ApiKey.SASL_HANDSHAKE: reads(SaslHandshakeRequest, sasl_handshake.handle),
            ApiKey.SASL_AUTHENTICATE: reads(SaslAuthenticateRequest, sasl_authenticate.handle),
            ApiKey.METADATA: self._note,
        }
        counters = NodeCounters()
        parts = SimpleNamespace(
            counters=counters,
            view=self.view,
            authorizer=SimpleNamespace(rights_of=None),
            quotas=SimpleNamespace(open=None),
            level=lambda: UNTOLD,
            is_view_complete=lambda: True,
        )
        self.server = Server(
            listeners={one.name: NoListener() for one in listeners.all},
            poller=self.poller,
            dispatch=make_dispatch(handlers, cast(Any, parts), clock),
            clock=clock,
            threads=threads,
            counters=counters,
            limits=ServerLimits(),
            begin=self.authentication.begin,
            identify=self.authentication.identify,
            on_turn_end=lambda: None,
        )

    def _note(self, _context: object, request: Request) -> None:
        self.principals.append(request.principal)
        request.reply_nothing()

    def _spawn(self, work: Callable[[], Awaitable[None]]) -> None:
        """As a node does: the task's end is the end of a turn."""

        async def turn() -> None:
            await work()
            self.server.end_turn()

        self._nursery.start_soon(turn)

    def connect(self, listener: str = "CLIENTS", *, certificate: bytes | None = None) -> DeskClient:
        channel = MemoryChannel()
        channel.peer_certificate = certificate
        self.server._admit(channel, listener)
        return DeskClient(self, channel)

    def turn(self) -> None:
        turn(self.server, self.poller)

    async def settle(self) -> None:
        """Let everything happen that can without a newer request, delays of failures included."""
        for _ in range(4):
            self.turn()
            await trio.sleep(0.1)
        self.turn()

    def counted(self, name: str) -> float:
        for family in self.authentication.collect():
            if family.name.endswith(f"_{name}"):
                return sum(sample.value for sample in family.samples)
        raise AssertionError(name)


@asynccontextmanager
async def sasl_desk(
    users: Mapping[str, UserSecrets], *, threads: Threads | None = None, **configs: str
) -> AsyncIterator[SaslDesk]:
    async with trio.open_nursery() as nursery:
        yield SaslDesk(nursery, users, threads or InlineThreads(), **configs)
        nursery.cancel_scope.cancel()
