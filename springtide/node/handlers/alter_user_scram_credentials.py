"""AlterUserScramCredentials: passwords to set, salted by the client, and to remove, to the controller
(KIP-554)."""

from __future__ import annotations

from collections.abc import Sequence

from springtide.contract.administration import AdminOutcome, AlterScramCall, ScramDeletion, ScramUpsertion
from springtide.node.handlers.administer import administer, code_of, message_of
from springtide.node.handlers.context import NodeContext, Request
from springtide.node.handlers.security_refusals import refusal_of_client
from springtide.security.acls.model import Operation
from springtide.wire.messages import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)


def handle(context: NodeContext, request: Request, message: AlterUserScramCredentialsRequest) -> None:
    deleted, upserted = (one.name for one in message.deletions), (one.name for one in message.upsertions)
    users = list(dict.fromkeys((*deleted, *upserted)))
    refused = refusal_of_client(request, Operation.ALTER)
    if refused is not None:
        _answer(request, users, [refused] * len(users))
        return
    call = AlterScramCall(
        deletions=tuple(ScramDeletion(user=one.name, mechanism=one.mechanism) for one in message.deletions),
        upsertions=tuple(
            ScramUpsertion(
                user=one.name,
                mechanism=one.mechanism,
                iterations=one.iterations,
                salt=one.salt,
                salted_password=one.salted_password,
            )
            for one in message.upsertions
        ),
    )
    administer(
        context,
        request,
        call,
        named=len(users),
        answer=lambda outcomes: _answer(request, users, outcomes),
    )


def _answer(request: Request, users: Sequence[str], outcomes: Sequence[AdminOutcome]) -> None:
    request.reply(
        AlterUserScramCredentialsResponse(
            results=tuple(
                AlterUserScramCredentialsResult(
                    user=user, error_code=code_of(outcome), error_message=message_of(outcome)
                )
                for user, outcome in zip(users, outcomes, strict=True)
            )
        )
    )
