"""Our clients of SCRAM against servers that are not what they seem."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from springtide.security.sasl.clients import (
    TOKEN_CHARS_MAX,
    ClientOutcome,
    ClientReply,
    OauthbearerClient,
    ScramClient,
    is_bearer_token,
)
from springtide.security.sasl.credentials import ScramMechanism
from springtide.security.sasl.exchange import MESSAGE_BYTES_MAX, Challenge, LoginFailed, Mechanism, Succeeded
from springtide.security.sasl.scram import ScramServer

MakeServer = Callable[[ScramMechanism], ScramServer]


def client() -> ScramClient:
    return ScramClient(Mechanism.SCRAM_SHA_256, "alice", "secret", client_nonce="c")


def test_a_client_and_a_server_with_the_same_password_know_each_other(
    scram_server: MakeServer, mechanism: ScramMechanism
) -> None:
    server, ours = scram_server(mechanism), ScramClient(mechanism, "alice", "secret", client_nonce="c")
    challenge = b""
    for _ in range(2):
        reply = ours.step(challenge)
        assert isinstance(reply, ClientReply)
        outcome = server.step(reply.token)
        assert isinstance(outcome, Challenge | Succeeded)
        challenge = outcome.token
    assert outcome == Succeeded("alice", token=challenge)
    assert ours.step(challenge) == Succeeded("alice")
    assert isinstance(ours.step(challenge), LoginFailed)


def on_server_first(message: bytes) -> ClientOutcome:
    ours = client()
    ours.step(b"")
    return ours.step(message)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"r=other,s=c2FsdA==,i=4096", "does not continue"),
        (b"r=c,s=c2FsdA==,i=4096", "does not continue"),
        (b"r=cs,s=c2FsdA==,i=4095", "iterations"),
        (b"r=cs,s=c2FsdA==,i=999999999", "iterations"),
        (b"r=cs,s=c2FsdA==,i=9999999999", "malformed"),
        ("r=cs,s=c2FsdA==,i=\u0664\u0660\u0669\u0666".encode(), "malformed"),
        (b"r=cs,s=!,i=4096", "malformed"),
        (b"m=x,r=cs,s=c2FsdA==,i=4096", "malformed"),
        (b"e=other-error", "malformed"),
        (b"r=cs,s=c2FsdA==,i=4096" + b",x=" + b"y" * MESSAGE_BYTES_MAX, "malformed"),
        (b"\xff", "malformed"),
        (b"", "malformed"),
    ],
)
def test_a_first_message_that_the_client_must_not_answer_fails(message: bytes, reason: str) -> None:
    outcome = on_server_first(message)
    assert isinstance(outcome, LoginFailed)
    assert reason in outcome.reason


def test_the_most_iterations_are_taken() -> None:
    assert isinstance(on_server_first(b"r=cs,s=c2FsdA==,i=16384,x=y"), ClientReply)


@pytest.mark.parametrize(
    "message", [b"", b"e=invalid-proof", b"v=", b"v=!", b"v=AAAA", b"v=" + base64.b64encode(bytes(32))]
)
def test_a_server_without_the_right_signature_is_not_trusted(message: bytes) -> None:
    ours = client()
    ours.step(b"")
    assert isinstance(ours.step(b"r=cs,s=c2FsdA==,i=4096"), ClientReply)
    assert isinstance(ours.step(message), LoginFailed)
    assert isinstance(ours.step(message), LoginFailed)


def test_a_server_that_knows_stored_key_only_is_not_trusted() -> None:
    """StoredKey checks a client; the signature needs ServerKey."""
    ours = client()
    ours.step(b"")
    reply = ours.step(b"r=cs,s=c2FsdA==,i=4096")
    assert isinstance(reply, ClientReply)
    salted = hashlib.pbkdf2_hmac("sha256", b"secret", b"salt", 4096)
    stored_key = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    message = b"n=alice,r=c,r=cs,s=c2FsdA==,i=4096," + reply.token.partition(b",p=")[0]
    signature = hmac.digest(stored_key, message, "sha256")
    assert isinstance(ours.step(b"v=" + base64.b64encode(signature)), LoginFailed)


def test_a_server_that_speaks_first_is_refused() -> None:
    assert isinstance(client().step(b"r=cs,s=c2FsdA==,i=4096"), LoginFailed)


@given(st.lists(st.binary(max_size=100), max_size=4))
def test_no_bytes_of_a_server_raise_or_convince(messages: list[bytes]) -> None:
    ours = client()
    ours.step(b"")
    assert all(isinstance(ours.step(message), LoginFailed) for message in messages)


def test_a_client_shows_no_password() -> None:
    assert "secret" not in repr(client())


def test_a_client_of_oauthbearer_takes_a_refusal_to_its_end() -> None:
    ours = OauthbearerClient("a.b.c")
    assert ours.step(b"") == ClientReply(b"n,,\x01auth=Bearer a.b.c\x01\x01")
    assert ours.step(b'{"status": "invalid_token"}') == ClientReply(b"\x01")
    assert isinstance(ours.step(b""), LoginFailed)
    accepted = OauthbearerClient("a.b.c")
    accepted.step(b"")
    assert isinstance(accepted.step(b""), Succeeded)


def test_what_is_not_a_bearer_token_is_not_sent() -> None:
    assert is_bearer_token("a" * TOKEN_CHARS_MAX)
    for text in ("", "a b", "a\x01auth=x", "a=b", "é", "a" * (TOKEN_CHARS_MAX + 1)):
        assert not is_bearer_token(text)
