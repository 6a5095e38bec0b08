"""The listeners of a process, from Kafka's settings to what clients and the controller are told."""

from __future__ import annotations

import pytest

from dataplane.shell.config import BrokerConfig
from springtide.contract.session import ListenerAddress
from springtide.node.config import NodeConfigError
from springtide.node.listeners import (
    HostPort,
    ListenerSettings,
    ListenersSettings,
    metrics_listener,
    parse_listeners,
)
from springtide.node.sasl_settings import IssuerSettings, SaslSettings
from springtide.node.tls_files import TlsFiles
from springtide.security.sasl.exchange import Mechanism
from springtide.security.sasl.token_rules import TokenRules

TWO = {
    "listeners": "internal://0.0.0.0:9092, CLIENTS://[::]:9093",
    "listener.security.protocol.map": "INTERNAL:PLAINTEXT,clients:ssl",
    "inter.broker.listener.name": "INTERNAL",
    "ssl.keystore.location": "/keys/all.pem",
}


def parsed(**changed: str | None) -> ListenersSettings | None:
    settings = TWO | {name.replace("__", "."): text for name, text in changed.items()}
    return parse_listeners(
        BrokerConfig.parse((key, text) for key, text in settings.items() if text is not None)
    )


def test_two_listeners_are_read_with_their_protocols() -> None:
    found = parsed()
    assert found is not None
    internal, clients = found.all
    assert (internal.name, internal.bind, internal.tls) == ("INTERNAL", HostPort("0.0.0.0", 9092), None)
    assert (clients.name, clients.bind) == ("CLIENTS", HostPort("::", 9093))
    assert clients.tls == TlsFiles(keystore="/keys/all.pem", truststore=None, client_auth="none")
    assert found.inter_broker is internal


def test_what_a_listener_has_of_its_own_goes_before_what_is_set_for_all() -> None:
    settings = TWO | {
        "listener.name.clients.ssl.keystore.location": "/keys/clients.pem",
        "listener.name.clients.ssl.truststore.location": "/keys/ca.pem",
        "listener.name.clients.ssl.client.auth": "required",
        "ssl.enabled.protocols": "TLSv1.3",
    }
    found = parse_listeners(BrokerConfig.parse(settings.items()))
    assert found is not None
    assert found.all[1].tls == TlsFiles(
        keystore="/keys/clients.pem",
        truststore="/keys/ca.pem",
        client_auth="required",
        protocols=("TLSv1.3",),
    )


def test_without_listeners_there_is_nothing_to_read() -> None:
    assert parse_listeners(BrokerConfig.parse(())) is None


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"listeners": "here:9092"}, "is not NAME://HOST:PORT"),
        ({"listeners": "A://h:99999"}, "is not NAME://HOST:PORT"),
        ({"listeners": "A://h:1,a://h:2"}, "names A twice"),
        ({"listeners": ",".join(f"L{n}://h:{n}" for n in range(1, 18))}, "at most 16"),
        ({"listeners": "metrics://h:1"}, "METRICS is the listener of --metrics-listen"),
        ({"listeners": None, "advertised__listeners": "A://h:1"}, "needs listeners"),
        ({"advertised__listeners": "OTHER://h:1"}, "names OTHER, which listeners does not"),
        ({"listener__security__protocol__map": "INTERNAL:PLAINTEXT"}, "CLIENTS has no protocol"),
        ({"listener__security__protocol__map": "INTERNAL:TLS"}, "is not NAME:PROTOCOL, of PLAINTEXT, SSL"),
        ({"inter__broker__listener__name": None}, "name one in inter.broker.listener.name"),
        ({"inter__broker__listener__name": "OTHER"}, "is OTHER, which listeners does not name"),
        ({"ssl__keystore__location": None}, "CLIENTS speaks TLS: name the PEM file"),
        ({"ssl__client__auth": "required"}, "name their CA in ssl.truststore.location"),
        ({"ssl__client__auth": "maybe"}, "must be none or requested or required"),
        ({"ssl__enabled__protocols": "TLSv1.1"}, "must be of TLSv1.2, TLSv1.3"),
        ({"ssl__principal__mapping__rules": "RULE:x"}, "does not begin with RULE:pattern"),
        ({"ssl__keystore__type": "JKS"}, "must be PEM"),
        ({"ssl__keystore__password": "secret"}, "in PEM, without a password"),
        ({"listener.name.clients.max.connections": "1"}, "unknown configuration key"),
    ],
)
def test_what_can_not_be_meant_is_refused_with_what_to_do(
    changed: dict[str, str | None], message: str
) -> None:
    with pytest.raises(NodeConfigError) as refused:
        parsed(**changed)
    assert message in str(refused.value)
    assert "secret" not in str(refused.value)


AT = HostPort("10.0.0.1", 9192)


def test_the_page_of_metrics_has_the_files_of_all_listeners_unless_it_has_its_own() -> None:
    assert metrics_listener(BrokerConfig.parse(()), None) is None
    assert metrics_listener(BrokerConfig.parse(TWO.items()), AT) == ListenerSettings(name="METRICS", bind=AT)
    settings = TWO | {
        "metrics.security.protocol": "SSL",
        "ssl.truststore.location": "/keys/ca.pem",
        "listener.name.metrics.ssl.client.auth": "required",
    }
    found = metrics_listener(BrokerConfig.parse(settings.items()), AT)
    assert found is not None
    assert found.tls == TlsFiles(keystore="/keys/all.pem", truststore="/keys/ca.pem", client_auth="required")


