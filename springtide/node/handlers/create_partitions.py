"""CreatePartitions: more of them for a topic, to the controller (KIP-195)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from controller.contract.administration import AdminOutcome, CreatePartitionsCall, PartitionsToCreate
from springtide.node.handlers.administer import administer, error_fields
from springtide.node.handlers.context import NodeContext, Request


def handle(context: NodeContext, request: Request) -> None:
    message = cast(Any, request.decode())
    names = [topic.name for topic in message.topics]
    wanted = tuple(
        PartitionsToCreate(
            topic=topic.name,
            count=topic.count,
            assignments=None
            if topic.assignments is None
            else tuple(tuple(one.broker_ids) for one in topic.assignments),
        )
        for topic in message.topics
    )
    administer(
        context,
        request,
        CreatePartitionsCall(topics=wanted, validate_only=message.validate_only),
        named=len(wanted),
        timeout=message.timeout,
        answer=lambda outcomes: _answer(request, names, outcomes),
    )


def _answer(request: Request, names: Sequence[str], outcomes: Sequence[AdminOutcome]) -> None:
    request.reply(
        {
            "results": [
                {"name": name, **error_fields(outcome)} for name, outcome in zip(names, outcomes, strict=True)
            ]
        }
    )
