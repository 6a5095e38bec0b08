"""DescribeUserScramCredentials: mechanisms and iterations of users, from the metadata stream (KIP-554).

Salts and keys are not in the answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from springtide.contract.administration import AdminOutcome
from springtide.contract.security import UserSecrets
from springtide.node.handlers.administer import code_of, message_of
from springtide.node.handlers.context import NodeContext, Request
from springtide.node.handlers.security_refusals import refusal_to_describe
from springtide.security.acls.model import Operation
from springtide.security.sasl.exchange import Mechanism
from springtide.wire.errors import ErrorCode
from springtide.wire.messages import (
    DescribeUserScramCredentialsCredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

MECHANISM_NUMBERS: Mapping[str, int] = {Mechanism.SCRAM_SHA_256: 1, Mechanism.SCRAM_SHA_512: 2}
"""The numbers of mechanisms in Kafka's protocol."""


def handle(context: NodeContext, request: Request, message: DescribeUserScramCredentialsRequest) -> None:
    refused = refusal_to_describe(context, request, Operation.DESCRIBE)
    if refused is not None:
        request.reply(
            DescribeUserScramCredentialsResponse(
                error_code=code_of(refused), error_message=message_of(refused)
            )
        )
        return
    known = context.view.users
    named = Counter(user.name for user in message.users or ())
    users = named if named else Counter(sorted(known))
    results = tuple(_result(user, known.get(user), mentions) for user, mentions in users.items())
    request.reply(DescribeUserScramCredentialsResponse(results=results))


def _result(user: str, secrets: UserSecrets | None, mentions: int) -> DescribeUserScramCredentialsResult:
    outcome = AdminOutcome()
    if mentions > 1:
        outcome = AdminOutcome(error_code=ErrorCode.DUPLICATE_RESOURCE, message="the user is named twice")
    elif secrets is None:
        outcome = AdminOutcome(error_code=ErrorCode.RESOURCE_NOT_FOUND, message="there is no such user")
    infos = () if secrets is None or outcome.error_code else secrets.scram
    return DescribeUserScramCredentialsResult(
        user=user,
        error_code=code_of(outcome),
        error_message=message_of(outcome),
        credential_infos=tuple(
            DescribeUserScramCredentialsCredentialInfo(
                mechanism=MECHANISM_NUMBERS[secret.mechanism], iterations=secret.iterations
            )
            for secret in infos
        ),
    )
