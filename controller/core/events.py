"""The events of one cluster, and the machine's answers to them.

Every event carries `wall_ms`, the wall clock for the audit; decisions go by the monotonic `now_ms` given to
`step`. An event that needs a new identifier (a topic id) carries it: the core draws nothing. Requests of
brokers travel in their contract types and get contract types back; operators' requests get a typed result, or
a `Refusal` with enough in it for a problem document.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from controller.core.loss import LossPreview
from controller.core.records import BrokerRegistration, CoordinatorRegistration, MemberKind
from springtide.contract.administration import QuotasToAlter
from springtide.contract.epochs import BrokerEpoch, ControllerEpoch, PartitionEpoch
from springtide.contract.errors import ControllerError
from springtide.contract.lag_report import LagReport, LagReportResponse
from springtide.contract.partition_state import PartitionKey, PartitionState, TopicState
from springtide.contract.security import EntityQuotas, ScramSecret, UserSecrets
from springtide.contract.session import (
    ClockLeap,
    HeartbeatRequest,
    HeartbeatResponse,
    RegisterRequest,
    RegisterResponse,
    Witness,
)
from springtide.contract.updates import (
    ApplyFailure,
    NameWriterRequest,
    NameWriterResponse,
    ProducerIdsRequest,
    ProducerIdsResponse,
)
from springtide.levels import Level, LevelRange
from springtide.security.acls.model import AclBinding, AclFilter


class _Event(msgspec.Struct, frozen=True, kw_only=True):
    wall_ms: int


class _OperatorEvent(_Event, frozen=True, kw_only=True):
    """actor: the operator's name. dry_run: compute and validate the same, write nothing."""

    actor: str
    reason: str | None = None
    request_id: str | None = None
    operation_id: str | None = None
    dry_run: bool = False


# --- from brokers -------------------------------------------------------------------------------------------


class RegisterMember(_Event, frozen=True, kw_only=True):
    """-> RegisterResponse"""

    request: RegisterRequest
    kind: MemberKind = MemberKind.BROKER


class Heartbeat(_Event, frozen=True, kw_only=True):
    """-> HeartbeatResponse. `received_ms` is the monotonic time at which the request arrived, not the one at
    which it is processed: an overloaded controller must not fence healthy brokers (KAFKA-15019)."""

    request: HeartbeatRequest
    received_ms: int
    kind: MemberKind = MemberKind.BROKER


class BrokerApplied(_Event, frozen=True, kw_only=True):
    """A poll acknowledged everything up to a position. -> AppliedReply"""

    broker_id: int
    broker_epoch: BrokerEpoch
    controller_epoch: ControllerEpoch
    sequence: int
    failures: tuple[ApplyFailure, ...] = ()
    witness: Witness | None = None
    heartbeat_count: int = -1
    kind: MemberKind = MemberKind.BROKER


class Report(_Event, frozen=True, kw_only=True):
    """-> LagReportResponse"""

    request: LagReport


class AllocateProducerIds(_Event, frozen=True, kw_only=True):
    """-> ProducerIdsResponse"""

    request: ProducerIdsRequest


class NameWriter(_Event, frozen=True, kw_only=True):
    """-> NameWriterResponse"""

    request: NameWriterRequest


# --- from the shell -----------------------------------------------------------------------------------------


class BrokerProvenDead(_Event, frozen=True, kw_only=True):
    """The listener of this incarnation refused a connection (see effects.ProbeBroker). -> BrokerFenceReply"""

    broker_id: int
    broker_epoch: BrokerEpoch


class Tick(_Event, frozen=True, kw_only=True):
    """Time has passed: submit it at `next_deadline_ms()`, and once right after the machine is built.
    clock_leap: how far this controller's clocks disagree. fresh_id: a new topic id, in case a coordinator
    topic has to be created, one with each tick; None: not now. webhooks_fail: names of webhooks that take no
    messages. expired_ms: the time (Unix time) up to which deleted topics have been kept long enough; None:
    not known, so none of them goes. -> None"""

    clock_leap: ClockLeap | None = None
    webhooks_fail: str | None = None
    fresh_id: str | None = None
    expired_ms: int | None = None


# --- from operators -----------------------------------------------------------------------------------------


