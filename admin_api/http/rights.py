"""What each request over REST needs, and what each role gives, in the words of Kafka's ACLs.

A right is an operation on a resource of an area. Three areas are Kafka's resource types. The two others
divide Kafka's `cluster`: an operator moves replicas, which is ALTER of the cluster, without changing ACLs,
which is the same in Kafka; and what may lose records is given by the role admin only, and by no ACL.

This is the one table of it. The guard of the routes, the refusals and `acls:explain` read it, and no route
has a rule of its own. A request that is not in it is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from admin_api.http.tokens import Role
from springtide.security.acls.model import CLUSTER_NAME, WILDCARD, Operation, ResourceType

_O = Operation


class Area(StrEnum):
    """What a right is about. ACCESS: ACLs and users. PROTECTION: what may lose records, and what guards them:
    unclean elections, recovery, guardrails, and the settings that protect a cluster or say whether ACLs
    decide."""

    TOPIC = "topic"
    GROUP = "group"
    TRANSACTION = "transactional_id"
    CLUSTER = "cluster"
    ACCESS = "access"
    PROTECTION = "protection"


#: The resource type whose ACLs give a right, too.
RESOURCE_TYPES: Final[Mapping[Area, ResourceType]] = {
    Area.TOPIC: ResourceType.TOPIC,
    Area.GROUP: ResourceType.GROUP,
    Area.TRANSACTION: ResourceType.TRANSACTIONAL_ID,
    Area.CLUSTER: ResourceType.CLUSTER,
    Area.ACCESS: ResourceType.CLUSTER,
}


@dataclass(frozen=True, slots=True)
class Right:
    """An operation on a resource. name: of the topic, group or transactional id; `*` where it is not
    known."""

    area: Area
    operation: Operation
    name: str = WILDCARD

    @property
    def resource_name(self) -> str:
        return self.name if self.area in _NAME_IN_PATH else CLUSTER_NAME

    @property
    def words(self) -> str:
        """Return the right as refusals and explanations name it: "create on topic 'orders'"."""
        operation = self.operation.name.lower()
        match self.area:
            case Area.CLUSTER:
                return f"{operation} on the cluster"
            case Area.ACCESS:
                return f"{operation} on the cluster's ACLs and users"
            case Area.PROTECTION:
                return f"{operation} on the cluster's protection"
            case _:
                return f"{operation} on {self.area} {self.name!r}"

    @property
    def tried(self) -> Right:
        """Return what a dry run of the request needs: to see what it is about."""
        area = Area.CLUSTER if self.area is Area.PROTECTION else self.area
        return Right(area, Operation.DESCRIBE, self.name)


_SEE: Final = frozenset({_O.DESCRIBE, _O.DESCRIBE_CONFIGS})
_CHANGE: Final = _SEE | {_O.CREATE, _O.ALTER, _O.ALTER_CONFIGS}
_RUN: Final = {
    Area.TOPIC: _CHANGE | {_O.DELETE},
    Area.GROUP: _SEE | {_O.READ, _O.DELETE, _O.ALTER_CONFIGS},
    Area.TRANSACTION: _SEE | {_O.WRITE},
    Area.CLUSTER: _CHANGE,
}
#: What each role gives, on each resource of the area. No role gives the right to read or write records: that
#: is for the ACLs of a cluster that has an authorizer, and for each client of one that has none.
GIVEN: Final[Mapping[Role, Mapping[Area, frozenset[Operation]]]] = {
    Role.VIEWER: {Area.TOPIC: _SEE, Area.GROUP: _SEE, Area.TRANSACTION: _SEE, Area.CLUSTER: _SEE},
    Role.OPERATOR: {**_RUN, Area.ACCESS: frozenset({_O.DESCRIBE})},
    Role.ADMIN: {
        **_RUN,
        Area.ACCESS: frozenset({_O.DESCRIBE, _O.ALTER}),
        Area.PROTECTION: frozenset({_O.ALTER}),
    },
    Role.BROKER: {},
}

SEE_ACCESS: Final = Right(Area.ACCESS, _O.DESCRIBE)
CHANGE_ACCESS: Final = Right(Area.ACCESS, _O.ALTER)
CHANGE_PROTECTION: Final = Right(Area.PROTECTION, _O.ALTER)
ALTER_CLUSTER: Final = Right(Area.CLUSTER, _O.ALTER)

#: The request that reads records: its service asks for the right, as a broker does for a Fetch.
READS_RECORDS: Final = "listRecords"
#: The operation ids of the API's document, by what they need.
_NEEDS: Final[Mapping[tuple[Area, Operation], str]] = {
    (
        Area.TOPIC,
        _O.DESCRIBE,
    ): "getTopic getTopicHistory listPartitions getPartition previewLoss explainReplicas",
    (Area.TOPIC, _O.READ): READS_RECORDS,
    (Area.TOPIC, _O.DESCRIBE_CONFIGS): "listTopicConfigs getTopicConfig",
    (Area.TOPIC, _O.CREATE): "createTopic createTopicInCluster",
    (Area.TOPIC, _O.ALTER): "changeTopic",
    (Area.TOPIC, _O.DELETE): "deleteTopic deleteRecords restoreTopic purgeTopic",
    (Area.TOPIC, _O.ALTER_CONFIGS): "setTopicConfig unsetTopicConfig alterTopicConfigs",
    (Area.GROUP, _O.DESCRIBE): "getGroup getGroupHistory listGroupRebalances",
    (Area.GROUP, _O.READ): "resetGroupOffsets",
    (Area.GROUP, _O.DELETE): "deleteGroup",
    (Area.GROUP, _O.DESCRIBE_CONFIGS): "listGroupConfigs",
    (Area.GROUP, _O.ALTER_CONFIGS): "alterGroupConfigs",
    (Area.TRANSACTION, _O.DESCRIBE): "getTransaction",
    (Area.TRANSACTION, _O.WRITE): "abortTransaction",
    (Area.CLUSTER, _O.DESCRIBE): (
        "listClusters getCluster listConfigChanges listSetAsideLogs listAlarms listBrokers getBroker "
        "listCoordinators getCoordinator listGroups listTransactions listTopics listMissingTopics "
        "listDeletedTopics listReassignments listPlans "
        "getPlan listPlannedMoves listPolicies getPolicy listWebhooks getWebhook listSilences "
        "getAssignment getResilience listPartitionsOfCluster "
        "getReplication listOperations getOperation listMoves watchOperation getReceipt listVerifications "
        "getVerification listFindings listAudit verifyAudit getAuditRow getMetrics "
        "getClusterHistory getBrokerHistory getHeatMap getUpgrade"
    ),
    (Area.CLUSTER, _O.DESCRIBE_CONFIGS): (
        "listBrokerConfigs getBrokerConfig listClusterConfigs getClusterConfig listQuotas"
    ),
    (Area.CLUSTER, _O.CREATE): "createCluster",
    (Area.CLUSTER, _O.ALTER): (
        "addBrokers changeBroker removeBroker drainBroker demoteBroker returnBroker admitCoordinators "
        "changeCoordinator removeCoordinator endTransaction electLeader electPreferredLeaders "
        "assignPartition cancelReassignment makePlan deletePlan executePlan approvePlan undoOperation "
        "changeOperation "
        "cancelOperation pauseOperation resumeOperation recordVerification addSilence endSilence"
    ),
    (Area.CLUSTER, _O.ALTER_CONFIGS): (
        "setBrokerConfig unsetBrokerConfig alterBrokerConfigs setClusterConfig unsetClusterConfig "
        "alterClusterConfigs undoConfigChange alterQuotas"
    ),
    (Area.ACCESS, _O.DESCRIBE): "listAcls explainAcls listUsers getUser",
    (Area.ACCESS, _O.ALTER): "addAcls removeAcls putUser deleteUser",
    (
        Area.PROTECTION,
        _O.ALTER,
    ): (
        "recoverMetadata bringBackTopics finalizeUpgrade putPolicy deletePolicy putWebhook testWebhook "
        "deleteWebhook"
    ),
}
NEEDS: Final[Mapping[str, tuple[Area, Operation]]] = {
    operation_id: need for need, named in _NEEDS.items() for operation_id in named.split()
}
#: The requests whose resource the path does not tell: their routes ask again, for the topic that is meant.
ASKED_AGAIN: Final = frozenset({"createTopicInCluster", "undoConfigChange", "restoreTopic", "purgeTopic"})
_NAME_IN_PATH: Final = {
    Area.TOPIC: "topic",
    Area.GROUP: "group_id",
    Area.TRANSACTION: "transactional_id",
}


def right_of(operation_id: str, path_params: Mapping[str, Any]) -> Right:
    """Return what a request needs. Raise KeyError for one that is not in the table."""
    area, operation = NEEDS[operation_id]
    return Right(area, operation, str(path_params.get(_NAME_IN_PATH.get(area, ""), WILDCARD)))


def gives(role: Role, right: Right) -> bool:
    return right.operation in GIVEN[role].get(right.area, ())


def roles_that_give(right: Right) -> tuple[Role, ...]:
    """Return the roles that give the right, the least one first."""
    return tuple(role for role in GIVEN if gives(role, right))
