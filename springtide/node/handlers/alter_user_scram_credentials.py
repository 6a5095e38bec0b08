"""AlterUserScramCredentials: passwords to set, salted by the client, and to remove, to the controller
(KIP-554)."""

from __future__ import annotations

from typing import Any, cast

from springtide.contract.administration import AlterScramCall, ScramDeletion, ScramUpsertion
from springtide.node.handlers.administer import administer, error_fields
from springtide.node.handlers.context import NodeContext, Request
from springtide.node.handlers.security_refusals import refusal_of_client
from springtide.security.acls.model import Operation


def handle(context: NodeContext, request: Request) -> None:
    message = cast(Any, request.decode())
    users = list(dict.fromkeys(one.name for one in (*message.deletions, *message.upsertions)))
    refused = refusal_of_client(request, Operation.ALTER)
    if refused is not None:
        request.reply({"results": [{"user": user, **error_fields(refused)} for user in users]})
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
        answer=lambda outcomes: request.reply(
            {
                "results": [
                    {"user": user, **error_fields(outcome)}
                    for user, outcome in zip(users, outcomes, strict=True)
                ]
            }
        ),
    )
