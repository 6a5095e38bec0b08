"""AlterPartitionReassignments: move replicas, or cancel that, to the controller (KIP-455, KIP-860)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from springtide.contract.administration import AdminOutcome, AlterReassignmentsCall, ReassignmentWish
from springtide.node.handlers.administer import administer, denial, error_fields, grouped_by_topic
from springtide.node.handlers.context import NodeContext, Request
from springtide.security.acls.model import Operation, ResourceType


def handle(context: NodeContext, request: Request) -> None:
    message = cast(Any, request.decode())
    wishes = tuple(
        ReassignmentWish(
            topic=topic.name,
            partition=partition.partition_index,
            replicas=None if partition.replicas is None else tuple(partition.replicas),
        )
        for topic in message.topics
        for partition in topic.partitions
    )
    may_change_factor = getattr(message, "allow_replication_factor_change", True)
    refused = denial(request, Operation.ALTER, ResourceType.CLUSTER)
    if refused is not None:
        _answer(request, wishes, [refused] * len(wishes), may_change_factor=may_change_factor, whole=refused)
        return
    administer(
        context,
        request,
        AlterReassignmentsCall(partitions=wishes, may_change_factor=may_change_factor),
        named=len(wishes),
        timeout=message.timeout,
        answer=lambda outcomes: _answer(request, wishes, outcomes, may_change_factor=may_change_factor),
    )


def _answer(
    request: Request,
    wishes: Sequence[ReassignmentWish],
    outcomes: Sequence[AdminOutcome],
    *,
    may_change_factor: bool,
    whole: AdminOutcome = AdminOutcome(),  # noqa: B008 - a frozen value
) -> None:
    grouped = grouped_by_topic([(wish.topic, wish.partition) for wish in wishes], outcomes)
    request.reply(
        {
            "allow_replication_factor_change": may_change_factor,
            **error_fields(whole),
            "responses": [
                {
                    "name": topic,
                    "partitions": [
                        {"partition_index": number, **error_fields(outcome)} for number, outcome in found
                    ],
                }
                for topic, found in grouped.items()
            ],
        }
    )
