"""What a client may do, where an answer can say so (KIP-430): bits by the numbers of operations."""

from __future__ import annotations

from typing import Final

from springtide.node.handlers.context import Request
from springtide.security.acls.model import CLUSTER_NAME, Operation, ResourceType
from springtide.security.acls.validation import OPERATIONS
from springtide.wire.messages import (
    ConsumerGroupDescribeRequest,
    DescribeClusterRequest,
    DescribeGroupsRequest,
    MetadataRequest,
)

NOT_ASKED: Final = -(2**31)
_ALL: Final = {of_type: sum(1 << one for one in operations) for of_type, operations in OPERATIONS.items()}


def operations_on(request: Request, resource_type: ResourceType, name: str) -> int:
    """Return all that the client may do with the resource."""
    if request.rights is None:
        return _ALL[resource_type]
    may = request.rights.may
    return sum(1 << one for one in OPERATIONS[resource_type] if may(one, resource_type, name, is_filter=True))


def of_topic(request: Request, message: MetadataRequest, name: str) -> int:
    """Return the field of a topic in the answer to a Metadata request."""
    if not message.include_topic_authorized_operations:
        return NOT_ASKED
    return operations_on(request, ResourceType.TOPIC, name)


def of_cluster(request: Request, message: MetadataRequest | DescribeClusterRequest) -> int:
    """Return the field of the answer to a Metadata or DescribeCluster request: nothing for a client that may
    not describe the cluster."""
    if not message.include_cluster_authorized_operations:
        return NOT_ASKED
    if not request.may(Operation.DESCRIBE, ResourceType.CLUSTER, is_filter=True):
        return 0
    return operations_on(request, ResourceType.CLUSTER, CLUSTER_NAME)


def of_group(
    request: Request, message: DescribeGroupsRequest | ConsumerGroupDescribeRequest, group_id: str
) -> int:
    """Return what a client may do with a group, for a request that asks."""
    if not message.include_authorized_operations:
        return NOT_ASKED
    return operations_on(request, ResourceType.GROUP, group_id)
