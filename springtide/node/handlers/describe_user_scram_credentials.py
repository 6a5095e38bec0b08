"""DescribeUserScramCredentials: mechanisms and iterations of users, from the metadata stream (KIP-554).

Salts and keys are not in the answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, cast

from springtide.contract.administration import AdminOutcome
from springtide.contract.security import UserSecrets
from springtide.node.handlers.administer import error_fields
from springtide.node.handlers.context import NodeContext, Request
from springtide.node.handlers.security_refusals import refusal_to_describe
from springtide.security.acls.model import Operation
from springtide.security.sasl.exchange import Mechanism
from springtide.wire.errors import ErrorCode

MECHANISM_NUMBERS: Mapping[str, int] = {Mechanism.SCRAM_SHA_256: 1, Mechanism.SCRAM_SHA_512: 2}
"""The numbers of mechanisms in Kafka's protocol."""


def handle(context: NodeContext, request: Request) -> None:
    message = cast(Any, request.decode())
    refused = refusal_to_describe(context, request, Operation.DESCRIBE)
    if refused is not None:
        request.reply({**error_fields(refused), "results": ()})
        return
    known = context.view.users
    named = Counter(user.name for user in message.users or ())
    users = named if named else Counter(sorted(known))
    request.reply(
        {
            "error_message": None,
            "results": [_result(user, known.get(user), mentions) for user, mentions in users.items()],
        }
    )


def _result(user: str, secrets: UserSecrets | None, mentions: int) -> Mapping[str, object]:
    outcome = AdminOutcome()
    if mentions > 1:
        outcome = AdminOutcome(error_code=ErrorCode.DUPLICATE_RESOURCE, message="the user is named twice")
    elif secrets is None:
        outcome = AdminOutcome(error_code=ErrorCode.RESOURCE_NOT_FOUND, message="there is no such user")
    infos = () if secrets is None or outcome.error_code else secrets.scram
    return {
        "user": user,
        **error_fields(outcome),
        "credential_infos": [
            {"mechanism": MECHANISM_NUMBERS[secret.mechanism], "iterations": secret.iterations}
            for secret in infos
        ],
    }
