"""What users write about TLS and SASL, and what of it is refused."""

from __future__ import annotations

import pickle

import pytest

from pipeline.client.errors import InvalidClientOption
from pipeline.client.security import (
    ClientSecurity,
    PasswordLogin,
    TlsOptions,
    TokenLogin,
    client_security,
)
from springtide.security.sasl.exchange import Mechanism

LOGIN = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}
ALICE = {"sasl.username": "alice", "sasl.password": "s3cret"}
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
BEARER = LOGIN | {"sasl.mechanism": "OAUTHBEARER"}


def test_options_say_how_connections_are_secured() -> None:
    assert client_security({"fetch.max.bytes": "7"}) == ClientSecurity()
    assert client_security({"security.protocol": "plaintext", "ssl.truststore.location": "ca"}) == (
        ClientSecurity()
    )
    assert client_security({"security.protocol": "SSL"}) == ClientSecurity(TlsOptions())
    whole = client_security(
        LOGIN
        | ALICE
        | {
            "ssl.truststore.location": "/ca.pem",
            "ssl.truststore.type": "PEM",
            "ssl.keystore.location": "/alice.pem",
            "ssl.endpoint.identification.algorithm": "",
        },
        prefix="kafka.",
    )
    assert whole == ClientSecurity(
        TlsOptions("/ca.pem", "/alice.pem", verifies_names=False),
        PasswordLogin(Mechanism.PLAIN, "alice", "s3cret"),
        "kafka.",
    )
    assert pickle.loads(pickle.dumps(whole)) == whole


@pytest.mark.parametrize(
    ("options", "principal"),
    [
        ({}, "User:ANONYMOUS"),
        ({"security.protocol": "SSL"}, "User:ANONYMOUS"),
        ({"security.protocol": "SSL", "ssl.keystore.location": "a.pem"}, "the subject of its certificate"),
        (LOGIN | ALICE, "User:alice"),
        (BEARER | {"sasl.oauthbearer.token": "ab"}, "the user of its token"),
    ],
)
def test_a_client_knows_its_principal_as_far_as_its_options_tell(
    options: dict[str, str], principal: str
) -> None:
    assert client_security(options).principal == principal


@pytest.mark.parametrize(
    ("given", "login"),
    [
        ({"sasl.oauthbearer.token": " ab.c=="}, TokenLogin("ab.c==")),
        ({"sasl.oauthbearer.token.endpoint.url": "file:///run/a%20token"}, TokenLogin(file="/run/a token")),
    ],
)
def test_a_token_is_given_or_in_a_file(given: dict[str, str], login: TokenLogin) -> None:
    assert client_security(BEARER | given).login == login


@pytest.mark.parametrize(
    "text",
    [
        f'{SCRAM} username="alice" password="s3cret";',
        f"{SCRAM} password='s3cret' username=alice;",
        f'{SCRAM} \t username = "alice"   password="s\\3cret" ;',
    ],
)
def test_a_java_login_is_read_from_a_file(text: str) -> None:
    found = client_security(LOGIN | {"sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": text})
    assert found.login == PasswordLogin(Mechanism.SCRAM_SHA_256, "alice", "s3cret")


def test_no_secret_is_shown() -> None:
    for given in (LOGIN | ALICE, BEARER | {"sasl.oauthbearer.token": "s3cret"}):
        assert "s3cret" not in repr(client_security(given))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"security.protocol": "TLS"}, "k.security.protocol must be 'PLAINTEXT' or .*, not 'TLS'"),
        ({"ssl.truststore.location": "ca"}, "k.security.protocol is needed: without it k.ssl.truststore.loc"),
        ({"security.protcol": "SSL"}, "k.security.protcol is not known here: there are security.protocol"),
        ({"ssl.ca.location": "ca"}, "k.ssl.ca.location is not known.*ssl.truststore.location"),
        ({"ssl.truststore.password": "s3cret"}, "k.ssl.truststore.password is not known"),
        ({"sasl.kerberos.service.name": "kafka"}, "not known here.*sasl.mechanism"),
        (
            {"security.protocol": "SSL", "ssl.keystore.type": "JKS"},
            "k.ssl.keystore.type must be 'PEM'.*openssl",
        ),
        ({"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "x"}, "'https' or ''"),
        ({"security.protocol": "SASL_SSL"}, "k.sasl.mechanism must be 'PLAIN' or 'SCRAM-SHA-256'"),
        (LOGIN | {"sasl.mechanism": "GSSAPI"}, "not 'GSSAPI'"),
        (LOGIN | ALICE | {"sasl.username": ""}, "k.sasl.username is needed"),
        (LOGIN | ALICE | {"sasl.password": "s3cret\0"}, "k.sasl.password is needed, of printable"),
        (LOGIN | ALICE | {"sasl.password": "s3cret\ud800"}, "k.sasl.password is needed, of printable"),
        (
            LOGIN | ALICE | {"sasl.jaas.config": f"{SCRAM} password=s3cret;"},
            "k.sasl.jaas.config stands beside",
        ),
        (LOGIN | {"sasl.jaas.config": f"{SCRAM} password=s3cret;"}, "k.sasl.username is needed"),
        (BEARER, "k.sasl.oauthbearer.token is needed"),
        (BEARER | {"sasl.oauthbearer.token": "s3cret and"}, "k.sasl.oauthbearer.token is not a bearer token"),
        (
            BEARER | {"sasl.oauthbearer.token": "a", "sasl.oauthbearer.token.endpoint.url": "file:///a"},
            "and not both",
        ),
        (
            BEARER | {"sasl.oauthbearer.token.endpoint.url": "https://s3cret@idp/token"},
            "must be file:///PATH",
        ),
    ],
)
def test_what_can_not_be_honoured_is_refused_without_its_secret(given: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidClientOption, match=message) as caught:
        client_security(given, prefix="k.")
    assert "s3cret" not in str(caught.value)
