"""The server's side of SCRAM: RFC 7677's example, and messages that break it."""

from __future__ import annotations

import base64
from collections.abc import Callable

import pytest

from springtide.security.sasl.clients import ClientReply, ScramClient
from springtide.security.sasl.credentials import (
    ScramMechanism,
    client_key,
    credential_from_password,
    hash_of,
    hmac_of,
    salted_password,
)
from springtide.security.sasl.exchange import Challenge, LoginFailed, Mechanism, Outcome, Succeeded
from springtide.security.sasl.scram import ScramServer, xor

MakeServer = Callable[[ScramMechanism], ScramServer]

CLIENT_FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
NONCES = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SERVER_FIRST = f"r={NONCES},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
PROOFS: dict[ScramMechanism, tuple[str, str]] = {
    # RFC 7677 section 3.
    Mechanism.SCRAM_SHA_256: (
        "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
        "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
    ),
    # The same names, nonces and salt, as aiokafka 0.14's client computes them.
    Mechanism.SCRAM_SHA_512: (
        "gMGXRcevScNtxZ6/8lQYpGtnsNAc3mGcmNomv+xnoOMw+3R2xNJdMNnzMlTN8PPC6wdp6dybEmDYXYTxwnYPJQ==",
        "ZQnYEgWQMFmmsM8aQMF0nDDCy/AgCzkwk8CmMZYcMg0vSVlKDanekLtifDSeVGT4+5ZxXnJq199RVG2rR7N7Zw==",
    ),
}


def test_the_example_of_the_rfc_is_held_to_the_letter(mechanism: ScramMechanism) -> None:
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    credential = credential_from_password(mechanism, "pencil", salt=salt, iterations=4096)
    server = ScramServer(
        mechanism, {"user": credential}.get, server_nonce="%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0", fake_salt_key=b"k"
    )
    client = ScramClient(mechanism, "user", "pencil", client_nonce="rOprNGfwEbeRWgbNEkqO")
    proof, signature = PROOFS[mechanism]
    client_final = f"c=biws,r={NONCES},p={proof}".encode()
    server_final = f"v={signature}".encode()
    assert client.step(b"") == ClientReply(CLIENT_FIRST)
    assert server.step(CLIENT_FIRST) == Challenge(SERVER_FIRST)
    assert client.step(SERVER_FIRST) == ClientReply(client_final)
    assert server.step(client_final) == Succeeded("user", token=server_final)
    assert client.step(server_final) == Succeeded("user")


def log_in(server: ScramServer, client: ScramClient) -> Outcome:
    outcome: Outcome = Challenge(b"")
    while isinstance(outcome, Challenge):
        reply = client.step(outcome.token)
        assert isinstance(reply, ClientReply), reply
        outcome = server.step(reply.token)
    return outcome


@pytest.mark.parametrize("name", ["a,b=c", "=2C", "=3D2C", "Zoë", "a b"])
def test_a_name_keeps_its_commas_equals_signs_and_letters(mechanism: ScramMechanism, name: str) -> None:
    credential = credential_from_password(mechanism, "pw", salt=b"s", iterations=4096)
    server = ScramServer(mechanism, {name: credential}.get, server_nonce="s", fake_salt_key=b"k")
    outcome = log_in(server, ScramClient(mechanism, name, "pw", client_nonce="c"))
    assert isinstance(outcome, Succeeded)
    assert outcome.principal == name


def test_an_unknown_user_and_a_wrong_password_look_alike_to_the_client(
    scram_server: MakeServer, mechanism: ScramMechanism
) -> None:
    wrong = log_in(scram_server(mechanism), ScramClient(mechanism, "alice", "guess", client_nonce="c"))
    unknown = log_in(scram_server(mechanism), ScramClient(mechanism, "mallory", "guess", client_nonce="c"))
    assert isinstance(wrong, LoginFailed)
    assert isinstance(unknown, LoginFailed)
    assert wrong.message == unknown.message
    assert (wrong.reason, unknown.reason) == ("wrong password: 'alice'", "unknown user: 'mallory'")


def test_an_unknown_user_has_a_salt_of_its_own_at_every_attempt(scram_server: MakeServer) -> None:
    def salt(name: str) -> bytes:
        outcome = scram_server(Mechanism.SCRAM_SHA_256).step(f"n,,n={name},r=c".encode())
        assert isinstance(outcome, Challenge)
        nonces, salt, iterations = outcome.token.split(b",")
        assert (nonces, iterations) == (b"r=cserver", b"i=4096")
        return salt

    assert salt("mallory") == salt("mallory")
    assert salt("mallory") != salt("mallet")
    assert salt("mallory") != salt("alice")


def test_a_credential_that_changes_mid_way_is_looked_up_once(mechanism: ScramMechanism) -> None:
    found = [credential_from_password(mechanism, "pw", salt=b"s", iterations=4096)]
    server = ScramServer(mechanism, lambda _name: found.pop(), server_nonce="s", fake_salt_key=b"k")
    assert isinstance(log_in(server, ScramClient(mechanism, "bob", "pw", client_nonce="c")), Succeeded)
    assert found == []


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"p=tls-unique,,n=alice,r=c", "channel binding is not supported"),
        (b"y,,n=alice,r=c", "channel binding is not supported"),
        (b"n,,m=ext,n=alice,r=c", "a mandatory extension of SCRAM is not supported"),
        (b"n,,n=alice,r=c,tokenauth=true", "delegation tokens (tokenauth) are not supported"),
        (b"n,a=bob,n=alice,r=c", "the authorization id differs from the name"),
        *[
            (message, "the first SCRAM message is malformed")
            for message in (
                b"",
                b"n",
                b"n,,",
                b"n,,n=alice",
                b"n,,n=alice,r=",
                b"n,,n=,r=c",
                b"n,,n=al=ice,r=c",
                b"n,,n=al=2cice,r=c",
                b"n,,n=al\0ice,r=c",
                b"n,,r=c,n=alice",
                b"n,,n=alice,r=c c",
                b"n,,n=alice,r=c\n",
                b"n,,n=alice,r=c,=x",
                b"x,,n=alice,r=c",
                b"n=alice,r=c",
            )
        ],
    ],
)
def test_a_first_message_that_is_not_plain_scram_is_refused(
    scram_server: MakeServer, message: bytes, reason: str
) -> None:
    assert scram_server(Mechanism.SCRAM_SHA_256).step(message) == LoginFailed(
        reason, message=f"Authentication failed: {reason}"
    )