class AdmitBrokers(_OperatorEvent, frozen=True, kw_only=True):
    """Let waiting brokers hold data. All or none; one already admitted is no error. -> BrokersAdmitted"""

    broker_ids: tuple[int, ...]


class RemoveMember(_OperatorEvent, frozen=True, kw_only=True):
    """Forget a member that is down, and holds no replica of a living topic. -> MemberRemoved"""

    member_id: int
    kind: MemberKind = MemberKind.BROKER


class MaintainBrokers(_OperatorEvent, frozen=True, kw_only=True):
    """Cordon, drain or demote brokers, or take that back; what is None stays as it is. All or none.
    Leaderships of a demoted broker move at once where another replica is in sync. -> BrokersMaintained"""

    broker_ids: tuple[int, ...]
    cordoned: bool | None = None
    draining: bool | None = None
    demoted: bool | None = None


class AdmitCoordinators(_OperatorEvent, frozen=True, kw_only=True):
    """Let waiting coordinators serve shards. All or none; one already admitted is no error. ->
    CoordinatorsChanged"""

    coordinator_ids: tuple[int, ...]


class MaintainCoordinators(_OperatorEvent, frozen=True, kw_only=True):
    """Drain or demote coordinators, or take that back; what is None stays as it is. All or none. ->
    CoordinatorsChanged"""

    coordinator_ids: tuple[int, ...]
    draining: bool | None = None
    demoted: bool | None = None


class DescribeBroker(_OperatorEvent, frozen=True, kw_only=True):
    """Say where a broker stands, over what it says itself, and note what an operator wants to. ->
    BrokerDescribed

    rack: None gives the word back to the broker; UNSET leaves it as it is. labels: set (str) or removed
        (None); those not named stay. cordoned: as MaintainBrokers has it, for a change of both at once.
    """

    broker_id: int
    rack: str | msgspec.UnsetType | None = msgspec.UNSET
    labels: dict[str, str | None] = {}
    cordoned: bool | None = None


class ConfigureBrokers(_OperatorEvent, frozen=True, kw_only=True):
    """Set (str) or unset (None) settings of these brokers, under Kafka's names; those not named stay. All or
    none. -> BrokersConfigured"""

    broker_ids: tuple[int, ...]
    configs: dict[str, str | None]


class CreateTopic(_OperatorEvent, frozen=True, kw_only=True):
    """-> TopicCreated. topic_id: chosen by the caller, 22 characters of URL-safe base64 of 16 bytes.

    partitions, replication_factor: -1 (or None) means the cluster's defaults `num.partitions`,
        `default.replication.factor`; both must be left out, or agree, when `assignments` is given.
    assignments: replicas per partition, preferred leader first.
    """

    topic_id: str
    topic: str
    partitions: int | None = None
    replication_factor: int | None = None
    assignments: tuple[tuple[int, ...], ...] | None = None
    configs: dict[str, str] = {}


class AddPartitions(_OperatorEvent, frozen=True, kw_only=True):
    """More partitions for a topic, with as many replicas as its first. -> PartitionsAdded

    partitions: how many it shall have. assignments: replicas of each new one, preferred leader first; None:
        placed by the controller.
    """

    topic: str | None = None
    topic_id: str | None = None
    partitions: int
    assignments: tuple[tuple[int, ...], ...] | None = None


class ConfigureTopic(_OperatorEvent, frozen=True, kw_only=True):
    """Set (str) or unset (None) a topic's own settings; those not named stay. -> TopicConfigured"""

    topic: str | None = None
    topic_id: str | None = None
    configs: dict[str, str | None]


class ConfigureGroup(_OperatorEvent, frozen=True, kw_only=True):
    """Set (str) or unset (None) a group's own settings; those not named stay. -> GroupConfigured"""

    group_id: str
    configs: dict[str, str | None]


class DeleteTopic(_OperatorEvent, frozen=True, kw_only=True):
    """Delete a topic by name or by id; when both are given they must agree. -> TopicDeletionStarted"""

    topic: str | None = None
    topic_id: str | None = None


