"""DeleteTopics, by name or, from v6, by id: to the controller. The data goes as each broker confirms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from controller.contract.administration import AdminOutcome, DeleteTopicsCall, TopicToDelete
from springtide.node.handlers.administer import administer, error_fields
from springtide.node.handlers.context import NodeContext, Request
from springtide.node.topic_ids import topic_id_text, topic_id_uuid

BY_ID_SINCE = 6


def handle(context: NodeContext, request: Request) -> None:
    message = cast(Any, request.decode())
    if request.api_version < BY_ID_SINCE:
        named: list[tuple[str | None, Any]] = [(name, None) for name in message.topic_names]
    else:
        named = [(topic.name, topic.topic_id) for topic in message.topics]
    wanted = tuple(
        TopicToDelete(name=name, topic_id=None if topic_id is None else topic_id_text(topic_id.bytes))
        for name, topic_id in named
    )
    administer(
        context,
        request,
        DeleteTopicsCall(topics=wanted),
        named=len(wanted),
        timeout=message.timeout,
        answer=lambda outcomes: _answer(request, named, outcomes),
    )


def _answer(
    request: Request, named: Sequence[tuple[str | None, Any]], outcomes: Sequence[AdminOutcome]
) -> None:
    request.reply(
        {
            "responses": [
                {
                    "name": outcome.topic or name,
                    "topic_id": topic_id if outcome.topic_id is None else topic_id_uuid(outcome.topic_id),
                    **error_fields(outcome),
                }
                for (name, topic_id), outcome in zip(named, outcomes, strict=True)
            ]
        }
    )
