"""The part of a password that is stored for SCRAM, and its derivation.

A server stores StoredKey, which checks a client's proof, and ServerKey, which proves the server to the
client. Neither gives the password back nor lets its holder log in.

Kafka's brokers, clients and tools take passwords as the UTF-8 bytes that the user typed, without the SASLprep
that RFC 5802 asks for, and so does this module. The two differ only outside of printable ASCII.

Sources: RFC 5802 section 3, RFC 7677; KIP-554; Kafka's bounds of iterations (ScramMechanism).
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from typing import Final, Literal

from .exchange import Mechanism

ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16384
SALT_BYTES_MAX: Final = 1024

ScramMechanism = Literal[Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512]

_HASHES: Final[dict[ScramMechanism, str]] = {
    Mechanism.SCRAM_SHA_256: "sha256",
    Mechanism.SCRAM_SHA_512: "sha512",
}
_SALT_BITS: Final = 130
_BASE_36: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


class CredentialInvalid(Exception):
    """A credential breaks a bound. The message names the bound and repeats no secret."""


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """The stored part of a password, of one user and one mechanism. Raises CredentialInvalid."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __post_init__(self) -> None:
        check_bounds(self.salt, self.iterations)

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations})"


def check_bounds(salt: bytes, iterations: int) -> None:
    """Raise CredentialInvalid unless a client may be asked to derive with these values."""
    if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
        raise CredentialInvalid(f"iterations are not within {ITERATIONS_MIN} and {ITERATIONS_MAX}")
    if not 0 < len(salt) <= SALT_BYTES_MAX:
        raise CredentialInvalid(f"a salt is not 1 to {SALT_BYTES_MAX} bytes")


def salted_password(mechanism: ScramMechanism, password: str, *, salt: bytes, iterations: int) -> bytes:
    """Return RFC 5802's SaltedPassword, which is PBKDF2. Raises CredentialInvalid.

    With the most iterations it takes some tens of milliseconds: run it in a thread of its own."""
    check_bounds(salt, iterations)
    if not password:
        raise CredentialInvalid("a password is empty")
    return hashlib.pbkdf2_hmac(_HASHES[mechanism], password.encode(), salt, iterations)


def credential_from_salted_password(
    mechanism: ScramMechanism, salted: bytes, *, salt: bytes, iterations: int
) -> ScramCredential:
    """Return the credential of a SaltedPassword, which administrators' clients send instead of a password
    (KIP-554). Raises CredentialInvalid."""
    if len(salted) != digest_bytes(mechanism):
        raise CredentialInvalid(f"a salted password of {mechanism} is not {digest_bytes(mechanism)} bytes")
    return ScramCredential(
        salt=salt,
        stored_key=hash_of(mechanism, client_key(mechanism, salted)),
        server_key=server_key(mechanism, salted),
        iterations=iterations,
    )


def credential_from_password(
    mechanism: ScramMechanism, password: str, *, salt: bytes, iterations: int
) -> ScramCredential:
    """Return the credential of a password. salt: see `salt_from`. Raises CredentialInvalid."""
    salted = salted_password(mechanism, password, salt=salt, iterations=iterations)
    return credential_from_salted_password(mechanism, salted, salt=salt, iterations=iterations)


def fake_credential(
    mechanism: ScramMechanism, name: str, *, secret_key: bytes, iterations: int
) -> ScramCredential:
    """Return the credential that stands in for an unknown user's. No password matches it.

    The same name gets the same salt each time, as a real user does. secret_key: must be the same on all nodes
    and after restarts, or the salt changes and shows that the user is unknown."""

    def drawn(purpose: str) -> bytes:
        return hmac_of(mechanism, secret_key, f"{purpose}\0{name}".encode())

    return ScramCredential(salt_from(drawn("salt")), drawn("stored"), drawn("server"), iterations)


def salt_from(random_bytes: bytes) -> bytes:
    """Return a salt of 130 random bits, of 17 bytes at least, written in base 36.

    Kafka's own tools write salts so. All of our salts, also those of unknown users, have that form, because
    another form would tell them apart."""
    number = int.from_bytes(random_bytes[:17]) & (1 << _SALT_BITS) - 1
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = _BASE_36[digit] + digits
    return (digits or "0").encode()


def client_key(mechanism: ScramMechanism, salted: bytes) -> bytes:
    return hmac_of(mechanism, salted, b"Client Key")


def server_key(mechanism: ScramMechanism, salted: bytes) -> bytes:
    return hmac_of(mechanism, salted, b"Server Key")


def hmac_of(mechanism: ScramMechanism, key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, _HASHES[mechanism])


def hash_of(mechanism: ScramMechanism, message: bytes) -> bytes:
    return hashlib.new(_HASHES[mechanism], message).digest()


def digest_bytes(mechanism: ScramMechanism) -> int:
    """Return the size of a hash, a key, a signature and a proof."""
    return hashlib.new(_HASHES[mechanism]).digest_size
