"""The listeners of a process, from Kafka's settings to what clients and the controller are told."""

from __future__ import annotations

import pytest

from controller.contract.session import ListenerAddress
from dataplane.shell.config import BrokerConfig
from springtide.node.config import NodeConfigError
from springtide.node.listeners import HostPort, ListenersSettings, parse_listeners
from springtide.node.tls_files import TlsFiles

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
        ({"listeners": None, "advertised__listeners": "A://h:1"}, "needs listeners"),
        ({"advertised__listeners": "OTHER://h:1"}, "names OTHER, which listeners does not"),
        ({"listener__security__protocol__map": "INTERNAL:PLAINTEXT"}, "CLIENTS has no protocol"),
        ({"listener__security__protocol__map": "INTERNAL:SASL_SSL"}, "is not NAME:PLAINTEXT or NAME:SSL"),
        ({"inter__broker__listener__name": None}, "name one in inter.broker.listener.name"),
        ({"inter__broker__listener__name": "OTHER"}, "is OTHER, which listeners does not name"),
        ({"ssl__keystore__location": None}, "CLIENTS speaks SSL: name the PEM file"),
        ({"ssl__client__auth": "required"}, "name their CA in ssl.truststore.location"),
        ({"ssl__client__auth": "maybe"}, "must be none or requested or required"),
        ({"ssl__enabled__protocols": "TLSv1.1"}, "must be of TLSv1.2, TLSv1.3"),
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


def test_others_are_told_the_advertised_address_or_the_bound_one_with_its_port() -> None:
    found = parsed(advertised__listeners="CLIENTS://kafka1.example.com:19093")
    assert found is not None
    internal, clients = found.all
    assert clients.endpoint(("::", 9093)) == ListenerAddress(
        host="kafka1.example.com", port=19093, protocol="SSL"
    )
    assert internal.endpoint(("127.0.0.1", 4711)) == ListenerAddress(host="127.0.0.1", port=4711)
    assert internal.endpoint(("0.0.0.0", 4711)).host not in ("", "0.0.0.0")
