"""SaslAuthenticate: a message of the exchange by which a client logs in (KIP-152, KIP-368)."""

from __future__ import annotations

from springtide.node.handlers.context import NodeContext, Request
from springtide.security.sasl.session import AuthenticateAnswer
from springtide.wire.errors import ErrorCode
from springtide.wire.messages import SaslAuthenticateRequest, SaslAuthenticateResponse

NO_SASL = "this listener has no SASL: give the client the security protocol PLAINTEXT or SSL"


def handle(_context: NodeContext, request: Request, message: SaslAuthenticateRequest) -> None:
    sasl = request.answer.connection.sasl

    def reply(answer: AuthenticateAnswer) -> None:
        request.reply(
            SaslAuthenticateResponse(
                error_code=answer.error,
                error_message=answer.error_message,
                auth_bytes=answer.token,
                session_lifetime_ms=answer.session_lifetime_ms,
            )
        )

    if sasl is None:
        reply(AuthenticateAnswer(ErrorCode.ILLEGAL_SASL_STATE, NO_SASL))
    else:
        sasl.authenticate(message.auth_bytes, reply)
