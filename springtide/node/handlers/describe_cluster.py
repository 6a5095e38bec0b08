"""DescribeCluster: the cluster's id, its brokers, where to send administration (KIP-700, KIP-919, KIP-1073).

The brokers are those of Metadata; coordinators are not told, because tools place replicas on what they find
here. A client that wants the fenced ones, too, gets every broker that the controller has told of. Before the
first full state has come, the connection is ended, as by Metadata.
"""

from __future__ import annotations

from springtide.node.handlers import authorized_operations
from springtide.node.handlers.context import NodeContext, Request
from springtide.wire.errors import ErrorCode
from springtide.wire.messages import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

BROKERS, CONTROLLERS = 1, 2
"""Kafka's endpoint types."""
NO_CONTROLLERS = (
    "this is a broker, and controllers do not speak the Kafka protocol: ask for endpoints of type broker"
)


def handle(context: NodeContext, request: Request, message: DescribeClusterRequest) -> None:
    if message.endpoint_type != BROKERS:
        request.reply(_refused(message.endpoint_type))
        return
    if not context.is_view_complete():
        request.turn_away()
        return
    view = context.view
    listed = view.brokers_for_clients(request.now_ms)
    if message.include_fenced_brokers:
        listed = [view.brokers[broker_id] for broker_id in sorted(view.brokers)]
    request.reply(
        DescribeClusterResponse(
            endpoint_type=BROKERS,
            cluster_id=view.cluster_id or "",
            controller_id=view.controller_for_clients(),
            brokers=tuple(
                DescribeClusterBroker(
                    broker_id=broker.broker_id,
                    host=address[0],
                    port=address[1],
                    rack=broker.rack,
                    is_fenced=not broker.active,
                )
                for broker in listed
                if (address := broker.address_for(request.listener)) is not None
            ),
            cluster_authorized_operations=authorized_operations.of_cluster(request, message),
        )
    )


def _refused(endpoint_type: int) -> DescribeClusterResponse:
    if endpoint_type == CONTROLLERS:
        error, text = ErrorCode.MISMATCHED_ENDPOINT_TYPE, NO_CONTROLLERS
    else:
        error, text = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"there is no endpoint type {endpoint_type}"
    return DescribeClusterResponse(error_code=error, error_message=text, endpoint_type=endpoint_type)
