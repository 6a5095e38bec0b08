"""A client and a server that speak TLS over channels in memory."""

from __future__ import annotations

import ssl
from contextlib import suppress

from springtide.node.tls_channel import TlsChannel
from tests.kit.springtide.memory_net import MemoryChannel


class TlsPair:
    """A client and a server whose bytes pass between them by `pass_on`."""

    def __init__(self, server: ssl.SSLContext, client: ssl.SSLContext, *, name: str = "127.0.0.1") -> None:
        self.wires = (MemoryChannel(), MemoryChannel())
        self.server = TlsChannel(self.wires[0], server)
        self.client = TlsChannel(self.wires[1], client, server_name=name)

    def pass_on(self) -> None:
        one, other = self.wires
        one.incoming += other.outgoing
        other.incoming += one.outgoing
        one.outgoing.clear()
        other.outgoing.clear()

    def open(self) -> TlsPair:
        for _ in range(6):
            for end in (self.client, self.server):
                with suppress(BlockingIOError):
                    end.shake_hands()
                self.pass_on()
        assert not self.client.is_handshaking and not self.server.is_handshaking
        return self
