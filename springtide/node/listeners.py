"""The listeners of a process, under Kafka's names: where each is bound, what is told of it, its protocol.

    listeners=INTERNAL://0.0.0.0:9092,CLIENTS://0.0.0.0:9093
    advertised.listeners=INTERNAL://store4:9092,CLIENTS://kafka.example.com:9093
    listener.security.protocol.map=INTERNAL:SSL,CLIENTS:SASL_SSL
    inter.broker.listener.name=INTERNAL
    listener.name.clients.sasl.enabled.mechanisms=SCRAM-SHA-512

The page of metrics is a listener, too, without a client of Kafka: `metrics_listener`.

Brokers, coordinators and the controller use the inter-broker listener of each other. A client that came by
a listener is told the addresses of the same listener everywhere (KIP-103).
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from springtide.contract.session import LISTENERS_MAX, ListenerAddress
from springtide.node.config import (
    PLAINTEXT,
    PROTOCOLS,
    SASL_PLAINTEXT,
    SASL_SSL,
    SSL,
    NodeConfig,
    NodeConfigError,
)
from springtide.node.net import Listener, Net
from springtide.node.sasl_settings import SaslSettings, parse_sasl
from springtide.node.tls_files import TlsFiles, TlsMaterial
from springtide.node.tls_net import SecuredListener, SecuredNet
from springtide.security.principal_rules import DEFAULT_RULES, PrincipalRule, parse_principal_rules

METRICS = "METRICS"
"""The name of the listener that serves the page of metrics; no other has it."""

_ENTRY = re.compile(r"([A-Za-z0-9_-]{1,60})://(.*):([0-9]{1,5})\Z")


class HostPort(NamedTuple):
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerSettings:
    """One listener. name: "" where the process has a single one that was given no name. advertised: what
    clients connect to; None: the bound address. tls: None without TLS."""

    name: str
    bind: HostPort
    advertised: HostPort | None = None
    tls: TlsFiles | None = None
    principal_rules: tuple[PrincipalRule, ...] = DEFAULT_RULES
    sasl: SaslSettings | None = None

    @property
    def protocol(self) -> str:
        if self.sasl is None:
            return PLAINTEXT if self.tls is None else SSL
        return SASL_PLAINTEXT if self.tls is None else SASL_SSL

    def endpoint(self, bound: tuple[str, int]) -> ListenerAddress:
        """Return what others are told. bound: the listener's own address, with the port that it got."""
        host, port = self.advertised or bound
        if host in ("", "0.0.0.0", "::"):  # noqa: S104 - compared, not bound
            host = socket.getfqdn()
        return ListenerAddress(host=host, port=port or bound[1], protocol=self.protocol)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenersSettings:
    """All listeners of a process. inter_broker: the one that other processes use."""

    all: tuple[ListenerSettings, ...]
    inter_broker: ListenerSettings

    @classmethod
    def one(cls, host: str, port: int, *, advertised: HostPort | None = None) -> ListenersSettings:
        """Return a single listener without a name and without TLS."""
        listener = ListenerSettings(name="", bind=HostPort(host, port), advertised=advertised)
        return cls(all=(listener,), inter_broker=listener)


def parse_listeners(config: NodeConfig) -> ListenersSettings | None:
    """Return the listeners that the configuration names, or None if it names none. Raise NodeConfigError."""
    bound = _entries(config, "listeners")
    advertised = _entries(config, "advertised.listeners")
    if not bound:
        if advertised:
            raise NodeConfigError("advertised.listeners needs listeners")
        return None
    if unknown := advertised.keys() - bound.keys():
        raise NodeConfigError(f"advertised.listeners names {min(unknown)}, which listeners does not")
    protocols = _protocols(config)
    found = tuple(
        _listener(config, name, address, advertised.get(name), protocols) for name, address in bound.items()
    )
    return ListenersSettings(all=found, inter_broker=_inter_broker(config, found))


def metrics_listener(config: NodeConfig, bind: HostPort | None) -> ListenerSettings | None:
    """Return the listener of the page of metrics. bind: None where the process has no such page. Raise
    NodeConfigError."""
    has_tls = config.text("metrics.security.protocol") == SSL
    if bind is None:
        if has_tls:
            raise NodeConfigError("metrics.security.protocol needs --metrics-listen")
        return None
    return ListenerSettings(name=METRICS, bind=bind, tls=_tls(config, METRICS) if has_tls else None)


def _listener(
    config: NodeConfig,
    name: str,
    bind: HostPort,
    advertised: HostPort | None,
    protocols: Mapping[str, str],
) -> ListenerSettings:
    protocol = protocols.get(name)
    if protocol is None:
        raise NodeConfigError(
            f"listener {name} has no protocol: add {name}:{SSL}, say, to listener.security.protocol.map"
        )
    tls = _tls(config, name) if protocol in (SSL, SASL_SSL) else None
    has_sasl = protocol in (SASL_PLAINTEXT, SASL_SSL)
    rules = config.text_of_listener(name, "ssl.principal.mapping.rules")
    return ListenerSettings(
        name=name,
        bind=bind,
        advertised=advertised,
        tls=tls,
        principal_rules=parse_principal_rules(rules),
        sasl=parse_sasl(config, name, host=bind.host, has_tls=tls is not None) if has_sasl else None,
    )


