"""What a client is told of a topic that it names and that is not there; a first use may make it.

As in Kafka, the answer that begins the creation still says that there is no such topic: clients that allow
the creation ask again. The controller decides and writes it down, as for any CreateTopics.
"""

from __future__ import annotations

from collections.abc import Sequence

from springtide.contract.administration import FIRST_USE, AdminOutcome, CreateTopicsCall, TopicToCreate
from springtide.node.handlers.administer import administer, throttled
from springtide.node.handlers.context import NodeContext, Request
from springtide.node.refusals import client_id_of
from springtide.security.acls.model import Operation, ResourceType
from springtide.wire.errors import ErrorCode, error_code


def use_absent(context: NodeContext, request: Request, name: str) -> ErrorCode:
    """Begin to make the topic if its first use makes it, and return the error for the client."""
    if context.view.cluster_configs.get(FIRST_USE) != "true":
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if not (
        request.may(Operation.CREATE, ResourceType.CLUSTER, is_filter=True)
        or request.may(Operation.CREATE, ResourceType.TOPIC, name)
    ):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if context.first_uses.begin(name, now_ms=request.now_ms):
        _make(context, request, name)
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _make(context: NodeContext, request: Request, name: str) -> None:
    client_id = client_id_of(request.answer.connection)

    def end(outcomes: Sequence[AdminOutcome]) -> None:
        (outcome,) = outcomes
        error = error_code(outcome.error_code)
        if error in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            context.first_uses.end(name)
        else:
            context.first_uses.refuse(
                name, error.name, outcome.message or "", client_id=client_id, now_ms=context.mono_ms()
            )

    def partitions() -> int:
        return int(context.view.cluster_configs.get("num.partitions", 1))

    if refused := throttled(request, partitions, told_since=0):
        end([refused])
        return
    call = CreateTopicsCall(topics=(TopicToCreate(name=name),), on_first_use=True)
    administer(context, request, call, named=1, answer=end)
