"""The SASL of a scripted broker's connection: the servers' own sides of the mechanisms, with one user."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pipeline.client.messages import SPOKEN
from springtide.security.sasl.credentials import ScramCredential, ScramMechanism, credential_from_password
from springtide.security.sasl.exchange import Mechanism
from springtide.security.sasl.oauthbearer import OauthbearerServer, TokenAccepted, TokenFault, TokenRefused
from springtide.security.sasl.plain import PlainServer
from springtide.security.sasl.scram import ScramServer
from springtide.security.sasl.session import MakeExchange, SaslSession
from springtide.wire.apis import ApiKey
from springtide.wire.codec import build, decode, encode, request_type, response_type
from tests.kit.pipeline.brokers import Fields, Handler

NAME: Final = "alice"
PASSWORD: Final = "open, sesame=1"
TOKEN: Final = "eyJhbGciOiJSUzI1NiJ9.e30.c2ln"
WALL_MS: Final = 1_000_000


class SaslSide:
    """Alice's password, and a token that ends in an hour. mechanisms: those that are enabled. `now_ms`: the
    test moves it. password: what the broker takes for hers."""

    def __init__(
        self,
        *mechanisms: Mechanism,
        password: str = PASSWORD,
        lifetime_ms_max: int | None = None,
    ) -> None:
        self.now_ms = 0
        self._password = password
        made: dict[Mechanism, MakeExchange] = {
            Mechanism.PLAIN: lambda: PlainServer(lambda *given: given == (NAME, password)),
            Mechanism.SCRAM_SHA_256: lambda: self._scram(Mechanism.SCRAM_SHA_256),
            Mechanism.SCRAM_SHA_512: lambda: self._scram(Mechanism.SCRAM_SHA_512),
            Mechanism.OAUTHBEARER: lambda: OauthbearerServer(_verify),
        }
        self.session = SaslSession(
            {str(one): made[one] for one in mechanisms or tuple(Mechanism)}, lifetime_ms_max=lifetime_ms_max
        )

    @property
    def handlers(self) -> dict[ApiKey, Handler]:
        """For one connection of a ScriptedBroker."""
        return {ApiKey.SASL_HANDSHAKE: self._shake_hands, ApiKey.SASL_AUTHENTICATE: self._authenticate}

    def ask(self, api: ApiKey, fields: Mapping[str, object]) -> Any:
        """Answer a request in memory, through the protocol's bytes."""
        kind = request_type(api, SPOKEN[api])
        says = self.handlers[api](decode(kind, encode(build(kind, fields))))
        assert isinstance(says, Mapping)
        answered = response_type(api, SPOKEN[api])
        return decode(answered, encode(build(answered, says)))

    def _scram(self, mechanism: ScramMechanism) -> ScramServer:
        def find(name: str) -> ScramCredential | None:
            if name != NAME:
                return None
            return credential_from_password(mechanism, self._password, salt=b"salt", iterations=4096)

        return ScramServer(mechanism, find, server_nonce="server", fake_salt_key=b"key of the cluster")

    def _shake_hands(self, message: Any) -> Fields:
        answer = self.session.on_handshake(message.mechanism, mono_ms=self.now_ms)
        return {"error_code": answer.error, "mechanisms": answer.mechanisms}

    def _authenticate(self, message: Any) -> Fields:
        answer = self.session.on_authenticate(message.auth_bytes, mono_ms=self.now_ms, wall_ms=WALL_MS)
        return {
            "error_code": answer.error,
            "error_message": answer.error_message,
            "auth_bytes": answer.token,
            "session_lifetime_ms": answer.session_lifetime_ms,
        }


def _verify(token: str) -> TokenAccepted | TokenRefused:
    if token == TOKEN:
        return TokenAccepted(NAME, expiry_ms=WALL_MS + 3_600_000)
    return TokenRefused(TokenFault.EXPIRED)


def options(mechanism: Mechanism, **more: str) -> dict[str, str]:
    """Return alice's options for a mechanism, over plain TCP."""
    login = (
        {"sasl.oauthbearer.token": TOKEN}
        if mechanism is Mechanism.OAUTHBEARER
        else {"sasl.username": NAME, "sasl.password": PASSWORD}
    )
    given = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": str(mechanism), **login}
    return given | {name.replace("_", "."): value for name, value in more.items()}
