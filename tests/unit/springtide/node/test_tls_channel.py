"""TLS over a channel: what goes in comes out, whatever the kernel takes at a time; bad peers are ended."""

from __future__ import annotations

import random
import socket
import ssl
from contextlib import suppress
from pathlib import Path
from typing import cast

import pytest
import trio

from springtide.node.net import READABLE, BufferingChannel, Channel, ChannelReadiness, EpollPoller
from springtide.node.tls_channel import PLAINTEXT_BYTES_MAX, UNSENT_BYTES_MAX, TlsChannel, TlsFailed
from springtide.node.tls_files import TlsFiles, TlsMaterial
from tests.kit.springtide.certificates import PrivateCa
from tests.kit.springtide.memory_net import MemoryChannel
from tests.kit.springtide.tls_pair import TlsPair


@pytest.fixture(scope="module")
def ca(tmp_path_factory: pytest.TempPathFactory) -> PrivateCa:
    return PrivateCa(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def material(ca: PrivateCa) -> TlsMaterial:
    return material_of(ca, "server")


def material_of(ca: PrivateCa, name: str, *, client_auth: str = "none") -> TlsMaterial:
    return TlsMaterial(TlsFiles(keystore=ca.keystore(name), truststore=ca.file, client_auth=client_auth))


def received(channel: TlsChannel, room: int = 4096) -> bytes:
    """All that can be read now."""
    found = b""
    block = memoryview(bytearray(room))
    while True:
        try:
            count = channel.recv_into(block)
        except BlockingIOError:
            return found
        if not count:
            return found
        found += bytes(block[:count])


@pytest.fixture
def pair(material: TlsMaterial) -> TlsPair:
    return TlsPair(material.server, material.client).open()


@pytest.mark.parametrize("seed", range(10))
def test_all_bytes_arrive_in_order_whatever_the_kernel_takes_at_a_time(
    material: TlsMaterial, seed: int
) -> None:
    rng = random.Random(seed)
    pair = TlsPair(material.server, material.client).open()
    sent = rng.randbytes(rng.randint(1, 900_000))
    unsent = [memoryview(sent[:7]), memoryview(sent[7:])]
    came = b""
    while unsent or pair.wires[0].outgoing:
        pair.wires[0].room_bytes = rng.randint(0, 100_000)
        try:
            count = pair.server.send(unsent) if unsent else 0
        except BlockingIOError:
            count = 0
        while count:
            taken = min(count, len(unsent[0]))
            unsent[0] = unsent[0][taken:]
            count -= taken
            if not unsent[0]:
                del unsent[0]
        pair.pass_on()
        came += received(pair.client, rng.randint(1, 30_000))
    assert came == sent


def test_bytes_are_not_told_to_be_sent_while_their_ciphertext_is_still_here(pair: TlsPair) -> None:
    pair.wires[0].room_bytes = 10
    with pytest.raises(BlockingIOError):
        pair.server.send([b"x" * 1000])
    pair.wires[0].room_bytes = 2**20
    assert pair.server.send([b"x" * 1000, b"more"]) == 1000
    assert pair.server.send([b"more"]) == 4
    pair.pass_on()
    assert received(pair.client) == b"x" * 1000 + b"more"


def test_one_send_encrypts_a_bounded_part_and_small_pieces_share_a_record(pair: TlsPair) -> None:
    assert pair.server.send([bytes(PLAINTEXT_BYTES_MAX + 1)]) == PLAINTEXT_BYTES_MAX
    pair.pass_on()
    assert len(received(pair.client)) == PLAINTEXT_BYTES_MAX
    assert pair.server.send([b"ab"] * 100) == 200
    assert len(pair.wires[0].outgoing) < 200 + 100


def test_a_read_that_leaves_bytes_behind_says_so(pair: TlsPair) -> None:
    told: list[str] = []
    pair.server.on_buffered = lambda: told.append("buffered")
    pair.client.send([b"x" * 100])
    pair.pass_on()
    block = memoryview(bytearray(60))
    assert (pair.server.recv_into(block), told) == (60, ["buffered"])
    assert (pair.server.recv_into(block), told) == (40, ["buffered"])


def test_an_end_with_and_without_a_word_is_an_end(material: TlsMaterial) -> None:
    for says_so in (True, False):
        pair = TlsPair(material.server, material.client).open()
        pair.client.send([b"last"])
        if says_so:
            pair.client.close()
        pair.pass_on()
        pair.wires[0].is_ended = True
        block = memoryview(bytearray(100))
        assert [pair.server.recv_into(block), pair.server.recv_into(block)] == [4, 0]


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "http request"),
        (b"\x00\x00\x00\x14\x00\x12\x00\x03\x00\x00\x00\x01\x00\x04kcat\x00\x00", "wrong version number"),
        (b"\x16\x03\x01\x40\x00\x01\xff\xff\xff" + bytes(16_380), "excessive message size"),
        (bytes(5_000), "wrong version number"),
    ],
)
def test_what_is_no_handshake_is_refused_with_a_reason(
    material: TlsMaterial, sent: bytes, reason: str
) -> None:
    wire = MemoryChannel()
    server = TlsChannel(wire, material.server)
    wire.incoming += sent
    with pytest.raises(TlsFailed, match=reason):
        for _ in range(10):
            with suppress(BlockingIOError):
                server.recv_into(memoryview(bytearray(100)))


