"""The metadata stream: LeaderAndIsr batches that brokers pull, in order.

The controller pushes nothing. Each broker asks for what follows the position it has applied, and the
request waits at the controller until there is something (a long poll). A position is
(controller epoch, sequence); sequences start again with each controller. A broker that asks with another
controller epoch, with a broker epoch that has never had a full batch, or from too far back gets the FULL
state; any other broker gets a delta in which several changes of one partition may have been merged into its
latest state. Merging is safe because a leader-epoch jump of more than one counts as a fresh election (I3,
only this epoch's evidence counts; I14, truncate before fetching). Absence from a delta means "unchanged", and
absence from a FULL batch means "not yours any more": quarantine, never delete; only an entry in
`deleted_topics` deletes (I22, deletion needs evidence), and one in `kept_topics` leaves a log where it is.
"""

from __future__ import annotations

from typing import Final

import msgspec

from springtide.contract.epochs import (
    NO_BROKER_EPOCH,
    NO_CONTROLLER_EPOCH,
    NO_LEADER_EPOCH,
    BrokerEpoch,
    ControllerEpoch,
    LeaderEpoch,
    PartitionEpoch,
)
from springtide.contract.errors import ControllerAnswer
from springtide.contract.groups import GroupConfigs
from springtide.contract.partition_state import PartitionState, TopicState, WriterId
from springtide.contract.security import AclsOfPattern, EntityQuotas, UserSecrets
from springtide.contract.session import ListenerAddress, Witness
from springtide.levels import UNTOLD, Level


class BrokerEndpoint(msgspec.Struct, frozen=True, kw_only=True):
    """The address of a broker, or of a coordinator (the ids are then its), and whether its incarnation is
    live. Clients are only told of active ones.
    may_join: whether an ISR may take it in; a broker that is shutting down still follows, but joins none.
    configs: what operators set for this broker alone (dotted Kafka names), over `cluster_configs`.
    listeners: as RegisterRequest has them."""

    broker_id: int
    broker_epoch: BrokerEpoch
    host: str
    port: int
    listeners: dict[str, ListenerAddress] = {}
    rack: str | None = None
    active: bool = True
    may_join: bool = True
    configs: dict[str, str] = {}

    def address_for(self, listener: str) -> tuple[str, int] | None:
        """Return where a client that came by this listener reaches the node; None if it has no such listener
        (KIP-103). "": a client of a process with one listener."""
        if not listener:
            return self.host, self.port
        endpoint = self.listeners.get(listener)
        return None if endpoint is None else (endpoint.host, endpoint.port)


AHEAD: Final = "ahead"


class ApplyFailure(msgspec.Struct, frozen=True, kw_only=True):
    """An entry that the broker could not apply; the others of the batch were applied. code: as
    ReplicaProblem.code; or AHEAD: the broker holds a newer state, whose epochs these are (I6, partition
    epochs order everything).
    """

    topic_id: str
    partition: int
    partition_epoch: PartitionEpoch
    code: str
    detail: str = ""
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH


class PollRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`POST /internal/clusters/{cluster}/brokers/{id}:poll`. Also the broker's acknowledgement of all that
    came before. The open request is the broker's *session connection*: when it closes and the broker's
    listener refuses a new connection, the process is dead and no timeout is needed."""

    broker_id: int
    broker_epoch: BrokerEpoch
    applied_controller_epoch: ControllerEpoch = NO_CONTROLLER_EPOCH
    applied_sequence: int = -1
    failures: tuple[ApplyFailure, ...] = ()
    wait_ms_max: int = 10_000
    witness: Witness | None = None
    #: Heartbeats that this process has sent; -1: it does not count.
    heartbeat_count: int = -1


class UpdateBatch(ControllerAnswer, frozen=True, kw_only=True):
    """The changes after the position asked from, up to `sequence`. The broker applies them entry by entry,
    then acknowledges them as a whole by its next poll. It ignores a batch whose controller epoch is below the
    highest it saw, or whose broker epoch is not its own.

    deleted_topics: ids whose logs are to be deleted; repeated until every replica has acknowledged.
    kept_topics: ids of deleted topics whose logs are kept; no replica of them serves. UNSET: there are none.
    coordinators: those that are admitted; which shards they own is in the partitions' states.
    cluster_configs: cluster-wide defaults that brokers need (dotted Kafka names), whole; UNSET: unchanged.
    acls, users, quotas, group_configs: those that changed; one that is empty is gone.
    lineage, records: what the broker will be a witness of (session.Witness).
    level: the cluster's feature level, by which the process writes from now on.
    """

    broker_epoch: BrokerEpoch = NO_BROKER_EPOCH
    full: bool = False
    sequence: int = -1
    brokers: tuple[BrokerEndpoint, ...] = ()
    removed_brokers: tuple[int, ...] = ()
    coordinators: tuple[BrokerEndpoint, ...] = ()
    removed_coordinators: tuple[int, ...] = ()
    topics: tuple[TopicState, ...] = ()
    deleted_topics: tuple[str, ...] = ()
    kept_topics: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    partitions: tuple[PartitionState, ...] = ()
    cluster_configs: dict[str, str] | msgspec.UnsetType = msgspec.UNSET
    acls: tuple[AclsOfPattern, ...] = ()
    users: tuple[UserSecrets, ...] = ()
    quotas: tuple[EntityQuotas, ...] = ()
    group_configs: tuple[GroupConfigs, ...] | msgspec.UnsetType = msgspec.UNSET
    records: int = -1
    level: Level = UNTOLD


class ProducerIdsRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`POST /internal/clusters/{cluster}/brokers/{id}:allocate-producer-ids`."""

    broker_id: int
    broker_epoch: BrokerEpoch


class ProducerIdsResponse(ControllerAnswer, frozen=True, kw_only=True):
    """A block [first, first + count) that no other broker was or will be given, ever."""

    first_producer_id: int = -1
    count: int = 0


class NameWriterRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`POST /internal/clusters/{cluster}/coordinators/{id}:name-writer`. The owner of a shard is about to
    open it. found: the highest writer that it has met in the shard's log: one above all that can have been
    named proves that ZooKeeper went back (11.2, evidence)."""

    broker_id: int
    broker_epoch: BrokerEpoch
    topic_id: str
    partition: int
    found: WriterId | None = None


class NameWriterResponse(ControllerAnswer, frozen=True, kw_only=True):
    """A writer that was never named before and never will be again, by which this copy of the request opens
    the shard. NOT_COORDINATOR: the shard is another's, or no coordinator's."""

    writer: WriterId | None = None
