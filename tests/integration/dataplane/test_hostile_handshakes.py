"""Peers that only seem to shake hands or to log in, on real sockets: each is closed within its bound, and a
client that has logged in goes on.

A bound is made small when the bystander is in, and nothing that an attacker sends is ever complete: how fast
the machine is does not matter."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import resource
import ssl
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import trio

from springtide.node import sasl_connection, server
from springtide.security.sasl.clients import ClientReply, ScramClient
from springtide.security.sasl.exchange import Mechanism
from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from tests.kit.dataplane.cluster_in_process import ClusterInProcess, cluster_in_process
from tests.kit.dataplane.raw import Raw, frame_of
from tests.kit.springtide.certificates import PrivateCa
from tests.kit.springtide.token_issuer import AUDIENCE, ISSUER, TokenIssuer, token_issuer
from tests.kit.springtide.users import users

SECONDS_MAX = 60.0
MESSAGE_BYTES_MAX = 32 * 1024
HALF_OPEN = 2_000
CONNECTIONS_MAX = 1_500
SMALL_MS = 300
LARGE_MS = 600_000

Ask = tuple[int, dict[str, Any]]
Play = Callable[[Callable[["Scene"], Awaitable[None]]], None]


@pytest.fixture(scope="module")
def ca(tmp_path_factory: pytest.TempPathFactory) -> PrivateCa:
    return PrivateCa(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def issuer() -> Iterator[TokenIssuer]:
    with token_issuer() as found:
        yield found


def configs(ca: PrivateCa, issuer: TokenIssuer) -> dict[str, str]:
    return {
        "listeners": "INTERNAL://127.0.0.1:0,TLS://127.0.0.1:0,LOGIN://127.0.0.1:0,BARE://127.0.0.1:0",
        "listener.security.protocol.map": "INTERNAL:PLAINTEXT,TLS:SSL,LOGIN:SASL_SSL,BARE:SASL_PLAINTEXT",
        "inter.broker.listener.name": "INTERNAL",
        "ssl.keystore.location": ca.keystore("broker"),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
        "sasl.server.max.receive.size": str(MESSAGE_BYTES_MAX),
        "connection.failed.authentication.delay.ms": "10",
        "max.connections": str(CONNECTIONS_MAX),
        **issuer.configs,
    }


class Scene:
    """A broker, and a client of it that has logged in over TLS."""

    def __init__(self, cluster: ClusterInProcess, ca: PrivateCa) -> None:
        self.broker = cluster.brokers[1].broker
        self.named = cluster.brokers[1].process.node.listeners.named
        self._context = ssl.create_default_context(cafile=ca.file)
        self._bystander: Raw | None = None
        self._streams: list[trio.SocketStream] = []

    async def connect(self, listener: str) -> trio.SocketStream:
        stream = await trio.open_tcp_stream("127.0.0.1", self.named[listener].port)
        self._streams.append(stream)
        return stream

    def leave(self) -> None:
        for stream in self._streams:
            stream.socket.close()

    async def bring_bystander(self) -> None:
        stream = trio.SSLStream(await self.connect("LOGIN"), self._context, server_hostname="127.0.0.1")
        self._bystander = Raw(stream)
        assert await log_in(self._bystander) == ErrorCode.NONE
        await self.bystander_goes_on()

    async def bystander_goes_on(self) -> None:
        assert self._bystander is not None
        answer = await self._bystander.ask(ApiKey.METADATA, 12, {"topics": ()})
        assert [each.node_id for each in answer.brokers] == [1]


@pytest.fixture
def play(ca: PrivateCa, issuer: TokenIssuer, tmp_path: Path) -> Play:
    """Run a test's scene. At its end only the bystander is connected, and goes on."""

    async def main(test: Callable[[Scene], Awaitable[None]]) -> None:
        async with cluster_in_process(tmp_path) as cluster:
            with trio.fail_after(4 * SECONDS_MAX):
                await cluster.form(1, configs=configs(ca, issuer))
                cluster.brokers[1].broker.view.users = users(alice="secret")
                scene = Scene(cluster, ca)
                try:
                    await scene.bring_bystander()
                    await test(scene)
                    await until(lambda: scene.broker.server.connection_count == 1)
                    await scene.bystander_goes_on()
                finally:
                    scene.leave()

    return lambda test: trio.run(main, test)


