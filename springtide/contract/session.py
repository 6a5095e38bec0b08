"""A broker's session with the controller: registration, heartbeats, leases, controlled shutdown.

    (not known) --register--> waiting --admitted by an operator--> fenced --applied a FULL update--> active
        active --silence for the grace, or proven death--> fenced      active --SIGTERM--> shutting_down

A broker epoch names one incarnation (KIP-380). The controller mints it in the registration write itself,
and only after every seat that this incarnation can't vouch for has been taken away (I11, unproven logs lose
their seats first; KIP-966): a broker that comes back without its bytes finds itself outside ISR and ELR
before it can say a word.

Leases buy silence, never durability: a broker counts its lease from the *send* time of the last heartbeat
that was acknowledged, the controller counts its grace from the *receive* time, and grace >= lease + drift
+ slack, so that the controller acts after the broker has gone quiet (PacificA section 4.2, Pegasus).
"""

from __future__ import annotations

import msgspec

from springtide.contract.epochs import NO_BROKER_EPOCH, NO_CONTROLLER_EPOCH, BrokerEpoch, ControllerEpoch
from springtide.contract.errors import ControllerAnswer
from springtide.contract.groups import GroupNews
from springtide.contract.missing_topics import MissingTopic
from springtide.contract.preflight import PreflightTarget
from springtide.contract.transactions import Suspect, TransactionNews
from springtide.contract.words import WireWord
from springtide.levels import UNTOLD, Level, LevelRange

#: Unanswered incarnations that a directory remembers; the oldest are forgotten first.
UNANSWERED_INCARNATIONS_MAX = 16
#: Named listeners that a process may have.
LISTENERS_MAX = 16
#: Ids of a broker's workers lie this far apart: to clients and replication worker 2 of broker 5 is 2000005.
WORKER_ID_STEP = 1_000_000
#: Workers that a broker may have.
WORKERS_MAX = 1_024


def worker_id(broker_id: int, number: int) -> int:
    """Return the id by which clients and replication know worker `number` of a broker; worker 0 has the
    broker's own."""
    return broker_id + number * WORKER_ID_STEP


def owner_of(broker_id: int, worker_of: int | None) -> int:
    """Return the id by which operators know a broker, or the one that a worker says it is of."""
    return broker_id if worker_of is None else worker_of


class ShutdownKind(WireWord):
    """The way in which this broker's previous incarnation stopped, as far as its own disk can prove."""

    #: No earlier incarnation on these directories.
    FIRST_START = "first_start"
    #: Every directory carries the clean-shutdown marker of `previous_broker_epoch`.
    CLEAN = "clean"
    #: Same kernel boot id: the process died, the page cache did not; logs recovered by CRC scan.
    PROCESS_CRASH = "process_crash"
    #: Another boot, or nothing provable: unflushed bytes may be gone.
    MACHINE_CRASH = "machine_crash"
    UNKNOWN = "unknown"

    @property
    def is_intact(self) -> bool:
        """Return whether the replica still holds all it had acknowledged (if its directories are the same
        ones)."""
        return self in (ShutdownKind.CLEAN, ShutdownKind.PROCESS_CRASH)

    @property
    def judged(self) -> ShutdownKind:
        """Return it as it is stored: what a later release says and this one does not know proves nothing."""
        return ShutdownKind.MACHINE_CRASH if self is ShutdownKind.UNKNOWN else self


class BrokerStatus(WireWord):
    """The status of a broker: what it may do. Told with each answer to a heartbeat. After one that is UNKNOWN
    the broker goes on as it was told before."""

    WAITING = "waiting"  # registered, not admitted by an operator: holds nothing
    FENCED = "fenced"  # admitted, not yet (or no longer) trusted: leads nothing, joins no ISR
    ACTIVE = "active"
    SHUTTING_DOWN = "shutting_down"  # leads nothing, joins no ISR, still follows
    UNKNOWN = "unknown"


