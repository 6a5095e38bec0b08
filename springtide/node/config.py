"""A process's configuration under Kafka's names: only keys that do something, everything else refused.

A key that is silently ignored is worse than an error (Redpanda #3416), so an unknown one is refused with
the nearest that exists.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, Self
from urllib.parse import urlsplit

from springtide.exposure import is_loopback
from springtide.node.core.quota_sensors import SampleWindow
from springtide.node.server_limits import ServerLimits
from springtide.node.tls_files import CLIENT_AUTH, TLS_VERSIONS
from springtide.security.principal_rules import parse_principal_rules
from springtide.security.sasl.exchange import Mechanism

LONG_MAX = 2**63 - 1
LISTENER_PREFIX = "listener.name."
PROTOCOLS = (PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL) = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""Kafka's security protocols, by their names in listener.security.protocol.map."""


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


def one_of(*allowed: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"must be {' or '.join(filter(None, allowed))}")
        return text

    return parse


def tls_versions(text: str) -> str:
    for version in text.split(","):
        if version.strip() not in TLS_VERSIONS:
            raise ValueError(f"must be of {', '.join(TLS_VERSIONS)}")
    return text


def sasl_mechanisms(text: str) -> str:
    for name in filter(None, (one.strip() for one in text.split(","))):
        if name not in list(Mechanism):
            raise ValueError(f"must be of {', '.join(Mechanism)}")
    return text


def jwks_url(text: str) -> str:
    parts = urlsplit(text)
    is_safe = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))
    if text and not (is_safe and parts.hostname):
        raise ValueError("must begin with https://, or on loopback with http://")
    return text


def claim_name(text: str) -> str:
    if not text:
        raise ValueError("must name a claim")
    return text


def principal_rules(text: str) -> str:
    parse_principal_rules(text)
    return text


SSL_KEYS: dict[str, ConfigKey] = {
    "ssl.keystore.location": ConfigKey("", str, "a PEM file: the private key, the certificate, its chain"),
    "ssl.keystore.type": ConfigKey("PEM", one_of("PEM"), "the format of ssl.keystore.location"),
    "ssl.truststore.location": ConfigKey("", str, "a PEM file: CAs of clients and of other processes"),
    "ssl.truststore.type": ConfigKey("PEM", one_of("PEM"), "the format of ssl.truststore.location"),
    "ssl.client.auth": ConfigKey(
        "none", one_of(*CLIENT_AUTH), "whether clients must show a certificate of ssl.truststore.location"
    ),
    "ssl.enabled.protocols": ConfigKey(",".join(TLS_VERSIONS), tls_versions, "versions of TLS"),
    "ssl.principal.mapping.rules": ConfigKey(
        "DEFAULT", principal_rules, "what makes a user's name of the subject of a client's certificate"
    ),
    "ssl.endpoint.identification.algorithm": ConfigKey(
        "https", one_of("https", ""), "https: other processes must have the name they were reached by"
    ),
}

SASL_KEYS: dict[str, ConfigKey] = {
    "sasl.enabled.mechanisms": ConfigKey(
        "", sasl_mechanisms, "how clients may log in where the protocol is SASL_SSL or SASL_PLAINTEXT"
    ),
    "connections.max.reauth.ms": ConfigKey(
        "0", between(0, LONG_MAX), "after so long a client that logged in has to do it again; 0: never"
    ),
    "connection.failed.authentication.delay.ms": ConfigKey(
        "100", between(0, 60_000), "how long the answer to a failed login waits"
    ),
    "sasl.server.max.receive.size": ConfigKey(
        "524288", between(1024, 2**31 - 1), "largest request of a client that has not logged in"
    ),
    "sasl.oauthbearer.jwks.endpoint.url": ConfigKey(
        "", jwks_url, "where the keys of the issuer of tokens are"
    ),
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": ConfigKey(
        "3600000", between(1000, LONG_MAX), "how often the keys of the issuer are fetched"
    ),
    "sasl.oauthbearer.expected.issuer": ConfigKey("", str, "the iss that tokens must have"),
    "sasl.oauthbearer.expected.audience": ConfigKey("", str, "tokens must be for one of these (aud)"),
    "sasl.oauthbearer.sub.claim.name": ConfigKey("sub", claim_name, "the claim that has the user's name"),
    "sasl.oauthbearer.clock.skew.seconds": ConfigKey(
        "30", between(0, 3600), "by how much the issuer's clock may differ"
    ),
}

