"""Which JWTs are accepted, for whom and how long, and each reason to refuse one."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from joserfc import jws, jwt
from joserfc.jwk import ECKey, Key, KeySet, OctKey, RSAKey

from springtide.security.sasl.oauthbearer import TokenAccepted, TokenFault, TokenRefused
from springtide.security.sasl.token_rules import ALGORITHMS, TokenRules
from springtide.security.sasl.tokens import (
    JWKS_BYTES_MAX,
    TOKEN_BYTES_MAX,
    JwksInvalid,
    names_unknown_key,
    parse_jwks,
    verify_token,
)

NOW_S = 1_800_000_000
ISSUER = "https://idp.example"
EC = ECKey.generate_key("P-256", {"kid": "ec"})
RSA = RSAKey.generate_key(2048, {"kid": "rsa"})
STRANGER = ECKey.generate_key("P-256", {"kid": "ec"})
RULES = TokenRules(issuer=ISSUER, audiences=("springtide", "other"), clock_skew_s=30)
CLAIMS: dict[str, Any] = {"iss": ISSUER, "aud": "springtide", "sub": "alice", "exp": NOW_S + 600}


def document(*keys: Any) -> bytes:
    return json.dumps({"keys": [k.as_dict() if hasattr(k, "as_dict") else k for k in keys]}).encode()


JWKS = parse_jwks(document(EC, RSA))


def signed(claims: dict[str, Any], *, key: Key = EC, **header: Any) -> str:
    algorithm = {"EC": "ES256", "RSA": "RS256", "oct": "HS256"}[key.key_type]
    header = {"alg": algorithm, "kid": key.kid} | header
    return jwt.encode({k: v for k, v in header.items() if v is not None}, claims, key, [header["alg"]])


def encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def signed_bytes(payload: bytes, **header: Any) -> str:
    """Sign a payload that need not be claims, with headers that need not be known."""
    lenient = jws.JWSRegistry(algorithms=["ES256"], strict_check_header=False)
    return jws.serialize_compact({"alg": "ES256", "kid": "ec"} | header, payload, EC, registry=lenient)


def forged(header: object, claims: object = CLAIMS) -> str:
    """Write a token whose signature is four letters."""
    return f"{encoded(json.dumps(header).encode())}.{encoded(json.dumps(claims).encode())}.AAAA"


def verified(
    token: str, *, keys: KeySet = JWKS, rules: TokenRules = RULES, wall_ms: int = NOW_S * 1000
) -> TokenAccepted | TokenFault:
    outcome = verify_token(token, keys, rules, wall_ms=wall_ms)
    return outcome.fault if isinstance(outcome, TokenRefused) else outcome


ALICE = TokenAccepted("alice", expiry_ms=(NOW_S + 600) * 1000)


@pytest.mark.parametrize("key", [EC, RSA], ids=["EC", "RSA"])
def test_a_token_of_the_issuer_says_who_and_until_when(key: Key) -> None:
    assert verified(signed(CLAIMS, key=key)) == ALICE


def test_a_token_may_have_several_audiences_and_headers_of_its_issuer() -> None:
    assert verified(signed(CLAIMS | {"aud": ["x", "springtide"]}, typ="at+jwt")) == ALICE
    assert verified(signed_bytes(json.dumps(CLAIMS).encode(), nonce="n")) == ALICE


@pytest.mark.parametrize(
    ("claims", "fault"),
    [
        ({"iss": "https://evil.example"}, TokenFault.ISSUER),
        ({"iss": [ISSUER]}, TokenFault.ISSUER),
        ({"iss": None}, TokenFault.ISSUER),
        ({"aud": "another"}, TokenFault.AUDIENCE),
        ({"aud": ["another"]}, TokenFault.AUDIENCE),
        ({"aud": []}, TokenFault.AUDIENCE),
        ({"aud": {"springtide": 1}}, TokenFault.AUDIENCE),
        ({"aud": None}, TokenFault.AUDIENCE),
        ({"exp": None}, TokenFault.MALFORMED),
        ({"exp": "tomorrow"}, TokenFault.MALFORMED),
        ({"exp": True}, TokenFault.MALFORMED),
        ({"exp": float("nan")}, TokenFault.MALFORMED),
        ({"exp": float("inf")}, TokenFault.MALFORMED),
        ({"exp": NOW_S - 30}, TokenFault.EXPIRED),
        ({"exp": -(10**40)}, TokenFault.EXPIRED),
        ({"nbf": NOW_S + 31}, TokenFault.NOT_YET_VALID),
        ({"nbf": "soon"}, TokenFault.NOT_YET_VALID),
        ({"iat": NOW_S + 31}, TokenFault.NOT_YET_VALID),
        ({"sub": None}, TokenFault.PRINCIPAL),
        ({"sub": ""}, TokenFault.PRINCIPAL),
        ({"sub": ["alice"]}, TokenFault.MALFORMED),
    ],
)
def test_a_claim_that_does_not_fit_is_told_by_its_name(claims: dict[str, Any], fault: TokenFault) -> None:
    together = {name: value for name, value in (CLAIMS | claims).items() if value is not None}
    assert verified(signed(together)) is fault


def test_clocks_may_differ_by_the_skew() -> None:
    assert verified(signed(CLAIMS | {"exp": NOW_S - 29})) == TokenAccepted("alice", (NOW_S - 29) * 1000)
    assert verified(signed(CLAIMS | {"nbf": NOW_S + 30, "iat": NOW_S + 30})) == ALICE


@pytest.mark.parametrize("exp", [10**30, 1e308])
def test_an_end_beyond_any_clock_is_a_number_of_milliseconds(exp: float) -> None:
    assert verified(signed(CLAIMS | {"exp": exp})) == TokenAccepted("alice", int(exp) * 1000)


def test_the_principal_can_be_in_another_claim() -> None:
    rules = TokenRules(issuer=ISSUER, audiences=("springtide",), principal_claim="client_id")
    assert verified(signed(CLAIMS | {"client_id": "app"}), rules=rules) == TokenAccepted(
        "app", expiry_ms=ALICE.expiry_ms
    )
    assert verified(signed(CLAIMS), rules=rules) is TokenFault.PRINCIPAL


@pytest.mark.parametrize("granted", ["read write", ["write", "read"], "write read admin"])
def test_the_scopes_that_are_asked_for_may_be_a_text_or_a_list(granted: object) -> None:
    rules = TokenRules(issuer=ISSUER, audiences=("springtide",), scopes=frozenset(("read", "write")))
    assert verified(signed(CLAIMS | {"scope": granted}), rules=rules) == ALICE


@pytest.mark.parametrize(
    "granted", ["read", "readwrite", ["read", 1, ["write"]], {"read": 1, "write": 1}, 7, None]
)
def test_a_token_without_all_scopes_is_refused(granted: object) -> None:
    rules = TokenRules(issuer=ISSUER, audiences=("springtide",), scopes=frozenset(("read", "write")))
    assert verified(signed(CLAIMS | {"scope": granted}), rules=rules) is TokenFault.SCOPE


# Keys and algorithms


def test_a_key_that_is_not_in_the_jwks_is_told_apart_from_a_wrong_signature() -> None:
    """The caller fetches the JWKS again for the first, not for the second."""
    unknown = ECKey.generate_key("P-256", {"kid": "new"})
    assert verified(signed(CLAIMS, key=unknown)) is TokenFault.UNKNOWN_KEY
    assert verified(signed(CLAIMS, key=STRANGER)) is TokenFault.SIGNATURE


def test_a_token_without_kid_needs_a_jwks_of_one_key() -> None:
    token = signed(CLAIMS, kid=None)
    assert verified(token, keys=parse_jwks(document(EC))) == ALICE
    assert verified(token) is TokenFault.UNKNOWN_KEY


def test_none_is_refused_in_any_spelling_with_and_without_a_signature() -> None:
    for name in ("none", "None", "NONE", "nOnE", ""):
        header = encoded(json.dumps({"alg": name, "kid": "ec"}).encode())
        unsigned = f"{header}.{encoded(json.dumps(CLAIMS).encode())}."
        assert verified(unsigned) is TokenFault.ALGORITHM
        assert verified(unsigned + "AAAA") is TokenFault.ALGORITHM


@pytest.mark.parametrize("key", [EC, RSA], ids=["EC", "RSA"])
@pytest.mark.parametrize("form", ["pem", "der", "jwk"])
def test_a_public_key_is_not_taken_for_the_secret_of_an_hmac(key: ECKey | RSAKey, form: str) -> None:
    secret = {"pem": key.as_pem(), "der": key.as_der(), "jwk": json.dumps(key.as_dict()).encode()}[form]
    header = encoded(json.dumps({"alg": "HS256", "kid": key.kid}).encode())
    content = f"{header}.{encoded(json.dumps(CLAIMS).encode())}"
    token = f"{content}.{encoded(hmac.new(secret, content.encode(), hashlib.sha256).digest())}"
    assert verified(token) is TokenFault.ALGORITHM


def test_a_secret_in_the_jwks_verifies_nothing() -> None:
    secret = OctKey.generate_key(256, {"kid": "hmac"})
    jwks = document(EC, secret.as_dict(private=True))
    token = signed(CLAIMS, key=secret)
    assert verified(token, keys=parse_jwks(jwks)) is TokenFault.ALGORITHM
    assert verified(token, keys=KeySet([EC, secret])) is TokenFault.ALGORITHM


def test_a_token_that_brings_its_key_is_judged_by_ours() -> None:
    public = STRANGER.as_dict()
    assert verified(signed(CLAIMS, key=STRANGER, jwk=public)) is TokenFault.SIGNATURE
    assert verified(signed(CLAIMS, key=STRANGER, kid="x", jwk=public)) is TokenFault.UNKNOWN_KEY
    assert verified(signed(CLAIMS, key=STRANGER, jku="https://evil.example/")) is TokenFault.SIGNATURE


def test_an_algorithm_that_is_not_allowed_or_not_the_key_s_is_refused() -> None:
    rules = TokenRules(issuer=ISSUER, audiences=("springtide",), algorithms=frozenset(("RS256",)))
    assert verified(signed(CLAIMS), rules=rules) is TokenFault.ALGORITHM
    assert verified(forged({"alg": "RS256", "kid": "ec"})) is TokenFault.ALGORITHM
    assert verified(forged({"alg": "ES384", "kid": "ec"})) is TokenFault.ALGORITHM
    bound = parse_jwks(document(RSA.as_dict() | {"alg": "PS256"}))
    assert verified(signed(CLAIMS, key=RSA), keys=bound) is TokenFault.ALGORITHM


@pytest.mark.parametrize("algorithms", [set(), {"none"}, {"HS256"}, {"RS256", "HS512"}, {"EdDSA"}])
def test_rules_can_not_allow_none_or_hmac(algorithms: set[str]) -> None:
    with pytest.raises(ValueError, match="algorithms"):
        TokenRules(issuer=ISSUER, audiences=("a",), algorithms=frozenset(algorithms))
    assert not any(name.startswith("HS") for name in ALGORITHMS)


def test_rules_name_an_issuer_and_an_audience() -> None:
    with pytest.raises(ValueError, match="audience"):
        TokenRules(issuer=ISSUER, audiences=())
    with pytest.raises(ValueError, match="issuer"):
        TokenRules(issuer="", audiences=("a",))


# Hostile tokens


def test_a_claim_that_was_changed_breaks_the_signature() -> None:
    header, _, signature = signed(CLAIMS).split(".")
    changed = encoded(json.dumps(CLAIMS | {"sub": "admin"}).encode())
    assert verified(f"{header}.{changed}.{signature}") is TokenFault.SIGNATURE
    assert verified(signed(CLAIMS)[:-4]) is TokenFault.SIGNATURE


def test_a_critical_header_that_is_not_understood_is_refused() -> None:
    assert verified(forged({"alg": "ES256", "kid": "ec", "crit": ["x"], "x": 1})) is TokenFault.MALFORMED


def test_a_huge_token_is_refused_unread() -> None:
    assert verified("a" * (TOKEN_BYTES_MAX + 1)) is TokenFault.TOO_LONG
    assert verified(signed(CLAIMS | {"groups": "g" * TOKEN_BYTES_MAX})) is TokenFault.TOO_LONG
    assert verified(forged({"alg": "ES256", "kid": "k" * 8000})) is TokenFault.TOO_LONG
    assert verified(signed(CLAIMS | {"groups": "g" * 16_000})) == ALICE


@pytest.mark.parametrize(
    "header", ["x", 1, None, [], ["alg"], {}, {"alg": 1}, {"alg": ["ES256"]}, {"alg": None}]
)
def test_a_header_of_another_form_is_refused(header: object) -> None:
    assert isinstance(verified(forged(header)), TokenFault)


@pytest.mark.parametrize("claims", ["x", 1, None, [], [CLAIMS], {}])
def test_claims_of_another_form_are_refused(claims: object) -> None:
    assert isinstance(verified(signed_bytes(json.dumps(claims).encode())), TokenFault)


def test_nested_brackets_do_not_exhaust_the_stack() -> None:
    deep = encoded(b"[" * 3000)
    assert verified(f"{deep}.e30.AAAA") is TokenFault.MALFORMED
    assert verified(signed_bytes(b"[" * 20_000)) is TokenFault.MALFORMED


def test_the_detail_for_the_log_has_no_line_breaks() -> None:
    outcome = verify_token(forged({"alg": "a\nb", "kid": "ec"}), JWKS, RULES, wall_ms=0)
    assert isinstance(outcome, TokenRefused)
    assert outcome.detail.isprintable()
    assert len(outcome.detail) < 250


@given(
    st.text(max_size=200) | st.binary(max_size=150).map(lambda b: f"{encoded(b[:60])}.{encoded(b[60:])}.AA")
)
def test_no_text_raises_or_is_accepted(token: str) -> None:
    assert isinstance(verified(token), TokenFault)


@given(
    st.dictionaries(
        st.sampled_from(["iss", "aud", "exp", "nbf", "iat", "sub", "scope", "jti"]),
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats()
        | st.text(max_size=5)
        | st.lists(st.text(max_size=5), max_size=2),
    )
)
def test_no_claims_of_the_issuer_raise(claims: dict[str, Any]) -> None:
    rules = TokenRules(issuer=ISSUER, audiences=("springtide",), scopes=frozenset(("read",)))
    assert isinstance(
        verified(signed_bytes(json.dumps(CLAIMS | claims).encode()), rules=rules),
        TokenFault | TokenAccepted,
    )


# JWKS


@pytest.mark.filterwarnings("ignore::joserfc.errors.SecurityWarning")  # the library's word on the short key
def test_keys_that_can_not_verify_are_left_out_of_the_jwks() -> None:
    short = RSAKey.import_key({"kty": "RSA", "n": encoded(b"\xc5" * 128), "e": "AQAB"})
    keys = parse_jwks(
        document(
            short,
            RSA.as_dict() | {"use": "enc", "kid": "enc"},
            {"kty": "AKP", "kid": "future"},
            {"kty": "EC", "kid": "broken"},
            {"kty": "RSA", "n": "!", "e": "AQAB"},
            {"kty": ["RSA"]},
            "text",
            EC,
        )
    )
    assert [key.kid for key in keys] == ["ec"]


@pytest.mark.parametrize(
    "content",
    [
        *(
            b"",
            b"[]",
            b"1",
            b"{}",
            b'{"keys": []}',
            b'{"keys": {"a": 1}}',
            b'{"keys": 7}',
            b"\xff",
            b"[" * 5000,
        ),
        document({"kty": "oct", "k": "c2VjcmV0"}),
        b" " * (JWKS_BYTES_MAX + 1),
    ],
)
def test_a_jwks_without_a_key_is_refused(content: bytes) -> None:
    with pytest.raises(JwksInvalid):
        parse_jwks(content)


def test_a_token_that_names_a_key_which_is_not_there_is_told_apart_unverified() -> None:
    stranger = ECKey.generate_key("P-256", {"kid": "new"})
    assert names_unknown_key(signed(CLAIMS, key=stranger), JWKS)
    assert names_unknown_key(signed(CLAIMS, kid=None), JWKS), "of several keys it has to name one"
    assert not names_unknown_key(signed(CLAIMS, key=STRANGER), JWKS), "its signature is not looked at"
    for malformed in ("", "a.b", "a.b.c", forged([]), forged({"alg": "ES256", "kid": ["new"]})[:-6]):
        assert not names_unknown_key(malformed, JWKS)
