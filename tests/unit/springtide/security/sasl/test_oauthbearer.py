"""OAUTHBEARER's messages; the token itself is judged by a function of the test."""

from __future__ import annotations

import pytest

from springtide.security.sasl.exchange import Challenge, LoginFailed, Succeeded
from springtide.security.sasl.oauthbearer import (
    OauthbearerServer,
    TokenAccepted,
    TokenFault,
    TokenRefused,
)


def server(asked: list[str] | None = None) -> OauthbearerServer:
    """A server that accepts the token a.b.c as alice's until 5000."""

    def verify(token: str) -> TokenAccepted | TokenRefused:
        if asked is not None:
            asked.append(token)
        if token == "a.b.c":
            return TokenAccepted("alice", expiry_ms=5000)
        return TokenRefused(TokenFault.EXPIRED if token == "old" else TokenFault.SCOPE, "'detail'")

    return OauthbearerServer(verify)


@pytest.mark.parametrize(
    "message",
    [
        b"n,,\x01auth=Bearer a.b.c\x01\x01",
        b"n,a=alice,\x01auth=Bearer a.b.c\x01\x01",
        b"n,,\x01auth=bearer   a.b.c\x01\x01",
        b"n,,\x01host=broker\x01auth=Bearer a.b.c\x01logicalCluster=lkc-1\x01\x01",
    ],
)
def test_a_bearer_token_says_who_the_client_is_and_until_when(message: bytes) -> None:
    assert server().step(message) == Succeeded("alice", expiry_ms=5000)


@pytest.mark.parametrize(
    ("token", "status", "reason"),
    [
        ("old", "invalid_token", "the token has expired: 'detail'"),
        ("narrow", "insufficient_scope", "the token lacks a scope: 'detail'"),
    ],
)
def test_a_refused_token_is_answered_with_json_and_fails_after_the_client_s_byte(
    token: str, status: str, reason: str
) -> None:
    one = server()
    assert one.step(f"n,,\x01auth=Bearer {token}\x01\x01".encode()) == Challenge(
        f'{{"status": "{status}"}}'.encode()
    )
    failed = LoginFailed(reason, message=f"Authentication failed: the token is refused ({status})")
    assert one.step(b"\x01") == failed
    assert isinstance(one.step(b"\x01"), LoginFailed)


def test_a_second_token_after_a_refused_one_is_not_looked_at() -> None:
    asked: list[str] = []
    one = server(asked)
    assert isinstance(one.step(b"n,,\x01auth=Bearer old\x01\x01"), Challenge)
    assert isinstance(one.step(b"n,,\x01auth=Bearer a.b.c\x01\x01"), LoginFailed)
    assert asked == ["old"]


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"n,,\x01\x01",
        b"n,,\x01auth=Bearer a.b.c\x01",
        b"n,,\x01auth=Bearer a.b.c",
        b"n,,auth=Bearer a.b.c\x01\x01",
        b"n,,\x01auth=Basic a.b.c\x01\x01",
        b"n,,\x01auth=Bearer\x01\x01",
        b"n,,\x01auth=Bearer a.b.c d\x01\x01",
        b"n,,\x01auth=Bearer a.b.c\n\x01\x01",
        b"n,,\x01AUTH=Bearer a.b.c\x01\x01",
        b"n,,\x01host=x\x01\x01",
        b"n,,\x01auth=Bearer a.b.c\x01auth=Bearer a.b.c\x01\x01",
        b"n,,\x01auth=Bearer a.b.c\x01=x\x01\x01",
        b"n,,\x01auth=Bearer a.b.c\x01ext=\x02\x01\x01",
        b"n,,\x01auth=Bearer a.b.c\x01\x01\x01",
        b"n,a=,\x01auth=Bearer a.b.c\x01\x01",
        b"y,,\x01auth=Bearer a.b.c\x01\x01",
        b"p=tls-unique,,\x01auth=Bearer a.b.c\x01\x01",
    ],
)
def test_a_malformed_message_is_refused_without_a_look_at_its_token(message: bytes) -> None:
    asked: list[str] = []
    assert isinstance(server(asked).step(message), LoginFailed)
    assert asked == []


def test_a_client_can_not_ask_for_another_name_than_the_token_s() -> None:
    outcome = server().step(b"n,a=bob,\x01auth=Bearer a.b.c\x01\x01")
    assert isinstance(outcome, LoginFailed)
    assert outcome.reason == "the authorization id differs from the token's principal"
