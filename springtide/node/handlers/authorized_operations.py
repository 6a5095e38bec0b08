"""What a client may do, where an answer can say so (KIP-430): everything, as in Kafka without an authorizer.

Clients have no rights of their own here. Where the controller closes administration to the Kafka protocol, a
call is refused when it is made.
"""

from __future__ import annotations

from typing import Any

NOT_ASKED = -(2**31)
READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, CLUSTER_ACTION = 3, 4, 5, 6, 7, 8, 9
DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE = 10, 11, 12


def _bits(*operations: int) -> int:
    return sum(1 << operation for operation in operations)


ON_TOPIC = _bits(READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS)
ON_CLUSTER = _bits(CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE)
ON_GROUP = _bits(READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS)


def of_topic(message: Any) -> int:
    """Return the field of each topic in the answer to a Metadata request."""
    return ON_TOPIC if getattr(message, "include_topic_authorized_operations", False) else NOT_ASKED


def of_cluster(message: Any) -> int:
    """Return the field of the answer to a Metadata or DescribeCluster request."""
    return ON_CLUSTER if getattr(message, "include_cluster_authorized_operations", False) else NOT_ASKED


def of_group(message: Any) -> int:
    """Return what a client may do with a group, for a DescribeGroups request that asks."""
    return ON_GROUP if getattr(message, "include_authorized_operations", False) else NOT_ASKED
