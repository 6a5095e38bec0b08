"""The server's side of PLAIN: one message with the name and the password as they are. For TLS only.

The message is `authzid NUL authcid NUL password`. As in Kafka, the client may ask for its own name only
(authzid), and names and passwords are compared as they came, without SASLprep.

Source: RFC 4616.
"""

from __future__ import annotations

from collections.abc import Callable

from .exchange import LoginFailed, Outcome, ServerExchange, Succeeded, malformed

VerifyPassword = Callable[[str, str], bool]
"""Takes a name and a password. It must take as long for an unknown name as for a known one."""


class PlainServer(ServerExchange):
    """See the module. It calls `verify` at most once."""

    def __init__(self, verify: VerifyPassword) -> None:
        super().__init__()
        self._verify = verify

    def _answer(self, message: str) -> Outcome:
        parts = message.split("\0", 3)
        if len(parts) != 3:
            return malformed("a PLAIN message is not three parts with NUL between them")
        authzid, name, password = parts
        if not name or not password:
            return malformed("a PLAIN message lacks the name or the password")
        if authzid not in ("", name):
            return malformed("the authorization id differs from the name")
        if not self._verify(name, password):
            return LoginFailed(f"unknown user or wrong password: {name!r}")
        return Succeeded(name)
