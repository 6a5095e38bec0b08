"""The authentication of one connection: which requests may start, and when it has to be renewed (KIP-368).

```
           SaslHandshake              Succeeded
CONNECTED ---------------> EXCHANGE -------------> OPEN     LoginFailed, or out of order -> CLOSED
                              ^                     |
                              `--- SaslHandshake ---'  if the session has an end
```

- Before the handshake a client may send ApiVersions, SaslHandshake and SaslAuthenticate. Between the
  handshake and the end of the exchange it may send only SaslAuthenticate.
- A session ends with the credential or after the listener's limit, whichever comes first. From then on only
  a SaslHandshake is taken. It begins the re-authentication, which must have the same mechanism and lead to
  the same principal.
- A failure ends the connection. The caller sends the answer and closes, after a delay that slows guessing.

The caller handles one request of the SASL APIs at a time, and starts no other before it is answered.

Sources: KIP-43, KIP-152, KIP-368; the rules for requests out of order are those of Kafka's brokers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Final, NamedTuple

from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode

from .exchange import Challenge, LoginFailed, Outcome, ServerExchange

REAUTHENTICATION_INTERVAL_MS_MIN: Final = 1000
LIFETIME_MS_MAX: Final = 365 * 24 * 3600 * 1000
"""The longest session that a client is told. Clients count in nanoseconds, which end after 292 years."""

MakeExchange = Callable[[], ServerExchange]
_SASL_APIS: Final = frozenset((ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE))
_OUT_OF_ORDER: Final = "the request is out of order in a SASL session"


class _State(Enum):
    CONNECTED = auto()
    EXCHANGE = auto()
    OPEN = auto()
    CLOSED = auto()


_ALLOWED: Final = {
    _State.CONNECTED: _SASL_APIS | {ApiKey.API_VERSIONS},
    _State.EXCHANGE: _SASL_APIS,
    _State.CLOSED: frozenset(),
}


class HandshakeAnswer(NamedTuple):
    """The fields of a SaslHandshake response. closes: the connection ends after it."""

    error: ErrorCode
    mechanisms: tuple[str, ...]
    closes: bool = False


class AuthenticateAnswer(NamedTuple):
    """The fields of a SaslAuthenticate response. reason: of a failure, for the log.

    closes: the connection ends after it. session_lifetime_ms: 0 for a session without an end."""

    error: ErrorCode
    error_message: str | None = None
    token: bytes = b""
    session_lifetime_ms: int = 0
    closes: bool = False
    reason: str = ""


class SaslSession:
    """See the module.

    exchanges: the enabled mechanisms by name, each with what makes a new exchange. lifetime_ms_max: the
    listener's limit (Kafka's `connections.max.reauth.ms`), None for none. Attributes to read: `principal` is
    None until the client has authenticated; `mechanism` is None until the handshake."""

    __slots__ = (
        "_exchange",
        "_exchanges",
        "_expiry_mono_ms",
        "_lifetime_ms_max",
        "_renewed_mono_ms",
        "_state",
        "mechanism",
        "principal",
    )

    def __init__(self, exchanges: Mapping[str, MakeExchange], *, lifetime_ms_max: int | None) -> None:
        assert lifetime_ms_max is None or lifetime_ms_max > 0, "None stands for no limit"
        self._exchanges = exchanges
        self._lifetime_ms_max = lifetime_ms_max
        self._state = _State.CONNECTED
        self._exchange: ServerExchange | None = None
        self._expiry_mono_ms: int | None = None
        #: When the last re-authentication began.
        self._renewed_mono_ms: int | None = None
        self.principal: str | None = None
        self.mechanism: str | None = None

    @property
    def is_open(self) -> bool:
        """Return whether the client has authenticated, and is not doing it again."""
        return self._state is _State.OPEN

    def is_expired(self, mono_ms: int) -> bool:
        """Return whether the client must authenticate again before anything else."""
        return self._expiry_mono_ms is not None and mono_ms > self._expiry_mono_ms

    def may_start(self, api_key: int, *, mono_ms: int) -> bool:
        """Return whether the request may start; otherwise the connection ends without an answer.

        A request of a SASL API that starts out of order is answered with ILLEGAL_SASL_STATE."""
        if self._state is _State.OPEN:
            return api_key == ApiKey.SASL_HANDSHAKE or not self.is_expired(mono_ms)
        return api_key in _ALLOWED[self._state]

    def on_handshake(self, mechanism: str, *, mono_ms: int) -> HandshakeAnswer:
        """Take a SaslHandshake, of v1 or later: v0 announces tokens without Kafka's frames."""
        if self._state is _State.OPEN:
            if self._expiry_mono_ms is None or self._is_too_soon(mono_ms):
                return HandshakeAnswer(ErrorCode.ILLEGAL_SASL_STATE, ())
            self._renewed_mono_ms = mono_ms
        elif self._state is not _State.CONNECTED:
            self._close()
            return HandshakeAnswer(ErrorCode.ILLEGAL_SASL_STATE, (), closes=True)
        enabled = tuple(self._exchanges) if self.mechanism is None else (self.mechanism,)
        if mechanism not in enabled:
            self._close()
            return HandshakeAnswer(ErrorCode.UNSUPPORTED_SASL_MECHANISM, enabled, closes=True)
        self.mechanism = mechanism
        self._exchange = self._exchanges[mechanism]()
        self._state = _State.EXCHANGE
        return HandshakeAnswer(ErrorCode.NONE, enabled)

    def on_authenticate(self, token: bytes, *, mono_ms: int, wall_ms: int) -> AuthenticateAnswer:
        """Take a SaslAuthenticate. It takes as long as the mechanism's callable does, in the thread of the
        caller. wall_ms: compared with the end of the credential."""
        if self._state is _State.OPEN:
            return AuthenticateAnswer(ErrorCode.ILLEGAL_SASL_STATE, _OUT_OF_ORDER)
        if self._exchange is None:
            self._close()
            return AuthenticateAnswer(ErrorCode.ILLEGAL_SASL_STATE, _OUT_OF_ORDER, closes=True)
        outcome = self._of_same_principal(self._exchange.step(token))
        if isinstance(outcome, Challenge):
            return AuthenticateAnswer(ErrorCode.NONE, token=outcome.token)
        if isinstance(outcome, LoginFailed):
            self._close()
            return AuthenticateAnswer(
                ErrorCode.SASL_AUTHENTICATION_FAILED, outcome.message, closes=True, reason=outcome.reason
            )
        self._exchange = None
        self._state = _State.OPEN
        self.principal = outcome.principal
        lifetime_ms = self._lifetime_ms(outcome.expiry_ms, wall_ms)
        self._expiry_mono_ms = None if lifetime_ms == 0 else mono_ms + lifetime_ms
        return AuthenticateAnswer(ErrorCode.NONE, token=outcome.token, session_lifetime_ms=lifetime_ms)

    def _close(self) -> None:
        self._state = _State.CLOSED
        self._exchange = None

    def _of_same_principal(self, outcome: Outcome) -> Outcome:
        if isinstance(outcome, Challenge | LoginFailed) or self.principal in (None, outcome.principal):
            return outcome
        return LoginFailed(
            reason=f"re-authentication of {self.principal!r} as {outcome.principal!r}",
            message="Authentication failed: a connection can't change its principal",
        )

    def _is_too_soon(self, mono_ms: int) -> bool:
        if self._renewed_mono_ms is None:
            return False
        return mono_ms - self._renewed_mono_ms < REAUTHENTICATION_INTERVAL_MS_MIN

    def _lifetime_ms(self, expiry_ms: int | None, wall_ms: int) -> int:
        """Return 0 for a session without an end. A credential that was taken within the clock skew after its
        end gives 1 ms, so that the client renews it at once."""
        ends = [] if expiry_ms is None else [max(1, expiry_ms - wall_ms)]
        if self._lifetime_ms_max is not None:
            ends.append(self._lifetime_ms_max)
        return min(*ends, LIFETIME_MS_MAX) if ends else 0
