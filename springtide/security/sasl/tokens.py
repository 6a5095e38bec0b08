"""The verification of a JWT against the public keys of its issuer (JWKS).

Only signatures of RSA and elliptic curves are taken: never `none`, and never HMAC, with which a public key
could pass for a shared secret. The key is the one of the JWKS that the token names by `kid`; a key inside the
token, or the address of one, is not looked at. The wall time is an argument.

Sources: RFC 7515, 7517, 7518, 7519; RFC 8725 (best current practices); KIP-768.
"""

from __future__ import annotations

import json
from typing import Any, Final

from joserfc import jws, jwt
from joserfc.errors import (
    BadSignatureError,
    ClaimError,
    ExceededSizeError,
    ExpiredTokenError,
    InvalidKeyCurveError,
    InvalidKeyIdError,
    KeyParameterError,
    UnsupportedAlgorithmError,
)
from joserfc.jwk import GuestProtocol, JWKRegistry, Key, KeySet, RSAKey
from joserfc.jws import JWSRegistry

from .oauthbearer import TokenAccepted, TokenFault, TokenRefused
from .token_rules import ALGORITHMS, TokenRules

TOKEN_BYTES_MAX: Final = 32 * 1024
HEADER_BYTES_MAX: Final = 4 * 1024
JWKS_BYTES_MAX: Final = 256 * 1024
RSA_BITS_MIN: Final = 2048
"""RFC 7518 sections 3.3 and 3.5 forbid shorter keys."""
_DETAIL_CHARS_MAX: Final = 200

#: The first class that fits decides.
_FAULTS_OF_ERRORS: Final[tuple[tuple[type[Exception], TokenFault], ...]] = (
    (ExceededSizeError, TokenFault.TOO_LONG),
    (UnsupportedAlgorithmError, TokenFault.ALGORITHM),
    (KeyParameterError, TokenFault.ALGORITHM),
    (InvalidKeyCurveError, TokenFault.ALGORITHM),
    (InvalidKeyIdError, TokenFault.UNKNOWN_KEY),
    (BadSignatureError, TokenFault.SIGNATURE),
    (ExpiredTokenError, TokenFault.EXPIRED),
)
_FAULTS_OF_CLAIMS: Final = {
    "iss": TokenFault.ISSUER,
    "aud": TokenFault.AUDIENCE,
    "nbf": TokenFault.NOT_YET_VALID,
    "iat": TokenFault.NOT_YET_VALID,
}


class JwksInvalid(Exception):
    """The document is not a set of keys of which one can be used."""


def parse_jwks(document: bytes) -> KeySet:
    """Return the keys that can verify signatures; raise JwksInvalid if there are none.

    Symmetric keys, keys for encryption, short RSA keys and keys that are not understood are left out
    (RFC 7517 section 5)."""
    if len(document) > JWKS_BYTES_MAX:
        raise JwksInvalid(f"the JWKS has more than {JWKS_BYTES_MAX} bytes")
    try:
        entries = json.loads(document)["keys"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise JwksInvalid("the JWKS is not a JSON object with keys") from error
    candidates = [_public_key(entry) for entry in entries] if isinstance(entries, list) else []
    keys = [key for key in candidates if key is not None]
    if not keys:
        raise JwksInvalid("the JWKS has no key that can verify a signature")
    return KeySet(keys)


def _public_key(entry: Any) -> Key | None:
    if not isinstance(entry, dict) or entry.get("kty") not in ("RSA", "EC"):
        return None
    if entry.get("use", "sig") != "sig":
        return None
    try:
        key = JWKRegistry.import_key(entry)
    except Exception:  # the library lets errors of base64, of types and of cryptography through
        return None
    return None if isinstance(key, RSAKey) and key.public_key.key_size < RSA_BITS_MIN else key


def names_unknown_key(token: str, keys: KeySet) -> bool:
    """Return whether the token names a key that is not among these. Nothing of it is verified."""
    try:
        _named_key(keys, jws.extract_compact(token.encode(), registry=_registry(ALGORITHMS)))
    except InvalidKeyIdError:
        return True
    except Exception:  # as above
        return False
    return False


def verify_token(
    token: str, keys: KeySet, rules: TokenRules, *, wall_ms: int
) -> TokenAccepted | TokenRefused:
    """Return whose token it is, or why it is refused. Of several faults the signature's comes first."""
    if len(token) > TOKEN_BYTES_MAX:
        return TokenRefused(TokenFault.TOO_LONG)
    registry = _registry(rules.algorithms)
    expected = jwt.JWTClaimsRegistry(
        now=wall_ms // 1000,
        leeway=rules.clock_skew_s,
        iss={"essential": True, "value": rules.issuer},
        aud={"essential": True, "values": list(rules.audiences)},
        exp={"essential": True},
    )
    try:
        claims = jwt.decode(token, lambda signed: _named_key(keys, signed), registry=registry).claims
        expected.validate(claims)
    except Exception as error:  # as above; a refusal is the only safe answer to any of them
        return TokenRefused(_fault_of(error), repr(str(error)[:_DETAIL_CHARS_MAX]))
    return _checked_claims(claims, rules)


def _registry(algorithms: frozenset[str]) -> JWSRegistry:
    registry = JWSRegistry(algorithms=algorithms, strict_check_header=False)
    registry.max_header_length = HEADER_BYTES_MAX
    return registry


def _named_key(keys: KeySet, signed: GuestProtocol) -> Key:
    kid = signed.headers().get("kid")
    if kid is None and len(keys.keys) == 1:
        return keys.keys[0]
    for key in keys:
        if key.kid == kid:
            return key
    raise InvalidKeyIdError(f"kid {kid}")


def _fault_of(error: Exception) -> TokenFault:
    if isinstance(error, ClaimError) and not isinstance(error, ExpiredTokenError):
        return _FAULTS_OF_CLAIMS.get(error.claim, TokenFault.MALFORMED)
    return next((fault for kind, fault in _FAULTS_OF_ERRORS if isinstance(error, kind)), TokenFault.MALFORMED)


def _checked_claims(claims: dict[str, Any], rules: TokenRules) -> TokenAccepted | TokenRefused:
    principal = claims.get(rules.principal_claim)
    if not isinstance(principal, str) or not principal:
        return TokenRefused(TokenFault.PRINCIPAL, f"no {rules.principal_claim}")
    granted = claims.get(rules.scope_claim)
    scopes = granted.split() if isinstance(granted, str) else granted if isinstance(granted, list) else []
    missing = [scope for scope in sorted(rules.scopes) if scope not in scopes]
    if missing:
        return TokenRefused(TokenFault.SCOPE, ", ".join(missing))
    return TokenAccepted(principal, expiry_ms=int(claims["exp"]) * 1000)
