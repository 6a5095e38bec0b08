"""SaslHandshake: the client names the mechanism by which it will log in (KIP-43, KIP-152).

After a v0 its tokens would come without Kafka's frames, as no client of the last years sends them: it is
answered with UNSUPPORTED_VERSION. Where there is no SASL, it is out of place.
"""

from __future__ import annotations

from springtide.node.handlers.context import NodeContext, Request
from springtide.security.sasl.session import HandshakeAnswer
from springtide.wire.errors import ErrorCode
from springtide.wire.messages import SaslHandshakeRequest, SaslHandshakeResponse


def handle(_context: NodeContext, request: Request, message: SaslHandshakeRequest) -> None:
    sasl = request.answer.connection.sasl

    def reply(answer: HandshakeAnswer) -> None:
        request.reply(SaslHandshakeResponse(error_code=answer.error, mechanisms=answer.mechanisms))

    if sasl is None:
        reply(HandshakeAnswer(ErrorCode.ILLEGAL_SASL_STATE, ()))
    elif request.api_version == 0:
        sasl.refuse_bare_tokens(reply)
    else:
        sasl.handshake(message.mechanism, reply)
