"""TLS around the network's ports: listeners that speak it, and connections to other processes' listeners."""

from __future__ import annotations

import logging
import ssl
from collections import Counter
from contextlib import suppress
from functools import partial
from typing import Final

from springtide.node.kernel_tls import KernelTlsChannel, has_kernel_tls
from springtide.node.net import Channel, Listener, Net, Poller, SocketChannel
from springtide.node.tls_channel import TlsChannel
from springtide.node.tls_files import TlsMaterial

_log = logging.getLogger(__name__)


KERNEL_MISSES_MAX: Final = 16
"""Connections in a row, of a cipher that the kernel has, that it did not encrypt: OpenSSL is built without
it. One alone may be of a peer that left too early."""


class SecuredListener:
    """A listener whose connections are TLS, encrypted by the kernel where it can."""

    __slots__ = ("_is_in_kernel", "_listener", "_material", "_misses")

    def __init__(self, listener: Listener, material: TlsMaterial) -> None:
        self._listener = listener
        self._material = material
        self._is_in_kernel = False
        self._misses = 0 if has_kernel_tls() else KERNEL_MISSES_MAX

    @property
    def address(self) -> tuple[str, int]:
        return self._listener.address

    def begin(self) -> None:
        self._listener.begin()

    async def accept(self) -> Channel:
        while True:
            channel, context = await self._listener.accept(), self._material.server
            if self._misses >= KERNEL_MISSES_MAX or not isinstance(channel, SocketChannel):
                return TlsChannel(channel, context)
            with suppress(OSError):  # the peer has left
                return KernelTlsChannel(channel.give_up(), channel.peer, context, self._on_open)

    def close(self) -> None:
        self._listener.close()

    def _on_open(self, channel: KernelTlsChannel) -> None:
        """Count, and log once, whether the kernel encrypts."""
        if channel.sends_files:
            self._misses = 0
            if not self._is_in_kernel:
                self._is_in_kernel = True
                _log.info("tls_in_kernel address=%s cipher=%s", "{}:{}".format(*self.address), channel.cipher)
        elif "GCM" in channel.cipher:
            self._misses += 1
            if self._misses == KERNEL_MISSES_MAX:
                _log.warning(
                    "tls_not_in_kernel address=%s openssl=%s consequence=%s",
                    "{}:{}".format(*self.address),
                    ssl.OPENSSL_VERSION,
                    "this process encrypts",
                )


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