class Witness(msgspec.Struct, frozen=True, kw_only=True):
    """The latest that a broker was ever told by a controller, over restarts: what ZooKeeper held then, it
    must hold still. A controller that finds less in ZooKeeper knows that ZooKeeper went back.

    lineage: the random id of the term that `controller_epoch` numbers; "": not known. One number with two
        lineages is proof of two histories.
    records: how many records had ever been persisted for the cluster, as of the latest batch; -1: not known.
    level: the cluster's feature level, which never falls.
    """

    cluster_id: str
    controller_epoch: ControllerEpoch
    lineage: str = ""
    records: int = -1
    level: Level = UNTOLD


class LevelShards(msgspec.Struct, frozen=True, kw_only=True):
    """Shards of one topic that a standby follows up to the high watermark that it was last told."""

    topic_id: str
    partitions: tuple[int, ...]


class ListenerAddress(msgspec.Struct, frozen=True, kw_only=True):
    """The address of one listener, as clients connect to it. protocol: Kafka's security protocol."""

    host: str
    port: int
    protocol: str = "PLAINTEXT"


class RegisterRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`POST /internal/clusters/{cluster}/brokers/{id}:register`. Idempotent per `incarnation_id`. Of a
    coordinator, which has no directory, `/coordinators/{id}:register`: `broker_id` and `broker_epoch` are
    then the coordinator's, here and in all that follows.

    log_dir_ids: the uuid of each usable log directory; a wiped or replaced disk shows as a new uuid.
    offline_log_dir_ids: directories that are known but can't be used.
    previous_broker_epoch: from the directories' own metadata, or -1; meaningful with `last_shutdown`.
    unanswered_incarnation_ids: incarnations that asked to register from these directories since that epoch
        was recorded and died before they saw an answer, oldest first; each is written down before it asks.
        One of them may be the incarnation that the controller knows: it was given an epoch and never used it,
        so the process after it on the same directories still holds everything.
    host: where the process runs; replicas of a partition never share one when it can be avoided. host and
        port are those of the listener that other processes use.
    listeners: all listeners, by name; none where the only one has no name.
    worker_of: the broker that the process is a worker of, on worker 0 too; None: it is the only one.
    levels: that this process can run at; processes of older releases don't tell.
    """

    broker_id: int
    incarnation_id: str
    host: str
    port: int
    listeners: dict[str, ListenerAddress] = {}
    rack: str | None = None
    log_dir_ids: tuple[str, ...]
    offline_log_dir_ids: tuple[str, ...] = ()
    last_shutdown: ShutdownKind
    previous_broker_epoch: BrokerEpoch = NO_BROKER_EPOCH
    unanswered_incarnation_ids: tuple[str, ...] = ()
    cluster_id: str | None = None
    version: str = ""
    witness: Witness | None = None
    worker_of: int | None = None
    levels: LevelRange = LevelRange()


class RegisterResponse(ControllerAnswer, frozen=True, kw_only=True):
    """`cluster_id` is written into each log directory at the first registration and checked ever after."""

    detail: str = ""
    cluster_id: str = ""
    broker_epoch: BrokerEpoch = NO_BROKER_EPOCH
    status: BrokerStatus = BrokerStatus.WAITING
    heartbeat_interval_ms: int = 500
    lease_ms: int = 5000
    #: Ask again after so long when `error` is DUPLICATE_BROKER_REGISTRATION or NOT_CONTROLLER.
    retry_after_ms: int = 500
    #: Goes into the seals of logs (docs/replication.md 3.9, after total power loss): a seal proves something
    #: as long as this stays.
    chain_epoch: BrokerEpoch = NO_BROKER_EPOCH
    #: The cluster's feature level, by which the process writes from now on.
    level: Level = UNTOLD


class ClockLeap(msgspec.Struct, frozen=True, kw_only=True):
    """A broker's clocks disagree by more than is in order. ahead_of_controller_ms: its wall clock before the
    controller's, as its heartbeats were answered; in a controller's own, before ZooKeeper's.
    ahead_of_elapsed_ms: before the time last agreed on and the time that has passed since; None: they have
    never agreed in its process's life. Negative: behind."""

    ahead_of_controller_ms: int
    ahead_of_elapsed_ms: int | None = None


class Heard(msgspec.Struct, frozen=True, kw_only=True):
    """The highest `count` and `answered` that a controller has heard in a broker's heartbeats."""

    broker_id: int
    broker_epoch: BrokerEpoch
    count: int
    answered: int