class RestoreTopic(_OperatorEvent, frozen=True, kw_only=True):
    """Let a deleted topic that is kept live again, under its id. topic: another name; None: the one that it
    had. -> TopicsBroughtBack"""

    topic_id: str
    topic: str | None = None


class PurgeTopic(_OperatorEvent, frozen=True, kw_only=True):
    """Delete the logs of a deleted topic that is kept. -> TopicDeletionStarted"""

    topic_id: str


class ConfigureCluster(_OperatorEvent, frozen=True, kw_only=True):
    """Set (str) or unset (None) cluster-wide defaults. -> ClusterConfigured"""

    configs: dict[str, str | None]


class AlterAcls(_OperatorEvent, frozen=True, kw_only=True):
    """Remove the bindings that filters match, then add bindings; each filter and binding is carried out or
    refused alone. A binding that is there already is no error. -> AclsAltered"""

    added: tuple[AclBinding, ...] = ()
    removed: tuple[AclFilter, ...] = ()


class UserToAlter(msgspec.Struct, frozen=True, kw_only=True):
    """A change of one user: the secrets to set, in place of those of the same mechanisms, and the mechanisms
    of the secrets to delete. A user without a secret is gone."""

    user: str
    upsertions: tuple[ScramSecret, ...] = ()
    deletions: tuple[str, ...] = ()


class AlterUsers(_OperatorEvent, frozen=True, kw_only=True):
    """Each user is carried out whole or refused alone. salt_key: 32 random bytes, which become the key of
    unknown users' salts if the cluster has none yet. -> UsersAltered"""

    users: tuple[UserToAlter, ...]
    salt_key: bytes = b""


class AlterQuotas(_OperatorEvent, frozen=True, kw_only=True):
    """Each entity is carried out whole or refused alone. -> QuotasAltered"""

    changes: tuple[QuotasToAlter, ...]


class ElectPreferred(_OperatorEvent, frozen=True, kw_only=True):
    """Move leadership of these partitions back to the preferred replica. -> LeadersElected"""

    topic_id: str
    partition: int


class ElectPreferredLeaders(_OperatorEvent, frozen=True, kw_only=True):
    """The same for many, each carried out or refused alone. -> PreferredLeadersElected"""

    partitions: tuple[PartitionKey, ...]


class ElectUnclean(_OperatorEvent, frozen=True, kw_only=True):
    """Choose a leader by hand for a partition that has none, accepting what its log lacks (3.5, unclean
    election).

    partition_epoch: the state the operator looked at; refused when it has changed.
    lost_records_max: refused when more than that would be lost by what replicas told of their logs (loss.py),
        or when a live one has not told yet; None: any loss. -> LeadersElected
    """

    topic_id: str
    partition: int
    broker_id: int
    partition_epoch: PartitionEpoch
    lost_records_max: int | None = None


class ReassignmentTarget(msgspec.Struct, frozen=True, kw_only=True):
    """One partition's wish. replicas: preferred leader first; None: cancel, that is go back to what was.
    partition_epoch: the state that was looked at; refused when it has changed. None: any state."""

    topic_id: str
    partition: int
    replicas: tuple[int, ...] | None
    partition_epoch: PartitionEpoch | None = None


class AlterReassignments(_OperatorEvent, frozen=True, kw_only=True):
    """Move replicas (4.2, reassignment), or cancel that (4.4, cancelling), partition by partition: each is
    carried out or refused alone. A wish for a partition that is on its way elsewhere replaces the earlier
    one, its rate included. -> ReassignmentsAltered

    throttled_rate: bytes per second that each broker may fetch for the learners of all these partitions, and
        of others moved under the same operation_id (without one, request_id); None: unthrottled.
    """

    targets: tuple[ReassignmentTarget, ...]
    throttled_rate: int | None = None


class RecoverMetadata(_OperatorEvent, frozen=True, kw_only=True):
    """Rebuild the rows of a cluster whose ZooKeeper went back, from what its brokers hold (11.4, recovery).
    -> MetadataRecovered

    gone_brokers: those that will never come back; what they alone held is lost.
    """

    gone_brokers: tuple[int, ...] = ()


