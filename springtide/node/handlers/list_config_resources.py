"""ListConfigResources: what has settings, by type, from the metadata stream (KIP-1142). Groups are those with
settings of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from springtide.node.cluster_view import ClusterView
from springtide.node.handlers.administer import code_of
from springtide.node.handlers.context import NodeContext, Request
from springtide.node.handlers.security_refusals import refusal_to_describe
from springtide.security.acls.model import Operation
from springtide.wire.errors import ErrorCode
from springtide.wire.messages import (
    ListConfigResourcesConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

CLIENT_METRICS = 16
"""All that version 0 asks for. No cluster has any, as none has settings of loggers (type 8)."""


def _nodes(view: ClusterView) -> Iterable[str]:
    return map(str, sorted((*view.brokers, *view.coordinators)))


_NAMES: dict[int, Callable[[ClusterView], Iterable[str]]] = {
    2: lambda view: (topic.topic for topic in view.live_topics()),
    4: _nodes,
    8: lambda _: (),
    CLIENT_METRICS: lambda _: (),
    32: lambda view: sorted(view.group_configs),
}


def handle(context: NodeContext, request: Request, message: ListConfigResourcesRequest) -> None:
    refused = refusal_to_describe(context, request, Operation.DESCRIBE_CONFIGS)
    wanted = tuple(dict.fromkeys(message.resource_types)) or tuple(_NAMES)
    if refused is not None:
        request.reply(ListConfigResourcesResponse(error_code=code_of(refused)))
    elif not _NAMES.keys() >= set(wanted):
        request.reply(ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION))
    else:
        found = tuple(
            ListConfigResourcesConfigResource(resource_name=name, resource_type=kind)
            for kind in (wanted if request.api_version > 0 else (CLIENT_METRICS,))
            for name in _NAMES[kind](context.view)
        )
        request.reply(ListConfigResourcesResponse(config_resources=found))