class DiskSpace(msgspec.Struct, frozen=True, kw_only=True):
    """The file system that holds a broker's log directory, of which it has one. free_bytes: that the broker
    may use. reserve_bytes: with fewer free it takes no records. is_short: it takes none at present."""

    free_bytes: int
    total_bytes: int
    reserve_bytes: int = 0
    is_short: bool = False


class ProcessLoad(msgspec.Struct, frozen=True, kw_only=True):
    """How busy a process is. connections: open now. requests: received since it began, from clients and from
    other processes of the cluster."""

    connections: int
    requests: int


class HeartbeatRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`POST /internal/clusters/{cluster}/brokers/{id}:heartbeat`."""

    broker_id: int
    broker_epoch: BrokerEpoch
    incarnation_id: str
    #: Position in the metadata stream that this broker has completely applied (I25, applied is said
    #: afterwards).
    applied_controller_epoch: ControllerEpoch = NO_CONTROLLER_EPOCH
    applied_sequence: int = -1
    offline_log_dir_ids: tuple[str, ...] = ()
    #: Why they are offline, in words.
    log_dir_failure: str = ""
    #: The broker wants to stop (SIGTERM): move its leaderships, then tell it that it may.
    wants_shutdown: bool = False
    #: While the broker's clocks disagree; nothing is deleted by time there.
    clock_leap: ClockLeap | None = None
    witness: Witness | None = None
    #: How many heartbeats this process has sent; -1: it does not count.
    count: int = -1
    #: The count of the last of them that was acknowledged; -1: none.
    answered: int = -1
    #: Of a coordinator: all shards that it is level with as their standby.
    level: tuple[LevelShards, ...] = ()
    #: What the last answer said of other brokers: a controller that takes over learns it from this.
    others: tuple[Heard, ...] = ()
    #: None: not known; brokers of older releases don't tell.
    disk: DiskSpace | None = None
    #: Of a coordinator. None: nothing new, and no trouble.
    groups: GroupNews | None = None
    #: Of a coordinator. None: none lingers, and nothing was asked.
    transactions: TransactionNews | None = None
    #: A client has asked who coordinates its transactions, and their topic is not there.
    wants_transactions: bool = False
    #: When the first certificate of its listeners ends, Unix time; -1: they have none.
    certificate_ends_ms: int = -1
    #: All that there are now, at most MISSING_TOLD_MAX.
    missing_topics: tuple[MissingTopic, ...] = ()
    #: None: not known; processes of older releases don't tell.
    load: ProcessLoad | None = None
    #: As RegisterRequest has them: a controller that took over learns them from this.
    levels: LevelRange = LevelRange()


class HeartbeatResponse(ControllerAnswer, frozen=True, kw_only=True):
    """The answer to a heartbeat. It renews the lease only if `error` is NONE and the controller epoch is not
    below the highest that the broker has seen."""

    status: BrokerStatus = BrokerStatus.FENCED
    lease_ms: int = 5000
    #: Head of the metadata stream: how far behind this broker is.
    sequence: int = -1
    #: Set once a broker that wants to stop leads nothing and every other active broker has applied that.
    may_shut_down: bool = False
    #: Partitions whose leadership could not be moved (this broker is their last in-sync member).
    remaining_leaderships: int = 0
    #: While brokers wait to be added: the listeners that this broker is to try and report on, or None.
    preflight: tuple[PreflightTarget, ...] | None = None
    #: The controller's wall clock as it answers; -1: not told.
    wall_ms: int = -1
    #: The highest `count` and `answered` that are known of this incarnation, and whether it has asked to
    #: stop. A broker that has not sent so many, does not remember that answer, or does not want to stop, was
    #: put back to an earlier moment of its life.
    heard_count: int = -1
    heard_answered: int = -1
    has_asked_to_stop: bool = False
    #: It can't have sent both this heartbeat and what other brokers know of it.
    has_gone_back: bool = False
    #: Of a few other brokers, for the next controller.
    others: tuple[Heard, ...] = ()
    #: To a coordinator: transactions of which the controller asks whether it has them.
    suspects: tuple[Suspect, ...] = ()
