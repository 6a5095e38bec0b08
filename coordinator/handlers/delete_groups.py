"""DeleteGroups: groups without members go, and all that they have committed (KIP-229)."""

from __future__ import annotations

from collections.abc import Sequence

from coordinator.core.groups.requests import DeleteGroups
from coordinator.handlers.asking import GROUPS, ask_named
from coordinator.handlers.context import CoordinatorContext
from springtide.node.handlers.context import Request
from springtide.security.acls.model import Operation
from springtide.wire.errors import ErrorCode
from springtide.wire.messages import (
    DeleteGroupsDeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)


def handle(context: CoordinatorContext, request: Request, message: DeleteGroupsRequest) -> None:
    groups = tuple(dict.fromkeys(message.groups_names))

    def done(errors: Sequence[ErrorCode]) -> None:
        results = tuple(
            DeleteGroupsDeletableGroupResult(group_id=group_id, error_code=error)
            for group_id, error in zip(groups, errors, strict=True)
        )
        request.reply(DeleteGroupsResponse(results=results))

    ask_named(
        context,
        request,
        groups,
        kind=GROUPS._replace(operation=Operation.DELETE),
        name_of=str,
        make=lambda token, of_shard: DeleteGroups(token=token, group_ids=of_shard),
        entries=lambda reply: [error for _, error in reply.errors],
        done=done,
    )
