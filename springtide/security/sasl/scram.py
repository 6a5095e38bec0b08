"""The server's side of SCRAM: the client proves that it knows the password, and the server that it does too.

```
client-first  n,[a=AUTHZID],n=NAME,r=CLIENT_NONCE
server-first  r=NONCES,s=SALT,i=ITERATIONS             NONCES: the client's and the server's, joined
client-final  c=BINDING,r=NONCES,p=PROOF               BINDING: `n,[a=AUTHZID],` in base64
server-final  v=SERVER_SIGNATURE
```

An unknown user gets a challenge too, with a salt of its own, and fails at the proof like a wrong password: so
no client finds out which users exist. As in Kafka, channel binding is refused (`p=`, and `y`, which says that
the client could do it), and names are taken as they came, without SASLprep. Delegation tokens (`tokenauth`,
KIP-48) are refused by name; other optional extensions are ignored, as RFC 5802 section 5.1 asks, and
mandatory ones (`m=`) are refused.

Up to 2.6.0 librdkafka, and kcat with it, has its nonce once more before NONCES in the last message (its pull
request 4895). Kafka refused that in 4.0 and took it before. It is taken here: the proof covers all of the
messages, so whole NONCES in the last one still bind it to this exchange.

Sources: RFC 5802, RFC 7677.
"""

from __future__ import annotations

import base64
import hmac
import re
from collections.abc import Callable
from typing import Final, NamedTuple

from .credentials import (
    ITERATIONS_MIN,
    ScramCredential,
    ScramMechanism,
    digest_bytes,
    fake_credential,
    hash_of,
    hmac_of,
)
from .exchange import Challenge, LoginFailed, Outcome, ServerExchange, Succeeded, malformed

FindCredential = Callable[[str], ScramCredential | None]
"""Takes a name; returns its credential of the exchange's mechanism."""

NONCE: Final = r"[\x21-\x2b\x2d-\x7e]+"
EXTENSIONS: Final = r"(?:,[A-Za-z]+=[^\0,]+)*"
_NAME: Final = r"(?:[^\0=,]|=2C|=3D)+"
_CLIENT_FIRST: Final = re.compile(
    f"(?P<header>n,(?:a=(?P<authzid>{_NAME}))?,)"
    f"(?P<bare>n=(?P<name>{_NAME}),r=(?P<nonce>{NONCE})(?P<extensions>{EXTENSIONS}))"
)
_CLIENT_FINAL: Final = re.compile(
    f"(?P<without_proof>c=(?P<binding>[^,]+),r=(?P<nonce>{NONCE}){EXTENSIONS}),p=(?P<proof>[^,]+)"
)
_MANDATORY_EXTENSION: Final = re.compile("[^,]*,[^,]*,m=")


class _Started(NamedTuple):
    """The exchange after the first message of each side. client_nonce: that of the client alone. nonce: both
    nonces, joined."""

    name: str
    is_known: bool
    credential: ScramCredential
    binding: str
    client_nonce: str
    nonce: str
    first_messages: str


class ScramServer(ServerExchange):
    """See the module.

    server_nonce: random and printable, without commas, made for this exchange alone. fake_salt_key and
    fake_iterations: see `fake_credential`; the iterations of a name should be such as known users have."""

    def __init__(
        self,
        mechanism: ScramMechanism,
        find_credential: FindCredential,
        *,
        server_nonce: str,
        fake_salt_key: bytes,
        fake_iterations: Callable[[str], int] = lambda _name: ITERATIONS_MIN,
    ) -> None:
        super().__init__()
        assert re.fullmatch(NONCE, server_nonce), "a nonce is printable and has no comma"
        self._mechanism = mechanism
        self._find_credential = find_credential
        self._server_nonce = server_nonce
        self._fake_salt_key = fake_salt_key
        self._fake_iterations = fake_iterations
        self._started: _Started | None = None

    def _answer(self, message: str) -> Outcome:
        if self._started is None:
            return self._on_client_first(message)
        return self._on_client_final(self._started, message)

    def _on_client_first(self, message: str) -> Outcome:
        if message.startswith(("p=", "y,")):
            return malformed("channel binding is not supported")
        if _MANDATORY_EXTENSION.match(message):
            return malformed("a mandatory extension of SCRAM is not supported")
        match = _CLIENT_FIRST.fullmatch(message)
        if match is None:
            return malformed("the first SCRAM message is malformed")
        if ",tokenauth=" in match["extensions"]:
            return malformed("delegation tokens (tokenauth) are not supported")
        name = unescaped(match["name"])
        if match["authzid"] is not None and unescaped(match["authzid"]) != name:
            return malformed("the authorization id differs from the name")
        found = self._find_credential(name)
        # Made for known users too, so that the time to answer is the same.
        fake = fake_credential(
            self._mechanism, name, secret_key=self._fake_salt_key, iterations=self._fake_iterations(name)
        )
        credential = found or fake
        nonce = match["nonce"] + self._server_nonce
        server_first = f"r={nonce},s={base64_of(credential.salt)},i={credential.iterations}"
        self._started = _Started(
            name=name,
            is_known=found is not None,
            credential=credential,
            binding=base64_of(match["header"].encode()),
            client_nonce=match["nonce"],
            nonce=nonce,
            first_messages=f"{match['bare']},{server_first}",
        )
        return Challenge(server_first.encode())

    def _on_client_final(self, started: _Started, message: str) -> Outcome:
        match = _CLIENT_FINAL.fullmatch(message)
        if match is None:
            return malformed("the last SCRAM message is malformed")
        if match["nonce"] not in (started.nonce, started.client_nonce + started.nonce):
            return malformed("the nonce is not that of this exchange")
        if match["binding"] != started.binding:
            return malformed("the channel binding is not that of the first message")
        proof = bytes_of_base64(match["proof"])
        if proof is None or len(proof) != digest_bytes(self._mechanism):
            return malformed("the proof of the last SCRAM message is malformed")
        auth_message = f"{started.first_messages},{match['without_proof']}".encode()
        credential = started.credential
        client_key = xor(hmac_of(self._mechanism, credential.stored_key, auth_message), proof)
        is_proof = hmac.compare_digest(hash_of(self._mechanism, client_key), credential.stored_key)
        if not started.is_known:
            return LoginFailed(f"unknown user: {started.name!r}")
        if not is_proof:
            return LoginFailed(f"wrong password: {started.name!r}")
        signature = hmac_of(self._mechanism, credential.server_key, auth_message)
        return Succeeded(started.name, token=f"v={base64_of(signature)}".encode())


def escaped(name: str) -> str:
    """Return the name as SCRAM's messages write it."""
    return name.replace("=", "=3D").replace(",", "=2C")


def unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))


def base64_of(content: bytes) -> str:
    return base64.b64encode(content).decode()


def bytes_of_base64(text: str) -> bytes | None:
    """Return the bytes; None unless the text is base64."""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return None