LISTENER_KEYS = SSL_KEYS | SASL_KEYS
"""The keys that `listener.name.NAME.` may stand before."""

NODE_KEYS: dict[str, ConfigKey] = {
    "connections.max.idle.ms": ConfigKey("600000", positive, "close connections idle for so long"),
    "max.connections": ConfigKey("10000", positive, "connections in all"),
    "max.connections.per.ip": ConfigKey("10000", positive, "connections per client address"),
    "socket.request.max.bytes": ConfigKey("104857600", between(1024, 2**31 - 1), "largest request"),
    "queued.max.request.bytes": ConfigKey("536870912", positive, "bytes that all connections may hold"),
    "listeners": ConfigKey("", str, "NAME://HOST:PORT,...: instead of --listen, where there are several"),
    "advertised.listeners": ConfigKey("", str, "NAME://HOST:PORT,...: what clients of each connect to"),
    "listener.security.protocol.map": ConfigKey(
        ",".join(f"{name}:{name}" for name in PROTOCOLS), str, f"NAME:PROTOCOL,...: {', '.join(PROTOCOLS)}"
    ),
    "inter.broker.listener.name": ConfigKey(
        "", str, "the listener that brokers, coordinators and controllers use; needed if there are several"
    ),
    "metrics.security.protocol": ConfigKey(
        PLAINTEXT, one_of(PLAINTEXT, SSL), "of --metrics-listen; its listener.name.NAME is METRICS"
    ),
    **LISTENER_KEYS,
    "quota.window.num": ConfigKey("11", between(1, 3_600), "samples over which use of quotas is measured"),
    "quota.window.size.seconds": ConfigKey("1", between(1, 3_600), "the time of each of these samples"),
    "controlled.shutdown.timeout.ms": ConfigKey(
        "30000", positive, "how long SIGTERM waits for leaderships, or a coordinator's shards, to move"
    ),
}
"""The keys of every process that serves clients."""

#: What people will try, and what to write instead.
NODE_HINTS = {
    "broker.rack": "use --rack",
    **dict.fromkeys(
        ("ssl.keystore.password", "ssl.key.password", "ssl.truststore.password"),
        "store keys and certificates in PEM, without a password, readable by the process's user only",
    ),
    "sasl.oauthbearer.scope.claim.name": "no scopes are asked of tokens: leave it out",
    "sasl.jaas.config": "users are the cluster's, not a broker's: leave it out",
    "principal.builder.class": "use ssl.principal.mapping.rules",
    "sasl.mechanism.inter.broker.protocol": "brokers know each other by certificates: leave it out",
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
            key = cls.KEYS.get(name) or LISTENER_KEYS.get(_without_listener(name))
            if key is None:
                raise NodeConfigError(f"unknown configuration key {name!r}: {cls._hint(name)}")
            try:
                values[name] = key.parse(text.strip())
            except ValueError as error:
                raise NodeConfigError(f"{name}={text}: {error} ({key.text})") from error
        return cls(values)

    @classmethod
    def _hint(cls, name: str) -> str:
        for key, hint in cls.HINTS.items():
            if name == key or name.endswith(f".{key}"):  # also behind a listener's and a mechanism's name
                return hint
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

    def text_of_listener(self, listener: str, key: str) -> str:
        """Return the value for this listener, else the one for all."""
        own = self.values.get(f"{LISTENER_PREFIX}{listener.lower()}.{key}")
        return self.text(key) if own is None else str(own)

    @property
    def quota_window(self) -> SampleWindow:
        return SampleWindow(self.number("quota.window.num"), self.number("quota.window.size.seconds") * 1_000)

    @property
    def server_limits(self) -> ServerLimits:
        return ServerLimits(
            connections_max=self.number("max.connections"),
            connections_per_ip_max=self.number("max.connections.per.ip"),
            idle_ms_max=self.number("connections.max.idle.ms"),
            memory_bytes_max=self.number("queued.max.request.bytes"),
            request_bytes_max=self.number("socket.request.max.bytes"),
        )


def _without_listener(name: str) -> str:
    """Return the key behind `listener.name.NAME.`, or ""."""
    if not name.startswith(LISTENER_PREFIX):
        return ""
    return name.removeprefix(LISTENER_PREFIX).partition(".")[2]


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
