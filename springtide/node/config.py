"""A process's configuration under Kafka's names: only keys that do something, everything else refused.

A key that is silently ignored is worse than an error (Redpanda #3416), so an unknown one is refused with
the nearest that exists.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, Self

from springtide.node.server import ServerLimits

LONG_MAX = 2**63 - 1


class NodeConfigError(Exception):
    """The configuration can't be used; the message says which key and what to do."""


class ConfigKey(NamedTuple):
    """One key. parse: makes the value of a text; raises ValueError."""

    default: str
    parse: Callable[[str], object]
    text: str


def between(low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        value = int(text)
        if not low <= value <= high:
            raise ValueError(f"must be between {low} and {high}")
        return value

    return parse


positive = between(1, LONG_MAX)

NODE_KEYS: dict[str, ConfigKey] = {
    "connections.max.idle.ms": ConfigKey("600000", positive, "close connections idle for so long"),
    "max.connections": ConfigKey("10000", positive, "connections in all"),
    "max.connections.per.ip": ConfigKey("10000", positive, "connections per client address"),
    "socket.request.max.bytes": ConfigKey("104857600", between(1024, 2**31 - 1), "largest request"),
    "queued.max.request.bytes": ConfigKey("536870912", positive, "bytes that all connections may hold"),
    "controlled.shutdown.timeout.ms": ConfigKey(
        "30000", positive, "how long SIGTERM waits for leaderships, or a coordinator's shards, to move"
    ),
}
"""The keys of every process that serves clients."""

#: What people will try, and what to write instead.
NODE_HINTS = {
    "broker.rack": "use --rack",
    "listeners": "use --listen",
    "advertised.listeners": "use --advertise",
    "zookeeper.connect": "only controllers talk to ZooKeeper: use --controllers",
    "num.network.threads": "a process is one loop; run a process per core",
    "num.io.threads": "a process is one loop; run a process per core",
}


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """Parsed values by Kafka's names. A kind of process has its own KEYS and HINTS; PROGRAM: its command."""

    KEYS: ClassVar[Mapping[str, ConfigKey]] = NODE_KEYS
    HINTS: ClassVar[Mapping[str, str]] = NODE_HINTS
    PROGRAM: ClassVar[str]

    values: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def parse(cls, pairs: Iterable[tuple[str, str]]) -> Self:
        """Return the configuration of these pairs, of which later ones win. Raise NodeConfigError."""
        values: dict[str, object] = {}
        for name, text in pairs:
            key = cls.KEYS.get(name)
            if key is None:
                raise NodeConfigError(f"unknown configuration key {name!r}: {cls._hint(name)}")
            try:
                values[name] = key.parse(text.strip())
            except ValueError as error:
                raise NodeConfigError(f"{name}={text}: {error} ({key.text})") from error
        return cls(values)

    @classmethod
    def _hint(cls, name: str) -> str:
        if name in cls.HINTS:
            return cls.HINTS[name]
        near = difflib.get_close_matches(name, cls.KEYS, n=1)
        return f"did you mean {near[0]!r}?" if near else f"`{cls.PROGRAM} serve --help` lists the keys"

    def _value(self, key: str) -> object:
        value = self.values.get(key)
        return self.KEYS[key].parse(self.KEYS[key].default) if value is None else value

    def number(self, key: str) -> int:
        value = self._value(key)
        assert isinstance(value, int)
        return value

    def text(self, key: str) -> str:
        return str(self._value(key))

    @property
    def server_limits(self) -> ServerLimits:
        return ServerLimits(
            connections_max=self.number("max.connections"),
            connections_per_ip_max=self.number("max.connections.per.ip"),
            idle_ms_max=self.number("connections.max.idle.ms"),
            memory_bytes_max=self.number("queued.max.request.bytes"),
            request_bytes_max=self.number("socket.request.max.bytes"),
        )


def split_pair(text: str) -> tuple[str, str]:
    """KEY=VALUE. Raises NodeConfigError."""
    name, separator, value = text.partition("=")
    if not separator or not name.strip():
        raise NodeConfigError(f"{text!r} is not KEY=VALUE")
    return name.strip(), value.strip()


def read_properties(text: str) -> list[tuple[str, str]]:
    """Return the pairs of a server.properties: `key=value` lines; `#` and `!` begin comments. Raises
    NodeConfigError."""
    pairs = []
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if not stripped or stripped[0] in "#!":
            continue
        try:
            pairs.append(split_pair(stripped))
        except NodeConfigError as error:
            raise NodeConfigError(f"line {number}: {error}") from error
    return pairs
