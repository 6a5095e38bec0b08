"""TLS on real sockets, encrypted by the kernel where it has the module, else by OpenSSL."""

from __future__ import annotations

import random
import socket
import ssl
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio

from springtide.node import kernel_tls
from springtide.node.kernel_tls import OP_ENABLE_KTLS, KernelTlsChannel, has_kernel_tls
from springtide.node.net import Channel, SocketChannel, SystemNet
from springtide.node.peer_requests import send_all
from springtide.node.tls_channel import TlsChannel, TlsFailed
from springtide.node.tls_files import TlsFiles, TlsMaterial
from springtide.node.tls_net import KERNEL_MISSES_MAX, SecuredListener
from tests.kit.springtide.certificates import PrivateCa

SECONDS_MAX = 120.0
PAUSE_SECONDS = 2.0
"""After it s_client takes a line for a command, if that stands alone."""
UP = random.Random(1).randbytes(300_000)
DOWN = random.Random(2).randbytes(1_500_000)
needs_module = pytest.mark.skipif(
    not has_kernel_tls(), reason="Linux's module tls is not loaded (modprobe tls), or OpenSSL is before 3.0"
)
#: Ciphers of TLS 1.2 that the kernel has, has where it has a module for it, and has not.
CIPHERS = ("ECDHE+AESGCM", "ECDHE+CHACHA20", "ECDHE+AES256:!AESGCM:!AESCCM")
MODERN = "TLS 1.3"


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> TlsMaterial:
    ca = PrivateCa(tmp_path_factory.mktemp("ca"))
    return TlsMaterial(TlsFiles(keystore=ca.keystore("server"), truststore=ca.file, client_auth="none"))