def test_an_optional_extension_is_ignored_and_an_own_authorization_id_is_taken(
    scram_server: MakeServer,
) -> None:
    outcome = scram_server(Mechanism.SCRAM_SHA_256).step(b"n,a=alice,n=alice,r=c,ext=1")
    assert isinstance(outcome, Challenge)


def client_final(scram_server: MakeServer) -> tuple[ScramServer, str]:
    """Return a server that waits for the last message, and that message as it should be."""
    server = scram_server(Mechanism.SCRAM_SHA_256)
    client = ScramClient(Mechanism.SCRAM_SHA_256, "alice", "secret", client_nonce="c")
    first = client.step(b"")
    assert isinstance(first, ClientReply)
    challenge = server.step(first.token)
    assert isinstance(challenge, Challenge)
    last = client.step(challenge.token)
    assert isinstance(last, ClientReply)
    return server, last.token.decode()


@pytest.mark.parametrize(
    ("right", "wrong", "reason"),
    [
        ("r=cserver", "r=cserverx", "nonce"),
        ("r=cserver", "r=c", "nonce"),
        ("r=cserver", "r=other", "nonce"),
        ("r=cserver", "r=server", "nonce"),
        ("r=cserver", "r=xcserver", "nonce"),
        ("r=cserver", "r=cccserver", "nonce"),
        ("c=biws", "c=eSws", "channel binding"),  # "y,,"
        ("c=biws", "c=cD10bHMtdW5pcXVlLCw=", "channel binding"),
        ("c=biws,", "", "malformed"),
        (",p=", ",q=", "malformed"),
        (",p=", ",p=!", "proof"),
        (",p=", ",p=AAAA", "proof"),
    ],
)
def test_a_last_message_with_a_foreign_part_is_refused(
    scram_server: MakeServer, right: str, wrong: str, reason: str
) -> None:
    server, message = client_final(scram_server)
    assert right in message
    outcome = server.step(message.replace(right, wrong).encode())
    assert isinstance(outcome, LoginFailed)
    assert reason in outcome.reason


@pytest.mark.parametrize(
    ("password", "outcome"), [("secret", "alice"), ("guess", LoginFailed("wrong password: 'alice'"))]
)
def test_librdkafka_before_2_6_1_repeats_its_nonce(
    scram_server: MakeServer, mechanism: ScramMechanism, password: str, outcome: object
) -> None:
    server = scram_server(mechanism)
    first = server.step(b"n,,n=alice,r=c")
    assert isinstance(first, Challenge)
    key = client_key(mechanism, salted_password(mechanism, password, salt=b"salt", iterations=4096))
    auth_message = b"n=alice,r=c," + first.token + b",c=biws,r=ccserver"
    proof = xor(key, hmac_of(mechanism, hash_of(mechanism, key), auth_message))
    told = server.step(b"c=biws,r=ccserver,p=" + base64.b64encode(proof))
    assert (told.principal if isinstance(told, Succeeded) else told) == outcome


@pytest.mark.parametrize("proof", ["", "AAAA", base64.b64encode(bytes(32)).decode(), "é"])
def test_a_proof_that_is_none_is_refused(scram_server: MakeServer, proof: str) -> None:
    server, message = client_final(scram_server)
    outcome = server.step((message.partition(",p=")[0] + f",p={proof}").encode())
    assert isinstance(outcome, LoginFailed)


def test_a_truncated_last_message_is_refused_at_every_length(scram_server: MakeServer) -> None:
    _, message = client_final(scram_server)
    for length in range(len(message)):
        server, _ = client_final(scram_server)
        assert isinstance(server.step(message[:length].encode()), LoginFailed), length


def test_a_proof_for_another_extension_is_wrong(scram_server: MakeServer) -> None:
    """The proof covers everything that the client has sent."""
    server, message = client_final(scram_server)
    outcome = server.step(message.replace(",p=", ",ext=1,p=").encode())
    assert outcome == LoginFailed("wrong password: 'alice'")


def test_a_first_message_again_can_not_change_the_user_mid_way(scram_server: MakeServer) -> None:
    server, message = client_final(scram_server)
    assert isinstance(server.step(b"n,,n=bob,r=c"), LoginFailed)
    assert isinstance(server.step(message.encode()), LoginFailed)


def test_a_last_message_is_worth_nothing_in_another_exchange(scram_server: MakeServer) -> None:
    server, message = client_final(scram_server)
    assert isinstance(server.step(message.encode()), Succeeded)
    assert isinstance(server.step(message.encode()), LoginFailed)
    credential = credential_from_password(Mechanism.SCRAM_SHA_256, "secret", salt=b"salt", iterations=4096)
    later = ScramServer(
        Mechanism.SCRAM_SHA_256, lambda _name: credential, server_nonce="later", fake_salt_key=b"k"
    )
    assert isinstance(later.step(b"n,,n=alice,r=c"), Challenge)
    assert isinstance(later.step(message.encode()), LoginFailed)
