"""Logins of every mechanism, tokens, the keys of their issuer, and the certificates of clients.

All secrets are made of fixed numbers, so that an input that is kept stays right."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509 import DNSName
from joserfc import jws
from joserfc.jwk import ECKey

from springtide.security.certificates import names_of_client
from springtide.security.principal_rules import CertificateUnusable, parse_principal_rules
from springtide.security.sasl.clients import ClientReply, OauthbearerClient, PlainClient, ScramClient
from springtide.security.sasl.credentials import ScramMechanism, credential_from_password
from springtide.security.sasl.exchange import Mechanism
from springtide.security.sasl.oauthbearer import OauthbearerServer, TokenAccepted
from springtide.security.sasl.plain import PlainServer
from springtide.security.sasl.scram import ScramServer
from springtide.security.sasl.session import MakeExchange, SaslSession
from springtide.security.sasl.token_rules import TokenRules
from springtide.security.sasl.tokens import JwksInvalid, names_unknown_key, parse_jwks, verify_token
from tests.fuzz.target import Target
from tests.kit.springtide.client_certificates import certificate

NOW_S = 1_800_000_000
CLAIMS: dict[str, Any] = {"iss": "https://idp.example", "aud": "springtide", "sub": "alice"} | {
    "exp": NOW_S + 600,
    "scope": "write read",
}
RULES = TokenRules(issuer="https://idp.example", audiences=("springtide",), scopes=frozenset({"write"}))
_SCALAR = ec.derive_private_key(17, ec.SECP256R1())
KEY = ECKey.import_key(
    _SCALAR.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), {"kid": "one", "use": "sig"}
)
DOCUMENT = json.dumps({"keys": [KEY.as_dict(private=False)]}).encode()
KEYS = parse_jwks(DOCUMENT)
_LENIENT = jws.JWSRegistry(algorithms=["ES256"], strict_check_header=False)
SCRAM: tuple[ScramMechanism, ...] = (Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512)
CREDENTIALS = {
    each: credential_from_password(each, "secret", salt=b"salt", iterations=4096) for each in SCRAM
}
HEAD_BYTES = 3
IS_HANDSHAKE = 0x80
IS_LATE = 0x20
DN_RULES = parse_principal_rules(r"RULE:CN=([^,]*),OU=(.*)/$1@$2/L,RULE:^O=(.*)$/$1/U,DEFAULT")


def signed(payload: bytes) -> str:
    return jws.serialize_compact({"alg": "ES256", "kid": "one"}, payload, KEY, registry=_LENIENT)


def verify(token: str) -> Any:
    return verify_token(token, KEYS, RULES, wall_ms=NOW_S * 1000)


def scram_exchange(mechanism: ScramMechanism) -> ScramServer:
    return ScramServer(
        mechanism,
        lambda name: CREDENTIALS[mechanism] if name == "alice" else None,
        server_nonce="server",
        fake_salt_key=b"fake",
    )


EXCHANGES: dict[str, MakeExchange] = {
    Mechanism.PLAIN: lambda: PlainServer(lambda name, password: (name, password) == ("alice", "secret")),
    Mechanism.OAUTHBEARER: lambda: OauthbearerServer(verify),
    **{mechanism: partial(scram_exchange, mechanism) for mechanism in SCRAM},
}


def log_in(data: bytes) -> bool:
    """Take the requests of one connection. In front of each token is a byte that says whether it is a
    handshake, for which mechanism, and how late it is, and then the token's size in two bytes."""
    session = SaslSession(EXCHANGES, lifetime_ms_max=10_000)
    names = [*EXCHANGES, "GSSAPI"]
    position = mono_ms = 0
    while position + HEAD_BYTES <= len(data):
        choice = data[position]
        start = position + HEAD_BYTES
        position = start + int.from_bytes(data[position + 1 : start])
        mono_ms += 7_000 if choice & IS_LATE else 1
        session.is_expired(mono_ms)
        if choice & IS_HANDSHAKE:
            answer: Any = session.on_handshake(names[(choice & 7) % len(names)], mono_ms=mono_ms)
        else:
            token = data[start:position]
            answer = session.on_authenticate(token, mono_ms=mono_ms, wall_ms=NOW_S * 1000)
        assert session.principal in (None, "alice")
        if answer.closes:
            return False
    return session.is_open


def logins() -> Sequence[bytes]:
    clients: dict[str, Any] = {
        Mechanism.PLAIN: PlainClient("alice", "secret"),
        Mechanism.OAUTHBEARER: OauthbearerClient(signed(json.dumps(CLAIMS).encode())),
        **{each: ScramClient(each, "alice", "secret", client_nonce="client") for each in SCRAM},
    }
    found = []
    for number, name in enumerate(EXCHANGES):
        exchange, tokens, challenge = EXCHANGES[name](), b"", b""
        while isinstance(reply := clients[name].step(challenge), ClientReply):
            tokens += bytes([0]) + len(reply.token).to_bytes(2) + reply.token
            challenge = getattr(exchange.step(reply.token), "token", b"")
        once = bytes([IS_HANDSHAKE | number, 0, 0]) + tokens
        again = bytes([IS_HANDSHAKE | IS_LATE | number, 0, 0]) + tokens
        found += [once, once + again]
    return found


def take_token(data: bytes) -> bool:
    """Take a token, claims that the issuer has signed, or the issuer's keys: the first byte says which."""
    match data[:1]:
        case b"t":
            token = data[1:].decode("latin-1")
            names_unknown_key(token, KEYS)
            return isinstance(verify(token), TokenAccepted)
        case b"c":
            return isinstance(verify(signed(data[1:])), TokenAccepted)
        case b"k":
            with suppress(JwksInvalid):
                keys = parse_jwks(data[1:])
                token = signed(json.dumps(CLAIMS).encode())
                return isinstance(verify_token(token, keys, RULES, wall_ms=NOW_S * 1000), TokenAccepted)
    return False


def tokens() -> Sequence[bytes]:
    claims = json.dumps(CLAIMS).encode()
    more = json.dumps(
        CLAIMS | {"aud": ["x", "springtide"], "nbf": NOW_S, "iat": NOW_S, "scope": ["write"]}
    ).encode()
    return [b"t" + signed(claims).encode(), b"c" + claims, b"c" + more, b"k" + DOCUMENT]


def name_client(data: bytes) -> bool:
    """Take a certificate, or an operator's rules: the first byte says which."""
    if data[:1] == b"r":
        # A rule is an operator's: Python may warn of how it reads one.
        with suppress(ValueError), warnings.catch_warnings(action="ignore"):
            return bool(parse_principal_rules(data[1:].decode("utf-8", "replace")))
        return False
    with suppress(CertificateUnusable):
        return names_of_client(data[1:], DN_RULES).principal.isprintable()
    return False


def certificates() -> Sequence[bytes]:
    shown = certificate([("O", "Example"), ("OU", "billing"), ("CN", "Alice")], DNSName("a.example"))
    return [
        b"c" + shown,
        b"c" + certificate([("email", "a@b.c"), ("CN", " x#,")]),
        rb"rRULE:^CN=([^,]*),O=(.*)$/$1@$2/L, RULE:a\/b/c/U,DEFAULT",
    ]


LOGIN = Target(log_in, logins)
TOKEN = Target(take_token, tokens)
CERTIFICATE = Target(name_client, certificates)
