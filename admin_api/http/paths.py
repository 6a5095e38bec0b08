"""Types of names and numbers in requests: the values allowed in a path, a parameter or a body.

Kafka's rules apply where Kafka has one. They are written as patterns, so that a generated client can check
them, too.
"""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import Path, Query
from pydantic import AfterValidator, Field, StringConstraints

from controller.core.options import ControllerOptions

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
REPLICATION_FACTOR_MAX: Final = ControllerOptions().replication_factor_max

#: The name becomes a znode and part of every path.
ClusterName = Annotated[
    str,
    StringConstraints(pattern=r"^[a-zA-Z0-9][a-zA-Z0-9._-]*$", min_length=1, max_length=63),
    Field(
        description="letters, digits, '.', '_' and '-'; begins with a letter or a digit", examples=["prod"]
    ),
]

#: Kafka's rule, which excludes '.' and '..'.
TopicName = Annotated[
    str,
    StringConstraints(
        pattern=r"^(\.{0,2}[a-zA-Z0-9_-][a-zA-Z0-9._-]*|\.{3}[a-zA-Z0-9._-]*)$", min_length=1, max_length=249
    ),
    Field(description="letters, digits, '.', '_' and '-'; not '.' or '..'", examples=["orders"]),
]

BrokerId = Annotated[int, Field(ge=0, le=INT32_MAX, description="chosen by the operator", examples=[1])]
PartitionNumber = Annotated[int, Field(ge=0, le=INT32_MAX, examples=[0])]
ReplicationFactor = Annotated[int, Field(ge=1, le=REPLICATION_FACTOR_MAX)]
#: The brokers of one partition.
ReplicaIds = Annotated[list[BrokerId], Field(min_length=1, max_length=REPLICATION_FACTOR_MAX)]


def _check_port(endpoint: str) -> str:
    if not 1 <= int(endpoint.rpartition(":")[2]) <= 65_535:
        raise ValueError("the port must lie between 1 and 65535")
    return endpoint


Endpoint = Annotated[
    str,
    StringConstraints(pattern=r"^([a-zA-Z0-9._-]+|\[[0-9a-fA-F:.]+\]):[0-9]{1,5}$", max_length=261),
    AfterValidator(_check_port),
    Field(description="host:port, as the broker advertises it", examples=["store4:9092"]),
]

Reason = Annotated[
    str,
    StringConstraints(max_length=1_000),
    Field(description="kept in the audit beside the change", examples=["capacity for Q4"]),
]
ReasonQuery = Annotated[Reason | None, Query(description="kept in the audit beside the change")]

ClusterPath = Annotated[ClusterName, Path(description="the cluster's name", examples=["prod"])]
BrokerPath = Annotated[BrokerId, Path(examples=[1])]
TopicPath = Annotated[TopicName, Path(description="the topic's name", examples=["orders"])]
PartitionPath = Annotated[PartitionNumber, Path(examples=[0])]
OperationPath = Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]{1,64}$", examples=["op_Zk1lV0pCTEq4nY6mXw2v3A"])]
PlanPath = Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]{1,64}$", examples=["plan_Zk1lV0pCTEq4nY6mXw2v3A"])]
