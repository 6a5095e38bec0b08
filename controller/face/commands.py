"""What can be asked of a cluster, as values; what it answers; and how asking can fail.

A command is given to `Engine.submit`. Its reply is one of the values here, or a `Refusal`. An exception says
that there is no reply.
"""

from __future__ import annotations

from controller.core.events import (
    AclsAltered,
    AddPartitions,
    AdmitCoordinators,
    AlterAcls,
    AlterQuotas,
    AlterReassignments,
    AlterUsers,
    Blocker,
    BringBackTopics,
    BrokerDescribed,
    BrokersConfigured,
    BrokersMaintained,
    ClusterConfigured,
    ConfigureBrokers,
    ConfigureCluster,
    ConfigureTopic,
    CoordinatorsChanged,
    CreateTopic,
    DeleteTopic,
    DescribeBroker,
    ElectPreferred,
    ElectPreferredLeaders,
    ElectUnclean,
    Event,
    FinalizeUpgrade,
    LeadersElected,
    MaintainBrokers,
    MaintainCoordinators,
    PartitionResult,
    PartitionsAdded,
    PreferredLeadersElected,
    PurgeTopic,
    QuotasAltered,
    ReassignmentsAltered,
    ReassignmentTarget,
    RecoverMetadata,
    Refusal,
    RefusalCode,
    RemoveMember,
    Reply,
    RestoreTopic,
    TopicConfigured,
    TopicCreated,
    TopicDeletionStarted,
    TopicsBroughtBack,
    UpgradeFinalized,
    UsersAltered,
    UserToAlter,
)
from controller.core.records import MemberKind
from controller.shell.outcomes import (
    ClusterExists,
    MetadataWentBack,
    NotActive,
    NotInForce,
    OutcomeUnknown,
    Overloaded,
    UnknownCluster,
    UnreadableCluster,
)
