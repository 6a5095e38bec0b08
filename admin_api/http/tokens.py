"""Access control by bearer tokens and by clients' certificates, each with a name and a role.

A token is a random secret, so its SHA-256 is enough to recognise it, and only the hash stays in memory. The
audit uses the token's name for its holder. Several tokens may have one name, so that a new one can be handed
out before the old one is withdrawn. A certificate of `--client-ca` is known by one of its names, and counts
where no token is sent.

    # name  role      the token, or sha256: and the digest of it, or cert: and a name in the certificate
    alice   admin     sha256:5e884898da28047151d0e56f8dc6292773603d0d6aabbd62a11ef721d1542d8
    ci      operator  3f6c1f0e9b4d4c0a8f4e2a7d
    grafana viewer    0d9a1b2c3e4f5a6b7c8d9e0f
    brokers broker    7a6b5c4d3e2f1a0b9c8d7e6f
    store1  broker:1  cert:store1.example.com
    store2  broker:2,1002  7d0c4f5b1a9e4b1b9d8a3c6e

`broker` with ids is for the brokers and coordinators of these ids only; without, for each. A broker's id
stands for all its workers: `broker:1` is for 1, 1000001, 2000001 and so on.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from springtide.contract.session import WORKER_ID_STEP
from springtide.secret_places import SecretExposed, check_secret_file

#: The end of a line in an environment variable, where a line break is hard to write.
LINE_END: Final = ";"
FILE_BYTES_MAX: Final = 1024 * 1024
TOKENS_MAX: Final = 1_000
IDS_MAX: Final = 100

_NAME: Final = re.compile(r"[A-Za-z0-9._@+-]{1,64}")
#: RFC 6750's alphabet; long enough that a token can't be guessed.
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]{20,200}={0,2}")
_DIGEST: Final = re.compile(r"sha256:([0-9a-fA-F]{64})")
_CERTIFICATE: Final = re.compile(r"cert:([A-Za-z0-9._@:+/-]{1,253})")
_IDS: Final = re.compile(r"[0-9]{1,10}(,[0-9]{1,10})*")
#: The audit's names for actors that hold no token.
_RESERVED: Final = frozenset({"controller", "anonymous"})


class Role(StrEnum):
    """viewer: may read, and try changes with dry runs. operator: may make changes. admin: may also change who
    may do what, and what can lose records. broker: may send brokers' requests and nothing else. What each
    gives is in `rights`."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"
    BROKER = "broker"


class TokensInvalid(Exception):
    """The tokens can't be used. The message says which line and why, and repeats no secret."""


@dataclass(frozen=True, slots=True)
class Principal:
    """The holder of a token or a certificate. ids: the brokers and coordinators that it may speak for; None:
    each."""

    name: str
    role: Role
    ids: frozenset[int] | None = None

    def may_speak_for(self, member_id: int) -> bool:
        """Return whether a broker or coordinator of this id is the holder, or a worker of it."""
        return self.ids is None or not self.ids.isdisjoint((member_id, member_id % WORKER_ID_STEP))


class Tokens:
    """All valid tokens, and the names of certificates."""

    def __init__(self, holders: Mapping[bytes, Principal], certificates: Mapping[str, Principal]) -> None:
        """Keep the holders, by the SHA-256 of each token and by the name in each certificate."""
        self._holders = tuple(holders.items())
        self._certificates = dict(certificates)

    def __len__(self) -> int:
        return len(self._holders) + len(self._certificates)

    @property
    def names_certificates(self) -> bool:
        return bool(self._certificates)

    def role_of(self, name: str) -> Role | None:
        """Return the highest role that a token or certificate of this name has, brokers' left out."""
        holders = (*(holder for _, holder in self._holders), *self._certificates.values())
        held = {holder.role for holder in holders if holder.name == name}
        return next((role for role in (Role.ADMIN, Role.OPERATOR, Role.VIEWER) if role in held), None)

    def holder_of_certificate(self, names: Sequence[str]) -> Principal | None:
        """Return the holder of a verified certificate with these names; None if none of them is known, or if
        they belong to different holders."""
        found = {self._certificates[name] for name in names if name in self._certificates}
        return found.pop() if len(found) == 1 else None

    def holder_of(self, token: bytes) -> Principal | None:
        """Return the holder of the token, or None. Every token is compared, so that the time taken reveals
        nothing about any."""
        digest = hashlib.sha256(token).digest()
        found: Principal | None = None
        for known, principal in self._holders:
            if hmac.compare_digest(known, digest):
                found = principal
        return found


