"""Bearer tokens of an OpenID issuer: JWTs, verified against its keys (JWKS), whose claims give a name and a
role.

    --oidc-issuer https://idp.example --oidc-audience springtide --oidc-jwks https://idp.example/keys
    --oidc-role-claim groups --oidc-roles log-admins=admin,log-operators=operator

A token has the highest role that a value of its claim is mapped to, and none is refused. No role is that of
brokers, whose tokens must not end while they run. Keys are read every few minutes, and earlier, though not at
once again, when a token names one that is not known. Keys that can't be read leave those that there were.
"""

from __future__ import annotations

import functools
import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
import httpx
from joserfc.jwk import KeySet

from admin_api.http.tokens import Principal, Role, is_name
from controller.face.surroundings import ControllerClock
from springtide.security.sasl.oauthbearer import TokenAccepted, TokenFault, TokenRefused
from springtide.security.sasl.token_rules import TokenRules
from springtide.security.sasl.tokens import JWKS_BYTES_MAX, JwksInvalid, parse_jwks, verify_token
from springtide.tls import client_context

_log = logging.getLogger(__name__)

REFRESH_MS: Final = 300_000
#: The shortest time between two readings of the keys.
PAUSE_MS: Final = 10_000
FETCH_S_MAX: Final = 10.0
#: Each is a signature to verify for a token that has none of them.
ROLES_MAX: Final = 16
_MAPPED: Final = (Role.ADMIN, Role.OPERATOR, Role.VIEWER)

FetchJwks = Callable[[], Awaitable[bytes]]


@dataclass(frozen=True, slots=True)
class OidcRules:
    """Which tokens have which role: the first rules that a token meets decide."""

    by_role: tuple[tuple[TokenRules, Role], ...]

    @classmethod
    def of(
        cls, *, issuer: str, audience: str, name_claim: str, role_claim: str, roles: Mapping[str, Role]
    ) -> OidcRules:
        """Return the rules. roles: by the value in the claim. Raise ValueError."""
        if not 0 < len(roles) <= ROLES_MAX or not set(roles.values()) <= set(_MAPPED):
            raise ValueError(f"1 to {ROLES_MAX} values have one of the roles {', '.join(reversed(_MAPPED))}")
        return cls(
            tuple(
                (
                    TokenRules(
                        issuer=issuer,
                        audiences=(audience,),
                        principal_claim=name_claim,
                        scope_claim=role_claim,
                        scopes=frozenset({value}),
                    ),
                    role,
                )
                for role in _MAPPED
                for value in sorted(roles)
                if roles[value] is role
            )
        )


def judge(token: str, keys: KeySet, rules: OidcRules, *, wall_ms: int) -> Principal | TokenRefused:
    """Return the token's holder, or why it is refused."""
    refused = TokenRefused(TokenFault.SCOPE)
    for wanted, role in rules.by_role:
        verdict = verify_token(token, keys, wanted, wall_ms=wall_ms)
        if isinstance(verdict, TokenAccepted):
            if not is_name(verdict.principal):
                return TokenRefused(TokenFault.PRINCIPAL, "its name has other characters than audits take")
            return Principal(verdict.principal, role)
        refused = verdict
        if verdict.fault is not TokenFault.SCOPE:
            break
    return refused


class OidcIssuer:
    """An issuer with its keys, which `run` keeps fresh."""

    def __init__(self, rules: OidcRules, fetch: FetchJwks, clock: ControllerClock) -> None:
        self._rules = rules
        self._fetch = fetch
        self._clock = clock
        self._keys: KeySet | None = None
        self._is_wanted = anyio.Event()
        self._told_cause = ""

    def holder_of(self, token: str) -> Principal | str:
        """Return the token's holder, or why it is refused, which repeats nothing of it."""
        if self._keys is None:
            return "the keys of its issuer are not known yet"
        verdict = judge(token, self._keys, self._rules, wall_ms=self._clock.now_wall_ms())
        if isinstance(verdict, Principal):
            return verdict
        if verdict.fault is TokenFault.UNKNOWN_KEY:
            self._is_wanted.set()
        if verdict.fault is TokenFault.SCOPE:
            return "no value of its role claim has a role here (--oidc-roles)"
        return verdict.fault.value

    async def run(self) -> None:
        """Read the keys, again and again."""
        while True:
            pause_ms = REFRESH_MS
            try:
                self._keys = parse_jwks(await self._fetch())
                self._told_cause = ""
            except (OSError, httpx.HTTPError, httpx.InvalidURL, JwksInvalid) as error:
                pause_ms = PAUSE_MS
                cause = f"{type(error).__name__}: {error}"
                if cause != self._told_cause:
                    self._told_cause = cause
                    _log.error("jwks_not_read cause=%s consequence=%s", cause, "the keys before stay in use")
            self._is_wanted = anyio.Event()
            await self._clock.sleep_ms(PAUSE_MS)
            with self._clock.timeout_ms(pause_ms - PAUSE_MS):
                await self._is_wanted.wait()


def fetch_jwks_from(source: str, *, ca: str | None) -> FetchJwks:
    """Return what reads the keys. source: an https:// URL, or a file. ca: as of `client_context`. Raise
    TlsFilesInvalid."""
    if "://" not in source:
        read = functools.partial(_read_bounded, Path(source))
    else:
        read = functools.partial(_get_bounded, source, client_context(ca=ca, cert=None, key=None))
    return lambda: anyio.to_thread.run_sync(read, abandon_on_cancel=True)


def _get_bounded(url: str, context: ssl.SSLContext) -> bytes:
    """Return the document, or a beginning of it that parse_jwks finds too long."""
    with (
        httpx.Client(verify=context, timeout=FETCH_S_MAX, trust_env=False) as client,
        client.stream("GET", url) as response,
    ):
        response.raise_for_status()
        document = bytearray()
        for part in response.iter_bytes():
            document += part
            if len(document) > JWKS_BYTES_MAX:
                break
        return bytes(document)


def _read_bounded(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(JWKS_BYTES_MAX + 1)