class BringBackTopics(_OperatorEvent, frozen=True, kw_only=True):
    """Recreate topics from the logs that brokers have set aside (11.5, logs that were set aside). ->
    TopicsBroughtBack

    topic_ids: those to bring back; empty: all that the cluster does not know. gone_brokers: as in
    RecoverMetadata.
    """

    topic_ids: tuple[str, ...] = ()
    gone_brokers: tuple[int, ...] = ()


class Process(msgspec.Struct, frozen=True, kw_only=True):
    """A process of the cluster, or a controller, and the levels that it can run at.

    kind: "broker", "coordinator" or "controller", whose id `process_id` is. levels: None: it has not told
        this controller yet. is_running: as far as this controller hears. is_active: a broker or coordinator
        that serves, or the active controller.
    """

    kind: str
    process_id: str
    name: str
    version: str
    levels: LevelRange | None
    is_running: bool
    is_active: bool


class Blocker(msgspec.Struct, frozen=True, kw_only=True):
    """What keeps a cluster's level from being raised. kind: of a process, or "database". reason: goes on from
    the name, and says what to do."""

    kind: str
    name: str
    reason: str


class FinalizeUpgrade(_OperatorEvent, frozen=True, kw_only=True):
    """Raise the cluster's level by one step, for good. -> UpgradeFinalized

    controllers: all that run. blockers: what else stands in the way.
    """

    controllers: tuple[Process, ...]
    blockers: tuple[Blocker, ...] = ()


OperatorEvent = (
    AdmitBrokers
    | FinalizeUpgrade
    | RecoverMetadata
    | BringBackTopics
    | RemoveMember
    | CreateTopic
    | AddPartitions
    | ConfigureTopic
    | DeleteTopic
    | RestoreTopic
    | PurgeTopic
    | ConfigureCluster
    | ConfigureGroup
    | ElectPreferred
    | ElectPreferredLeaders
    | ElectUnclean
    | AlterReassignments
    | MaintainBrokers
    | DescribeBroker
    | ConfigureBrokers
    | AdmitCoordinators
    | MaintainCoordinators
    | AlterAcls
    | AlterUsers
    | AlterQuotas
)
Event = (
    RegisterMember
    | NameWriter
    | Heartbeat
    | BrokerApplied
    | Report
    | AllocateProducerIds
    | BrokerProvenDead
    | Tick
    | OperatorEvent
)


# --- replies ------------------------------------------------------------------------------------------------