def test_a_handshake_that_is_cut_off_is_told_apart_from_one_that_goes_on(material: TlsMaterial) -> None:
    pair = TlsPair(material.server, material.client)
    with pytest.raises(BlockingIOError):
        pair.client.shake_hands()
    pair.wires[0].incoming += pair.wires[1].outgoing[:50]
    with pytest.raises(BlockingIOError):
        pair.server.recv_into(memoryview(bytearray(100)))
    assert pair.server.is_handshaking
    pair.wires[0].is_ended = True
    with pytest.raises(TlsFailed, match="in the handshake"):
        pair.server.recv_into(memoryview(bytearray(100)))


def test_a_peer_that_says_nothing_is_no_failure_of_tls(material: TlsMaterial) -> None:
    """A controller that probes connects and closes."""
    wire = MemoryChannel()
    wire.is_ended = True
    with pytest.raises(ConnectionResetError):
        TlsChannel(wire, material.server).recv_into(memoryview(bytearray(100)))


def test_records_that_were_changed_on_the_way_are_refused(pair: TlsPair) -> None:
    pair.client.send([b"x" * 1000])
    pair.wires[1].outgoing[500] ^= 1
    pair.pass_on()
    with pytest.raises(TlsFailed, match=r"mac|record layer failure"):
        pair.server.recv_into(memoryview(bytearray(100)))


def test_a_server_of_another_ca_or_name_is_refused(
    ca: PrivateCa, material: TlsMaterial, tmp_path: Path
) -> None:
    stranger = material_of(PrivateCa(tmp_path), "server")
    for server, name in ((stranger.server, "127.0.0.1"), (material.server, "10.0.0.1")):
        with pytest.raises(TlsFailed, match=r"certificate|mismatch"):
            TlsPair(server, material.client, name=name).open()


@pytest.mark.parametrize("client_auth", ["requested", "required"])
def test_a_client_shows_its_certificate_where_it_is_asked(ca: PrivateCa, client_auth: str) -> None:
    server = material_of(ca, "server", client_auth=client_auth)
    pair = TlsPair(server.server, material_of(ca, "alice").client).open()
    shown = pair.server.peer_certificate
    assert shown is not None and b"alice" in shown


def test_a_client_without_a_certificate_is_refused_only_where_one_is_required(ca: PrivateCa) -> None:
    nothing = ssl.create_default_context(cafile=ca.file)
    pair = TlsPair(material_of(ca, "server", client_auth="requested").server, nothing).open()
    assert pair.server.peer_certificate is None
    with pytest.raises(TlsFailed, match="certificate"):
        TlsPair(material_of(ca, "server", client_auth="required").server, nothing).open()


def test_only_the_versions_that_are_named_are_spoken(ca: PrivateCa) -> None:
    old = TlsFiles(
        keystore=ca.keystore("server"), truststore=ca.file, client_auth="none", protocols=("TLSv1.2",)
    )
    material = TlsMaterial(old)
    pair = TlsPair(material.server, material_of(ca, "server").client).open()
    assert (pair.server.protocol, pair.client.protocol) == ("TLSv1.2", "TLSv1.2")
    new = ssl.create_default_context(cafile=ca.file)
    new.minimum_version = ssl.TLSVersion.TLSv1_3
    with pytest.raises(TlsFailed):
        TlsPair(material.server, new).open()


def test_a_peer_that_calls_for_words_and_takes_none_is_ended(ca: PrivateCa, material: TlsMaterial) -> None:
    """Each connection of TLS 1.3 begins with tickets; a peer that never reads them leaves them here."""
    pair = TlsPair(material.server, material.client).open()
    pair.wires[0].room_bytes = 0
    pair.server._unsent = memoryview(bytes(UNSENT_BYTES_MAX + 1))
    with pytest.raises(TlsFailed, match="does not take"):
        pair.server.recv_into(memoryview(bytearray(10)))


class Leftover(BufferingChannel):
    """Holds two bytes, and gives one at a time."""

    peer, sends_files, is_handshaking, peer_certificate = "peer", False, False, None

    def __init__(self, sock: socket.socket) -> None:
        super().__init__()
        self.held = bytearray()
        self._socket = sock

    def fileno(self) -> int:
        return self._socket.fileno()

    def recv_into(self, buffer: memoryview) -> int:
        if not self.held:
            self.held += self._socket.recv(2)
        buffer[0] = self.held.pop(0)
        if self.held:
            self.on_buffered()
        return 1


def test_a_poller_tells_again_of_what_was_left_behind_in_a_channel() -> None:
    """The kernel has nothing any more, so epoll alone would be silent."""

    async def run() -> None:
        poller = EpollPoller()
        reader, writer = socket.socketpair()
        with reader, writer:
            channel = cast(Channel, Leftover(reader))
            seen: list[ChannelReadiness] = []

            def on_ready(readiness: ChannelReadiness) -> None:
                seen.append(readiness)
                channel.recv_into(memoryview(bytearray(1)))

            poller.add(channel, on_ready)
            writer.send(b"xy")
            with trio.fail_after(5):
                await poller.wait()
            poller.dispatch()
            assert seen == [READABLE]
            poller.set_interest(channel, is_readable=False, is_writable=False)
            poller.dispatch()
            assert seen == [READABLE]
            poller.set_interest(channel, is_readable=True, is_writable=False)
            with trio.fail_after(5):
                await poller.wait()
            poller.dispatch()
            poller.dispatch()
            assert seen == [READABLE, READABLE]
            poller.remove(channel)
            poller.close()

    trio.run(run)