def _entries(config: NodeConfig, key: str) -> dict[str, HostPort]:
    found: dict[str, HostPort] = {}
    for text in filter(None, (one.strip() for one in config.text(key).split(","))):
        match = _ENTRY.match(text)
        if match is None or int(match[3]) > 65_535:
            raise NodeConfigError(f"{key}: {text!r} is not NAME://HOST:PORT")
        name = match[1].upper()
        if name in found:
            raise NodeConfigError(f"{key} names {name} twice")
        if name == METRICS:
            raise NodeConfigError(f"{key}: {METRICS} is the listener of --metrics-listen")
        found[name] = HostPort(match[2].removeprefix("[").removesuffix("]"), int(match[3]))
    if len(found) > LISTENERS_MAX:
        raise NodeConfigError(f"{key}: at most {LISTENERS_MAX}")
    return found


def _protocols(config: NodeConfig) -> dict[str, str]:
    key = "listener.security.protocol.map"
    found = {}
    for text in filter(None, (one.strip() for one in config.text(key).split(","))):
        name, separator, protocol = text.partition(":")
        if not separator or protocol.upper() not in PROTOCOLS:
            raise NodeConfigError(f"{key}: {text!r} is not NAME:PROTOCOL, of {', '.join(PROTOCOLS)}")
        found[name.upper()] = protocol.upper()
    return found


def _tls(config: NodeConfig, name: str) -> TlsFiles:
    def text(key: str) -> str:
        return config.text_of_listener(name, key)

    keystore, truststore = text("ssl.keystore.location"), text("ssl.truststore.location")
    client_auth = text("ssl.client.auth")
    if not keystore:
        raise NodeConfigError(
            f"listener {name} speaks TLS: name the PEM file of its key and certificate in "
            "ssl.keystore.location"
        )
    if client_auth != "none" and not truststore:
        raise NodeConfigError(
            f"listener {name} asks clients for certificates: name their CA in ssl.truststore.location"
        )
    return TlsFiles(
        keystore=keystore,
        truststore=truststore or None,
        client_auth=client_auth,
        protocols=tuple(one.strip() for one in text("ssl.enabled.protocols").split(",")),
        verifies_names=text("ssl.endpoint.identification.algorithm") == "https",
    )


def _inter_broker(config: NodeConfig, found: Sequence[ListenerSettings]) -> ListenerSettings:
    listener = _named_inter_broker(config, found)
    if listener.sasl is not None:
        raise NodeConfigError(
            f"listener {listener.name} speaks {listener.protocol}, and processes know each other by "
            f"certificates: name another in inter.broker.listener.name, of {SSL} or {PLAINTEXT}"
        )
    return listener


def _named_inter_broker(config: NodeConfig, found: Sequence[ListenerSettings]) -> ListenerSettings:
    named = config.text("inter.broker.listener.name").upper()
    if not named and len(found) == 1:
        return found[0]
    for listener in found:
        if listener.name == (named or PLAINTEXT):
            return listener
    if named:
        raise NodeConfigError(f"inter.broker.listener.name is {named}, which listeners does not name")
    raise NodeConfigError("of several listeners, name one in inter.broker.listener.name: brokers use it")


@dataclass(frozen=True, slots=True)
class BoundListeners:
    """Listeners that are bound. by_name: in the order of the settings. materials: the TLS of those that have
    it, by name, and of the page of metrics."""

    settings: ListenersSettings
    by_name: Mapping[str, Listener]
    materials: Mapping[str, TlsMaterial]

    @property
    def inter_broker(self) -> ListenerAddress:
        listener = self.settings.inter_broker
        return listener.endpoint(self.by_name[listener.name].address)

    @property
    def named(self) -> dict[str, ListenerAddress]:
        """Return what is told of those that have names."""
        return {
            one.name: one.endpoint(self.by_name[one.name].address) for one in self.settings.all if one.name
        }

    def net_to_peers(self, net: Net) -> Net:
        """Return the network by which this process reaches the inter-broker listeners of others."""
        material = self.materials.get(self.settings.inter_broker.name)
        return net if material is None else SecuredNet(net, material)

    def certificate_ends_ms(self) -> int:
        """Return when the first of the certificates ends, Unix time; -1 without any."""
        return min((material.not_after_ms for material in self.materials.values()), default=-1)

    def collect(self) -> Iterator[Metric]:
        if not self.materials:
            return
        family = GaugeMetricFamily(
            "springtide_certificate_expiry_time_seconds",
            "When a listener's certificate ends, Unix time",
            labels=["listener"],
        )
        for name, material in self.materials.items():
            family.add_metric([name], material.not_after_ms / 1000)
        yield family

    def close(self) -> None:
        for listener in self.by_name.values():
            listener.close()


async def bind_listener(one: ListenerSettings, net: Net, materials: Mapping[str, TlsMaterial]) -> Listener:
    """Raise OSError."""
    listener = await net.listen(one.bind.host, one.bind.port)
    material = materials.get(one.name)
    return listener if material is None else SecuredListener(listener, material)


async def bind_listeners(
    settings: ListenersSettings, net: Net, materials: Mapping[str, TlsMaterial]
) -> BoundListeners:
    """Bind all of them. Raise OSError, with none bound."""
    bound: dict[str, Listener] = {}
    try:
        for one in settings.all:
            bound[one.name] = await bind_listener(one, net, materials)
    except BaseException:
        for listener in bound.values():
            listener.close()
        raise
    return BoundListeners(settings, bound, materials)