class RefusalCode(StrEnum):
    """Why an operator's request changes nothing."""

    TOPIC_ALREADY_EXISTS = "topic_already_exists"
    INVALID_TOPIC_NAME = "invalid_topic_name"
    #: Differs from an existing name only by '.' and '_', which metrics confuse (Kafka has the same rule).
    TOPIC_NAME_COLLISION = "topic_name_collision"
    INVALID_TOPIC_ID = "invalid_topic_id"
    UNKNOWN_TOPIC = "unknown_topic"
    UNKNOWN_PARTITION = "unknown_partition"
    INVALID_PARTITIONS = "invalid_partitions"
    INVALID_REPLICATION_FACTOR = "invalid_replication_factor"
    REPLICATION_FACTOR_TOO_LARGE = "replication_factor_too_large"
    INVALID_REPLICA_ASSIGNMENT = "invalid_replica_assignment"
    NO_LIVE_REPLICA = "no_live_replica"
    UNKNOWN_CONFIG = "unknown_config"
    INVALID_CONFIG = "invalid_config"
    UNKNOWN_BROKER = "unknown_broker"
    INELIGIBLE_BROKER = "ineligible_broker"
    UNKNOWN_COORDINATOR = "unknown_coordinator"
    COORDINATOR_IN_USE = "coordinator_in_use"
    #: Of a coordinator topic: the controller creates it, and it stays as it is.
    RESERVED_TOPIC = "reserved_topic"
    #: The topic's own setting guards it against deletion.
    DELETION_PROTECTED = "deletion_protected"
    BROKER_IN_USE = "broker_in_use"
    PARTITION_CHANGED = "partition_changed"
    ELECTION_NOT_NEEDED = "election_not_needed"
    #: The election would lose more records than was accepted, or it is not known yet how many.
    LOSS_TOO_LARGE = "loss_too_large"
    LOSS_UNKNOWN = "loss_unknown"
    NO_REASSIGNMENT_IN_PROGRESS = "no_reassignment_in_progress"
    #: Carried out now, it would leave too few replicas in sync, or none that may lead.
    REASSIGNMENT_NOT_SAFE = "reassignment_not_safe"
    RECOVERY_NOT_NEEDED = "recovery_not_needed"
    #: A broker that was not given up has not told what it holds.
    RECOVERY_INCOMPLETE = "recovery_incomplete"
    #: ZooKeeper lost what it once held: nothing is decided until the metadata is recovered.
    METADATA_WENT_BACK = "metadata_went_back"
    INVALID_ACL = "invalid_acl"
    TOO_MANY_ACLS = "too_many_acls"
    INVALID_USER = "invalid_user"
    #: A secret's mechanism, iterations, salt or keys break a bound.
    INVALID_CREDENTIAL = "invalid_credential"
    #: The user has no secret of a mechanism that was to be deleted.
    UNKNOWN_CREDENTIAL = "unknown_credential"
    #: A mechanism, or an entity's quota, is named twice in one request.
    NAMED_TWICE = "named_twice"
    TOO_MANY_USERS = "too_many_users"
    INVALID_QUOTA = "invalid_quota"
    TOO_MANY_QUOTAS = "too_many_quotas"
    #: One request changes more than the controller carries out in one step.
    TOO_MANY_CHANGES = "too_many_changes"
    #: A process can't run at the next level, or has not told that it can.
    UPGRADE_BLOCKED = "upgrade_blocked"
    #: The authorizer tells members of the cluster by their certificates, and a broker is reached without TLS.
    BROKER_WITHOUT_TLS = "broker_without_tls"


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """field: the request's field at fault ("replication_factor", "configs.retention.ms"). limit: the bound
    that was broken. facts: numbers an operator needs to see (eligible_brokers, fenced_brokers, ...)."""

    code: RefusalCode
    detail: str
    field: str | None = None
    limit: int | None = None
    hint: str | None = None
    facts: dict[str, int] = {}


class AppliedReply(msgspec.Struct, frozen=True, kw_only=True):
    """NONE, BROKER_NOT_REGISTERED or STALE_BROKER_EPOCH: only the first may be answered with a batch."""

    error: ControllerError = ControllerError.NONE


class BrokerFenceReply(msgspec.Struct, frozen=True, kw_only=True):
    """fenced: whether this event fenced it (False: stale proof, or fenced already)."""

    fenced: bool


class _Done(msgspec.Struct, frozen=True, kw_only=True):
    """dry_run: nothing was written; this is what would be."""

    dry_run: bool = False


class BrokersAdmitted(_Done, frozen=True, kw_only=True):
    brokers: tuple[BrokerRegistration, ...]


class MemberRemoved(_Done, frozen=True, kw_only=True):
    member_id: int


class BrokersMaintained(_Done, frozen=True, kw_only=True):
    """leaders_moved: leaderships that demoted brokers gave up, or would."""

    brokers: tuple[BrokerRegistration, ...]
    leaders_moved: int = 0


class CoordinatorsChanged(_Done, frozen=True, kw_only=True):
    """The coordinators as they are now; of a dry run, as they would be."""

    coordinators: tuple[CoordinatorRegistration, ...]


class BrokerDescribed(_Done, frozen=True, kw_only=True):
    """The broker as it is now; of a dry run, as it would be."""

    broker: BrokerRegistration


class BrokersConfigured(_Done, frozen=True, kw_only=True):
    brokers: tuple[BrokerRegistration, ...]


class TopicCreated(_Done, frozen=True, kw_only=True):
    state: TopicState
    partitions: tuple[PartitionState, ...]


class PartitionsAdded(_Done, frozen=True, kw_only=True):
    """partitions: the new ones."""

    state: TopicState
    partitions: tuple[PartitionState, ...]


class TopicConfigured(_Done, frozen=True, kw_only=True):
    """partitions: those whose minimum in sync changed with it."""

    state: TopicState
    partitions: tuple[PartitionState, ...] = ()


class TopicDeletionStarted(_Done, frozen=True, kw_only=True):
    """waiting_for: brokers that hold a replica; the tombstone goes when each has confirmed or was removed."""

    state: TopicState
    waiting_for: tuple[int, ...]