@pytest.mark.parametrize(
    ("changed", "bind", "message"),
    [
        ({"metrics.security.protocol": "SSL"}, AT, "METRICS speaks TLS: name the PEM file"),
        ({"metrics.security.protocol": "SSL"}, None, "needs --metrics-listen"),
        ({"metrics.security.protocol": "SASL_SSL"}, AT, "must be PLAINTEXT or SSL"),
    ],
)
def test_a_page_of_metrics_that_can_not_be_served_is_refused(
    changed: dict[str, str], bind: HostPort | None, message: str
) -> None:
    with pytest.raises(NodeConfigError, match=message):
        metrics_listener(BrokerConfig.parse(changed.items()), bind)


SASL = TWO | {
    "listener.security.protocol.map": "INTERNAL:SSL,CLIENTS:SASL_SSL",
    "sasl.enabled.mechanisms": "SCRAM-SHA-512, PLAIN",
}
TOKENS = {
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "sasl.oauthbearer.jwks.endpoint.url": "https://idp.example.com/keys",
    "sasl.oauthbearer.expected.issuer": "https://idp.example.com",
    "sasl.oauthbearer.expected.audience": "springtide, kafka",
}


def sasl_of(settings: dict[str, str]) -> SaslSettings | None:
    found = parse_listeners(BrokerConfig.parse((SASL | settings).items()))
    assert found is not None and found.inter_broker.sasl is None
    assert found.all[1].protocol == "SASL_SSL"
    return found.all[1].sasl


def test_sasl_is_read_with_what_a_listener_has_of_its_own() -> None:
    assert sasl_of({}) == SaslSettings(mechanisms=(Mechanism.SCRAM_SHA_512, Mechanism.PLAIN))
    assert sasl_of(
        {
            "listener.name.clients.sasl.enabled.mechanisms": "SCRAM-SHA-256",
            "listener.name.clients.connections.max.reauth.ms": "60000",
            "connection.failed.authentication.delay.ms": "0",
            "sasl.server.max.receive.size": "4096",
        }
    ) == SaslSettings(
        mechanisms=(Mechanism.SCRAM_SHA_256,),
        session_ms_max=60_000,
        failure_delay_ms=0,
        request_bytes_max=4096,
    )


def test_tokens_are_read_with_their_issuer() -> None:
    more = {"sasl.oauthbearer.sub.claim.name": "user", "sasl.oauthbearer.clock.skew.seconds": "5"}
    sasl = sasl_of(TOKENS | more)
    assert sasl is not None
    assert sasl.issuer == IssuerSettings(
        jwks_url="https://idp.example.com/keys",
        refresh_ms=3_600_000,
        rules=TokenRules(
            issuer="https://idp.example.com",
            audiences=("springtide", "kafka"),
            clock_skew_s=5,
            principal_claim="user",
        ),
    )


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"sasl.enabled.mechanisms": ""}, "CLIENTS speaks SASL: name mechanisms"),
        (
            {"sasl.enabled.mechanisms": "GSSAPI"},
            "must be of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER",
        ),
        ({"inter.broker.listener.name": "CLIENTS"}, "processes know each other by certificates"),
        ({"listener.security.protocol.map": "INTERNAL:SSL,CLIENTS:SASL_PLAINTEXT"}, "over which PLAIN would"),
        ({"sasl.enabled.mechanisms": "OAUTHBEARER"}, "set sasl.oauthbearer.jwks.endpoint.url"),
        (TOKENS | {"sasl.oauthbearer.expected.issuer": ""}, "set sasl.oauthbearer.expected.issuer"),
        (TOKENS | {"sasl.oauthbearer.expected.audience": ","}, "set sasl.oauthbearer.expected.audience"),
        (TOKENS | {"sasl.oauthbearer.jwks.endpoint.url": "http://idp.example.com"}, "must begin with https"),
        (TOKENS | {"sasl.oauthbearer.jwks.endpoint.url": "file:///keys"}, "must begin with https"),
        (TOKENS | {"sasl.oauthbearer.sub.claim.name": ""}, "must name a claim"),
        (TOKENS | {"sasl.oauthbearer.scope.claim.name": "scp"}, "no scopes are asked of tokens"),
        ({"listener.name.clients.plain.sasl.jaas.config": "x"}, "users are the cluster's"),
        ({"sasl.mechanism.inter.broker.protocol": "PLAIN"}, "brokers know each other by certificates"),
    ],
)
def test_sasl_that_can_not_be_meant_is_refused_with_what_to_do(changed: dict[str, str], message: str) -> None:
    with pytest.raises(NodeConfigError) as refused:
        sasl_of(changed)
    assert message in str(refused.value)


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "localhost"])
def test_passwords_in_clear_are_for_loopback_only(host: str) -> None:
    clear = {
        "listeners": f"INTERNAL://:9092,CLIENTS://{host}:9093",
        "listener.security.protocol.map": "INTERNAL:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
        "sasl.oauthbearer.jwks.endpoint.url": "http://localhost:8080/keys",
    }
    found = parse_listeners(BrokerConfig.parse((SASL | clear).items()))
    assert found is not None
    assert found.all[1].protocol == "SASL_PLAINTEXT"


def test_others_are_told_the_advertised_address_or_the_bound_one_with_its_port() -> None:
    found = parsed(advertised__listeners="CLIENTS://kafka1.example.com:19093")
    assert found is not None
    internal, clients = found.all
    assert clients.endpoint(("::", 9093)) == ListenerAddress(
        host="kafka1.example.com", port=19093, protocol="SSL"
    )
    assert internal.endpoint(("127.0.0.1", 4711)) == ListenerAddress(host="127.0.0.1", port=4711)
    assert internal.endpoint(("0.0.0.0", 4711)).host not in ("", "0.0.0.0")
