"""What every mechanism's server does with bytes from anywhere: it fails, and never raises."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from springtide.security.sasl.exchange import (
    MESSAGE_BYTES_MAX,
    PRINCIPAL_CHARS_MAX,
    Challenge,
    LoginFailed,
    Mechanism,
    ServerExchange,
    Succeeded,
)
from springtide.security.sasl.oauthbearer import (
    OauthbearerServer,
    TokenAccepted,
    TokenFault,
    TokenRefused,
)
from springtide.security.sasl.plain import PlainServer
from springtide.security.sasl.scram import ScramServer

SERVERS: dict[str, Callable[[], ServerExchange]] = {
    "plain": lambda: PlainServer(lambda _name, _password: False),
    "scram": lambda: ScramServer(
        Mechanism.SCRAM_SHA_256, lambda _name: None, server_nonce="server", fake_salt_key=b"k"
    ),
    "oauthbearer": lambda: OauthbearerServer(lambda _token: TokenRefused(TokenFault.SIGNATURE)),
}

#: Pieces of true messages in any order come further than random bytes.
PIECES = st.sampled_from(
    (
        *b"n, y, p=tls-unique, a=bob \0 \x01 n=bob r=client r=clientserver c=biws p= m=x = =2C".split(b" "),
        *(b",", b",tokenauth=true", b",p=" + b"A" * 43 + b"=", b"auth=Bearer a.b.c", b"\xff", "é".encode()),
    )
)
MESSAGES = st.binary(max_size=200) | st.lists(PIECES, max_size=9).map(b"".join)


@pytest.mark.parametrize("kind", SERVERS)
@given(messages=st.lists(MESSAGES, max_size=4))
def test_no_messages_raise_or_succeed_and_the_first_failure_is_the_end(
    kind: str, messages: list[bytes]
) -> None:
    server = SERVERS[kind]()
    outcomes = [server.step(message) for message in messages]
    challenges = [outcome for outcome in outcomes if isinstance(outcome, Challenge)]
    assert outcomes[: len(challenges)] == challenges
    assert all(isinstance(outcome, LoginFailed) for outcome in outcomes[len(challenges) :])
    assert len(challenges) <= 1


@pytest.mark.parametrize("kind", SERVERS)
def test_a_message_beyond_the_bound_is_refused_unread(kind: str) -> None:
    server = SERVERS[kind]()
    outcome = server.step(b"x" * (server.message_bytes_max + 1))
    assert outcome == LoginFailed(
        reason=f"a message has more than {server.message_bytes_max} bytes",
        message=f"Authentication failed: a message has more than {server.message_bytes_max} bytes",
    )


@pytest.mark.parametrize("kind", SERVERS)
def test_a_message_that_is_not_utf_8_is_refused(kind: str) -> None:
    outcome = SERVERS[kind]().step(b"n,,n=\xff,r=x")
    assert isinstance(outcome, LoginFailed)
    assert outcome.reason == "a message is not UTF-8"


def test_a_message_after_success_fails() -> None:
    server = PlainServer(lambda _name, _password: True)
    assert server.step(b"\0alice\0secret") == Succeeded("alice")
    outcome = server.step(b"\0alice\0secret")
    assert isinstance(outcome, LoginFailed)
    assert "after the end" in outcome.reason


@pytest.mark.parametrize("name", ["a\nb", "a\x1b[31m", "\ud800", "", "x" * (PRINCIPAL_CHARS_MAX + 1)])
def test_a_name_that_a_log_can_not_carry_is_no_principal(name: str) -> None:
    server = OauthbearerServer(lambda _token: TokenAccepted(name, expiry_ms=1))
    outcome = server.step(b"n,,\x01auth=Bearer t\x01\x01")
    assert isinstance(outcome, LoginFailed)
    assert "printable" in outcome.reason


def test_the_longest_name_is_a_principal() -> None:
    name = "é" * PRINCIPAL_CHARS_MAX
    message = f"\0{name}\0p".encode()
    assert len(message) <= MESSAGE_BYTES_MAX
    assert PlainServer(lambda _name, _password: True).step(message) == Succeeded(name)
