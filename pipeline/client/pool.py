"""Connections that wait to be used again: one pool a process, because Spark keeps its Python workers.

A connection belongs to the client that took it until it is given back. One that has an answer under way, or
whose broker closed it, is closed instead. A process that was forked begins with an empty pool: two processes
must never write to one socket.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pipeline.client.config import Address, ClientConfig
from pipeline.client.connection import BrokerConnection

IDLE_MAX_EACH = 4
"""Idle connections kept to one broker."""
IDLE_MAX = 256
"""Idle connections kept to all brokers."""

_Key = tuple[Address, ClientConfig]


class ConnectionPool:
    """Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: dict[_Key, list[BrokerConnection]] = {}
        self._process_id = os.getpid()

    def take(self, address: Address, config: ClientConfig) -> BrokerConnection:
        """Return an idle connection that is still open, or a new one. Raises ConnectionLost."""
        key = (address, config)
        while True:
            with self._lock:
                self._forget_if_forked()
                waiting = self._idle.get(key)
                connection = waiting.pop() if waiting else None
            if connection is None:
                return BrokerConnection(address, config)
            if connection.is_reusable:
                return connection
            connection.close()

    def give_back(self, connection: BrokerConnection, config: ClientConfig) -> None:
        """Keep the connection if it can be used again and there is room; else close it."""
        if not connection.is_reusable:
            connection.close()
            return
        with self._lock:
            self._forget_if_forked()
            waiting = self._idle.setdefault((connection.address, config), [])
            if len(waiting) < IDLE_MAX_EACH and sum(map(len, self._idle.values())) < IDLE_MAX:
                waiting.append(connection)
                return
        connection.close()

    @contextmanager
    def lease(self, address: Address, config: ClientConfig) -> Iterator[BrokerConnection]:
        connection = self.take(address, config)
        try:
            yield connection
        finally:
            self.give_back(connection, config)

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, {}
        for waiting in idle.values():
            for connection in waiting:
                connection.close()

    def _forget_if_forked(self) -> None:
        if self._process_id != os.getpid():
            self._process_id = os.getpid()
            self._idle = {}


_shared = ConnectionPool()
atexit.register(_shared.close)


def shared_pool() -> ConnectionPool:
    """Return this process's pool."""
    return _shared