def is_name(text: str) -> bool:
    """Return whether the audit can use this as the name of an actor."""
    return _NAME.fullmatch(text) is not None and text not in _RESERVED


def load_tokens(*, file: Path | None, environment: str | None) -> Tokens | None:
    """Return the tokens from both sources, or None if neither is given. A source without any token is an
    error: it would lock all clients out or, worse, let all in. Raises TokensInvalid."""
    sources: list[tuple[str, Sequence[str]]] = []
    if file is not None:
        sources.append((str(file), _read(file).splitlines()))
    if environment is not None:
        sources.append(("the environment", environment.replace(LINE_END, "\n").splitlines()))
    holders: dict[bytes, Principal] = {}
    certificates: dict[str, Principal] = {}
    for source, lines in sources:
        before = len(holders) + len(certificates)
        for number, line in enumerate(lines, start=1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            try:
                key, principal = _parse(line)
            except TokensInvalid as error:
                raise TokensInvalid(f"{source}, line {number}: {error}") from None
            if key in holders or key in certificates:
                what = "token" if isinstance(key, bytes) else "certificate"
                raise TokensInvalid(f"{source}, line {number}: this {what} is there already")
            if isinstance(key, bytes):
                holders[key] = principal
            else:
                certificates[key] = principal
        count = len(holders) + len(certificates)
        if count == before:
            raise TokensInvalid(f"{source} has no token in it; a line is: NAME ROLE TOKEN")
        if count > TOKENS_MAX:
            raise TokensInvalid(f"{source}: there may be {TOKENS_MAX} tokens")
    return Tokens(holders, certificates) if sources else None


def _read(file: Path) -> str:
    try:
        check_secret_file(file)
        with file.open("rb") as opened:
            data = opened.read(FILE_BYTES_MAX + 1)
        if len(data) > FILE_BYTES_MAX:
            raise TokensInvalid(f"{file} is larger than {FILE_BYTES_MAX} bytes")
        return data.decode("utf-8")
    except SecretExposed as error:
        raise TokensInvalid(str(error)) from error
    except OSError as error:
        raise TokensInvalid(f"cannot read {file}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise TokensInvalid(f"{file} is not UTF-8") from None


def _parse(line: str) -> tuple[bytes | str, Principal]:
    """Return the SHA-256 of the token, or the name in the certificate, and the holder. Raise
    TokensInvalid."""
    parts = line.split()
    if len(parts) != 3:
        raise TokensInvalid(f"has {len(parts)} words; a line is: NAME ROLE TOKEN")
    name, role, secret = parts
    if not is_name(name):
        raise TokensInvalid("the name must be up to 64 of A-Z a-z 0-9 . _ @ + - and no word of ours")
    holder = Principal(name, *_role_of(role))
    digest = _DIGEST.fullmatch(secret)
    if digest is not None:
        return bytes.fromhex(digest[1]), holder
    certificate = _CERTIFICATE.fullmatch(secret)
    if certificate is not None:
        return certificate[1].lower(), holder
    if not _TOKEN.fullmatch(secret):
        raise TokensInvalid(
            "a token has 20 to 200 of A-Z a-z 0-9 . _ ~ + / -, such as `openssl rand -hex 24` makes"
        )
    return hashlib.sha256(secret.encode("ascii")).digest(), holder


def _role_of(text: str) -> tuple[Role, frozenset[int] | None]:
    """Return the role, and the ids behind that of brokers. Raise TokensInvalid."""
    role, colon, named = text.partition(":")
    if role not in list(Role):
        raise TokensInvalid(f"the role must be one of {', '.join(Role)}")
    if not colon:
        return Role(role), None
    if role != Role.BROKER or not _IDS.fullmatch(named) or named.count(",") >= IDS_MAX:
        raise TokensInvalid(f"only broker has ids, 1 to {IDS_MAX} of them, such as broker:1,1001")
    return Role.BROKER, frozenset(int(number) for number in named.split(","))
