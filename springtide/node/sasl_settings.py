"""SASL on one listener, under Kafka's names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from springtide.exposure import is_loopback
from springtide.node.config import NodeConfig, NodeConfigError
from springtide.security.sasl.exchange import Mechanism
from springtide.security.sasl.token_rules import TokenRules

REVEALING: Final = (Mechanism.PLAIN, Mechanism.OAUTHBEARER)
"""The mechanisms whose messages are passwords, or as good as passwords: RFC 4616 and RFC 7628 want TLS."""
_TOKENS: Final = "sasl.oauthbearer."


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuerSettings:
    """The tokens that OAUTHBEARER takes, and where the keys of their issuer are fetched, how often."""

    jwks_url: str
    refresh_ms: int
    rules: TokenRules


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslSettings:
    """session_ms_max: after it a client has to authenticate again; None: never. failure_delay_ms: how long
    the answer to a failure waits. request_bytes_max: of a client that has not authenticated. issuer: for
    OAUTHBEARER."""

    mechanisms: tuple[Mechanism, ...]
    session_ms_max: int | None = None
    failure_delay_ms: int = 100
    request_bytes_max: int = 512 * 1024
    issuer: IssuerSettings | None = None


def parse_sasl(config: NodeConfig, listener: str, *, host: str, has_tls: bool) -> SaslSettings:
    """Return the settings of a listener that is bound to `host`. Raise NodeConfigError."""

    def number(key: str) -> int:
        return int(config.text_of_listener(listener, key))

    names = config.text_of_listener(listener, "sasl.enabled.mechanisms").split(",")
    mechanisms = tuple(Mechanism(name.strip()) for name in names if name.strip())
    if not mechanisms:
        raise NodeConfigError(f"listener {listener} speaks SASL: name mechanisms in sasl.enabled.mechanisms")
    for mechanism in mechanisms:
        if mechanism in REVEALING and not has_tls and not is_loopback(host):
            raise NodeConfigError(
                f"listener {listener} has no TLS, over which {mechanism} would show what a client logs in "
                "by: give it the protocol SASL_SSL, or bind it to loopback"
            )
    return SaslSettings(
        mechanisms=mechanisms,
        session_ms_max=number("connections.max.reauth.ms") or None,
        failure_delay_ms=number("connection.failed.authentication.delay.ms"),
        request_bytes_max=number("sasl.server.max.receive.size"),
        issuer=_issuer(config, listener) if Mechanism.OAUTHBEARER in mechanisms else None,
    )


def _issuer(config: NodeConfig, listener: str) -> IssuerSettings:
    def text(key: str) -> str:
        return config.text_of_listener(listener, _TOKENS + key)

    audiences = tuple(filter(None, (one.strip() for one in text("expected.audience").split(","))))
    for key, value in (
        ("jwks.endpoint.url", text("jwks.endpoint.url")),
        ("expected.issuer", text("expected.issuer")),
        ("expected.audience", audiences),
    ):
        if not value:
            raise NodeConfigError(f"listener {listener} takes tokens (OAUTHBEARER): set {_TOKENS}{key}")
    return IssuerSettings(
        jwks_url=text("jwks.endpoint.url"),
        refresh_ms=int(text("jwks.endpoint.refresh.ms")),
        rules=TokenRules(
            issuer=text("expected.issuer"),
            audiences=audiences,
            clock_skew_s=int(text("clock.skew.seconds")),
            principal_claim=text("sub.claim.name"),
        ),
    )