def sockets() -> tuple[socket.socket, socket.socket]:
    """The end of a server and the end of a client."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        client = socket.create_connection(listening.getsockname())
        server, _ = listening.accept()
    for end in (server, client):
        end.setblocking(False)
    return server, client


def served(sock: socket.socket, material: TlsMaterial) -> KernelTlsChannel:
    return KernelTlsChannel(sock, "client", material.server, on_open=bool)


def asking(sock: socket.socket, material: TlsMaterial, cipher: str = MODERN) -> TlsChannel:
    context = ssl.create_default_context(cafile=material.files.truststore)
    if cipher != MODERN:
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers(cipher)
    return TlsChannel(SocketChannel(sock, "server"), context, server_name="127.0.0.1")


async def received(channel: Channel, size: int) -> bytes:
    """Read so many bytes, or fewer if the other end closes before."""
    found = bytearray()
    block = memoryview(bytearray(50_000))
    while len(found) < size:
        try:
            count = channel.recv_into(block)
        except BlockingIOError:
            await channel.wait_readable()
            continue
        if not count:
            break
        found += block[:count]
    return bytes(found)


def walk(test: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        with trio.fail_after(SECONDS_MAX):
            await test()

    trio.run(main)


async def open_both(server: KernelTlsChannel, client: TlsChannel) -> None:
    """Make the handshake: the client says one byte."""

    async def ask() -> None:
        while True:
            try:
                client.shake_hands()
                break
            except BlockingIOError:
                await client.wait_readable()
        await send_all(client, b"!")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        assert await received(server, 1) == b"!"


@pytest.mark.parametrize("cipher", [MODERN, *CIPHERS])
def test_bytes_pass_both_ways_whoever_encrypts_them(material: TlsMaterial, cipher: str) -> None:
    async def test() -> None:
        ends = sockets()
        server, client = served(ends[0], material), asking(ends[1], material, cipher)
        assert server.is_handshaking
        await open_both(server, client)
        assert not server.is_handshaking
        if not has_kernel_tls() or cipher == CIPHERS[2]:
            assert not server.sends_files
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send_all, client, UP)
            assert await received(server, len(UP)) == UP
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send_in_pieces, server, DOWN)
            assert await received(client, len(DOWN)) == DOWN
        for end in (server, client, server):
            end.close()

    walk(test)


async def send_in_pieces(channel: Channel, data: bytes) -> None:
    rng = random.Random(3)
    while data:
        cuts = sorted(rng.sample(range(1, 100_000), 3))
        chunks = [data[: cuts[0]], data[cuts[0] : cuts[1]], data[cuts[1] : cuts[2]]]
        try:
            data = data[channel.send([memoryview(chunk) for chunk in chunks if chunk]) :]
        except BlockingIOError:
            await channel.wait_writable()


@needs_module
@pytest.mark.parametrize("cipher", [MODERN, CIPHERS[0]])
def test_the_kernel_sends_ranges_of_files_between_other_bytes(
    material: TlsMaterial, cipher: str, tmp_path: Path
) -> None:
    path = tmp_path / "segment.log"
    path.write_bytes(DOWN)

    async def send(server: KernelTlsChannel) -> None:
        await send_all(server, b"before")
        with path.open("rb") as file:
            position = 100
            while position < len(DOWN):
                try:
                    position += server.send_file(
                        file.fileno(), position=position, length=min(400_001, len(DOWN) - position)
                    )
                except BlockingIOError:
                    await server.wait_writable()
        await send_all(server, b"behind")

    async def test() -> None:
        ends = sockets()
        server, client = served(ends[0], material), asking(ends[1], material, cipher)
        await open_both(server, client)
        assert server.sends_files
        expected = b"before" + DOWN[100:] + b"behind"
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send, server)
            assert await received(client, len(expected)) == expected
        server.close()
        client.close()

    walk(test)


@needs_module
def test_a_key_that_was_used_enough_ends_the_connection(
    material: TlsMaterial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_tls, "KEY_BYTES_MAX", 100)

    async def test() -> None:
        ends = sockets()
        server, client = served(ends[0], material), asking(ends[1], material)
        await open_both(server, client)
        assert server.send([bytes(60), bytes(40)]) == 100
        with pytest.raises(TlsFailed, match="used enough"):
            server.send([b"more"])
        server.close()
        assert await received(client, 200) == bytes(100) + b"more"
        client.close()

    walk(test)


@needs_module
def test_a_peer_that_asks_for_new_keys_is_served_on(material: TlsMaterial) -> None:
    """OpenSSL's client sends KeyUpdate for a line `k` or `K`; with the second it asks for the same."""

    async def test() -> None:
        listener = SecuredListener(await SystemNet().listen("127.0.0.1", 0), material)
        listener.begin()
        address = "{}:{}".format(*listener.address)
        client = await trio.lowlevel.open_process(
            ["openssl", "s_client", "-connect", address, "-tls1_3", "-msg"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert client.stdin is not None and client.stdout is not None
        server = await listener.accept()
        told = b""
        for line in (b"first\n", b"k\n", b"K\n", b"last\n"):
            await trio.sleep(PAUSE_SECONDS)
            await client.stdin.send_all(line)
            if line.lower() != b"k\n":
                told += await received(server, len(line))
                await send_all(server, b"echo of " + line)
        assert told == b"first\nlast\n"
        assert server.sends_files
        server.close()
        listener.close()
        output = b"".join([block async for block in client.stdout])
        await client.wait()
        assert b"echo of last" in output
        assert output.count(b"KeyUpdate") >= 2

    walk(test)


def test_a_close_is_told_to_the_peer(material: TlsMaterial) -> None:
    """Else it could not tell an end from a cut."""

    async def test() -> None:
        ends = sockets()
        server = served(ends[0], material)
        ends[1].setblocking(True)
        context = ssl.create_default_context(cafile=material.files.truststore)

        def ask() -> bytes:
            with context.wrap_socket(
                ends[1], server_hostname="127.0.0.1", suppress_ragged_eofs=False
            ) as client:
                client.sendall(b"!")
                return client.recv(10) + client.recv(10)

        answers = []

        async def run() -> None:
            answers.append(await trio.to_thread.run_sync(ask))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            assert await received(server, 1) == b"!"
            await send_all(server, b"done")
            server.close()
        assert answers == [b"done"]

    walk(test)


@pytest.mark.parametrize(
    ("said", "error", "reason"),
    [
        (b"", ConnectionResetError, "said nothing"),
        (b"\x16\x03\x01\x00\xff", TlsFailed, "closed the connection in the handshake"),
        (b"GET / HTTP/1.1\r\n\r\n", TlsFailed, "http request"),
        (bytes(50), TlsFailed, "wrong version number"),
    ],
)
def test_what_is_no_handshake_ends_with_the_reason_that_the_other_way_gives(
    material: TlsMaterial, said: bytes, error: type[Exception], reason: str
) -> None:
    async def test() -> None:
        ends = sockets()
        server = served(ends[0], material)
        with pytest.raises(BlockingIOError):
            server.recv_into(memoryview(bytearray(10)))
        ends[1].sendall(said)
        ends[1].shutdown(socket.SHUT_WR)
        with pytest.raises(error, match=reason):
            await received(server, 1)
        server.close()
        ends[1].close()

    walk(test)


def test_a_listener_turns_to_its_own_way_when_openssl_never_gives_the_kernel_a_key(
    material: TlsMaterial, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As an OpenSSL that was built without it."""
    monkeypatch.setattr("springtide.node.tls_net.has_kernel_tls", lambda: True)
    other = TlsMaterial(material.files)
    other.server.options &= ~OP_ENABLE_KTLS

    async def test() -> None:
        listener = SecuredListener(await SystemNet().listen("127.0.0.1", 0), other)
        listener.begin()
        kinds = []
        for _ in range(KERNEL_MISSES_MAX + 1):
            sock = socket.create_connection(listener.address)
            sock.setblocking(False)
            server = await listener.accept()
            kinds.append(type(server))
            if isinstance(server, KernelTlsChannel):
                await open_both(server, asking(sock, other))
            server.close()
            sock.close()
        listener.close()
        assert kinds == [KernelTlsChannel] * KERNEL_MISSES_MAX + [TlsChannel]
        assert caplog.text.count("tls_not_in_kernel") == 1

    walk(test)