@pytest.fixture
def set_bounds(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Set the time for a handshake of TLS, and for a login, in milliseconds."""

    def set_all(bound_ms: int) -> None:
        monkeypatch.setattr(server, "HANDSHAKE_MS_MAX", bound_ms)
        monkeypatch.setattr(sasl_connection, "LOGIN_MS_MAX", bound_ms)

    return set_all


async def until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(SECONDS_MAX):
        while not condition():  # noqa: ASYNC110 - what it watches has no event
            await trio.sleep(0.02)


async def log_in(raw: Raw) -> int:
    """Log in as alice; return the last error."""
    client = ScramClient(Mechanism.SCRAM_SHA_256, "alice", "secret", client_nonce="nonce")
    answer = await raw.ask(ApiKey.SASL_HANDSHAKE, 1, {"mechanism": "SCRAM-SHA-256"})
    challenge = b""
    while not answer.error_code and isinstance(reply := client.step(challenge), ClientReply):
        answer = await raw.ask(ApiKey.SASL_AUTHENTICATE, 1, {"auth_bytes": reply.token})
        challenge = answer.auth_bytes
    return int(answer.error_code)


async def end_of(stream: trio.SocketStream) -> bytes:
    """Wait until the broker has closed the connection; return what it said before."""
    said = b""
    with trio.fail_after(SECONDS_MAX), suppress(trio.BrokenResourceError):
        while more := await stream.receive_some(1 << 16):
            said += more
    return said


# --- TLS -------------------------------------------------------------------------------------------


def client_hello() -> bytes:
    said = ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), said, server_hostname="127.0.0.1")
    with suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return said.read()


async def truncated(stream: trio.SocketStream) -> None:
    await stream.send_all(client_hello()[:100])
    await stream.send_eof()


async def silent_in_the_middle(stream: trio.SocketStream) -> None:
    await stream.send_all(client_hello()[:100])


async def byte_by_byte(stream: trio.SocketStream) -> None:
    """One record of 16 KiB."""
    await stream.send_all(b"\x16\x03\x01\x40\x00")
    with suppress(trio.BrokenResourceError):
        while True:
            await stream.send_all(b"\x01")
            await trio.sleep(0.01)


async def endless(stream: trio.SocketStream) -> None:
    """One message of 16 MiB."""
    await endlessly(stream, b"\x16\x03\x01\x40\x00\x01\xff\xff\xff" + bytes(16_380))


async def endlessly_empty(stream: trio.SocketStream) -> None:
    await endlessly(stream, b"\x16\x03\x01\x00\x00" * 1_000)


async def endlessly(stream: trio.SocketStream, data: bytes) -> None:
    with suppress(trio.BrokenResourceError):
        while True:
            await stream.send_all(data)


async def without_tls(stream: trio.SocketStream) -> None:
    await stream.send_all(frame_of(ApiKey.API_VERSIONS, 0, b""))


async def with_tls(stream: trio.SocketStream) -> None:
    await stream.send_all(client_hello())


class Attack(NamedTuple):
    """cause: of the end, as the log has it; a pattern."""

    listener: str
    act: Callable[[trio.SocketStream], Awaitable[None]]
    cause: str


@pytest.mark.parametrize(
    "attack",
    [
        Attack("TLS", truncated, "TLS: the peer closed the connection in the handshake"),
        Attack("TLS", silent_in_the_middle, "its TLS handshake stayed incomplete"),
        Attack("TLS", byte_by_byte, "its TLS handshake stayed incomplete"),
        Attack("TLS", endless, "TLS: excessive message size"),
        Attack("TLS", endlessly_empty, "TLS: record (too small|layer failure)"),  # since OpenSSL 3.5
        Attack("TLS", without_tls, "TLS: wrong version number"),
        Attack("LOGIN", silent_in_the_middle, "its TLS handshake stayed incomplete"),
        Attack("LOGIN", without_tls, "TLS: wrong version number"),
        Attack("BARE", with_tls, "the client speaks TLS, and this listener does not"),
    ],
    ids=lambda attack: f"{attack.listener} {attack.act.__name__}",
)
def test_a_peer_whose_handshake_never_ends_well_is_closed(
    play: Play, set_bounds: Callable[[int], None], caplog: pytest.LogCaptureFixture, attack: Attack
) -> None:
    caplog.set_level("INFO", "springtide")

    async def test(scene: Scene) -> None:
        set_bounds(SMALL_MS)
        stream = await scene.connect(attack.listener)
        await attack.act(stream)
        await end_of(stream)

    play(test)
    assert re.search(f"cause={attack.cause}", caplog.text)


def test_a_client_that_asks_for_renegotiation_is_refused(play: Play, ca: PrivateCa) -> None:
    """It would cost the broker as many handshakes on one connection as the client likes. TLS 1.3 has none."""

    async def test(scene: Scene) -> None:
        command = ["openssl", "s_client", "-tls1_2", "-CAfile", ca.file, "-connect"]
        ended = await trio.run_process(
            [*command, f"127.0.0.1:{scene.named['TLS'].port}"],
            stdin=b"R\n",
            capture_stdout=True,
            capture_stderr=True,
            check=False,
        )
        assert b"RENEGOTIATING" in ended.stdout + ended.stderr
        assert b"no renegotiation" in ended.stdout + ended.stderr

    play(test)


@pytest.fixture
def many_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_files")
def test_half_open_connections_are_as_many_as_the_bound_and_all_closed_in_time(
    play: Play, set_bounds: Callable[[int], None]
) -> None:
    hello = client_hello()
    beginnings = {"TLS": hello[:100], "LOGIN": hello[:5], "BARE": b"\0\0\1"}

    async def test(scene: Scene) -> None:
        counters = scene.broker.counters
        opened = counters.connections_opened
        set_bounds(LARGE_MS)
        for number in range(HALF_OPEN):
            listener = list(beginnings)[number % len(beginnings)]
            stream = await scene.connect(listener)
            with suppress(trio.BrokenResourceError):
                await stream.send_all(beginnings[listener][: number % 100])
        await until(lambda: counters.connections_refused == HALF_OPEN - (CONNECTIONS_MAX - 1))
        assert counters.connections_opened - opened == CONNECTIONS_MAX - 1
        assert scene.broker.server.connection_count == CONNECTIONS_MAX
        await scene.bystander_goes_on()
        set_bounds(SMALL_MS)

    play(test)


# --- SASL ------------------------------------------------------------------------------------------

HANDSHAKE: Ask = (ApiKey.SASL_HANDSHAKE, {"mechanism": "SCRAM-SHA-256"})
FIRST: Ask = (ApiKey.SASL_AUTHENTICATE, {"auth_bytes": b"n,,n=alice,r=nonce"})
LAST: Ask = (ApiKey.SASL_AUTHENTICATE, {"auth_bytes": b"c=biws,r=nonce,p=" + b"A" * 44})


def sent(token: bytes) -> Ask:
    return (ApiKey.SASL_AUTHENTICATE, {"auth_bytes": token})


async def answers(raw: Raw, asked: list[Ask]) -> list[int]:
    """Return the error of each answer, until the broker closes the connection."""
    errors = []
    with suppress(EOFError, trio.BrokenResourceError):
        for api_key, fields in asked:
            errors.append(int((await raw.ask(api_key, 1, fields)).error_code))
    return errors


@pytest.mark.parametrize(
    ("asked", "errors"),
    [
        ([FIRST], [ErrorCode.ILLEGAL_SASL_STATE]),
        ([HANDSHAKE, HANDSHAKE], [ErrorCode.NONE, ErrorCode.ILLEGAL_SASL_STATE]),
        ([HANDSHAKE, LAST], [ErrorCode.NONE, ErrorCode.SASL_AUTHENTICATION_FAILED]),
        ([HANDSHAKE, FIRST, FIRST], [ErrorCode.NONE] * 2 + [ErrorCode.SASL_AUTHENTICATION_FAILED]),
        ([HANDSHAKE, FIRST, LAST], [ErrorCode.NONE] * 2 + [ErrorCode.SASL_AUTHENTICATION_FAILED]),
        ([HANDSHAKE, FIRST, HANDSHAKE], [ErrorCode.NONE] * 2 + [ErrorCode.ILLEGAL_SASL_STATE]),
        (
            [HANDSHAKE, sent(b"n,,n=" + b"a" * 9_000 + b",r=nonce")],
            [ErrorCode.NONE, ErrorCode.SASL_AUTHENTICATION_FAILED],
        ),
        (
            [HANDSHAKE, FIRST, sent(b"c=biws,r=nonce,p=" + b"A" * 9_000)],
            [ErrorCode.NONE] * 2 + [ErrorCode.SASL_AUTHENTICATION_FAILED],
        ),
        ([HANDSHAKE, sent(bytes(MESSAGE_BYTES_MAX))], [ErrorCode.NONE]),
        ([HANDSHAKE, (ApiKey.METADATA, {"topics": ()})], [ErrorCode.NONE]),
    ],
    ids=[
        "token first",
        "handshake twice",
        "last message first",
        "first message twice",
        "wrong proof",
        "handshake in the exchange",
        "huge first message",
        "huge last message",
        "message beyond any request",
        "another request",
    ],
)
def test_what_is_out_of_order_or_too_large_ends_the_login(
    play: Play, asked: list[Ask], errors: list[ErrorCode]
) -> None:
    async def test(scene: Scene) -> None:
        stream = await scene.connect("BARE")
        assert await answers(Raw(stream), asked) == errors
        assert await end_of(stream) == b""

    play(test)


def test_a_login_that_comes_byte_by_byte_or_not_at_all_is_closed(
    play: Play, set_bounds: Callable[[int], None], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "springtide")
    begun = frame_of(ApiKey.SASL_HANDSHAKE, 1, b"\0\x0dSCRAM-SHA-256")

    async def drip(stream: trio.SocketStream) -> None:
        """The size of a frame that is allowed, and never all of it."""
        await stream.send_all((MESSAGE_BYTES_MAX - 1).to_bytes(4))
        with suppress(trio.BrokenResourceError):
            while True:
                await stream.send_all(b"\0")
                await trio.sleep(0.01)

    async def test(scene: Scene) -> None:
        set_bounds(SMALL_MS)
        async with trio.open_nursery() as nursery:
            for first in (b"", begun):
                stream = await scene.connect("BARE")
                await stream.send_all(first)
                nursery.start_soon(drip, stream)
                nursery.start_soon(end_of, stream)
                nursery.start_soon(end_of, await scene.connect("BARE"))

    play(test)
    assert caplog.text.count("cause=it did not log in in time") == 4


def part(content: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")


def without_signature(issuer: TokenIssuer) -> str:
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "exp": int(time.time()) + 600}
    return f"{part({'alg': 'none', 'kid': issuer.key.kid})}.{part(claims)}."


def signed_by_the_public_key(issuer: TokenIssuer) -> str:
    """As if the key that everybody may have were a secret that the issuer and the broker share."""
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "exp": int(time.time()) + 600}
    said = f"{part({'alg': 'HS256', 'kid': issuer.key.kid})}.{part(claims)}"
    made = hmac.digest(issuer.key.as_pem(private=False), said.encode(), hashlib.sha256)
    return f"{said}.{base64.urlsafe_b64encode(made).decode().rstrip('=')}"


@pytest.mark.parametrize(
    ("token", "fault"),
    [
        (lambda issuer: issuer.token("alice", exp=int(time.time()) - 3_600), "the token has expired"),
        (lambda issuer: issuer.token("alice", nbf=int(time.time()) + 3_600), "the token is not valid yet"),
        (without_signature, "the algorithm is not allowed"),
        (signed_by_the_public_key, "the algorithm is not allowed"),
    ],
    ids=["expired", "not yet valid", "algorithm none", "key confusion"],
)
def test_a_token_that_proves_nothing_opens_nothing(
    play: Play,
    issuer: TokenIssuer,
    caplog: pytest.LogCaptureFixture,
    token: Callable[[TokenIssuer], str],
    fault: str,
) -> None:
    caplog.set_level("INFO", "springtide")
    shown = f"n,,\x01auth=Bearer {token(issuer)}\x01\x01".encode()
    asked: list[Ask] = [(ApiKey.SASL_HANDSHAKE, {"mechanism": "OAUTHBEARER"}), sent(shown), sent(b"\x01")]

    async def test(scene: Scene) -> None:
        stream = await scene.connect("BARE")
        refused = [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.SASL_AUTHENTICATION_FAILED]
        assert await answers(Raw(stream), asked) == refused
        assert await end_of(stream) == b""

    play(test)
    assert fault in caplog.text
