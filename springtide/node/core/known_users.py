"""The users that may log in by a password, in the form in which SASL asks for them. Pure.

An unknown user is answered as a known one is, or clients could find out which users exist. Its salt must be
the same at each login, on all nodes and after restarts, and must not be computable by a client (RFC 5802
section 5.1). It must not change either when users come, go or change their passwords: a client that keeps
the salts of many names would learn which of them are made up. So the key of these salts is random bytes,
which the controller makes with the first user, and which stay.

A cluster whose users are older has no such key until the next change of a user. Until then the key is made of
the secret of the user whose name has the lowest hash. Without any user there is nothing to hide.

Its iterations, and the hash by which PLAIN checks its password, are drawn from those of the known users, each
as often as it is there, so that neither the answer nor the time that it takes tells who is known.
"""

from __future__ import annotations

import hashlib
import hmac
from collections import Counter
from collections.abc import Mapping
from typing import Final, TypeVar

from springtide.contract.security import ScramSecret, UserSecrets
from springtide.security.sasl.credentials import (
    ITERATIONS_MIN,
    CredentialInvalid,
    ScramCredential,
    ScramMechanism,
    credential_from_password,
    fake_credential,
)
from springtide.security.sasl.exchange import Mechanism

SCRAM_MECHANISMS: Final[tuple[ScramMechanism, ...]] = (Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512)
"""PLAIN checks a password against the first of which a user has a secret."""

S = TypeVar("S", int, tuple[int, int])


class KnownUsers:
    """The users of one state of the cluster. cluster_id: makes the salts of two clusters differ.
    unknown_users: has the key of unknown users' salts, once the cluster has one."""

    __slots__ = ("_drawn_by", "_iterations", "_plain", "fake_salt_key", "users")

    def __init__(
        self, users: Mapping[str, UserSecrets], cluster_id: str, unknown_users: UserSecrets | None = None
    ) -> None:
        self.users = users
        self.fake_salt_key = _fake_salt_key(unknown_users or _key_user(users, cluster_id), cluster_id)
        self._iterations: dict[ScramMechanism, Counter[int]] = {each: Counter() for each in SCRAM_MECHANISMS}
        #: By the number of the mechanism and the iterations.
        self._plain: Counter[tuple[int, int]] = Counter()
        for name in users:
            found = [
                (number, secret)
                for number, mechanism in enumerate(SCRAM_MECHANISMS)
                if (secret := self.secret(name, mechanism)) is not None
            ]
            for number, secret in found:
                self._iterations[SCRAM_MECHANISMS[number]][secret.iterations] += 1
            if found:
                self._plain[found[0][0], found[0][1].iterations] += 1

    def secret(self, name: str, mechanism: ScramMechanism) -> ScramSecret | None:
        """Return the user's secret, None without one whose numbers are within bounds."""
        user = self.users.get(name)
        for secret in () if user is None else user.scram:
            if secret.mechanism == mechanism and credential_of(secret) is not None:
                return secret
        return None

    def fake_iterations(self, mechanism: ScramMechanism, name: str) -> int:
        """Return the iterations that an unknown user is told."""
        return self._drawn(self._iterations[mechanism], name, default=ITERATIONS_MIN)

    def secret_of_password(self, name: str, password: str) -> ScramSecret | None:
        """Return the user's secret that the password fits, or None. It takes tens of milliseconds, also for
        a user that is unknown."""
        for mechanism in SCRAM_MECHANISMS:
            if (secret := self.secret(name, mechanism)) is not None:
                return secret if _fits(password, mechanism, secret) else None
        number, iterations = self._drawn(self._plain, name, default=(0, ITERATIONS_MIN))
        mechanism = SCRAM_MECHANISMS[number]
        fake = fake_credential(mechanism, name, secret_key=self.fake_salt_key, iterations=iterations)
        _fits(password, mechanism, fake)
        return None

    def _drawn(self, counted: Counter[S], name: str, *, default: S) -> S:
        """Return one of them, the same for the same name."""
        point = int.from_bytes(hmac.digest(self.fake_salt_key, name.encode(), "sha256")[:8])
        left = point * counted.total() >> 64
        for shape in sorted(counted):
            left -= counted[shape]
            if left < 0:
                return shape
        return default


class VerifiedPasswords:
    """The passwords of PLAIN that were right, so that a client that connects again costs nothing.

    A password is kept as an HMAC under a key of this process, bound to the user's secret: it counts until the
    secret changes. process_key: random."""

    __slots__ = ("_digests", "_process_key")

    def __init__(self, process_key: bytes) -> None:
        self._process_key = process_key
        self._digests: dict[str, tuple[ScramSecret, bytes]] = {}

    def secret(self, users: KnownUsers, name: str, password: str) -> ScramSecret | None:
        """Return the user's secret that the password fits, or None."""
        digest = hmac.digest(self._process_key, f"{name}\0{password}".encode(), "sha256")
        known, right = self._digests.get(name, (None, b""))
        if known is not None and hmac.compare_digest(digest, right) and is_current(users.users, name, known):
            return known
        secret = users.secret_of_password(name, password)
        if secret is not None:
            if len(self._digests) > len(users.users):  # some of its users are gone
                self._digests = {}
            self._digests[name] = (secret, digest)
        return secret


def is_current(users: Mapping[str, UserSecrets], name: str, secret: ScramSecret) -> bool:
    """Return whether the user still has this very secret."""
    user = users.get(name)
    return user is not None and secret in user.scram


def credential_of(secret: ScramSecret) -> ScramCredential | None:
    """Return the secret as SCRAM takes it; None if its numbers are out of bounds."""
    try:
        return ScramCredential(secret.salt, secret.stored_key, secret.server_key, secret.iterations)
    except CredentialInvalid:
        return None


def _fits(password: str, mechanism: ScramMechanism, secret: ScramSecret | ScramCredential) -> bool:
    derived = credential_from_password(mechanism, password, salt=secret.salt, iterations=secret.iterations)
    return hmac.compare_digest(derived.stored_key, secret.stored_key)


def _key_user(users: Mapping[str, UserSecrets], cluster_id: str) -> UserSecrets | None:
    def place(name: str) -> bytes:
        return hashlib.sha256(f"{cluster_id}\0{name}".encode()).digest()

    chosen = min((name for name in users if users[name].scram), key=place, default=None)
    return None if chosen is None else users[chosen]


def _fake_salt_key(made_of: UserSecrets | None, cluster_id: str) -> bytes:
    keys = b"" if made_of is None else b"".join(secret.server_key for secret in made_of.scram)
    return hmac.digest(keys, f"salts of unknown users\0{cluster_id}".encode(), "sha256")
