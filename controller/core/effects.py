"""The effects of a step: what the shell is asked to do besides persisting records.

No effect needs to be durable, and none may be carried out before the step's records are persisted: an alarm
or a log line must not announce what did not happen. Losing an effect is harmless: probes are asked for again,
and alarms can be listed from the machine at any time (`ClusterMachine.alarms`).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from springtide.contract.epochs import BrokerEpoch
from springtide.contract.partition_state import PartitionKey


class AlarmCode(StrEnum):
    """Reasons to page an operator. The names are stable: dashboards match on them."""

    #: ZooKeeper lost what it once held: the controller decides nothing for this cluster (section 11, when
    #: ZooKeeper goes back).
    METADATA_WENT_BACK = "metadata_went_back"
    PARTITION_LEADERLESS = "partition_leaderless"
    PARTITION_BELOW_MIN_ISR = "partition_below_min_isr"
    #: No coordinator serves client groups: there are shards, and no coordinator that is alive and admitted.
    NO_COORDINATOR = "no_coordinator"
    #: An ordinary topic, older than the reservation of its name, is where a coordinator topic belongs.
    COORDINATOR_TOPIC_BLOCKED = "coordinator_topic_blocked"
    #: A certificate of a broker's or coordinator's listeners has ended: clients can't connect any more.
    CERTIFICATE_EXPIRED = "certificate_expired"
    #: A broker's disk has less free than its reserve: it takes no records.
    DISK_BELOW_RESERVE = "disk_below_reserve"
    #: A broker's disk has a twentieth free, or is full within an hour.
    DISK_FULL = "disk_full"
    #: A leader was chosen uncleanly and has not confirmed its log yet.
    PARTITION_RECOVERING = "partition_recovering"
    LOG_MISSING = "log_missing"
    STORAGE_ERROR = "storage_error"
    REPLICA_QUARANTINED = "replica_quarantined"
    #: A log that holds records was set aside, because the metadata does not mention it.
    LOG_SET_ASIDE = "log_set_aside"
    #: A replica's log ends below what is known to be committed.
    LOG_SHORT = "log_short"
    #: Bytes at rest are not what was written; they are being mended, or this is the only copy (5.7,
    #: scrubbing).
    REPLICA_ROTTEN = "replica_rotten"
    #: A follower refuses what its leader sends: bytes of either, or between them, are damaged.
    BATCH_REFUSED = "batch_refused"
    #: A problem code that this controller does not know.
    REPLICA_PROBLEM = "replica_problem"
    #: A transaction is open in a partition and no coordinator has it: readers of what is committed wait.
    TRANSACTION_HANGS = "transaction_hangs"
    #: A learner lags more and more under the rates set for it: its move will never be complete.
    THROTTLED_BELOW_PRODUCE_RATE = "throttled_below_produce_rate"
    LOG_DIRS_OFFLINE = "log_dirs_offline"
    #: A second live process claims this broker id (S37, a second process under one id).
    DUPLICATE_BROKER = "duplicate_broker"
    #: A broker's clock, the controller's and the time that has passed disagree: nothing expires there.
    #: Without a broker: the controller's, ZooKeeper's and the time that has passed.
    CLOCK_LEAP = "clock_leap"
    BROKER_FENCED = "broker_fenced"
    #: A broker's disk has less than 15 % free, or is full within six hours.
    DISK_FILLS = "disk_fills"
    #: A broker was stopped in order, and stays away for longer than a restart takes.
    BROKER_STOPPED = "broker_stopped"
    #: A certificate of a broker's or coordinator's listeners ends within two weeks.
    CERTIFICATE_EXPIRES = "certificate_expires"
    #: A broker came back without proof that its logs are whole, and lost its seats. Until all are in sync.
    LOGS_UNPROVEN = "logs_unproven"
    #: A transaction is older than its timeout by a minute, and its coordinator has not ended it.
    TRANSACTION_LINGERS = "transaction_lingers"
    #: A client group has not been stable for a minute on end for ten minutes.
    GROUP_UNSETTLED = "group_unsettled"
    #: A transaction has committed offsets of a client group, and has not ended for fifteen minutes.
    GROUP_OFFSETS_PENDING = "group_offsets_pending"
    #: The assignment of a large client group could not be worked out.
    GROUP_NOT_ASSIGNED = "group_not_assigned"
    #: A client group with members reads less than is produced.
    GROUP_LAG_GROWS = "group_lag_grows"
    #: All processes support a higher level, and the cluster has not been raised to it for two weeks.
    UPGRADE_PENDING = "upgrade_pending"
    #: A webhook takes no messages, or was switched off by its receiver: other alarms may not be heard.
    WEBHOOK_FAILS = "webhook_fails"


GROUP_ALARMS: Final = frozenset(
    {
        AlarmCode.GROUP_UNSETTLED,
        AlarmCode.GROUP_OFFSETS_PENDING,
        AlarmCode.GROUP_NOT_ASSIGNED,
        AlarmCode.GROUP_LAG_GROWS,
    }
)
"""About what clients do: the cluster itself is well."""
CRITICAL_ALARMS: Final = frozenset(
    {
        AlarmCode.NO_COORDINATOR,
        AlarmCode.COORDINATOR_TOPIC_BLOCKED,
        AlarmCode.CERTIFICATE_EXPIRED,
        AlarmCode.DISK_BELOW_RESERVE,
        AlarmCode.DISK_FULL,
    }
)
"""Clients are refused, or soon will be, though every partition has its leader and enough replicas."""


class AlarmKey(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """An alarm's code and subject: a partition, a replica of it, a broker, a client group, or a transaction.
    At most one alarm per key."""

    code: AlarmCode
    topic_id: str | None = None
    partition: int | None = None
    broker_id: int | None = None
    group_id: str | None = None
    transactional_id: str | None = None
    producer_id: int | None = None

    @property
    def partition_key(self) -> PartitionKey | None:
        if self.topic_id is None or self.partition is None:
            return None
        return (self.topic_id, self.partition)


class Alarm(msgspec.Struct, frozen=True, kw_only=True):
    """Raised, or raised again with other words. Also what `ClusterMachine.alarms()` lists."""

    key: AlarmKey
    detail: str
    follows: dict[AlarmCode, int] = {}
    """How many alarms of which codes follow from it, and are not listed themselves: it is as severe as the
    worst of them."""


class ClearAlarm(msgspec.Struct, frozen=True, kw_only=True):
    key: AlarmKey


class MoreAlarms(msgspec.Struct, frozen=True, kw_only=True):
    """The number of further partition alarms of one code that the same step raised, or cleared. Their words
    are made when a reader asks for them."""

    code: AlarmCode
    is_cleared: bool
    count: int


class ProbeBroker(msgspec.Struct, frozen=True, kw_only=True):
    """Try to connect to this listener, of a broker or a coordinator. Connection refused proves the process
    dead: submit BrokerProvenDead with this epoch. Any other outcome proves nothing and is dropped."""

    broker_id: int
    broker_epoch: BrokerEpoch
    host: str
    port: int


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """Something worth a line in the log. code: stable word; fields: sorted by the renderer."""

    code: str
    detail: str
    fields: dict[str, str | int] = {}


Effect = Alarm | ClearAlarm | MoreAlarms | ProbeBroker | Note
