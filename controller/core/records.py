"""The records that the controller persists: each replaces one entity whole.

A step of the machine returns records; the shell persists them *in the order given* and only then replays
them onto the published image. Replaying is the only way state moves, on the active controller, on a standby
and at start alike, so nothing that decides durability may live outside these values. Order is part of the
meaning: a broker's new registration never precedes the records that take away the seats which its new
incarnation can't vouch for (I11, unproven logs lose their seats first).
"""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

import msgspec

from controller.core.effects import ProbeBroker
from springtide.contract.epochs import NO_BROKER_EPOCH, BrokerEpoch
from springtide.contract.groups import GroupConfigs
from springtide.contract.partition_state import PartitionKey, PartitionState, TopicState
from springtide.contract.security import UNKNOWN_USERS, AclsOfPattern, EntityQuotas, UserSecrets
from springtide.contract.session import (
    WORKER_ID_STEP,
    BrokerStatus,
    ListenerAddress,
    ShutdownKind,
    owner_of,
)
from springtide.levels import UNTOLD, Level, LevelRange

#: Who acts when no operator does.
ACTOR_CONTROLLER = "controller"


class Cause(StrEnum):
    """Why a record was written. The audit shows it, so each name is a sentence's worth of reason."""

    CLUSTER_CREATED = "cluster_created"
    CLUSTER_CONFIGURED = "cluster_configured"
    BROKER_REGISTERED = "broker_registered"
    BROKER_ADMITTED = "broker_admitted"
    BROKER_UNFENCED = "broker_unfenced"
    #: Fenced because it was silent for the grace.
    BROKER_FENCED = "broker_fenced"
    #: Fenced because its listener refused a connection.
    BROKER_DIED = "broker_died"
    #: A new incarnation registered: the old one's seats follow the rules of fencing.
    BROKER_RESTARTED = "broker_restarted"
    #: A new incarnation that can't prove that its logs are whole: out of ISR and ELR (I11, unproven logs lose
    #: their seats first).
    UNCLEAN_RESTART = "unclean_restart"
    LOG_DIRS_OFFLINE = "log_dirs_offline"
    BROKER_REMOVED = "broker_removed"
    #: An operator cordons, drains or demotes brokers, or takes that back.
    BROKER_MAINTENANCE = "broker_maintenance"
    #: An operator says in which rack a broker stands, or labels it.
    BROKER_DESCRIBED = "broker_described"
    BROKER_CONFIGURED = "broker_configured"
    #: A demoted broker hands a leadership to another that is in sync.
    LEADER_DEMOTED = "leader_demoted"
    CONTROLLED_SHUTDOWN = "controlled_shutdown"
    TOPIC_CREATED = "topic_created"
    TOPIC_CONFIGURED = "topic_configured"
    PARTITIONS_ADDED = "partitions_added"
    TOPIC_DELETION_STARTED = "topic_deletion_started"
    #: No leader of a topic that is being deleted can acknowledge anything any more.
    TOPIC_NAME_FREED = "topic_name_freed"
    TOPIC_DELETED = "topic_deleted"
    #: An operator restored a deleted topic that was kept; one purged it, or its time is over.
    TOPIC_RESTORED = "topic_restored"
    TOPIC_PURGED = "topic_purged"
    TOPIC_EXPIRED = "topic_expired"
    REPLICAS_CREATED = "replicas_created"
    ISR_SHRUNK = "isr_shrunk"
    ISR_EXPANDED = "isr_expanded"
    #: A proposed member was ineligible. Only the partition epoch moved: see isr.on_proposal.
    ISR_CHANGE_REFUSED = "isr_change_refused"
    LEADER_RECOVERED = "leader_recovered"
    LEADER_ELECTED = "leader_elected"
    SEALED_LEADER_ELECTED = "sealed_leader_elected"
    PREFERRED_LEADER_ELECTED = "preferred_leader_elected"
    UNCLEAN_LEADER_ELECTED = "unclean_leader_elected"
    REASSIGNMENT_STARTED = "reassignment_started"
    #: All targets are in sync; what goes is dropped. Often the same record adds the last of them to the ISR.
    REASSIGNMENT_COMPLETED = "reassignment_completed"
    REASSIGNMENT_CANCELLED = "reassignment_cancelled"
    LOG_MISSING = "log_missing"
    LOG_SHORT = "log_short"
    STORAGE_ERROR = "storage_error"
    REPLICA_ROTTEN = "replica_rotten"
    PRODUCER_IDS_ALLOCATED = "producer_ids_allocated"
    COORDINATOR_REGISTERED = "coordinator_registered"
    COORDINATOR_ADMITTED = "coordinator_admitted"
    COORDINATOR_UNFENCED = "coordinator_unfenced"
    #: Fenced because it was silent for the grace, its listener refused a connection, or it wanted to stop.
    COORDINATOR_FENCED = "coordinator_fenced"
    COORDINATOR_REMOVED = "coordinator_removed"
    #: An operator drains or demotes coordinators, or takes that back.
    COORDINATOR_MAINTENANCE = "coordinator_maintenance"
    #: A shard got another owner or standby.
    SHARD_ASSIGNED = "shard_assigned"
    #: An owner opens a shard, under a writer of its own.
    WRITER_NAMED = "writer_named"
    ACLS_ALTERED = "acls_altered"
    USER_ALTERED = "user_altered"
    QUOTAS_ALTERED = "quotas_altered"
    GROUP_CONFIGURED = "group_configured"
    #: An operator rebuilt the rows of a cluster whose ZooKeeper went back, from what its brokers hold.
    METADATA_RECOVERED = "metadata_recovered"
    #: An operator finalized an upgrade: what is new in the release is written from now on.
    UPGRADE_FINALIZED = "upgrade_finalized"
    #: All processes support a higher level, or no longer do.
    UPGRADE_POSSIBLE = "upgrade_possible"
    #: An operator brought a topic back from logs that brokers had set aside.
    TOPIC_BROUGHT_BACK = "topic_brought_back"
    #: A controller that took over finished what its predecessor had begun.
    TAKEOVER_REPAIR = "takeover_repair"