class ClusterConfigured(_Done, frozen=True, kw_only=True):
    configs: dict[str, str]


class GroupConfigured(_Done, frozen=True, kw_only=True):
    configs: dict[str, str]


class AclAdded(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome for one binding. binding: as it is stored. is_new: whether it was not there before."""

    binding: AclBinding
    is_new: bool = False
    refusal: Refusal | None = None


class AclsRemoved(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome for one filter. bindings: those that it matched and that are gone. A binding that several
    filters match is in the outcome of each."""

    bindings: tuple[AclBinding, ...] = ()
    refusal: Refusal | None = None


class AclsAltered(_Done, frozen=True, kw_only=True):
    """An outcome for each binding and each filter, in the request's order."""

    added: tuple[AclAdded, ...] = ()
    removed: tuple[AclsRemoved, ...] = ()


class UserAltered(msgspec.Struct, frozen=True, kw_only=True):
    """secrets: afterwards; of a refusal, as they are."""

    secrets: UserSecrets
    refusal: Refusal | None = None


class UsersAltered(_Done, frozen=True, kw_only=True):
    """An outcome for each user, in the request's order."""

    users: tuple[UserAltered, ...]


class EntityAltered(msgspec.Struct, frozen=True, kw_only=True):
    """quotas: afterwards; of a refusal, as they are."""

    quotas: EntityQuotas
    refusal: Refusal | None = None


class QuotasAltered(_Done, frozen=True, kw_only=True):
    """An outcome for each entity, in the request's order."""

    entities: tuple[EntityAltered, ...]


class LeadersElected(_Done, frozen=True, kw_only=True):
    """loss: of an election that was unclean indeed, what was known of the logs when it was decided."""

    partitions: tuple[PartitionState, ...]
    loss: LossPreview | None = None


class PartitionResult(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome for one partition of a request. state: afterwards, or as it is when refused and known."""

    topic_id: str
    partition: int
    state: PartitionState | None = None
    refusal: Refusal | None = None


class PreferredLeadersElected(_Done, frozen=True, kw_only=True):
    """A result for each partition, in the request's order."""

    results: tuple[PartitionResult, ...]


class ReassignmentsAltered(_Done, frozen=True, kw_only=True):
    """A result for each target, in the request's order."""

    results: tuple[PartitionResult, ...]


class MetadataRecovered(_Done, frozen=True, kw_only=True):
    """undecided: partitions of which no replica provably holds every committed record. topics_brought_back:
    their names. controller_epoch_min, records_min: the shell starts the next term above these."""

    brokers: tuple[int, ...]
    topics_brought_back: tuple[str, ...]
    partitions: int
    undecided: tuple[PartitionKey, ...]
    controller_epoch_min: int
    records_min: int


class TopicsBroughtBack(_Done, frozen=True, kw_only=True):
    """The topics and partitions that were written, or would be. undecided: as in MetadataRecovered."""

    topics: tuple[TopicState, ...]
    partitions: tuple[PartitionState, ...]
    undecided: tuple[PartitionKey, ...]


class UpgradeFinalized(_Done, frozen=True, kw_only=True):
    """level_before: equal to `level` if the cluster was at the highest that this release has."""

    level_before: Level
    level: Level


OperatorReply = (
    Refusal
    | UpgradeFinalized
    | MetadataRecovered
    | TopicsBroughtBack
    | BrokersAdmitted
    | MemberRemoved
    | TopicCreated
    | PartitionsAdded
    | TopicConfigured
    | TopicDeletionStarted
    | ClusterConfigured
    | GroupConfigured
    | LeadersElected
    | PreferredLeadersElected
    | ReassignmentsAltered
    | BrokersMaintained
    | BrokerDescribed
    | BrokersConfigured
    | CoordinatorsChanged
    | AclsAltered
    | UsersAltered
    | QuotasAltered
)
Reply = (
    RegisterResponse
    | NameWriterResponse
    | HeartbeatResponse
    | AppliedReply
    | LagReportResponse
    | ProducerIdsResponse
    | BrokerFenceReply
    | OperatorReply
)
