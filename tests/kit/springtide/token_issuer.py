"""An issuer of tokens on loopback, whose keys a test changes, hides and takes back."""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from joserfc import jwt
from joserfc.jwk import ECKey

ISSUER = "https://idp.example"
AUDIENCE = "springtide"


def new_key(name: str) -> ECKey:
    return ECKey.generate_key("P-256", {"kid": name})


@dataclass
class TokenIssuer:
    """document: what it answers with, a whole JWKS unless a test says otherwise; None: an error."""

    key: ECKey = field(default_factory=lambda: new_key("first"))
    document: bytes | None = None
    url: str = ""
    asked: int = 0

    def __post_init__(self) -> None:
        self.rotate(self.key)

    def rotate(self, key: ECKey) -> None:
        """Sign by this key from now on, and tell of no other."""
        self.key = key
        self.document = json.dumps({"keys": [key.as_dict(private=False)]}).encode()

    def token(self, user: str, *, key: ECKey | None = None, **claims: Any) -> str:
        """Return a token of ten minutes. claims: in place of the usual ones."""
        signing = key or self.key
        usual = {"iss": ISSUER, "aud": AUDIENCE, "sub": user, "exp": int(time.time()) + 600}
        return jwt.encode({"alg": "ES256", "kid": signing.kid}, usual | claims, signing)

    @property
    def configs(self) -> dict[str, str]:
        """Return a listener's settings that take its tokens."""
        return {
            "sasl.oauthbearer.jwks.endpoint.url": self.url,
            "sasl.oauthbearer.expected.issuer": ISSUER,
            "sasl.oauthbearer.expected.audience": AUDIENCE,
        }


@contextmanager
def token_issuer(*, tls: ssl.SSLContext | None = None) -> Iterator[TokenIssuer]:
    issuer = TokenIssuer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            issuer.asked += 1
            self.send_response(200 if issuer.document is not None else 503)
            self.send_header("Content-Length", str(len(issuer.document or b"")))
            self.end_headers()
            self.wfile.write(issuer.document or b"")

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    issuer.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_address[1]}/keys"
    try:
        yield issuer
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