class Change(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The actor, time and cause of an entity's change. Stored in the entity's own row, so that the audit can
    be filled from ZooKeeper alone (docs/replication.md 4.8, history).

    actor: "controller", "broker:3", or the operator's name. at_ms: wall clock, given by the event.
    """

    cause: Cause
    at_ms: int
    actor: str = ACTOR_CONTROLLER
    reason: str | None = None
    request_id: str | None = None
    operation_id: str | None = None


class MemberKind(StrEnum):
    """What a member is. Both kinds register, send heartbeats and poll in the same messages, which call the id
    of either `broker_id`."""

    BROKER = "broker"
    COORDINATOR = "coordinator"


class BrokerRegistration(msgspec.Struct, frozen=True, kw_only=True):
    """One broker's durable row. `fenced` is durable so that a new controller neither offers a dead broker to
    clients nor elects it while it waits for the first heartbeats.

    broker_epoch: names the incarnation; minted by the controller, strictly increasing per cluster, never
        reused (KIP-380).
    log_dir_ids: usable at registration. offline_log_dir_ids: failed then or since.
    last_shutdown: how the incarnation before this one stopped, as judged at registration.
    cordoned: gets no new replicas and keeps those it has. draining: the same, and it is to be emptied; it is
        drained when it holds none. demoted: leads only what no other broker may lead. Set by operators, and
        kept over restarts.
    configs: its own settings, over the cluster's, under Kafka's names (settings_table.BROKER_SETTINGS).
    rack: what counts. assigned_rack: set by an operator, over what the process says, which is own_rack then.
    labels: an operator's notes; nothing here reads them.
    chain_epoch: the broker epoch with which an unbroken chain of incarnations on these directories began; -1:
        unknown, until the next registration. Seals of logs name it (3.9, after total power loss).
    epoch_before_recovery: by which the incarnation knew itself when a recovery gave it `broker_epoch`, until
        it is unfenced under that (11.4, recovery); -1: none.
    worker_of: the broker that this one is a worker of, as it says itself; None: it is a broker's only one.
    levels: the feature levels that it can run at. UNSET, and so not in the row, if it told none and while the
        cluster is at a level whose rows don't have them (levels.RANGES_IN_ROWS).
    """

    broker_id: int
    broker_epoch: BrokerEpoch
    incarnation_id: str
    host: str
    port: int
    listeners: dict[str, ListenerAddress] = {}
    rack: str | None = None
    log_dir_ids: tuple[str, ...] = ()
    offline_log_dir_ids: tuple[str, ...] = ()
    admitted: bool = False
    fenced: bool = True
    shutting_down: bool = False
    cordoned: bool = False
    draining: bool = False
    demoted: bool = False
    configs: dict[str, str] = {}
    assigned_rack: str | None = None
    own_rack: str | None = None
    labels: dict[str, str] = {}
    last_shutdown: ShutdownKind = ShutdownKind.FIRST_START
    registered_at_ms: int = 0
    version: str = ""
    chain_epoch: BrokerEpoch = NO_BROKER_EPOCH
    epoch_before_recovery: BrokerEpoch = NO_BROKER_EPOCH
    worker_of: int | None = None
    levels: LevelRange | msgspec.UnsetType = msgspec.UNSET
    kind: ClassVar = MemberKind.BROKER

    @property
    def member_id(self) -> int:
        return self.broker_id

    @property
    def epoch(self) -> BrokerEpoch:
        return self.broker_epoch

    @property
    def owner_id(self) -> int:
        """Return the id by which operators know the broker whose only, or whose worker, this process is."""
        return owner_of(self.broker_id, self.worker_of)

    @property
    def worker_number(self) -> int:
        return (self.broker_id - self.owner_id) // WORKER_ID_STEP

    @property
    def name(self) -> str:
        """Return what messages call it: "broker 5", or "worker 1 of broker 5"."""
        if self.worker_of is None:
            return f"broker {self.broker_id}"
        return f"worker {self.worker_number} of broker {self.worker_of}"

    @property
    def status(self) -> BrokerStatus:
        if not self.admitted:
            return BrokerStatus.WAITING
        if self.fenced:
            return BrokerStatus.FENCED
        return BrokerStatus.SHUTTING_DOWN if self.shutting_down else BrokerStatus.ACTIVE

    @property
    def probe(self) -> ProbeBroker:
        return ProbeBroker(
            broker_id=self.broker_id, broker_epoch=self.broker_epoch, host=self.host, port=self.port
        )

    @property
    def is_eligible(self) -> bool:
        """Return whether the broker may lead and may join an ISR (KIP-841)."""
        return self.admitted and not self.fenced and not self.shutting_down

    @property
    def takes_replicas(self) -> bool:
        """Return whether the broker may be given replicas that it does not have."""
        return self.is_eligible and not self.cordoned and not self.draining


class CoordinatorRegistration(msgspec.Struct, frozen=True, kw_only=True):
    """One coordinator's durable row. A coordinator is a process without a disk that serves shards; it never
    holds a replica, and no broker has its id.

    coordinator_epoch: names the incarnation; minted as broker epochs are, from the same numbers.
    draining: gives its shards away and gets none. demoted: owns only what no other may. Set by operators, and
        kept over restarts.
    levels: as BrokerRegistration has them.
    """

    coordinator_id: int
    coordinator_epoch: BrokerEpoch
    incarnation_id: str
    host: str
    port: int
    listeners: dict[str, ListenerAddress] = {}
    rack: str | None = None
    admitted: bool = False
    fenced: bool = True
    draining: bool = False
    demoted: bool = False
    registered_at_ms: int = 0
    version: str = ""
    levels: LevelRange | msgspec.UnsetType = msgspec.UNSET
    kind: ClassVar = MemberKind.COORDINATOR

    @property
    def member_id(self) -> int:
        return self.coordinator_id

    @property
    def epoch(self) -> BrokerEpoch:
        return self.coordinator_epoch

    @property
    def name(self) -> str:
        return f"coordinator {self.coordinator_id}"

    @property
    def status(self) -> BrokerStatus:
        if not self.admitted:
            return BrokerStatus.WAITING
        return BrokerStatus.FENCED if self.fenced else BrokerStatus.ACTIVE

    @property
    def is_active(self) -> bool:
        return self.admitted and not self.fenced

    @property
    def probe(self) -> ProbeBroker:
        return ProbeBroker(
            broker_id=self.coordinator_id,
            broker_epoch=self.coordinator_epoch,
            host=self.host,
            port=self.port,
        )


Member = BrokerRegistration | CoordinatorRegistration


class LevelRecord(msgspec.Struct, frozen=True, kw_only=True, tag="level"):
    """The cluster's feature level, in a row of its own. A cluster without the row is at UNTOLD."""

    level: Level = UNTOLD
    change: Change


class UpgradeRecord(msgspec.Struct, frozen=True, kw_only=True, tag="upgrade"):
    """Since when all brokers and coordinators support a higher level than the cluster's (Unix time); None:
    they don't."""

    pending_since_ms: int | None
    change: Change


class ClusterRecord(msgspec.Struct, frozen=True, kw_only=True, tag="cluster"):
    """The cluster's own row. configs: cluster-wide defaults under Kafka's dotted names.

    last_broker_epoch: floor under which no broker epoch is minted again; raised before a broker that holds
    the highest one is forgotten.
    """

    cluster_id: str
    configs: dict[str, str] = {}
    last_broker_epoch: BrokerEpoch = BrokerEpoch(0)
    change: Change


class MemberRecord(msgspec.Struct, frozen=True, kw_only=True, tag="member"):
    registration: Member
    change: Change


class RemoveMemberRecord(msgspec.Struct, frozen=True, kw_only=True, tag="remove_member"):
    kind: MemberKind
    member_id: int
    change: Change


class TopicRecord(msgspec.Struct, frozen=True, kw_only=True, tag="topic"):
    """A topic is announced *after* its partitions (4.7, creation): a crash between leaves partitions without
    a topic, which a rebuild ignores and removes, never a topic that lacks some."""

    state: TopicState
    change: Change


class RemoveTopicRecord(msgspec.Struct, frozen=True, kw_only=True, tag="remove_topic"):
    """The end of a tombstone: every replica confirmed the deletion, or its broker was removed. Takes the
    topic's partition rows with it."""

    topic_id: str
    topic: str
    change: Change


class PartitionRecord(msgspec.Struct, frozen=True, kw_only=True, tag="partition", gc=False):
    """gc=False: a broker's death makes tens of thousands at once, and none can be part of a cycle."""

    state: PartitionState
    change: Change


class ProducerIdsRecord(msgspec.Struct, frozen=True, kw_only=True, tag="producer_ids"):
    """The first producer id that was never given out (6.8, blocks of ids)."""

    next_producer_id: int
    change: Change


class AclsRecord(msgspec.Struct, frozen=True, kw_only=True, tag="acls"):
    """The bindings of one pattern; without any, its row goes."""

    acls: AclsOfPattern
    change: Change

    @property
    def is_removal(self) -> bool:
        return not self.acls.bindings


class UserRecord(msgspec.Struct, frozen=True, kw_only=True, tag="user"):
    """A user's secrets; without any, its row goes."""

    secrets: UserSecrets
    change: Change

    @property
    def is_removal(self) -> bool:
        return not self.secrets.scram

    @property
    def is_of_unknown(self) -> bool:
        """Return whether it has the key of unknown users' salts, which has no history and is never shown."""
        return self.secrets.user == UNKNOWN_USERS


class QuotasRecord(msgspec.Struct, frozen=True, kw_only=True, tag="quotas"):
    """The quotas of one entity; without any, its row goes."""

    quotas: EntityQuotas
    change: Change

    @property
    def is_removal(self) -> bool:
        return not self.quotas.quotas


class GroupRecord(msgspec.Struct, frozen=True, kw_only=True, tag="group"):
    """The settings that a group has of its own; without any, its row goes. Since level 3."""

    group: GroupConfigs
    change: Change

    @property
    def is_removal(self) -> bool:
        return not self.group.configs


#: What has a row by a name of core/names.py.
SecurityRecord = AclsRecord | UserRecord | QuotasRecord | GroupRecord
Record = (
    ClusterRecord
    | MemberRecord
    | RemoveMemberRecord
    | TopicRecord
    | RemoveTopicRecord
    | PartitionRecord
    | ProducerIdsRecord
    | LevelRecord
    | UpgradeRecord
    | AclsRecord
    | UserRecord
    | QuotasRecord
    | GroupRecord
)


def partition_key(state: PartitionState) -> PartitionKey:
    return (state.topic_id, state.partition)
