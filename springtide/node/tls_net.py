"""TLS around the network's ports: listeners that speak it, and connections to other processes' listeners."""

from __future__ import annotations

import logging
from collections import Counter
from functools import partial

from springtide.node.net import Channel, Listener, Net, Poller
from springtide.node.tls_channel import TlsChannel
from springtide.node.tls_files import TlsMaterial

_log = logging.getLogger(__name__)


class SecuredListener:
    """A listener whose connections are TLS."""

    __slots__ = ("_listener", "_material")

    def __init__(self, listener: Listener, material: TlsMaterial) -> None:
        self._listener = listener
        self._material = material

    @property
    def address(self) -> tuple[str, int]:
        return self._listener.address

    def begin(self) -> None:
        self._listener.begin()

    async def accept(self) -> Channel:
        return TlsChannel(await self._listener.accept(), self._material.server)

    def close(self) -> None:
        self._listener.close()


class SecuredNet:
    """A network whose connections to others are TLS, whose handshake is done before they are given out."""

    __slots__ = ("_failures", "_material", "_net")

    def __init__(self, net: Net, material: TlsMaterial) -> None:
        self._net = net
        self._material = material
        #: How often, by address and cause.
        self._failures: Counter[tuple[str, int, str]] = Counter()

    async def listen(self, host: str, port: int) -> Listener:
        return await self._net.listen(host, port)

    def poller(self) -> Poller:
        return self._net.poller()

    async def connect(self, host: str, port: int) -> Channel:
        """Raise OSError, of which TlsFailed is one."""
        channel = TlsChannel(
            await self._net.connect(host, port),
            self._material.client,
            server_name=host,
            on_failed=partial(self._tell, host, port),
        )
        try:
            while True:
                try:
                    channel.shake_hands()
                    return channel
                except BlockingIOError:
                    await channel.wait_readable()
        except BaseException:
            channel.close()
            raise

    def _tell(self, host: str, port: int, cause: str) -> None:
        """Log the first failure and then ever fewer of them: those who connect try again and again."""
        self._failures[host, port, cause] += 1
        count = self._failures[host, port, cause]
        if str(count).rstrip("0") == "1":
            _log.warning("tls_failed address=%s cause=%s failures=%d", f"{host}:{port}", cause, count)
