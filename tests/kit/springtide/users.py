"""Users and their secrets, as the controller pushes them."""

from __future__ import annotations

from springtide.contract.security import ScramSecret, UserSecrets
from springtide.security.sasl.credentials import ScramMechanism, credential_from_password
from springtide.security.sasl.exchange import Mechanism

ALL: tuple[ScramMechanism, ...] = (Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512)


def scram_secret(
    password: str,
    mechanism: ScramMechanism = Mechanism.SCRAM_SHA_256,
    *,
    salt: bytes = b"salt",
    iterations: int = 4096,
) -> ScramSecret:
    made = credential_from_password(mechanism, password, salt=salt, iterations=iterations)
    return ScramSecret(
        mechanism=mechanism,
        iterations=iterations,
        salt=salt,
        stored_key=made.stored_key,
        server_key=made.server_key,
    )


def user(name: str, password: str, *, mechanisms: tuple[ScramMechanism, ...] = ALL) -> UserSecrets:
    return UserSecrets(user=name, scram=tuple(scram_secret(password, each) for each in mechanisms))


def users(**passwords: str) -> dict[str, UserSecrets]:
    """Return users who may log in by each mechanism."""
    return {name: user(name, password) for name, password in passwords.items()}
