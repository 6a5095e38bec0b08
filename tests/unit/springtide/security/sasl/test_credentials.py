"""What is stored of a password: derivation, bounds, and the credentials of unknown users."""

from __future__ import annotations

import base64
import hashlib
import string

import pytest

from springtide.security.sasl.credentials import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    CredentialInvalid,
    ScramCredential,
    ScramMechanism,
    credential_from_password,
    credential_from_salted_password,
    fake_credential,
    salt_from,
    salted_password,
)
from springtide.security.sasl.exchange import Mechanism

SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")


def test_the_salted_password_is_that_of_rfc_7677s_example() -> None:
    salted = salted_password(Mechanism.SCRAM_SHA_256, "pencil", salt=SALT, iterations=4096)
    assert base64.b64encode(salted) == b"xKSVEDI6tPlSysH6mUQZOeeOp01r6B3fcJbodRPcYV0="


def test_a_salted_password_of_an_administrator_gives_the_password_s_credential(
    mechanism: ScramMechanism,
) -> None:
    hash_name = "sha256" if mechanism is Mechanism.SCRAM_SHA_256 else "sha512"
    salted = hashlib.pbkdf2_hmac(hash_name, "pässword".encode(), SALT, 5000)
    of_salted = credential_from_salted_password(mechanism, salted, salt=SALT, iterations=5000)
    assert of_salted == credential_from_password(mechanism, "pässword", salt=SALT, iterations=5000)
    assert len({of_salted.stored_key, of_salted.server_key, salted}) == 3
    assert len(of_salted.stored_key) == len(of_salted.server_key) == len(salted)


def test_a_password_is_taken_as_it_was_typed_without_saslprep() -> None:
    """SASLprep turns U+00AA into `a`; Kafka does not."""
    typed = credential_from_password(Mechanism.SCRAM_SHA_256, "\u00aa", salt=SALT, iterations=4096)
    assert typed != credential_from_password(Mechanism.SCRAM_SHA_256, "a", salt=SALT, iterations=4096)


@pytest.mark.parametrize("iterations", [-1, 0, ITERATIONS_MIN - 1, ITERATIONS_MAX + 1, 2**40])
def test_iterations_outside_of_kafka_s_bounds_are_refused_before_they_are_run(iterations: int) -> None:
    with pytest.raises(CredentialInvalid, match="iterations"):
        salted_password(Mechanism.SCRAM_SHA_256, "p", salt=SALT, iterations=iterations)
    with pytest.raises(CredentialInvalid, match="iterations"):
        ScramCredential(SALT, b"s", b"k", iterations)


@pytest.mark.parametrize("salt", [b"", b"s" * 1025])
def test_a_salt_has_bounds(salt: bytes) -> None:
    with pytest.raises(CredentialInvalid, match="salt"):
        ScramCredential(salt, b"s", b"k", 4096)


def test_an_empty_password_and_a_salted_one_of_another_mechanism_are_refused() -> None:
    with pytest.raises(CredentialInvalid, match="empty"):
        credential_from_password(Mechanism.SCRAM_SHA_256, "", salt=SALT, iterations=4096)
    with pytest.raises(CredentialInvalid, match="64 bytes"):
        credential_from_salted_password(Mechanism.SCRAM_SHA_512, bytes(32), salt=SALT, iterations=4096)


def test_a_credential_shows_no_secret() -> None:
    shown = repr(ScramCredential(b"the salt", b"stored key", b"server key", 4096))
    assert shown == "ScramCredential(iterations=4096)"


def test_a_fake_credential_is_stable_and_belongs_to_one_user_one_mechanism_and_one_cluster() -> None:
    def fake(mechanism: ScramMechanism, name: str, secret_key: bytes) -> ScramCredential:
        return fake_credential(mechanism, name, secret_key=secret_key, iterations=4096)

    one = fake(Mechanism.SCRAM_SHA_256, "alice", b"key")
    assert fake(Mechanism.SCRAM_SHA_256, "alice", b"key") == one
    salts = [
        one.salt,
        fake(Mechanism.SCRAM_SHA_256, "bob", b"key").salt,
        fake(Mechanism.SCRAM_SHA_512, "alice", b"key").salt,
        fake(Mechanism.SCRAM_SHA_256, "alice", b"other").salt,
    ]
    assert len(set(salts)) == 4


def test_a_salt_has_the_form_of_those_that_kafka_s_tools_write() -> None:
    assert int(salt_from(b"\xff" * 17), 36) == 2**130 - 1
    assert salt_from(b"\xff" * 64) == salt_from(b"\xff" * 17)
    assert set(salt_from(bytes(range(17))).decode()) <= set(string.digits + string.ascii_lowercase)
    assert salt_from(bytes(17)) == b"0"
