"""PLAIN: which messages are taken, and what the client is told."""

from __future__ import annotations

import pytest

from springtide.security.sasl.clients import ClientReply, PlainClient
from springtide.security.sasl.exchange import LoginFailed, Outcome, Succeeded
from springtide.security.sasl.plain import PlainServer


def step(message: bytes) -> tuple[Outcome, list[tuple[str, str]]]:
    """Return the outcome, and the names and passwords that were compared."""
    asked: list[tuple[str, str]] = []

    def verify(name: str, password: str) -> bool:
        asked.append((name, password))
        return (name, password) == ("alice", "sécret")

    return PlainServer(verify).step(message), asked


@pytest.mark.parametrize("authzid", ["", "alice"])
def test_a_client_that_asks_for_its_own_name_succeeds(authzid: str) -> None:
    outcome, asked = step(f"{authzid}\0alice\0sécret".encode())
    assert outcome == Succeeded("alice")
    assert asked == [("alice", "sécret")]


def test_an_unknown_user_and_a_wrong_password_are_told_the_same() -> None:
    unknown, _ = step(b"\0mallory\0x")
    wrong, _ = step(b"\0alice\0x")
    assert isinstance(unknown, LoginFailed)
    assert isinstance(wrong, LoginFailed)
    assert unknown.message == wrong.message
    assert "mallory" not in unknown.message
    assert "'mallory'" in unknown.reason


def test_a_wrong_password_is_not_in_the_log() -> None:
    outcome, _ = step(b"\0alice\0hunter2")
    assert "hunter2" not in repr(outcome)


@pytest.mark.parametrize(
    "message",
    [b"", b"alice", b"\0alice", b"\0alice\0", b"\0\0secret", b"\0alice\0secret\0", b"\0alice\0sec\0ret"],
)
def test_a_message_without_three_parts_is_refused_unasked(message: bytes) -> None:
    outcome, asked = step(message)
    assert isinstance(outcome, LoginFailed)
    assert asked == []


def test_a_client_can_not_ask_for_the_name_of_another() -> None:
    outcome, asked = step("bob\0alice\0sécret".encode())
    assert isinstance(outcome, LoginFailed)
    assert outcome.reason == "the authorization id differs from the name"
    assert asked == []


def test_our_client_is_taken_by_our_server() -> None:
    client = PlainClient("alice", "sécret")
    reply = client.step(b"")
    assert isinstance(reply, ClientReply)
    outcome, _ = step(reply.token)
    assert outcome == Succeeded("alice")
    assert client.step(b"") == Succeeded("alice")


def test_our_client_fails_at_a_challenge() -> None:
    client = PlainClient("alice", "secret")
    client.step(b"")
    assert isinstance(client.step(b"more"), LoginFailed)
    assert "secret" not in repr(client)
