"""What every answer of a controller says, and why one refuses something a broker said.

The names follow Kafka's error codes where one exists, because operators search for them; the values travel
as strings, so that a log line or a captured body explains itself.
"""

from __future__ import annotations

import msgspec

from springtide.contract.epochs import NO_CONTROLLER_EPOCH, ControllerEpoch
from springtide.contract.words import WireWord


class ControllerError(WireWord):
    """The outcome of a request to the controller, or of one entry of it."""

    NONE = "none"
    #: This controller is not the active one, or can't prove that it still is. Ask another.
    NOT_CONTROLLER = "not_controller"
    #: The cluster, or the broker within it, is not known (not registered, or forgotten).
    UNKNOWN_CLUSTER = "unknown_cluster"
    BROKER_NOT_REGISTERED = "broker_not_registered"
    #: The sender's broker epoch is not the registered one: it speaks for an earlier incarnation (I8, broker
    #: epochs fence incarnations).
    STALE_BROKER_EPOCH = "stale_broker_epoch"
    #: Another live process holds this broker id (S37, a second process under one id).
    DUPLICATE_BROKER_REGISTRATION = "duplicate_broker_registration"
    #: The directory belongs to another cluster or another broker id.
    INCONSISTENT_CLUSTER_ID = "inconsistent_cluster_id"
    UNKNOWN_TOPIC_ID = "unknown_topic_id"
    UNKNOWN_TOPIC_OR_PARTITION = "unknown_topic_or_partition"
    FENCED_LEADER_EPOCH = "fenced_leader_epoch"
    INVALID_REQUEST = "invalid_request"
    #: The proposal was built on an older partition epoch; the reply carries the current state (I6, partition
    #: epochs order everything).
    INVALID_UPDATE_VERSION = "invalid_update_version"
    #: A proposed member is fenced, shutting down, or of another incarnation (KIP-841, KIP-903). The refusal
    #: raised the partition epoch, so that no late copy of the proposal can be accepted after all.
    INELIGIBLE_REPLICA = "ineligible_replica"
    #: The controller is too busy and did not try this copy of the request. Ask the same again.
    OPERATION_NOT_ATTEMPTED = "operation_not_attempted"
    #: The proposal completed something that moved the leadership away from the sender.
    NEW_LEADER_ELECTED = "new_leader_elected"
    #: The shard is not the sender's: another coordinator owns it, or none does.
    NOT_COORDINATOR = "not_coordinator"
    #: The write may or may not have happened. Ask again with the same proposal id.
    OUTCOME_UNKNOWN = "outcome_unknown"
    #: A broker knows of metadata that ZooKeeper no longer has: this controller decides nothing (section 11,
    #: when ZooKeeper goes back).
    METADATA_WENT_BACK = "metadata_went_back"
    #: The process can't run at the cluster's feature level (docs/upgrades.md). Told to processes that know
    #: levels; others get INVALID_REQUEST.
    UNSUPPORTED_LEVEL = "unsupported_level"
    #: An error of a later release: ask again.
    UNKNOWN = "unknown"


class ControllerAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """active_controller: the active one's URL, when the one asked is not it and knows. lineage: of the term
    that `controller_epoch` numbers (session.Witness)."""

    error: ControllerError = ControllerError.NONE
    controller_epoch: ControllerEpoch = NO_CONTROLLER_EPOCH
    active_controller: str | None = None
    lineage: str = ""
