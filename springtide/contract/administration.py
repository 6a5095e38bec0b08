"""The administrative requests of Kafka clients, on their way from a broker to the controller.

A broker decides nothing of them. It translates the request, the controller carries it out by the services
that REST uses, with the same audit, policies and refusals, and the broker translates the outcomes back, one
for each thing that was named, in that order. A broker sends no request twice by itself: if the answer to a
write was lost, the client finds out whether the write was carried out, as with Kafka.
"""

from __future__ import annotations

import msgspec

from springtide.contract.epochs import BrokerEpoch
from springtide.contract.errors import ControllerAnswer
from springtide.contract.security import QuotaEntity
from springtide.contract.words import WireWord
from springtide.security.acls.model import AclBinding, AclFilter


class ResourceKind(WireWord):
    """The owner of settings. A broker named "" stands for the defaults of all, which are the cluster's."""

    TOPIC = "topic"
    BROKER = "broker"
    GROUP = "group"
    UNKNOWN = "unknown"


class TopicToCreate(msgspec.Struct, frozen=True, kw_only=True):
    """-1 partitions or replicas: the cluster's default. assignments: replicas of partition 0, 1, ..."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignments: tuple[tuple[int, ...], ...] | None = None
    configs: dict[str, str] = {}


FIRST_USE = "auto.create.topics.enable"
"""The cluster's setting that lets a topic be made when a client first uses it."""


class CreateTopicsCall(msgspec.Struct, frozen=True, kw_only=True, tag="create_topics"):
    """wait_ms: for how long the answer may wait until clients can use what was made; 0: it does not wait.
    on_first_use: the client asked for none to be made, but named one that is not there."""

    topics: tuple[TopicToCreate, ...]
    validate_only: bool = False
    wait_ms: int = 0
    on_first_use: bool = False


class TopicToDelete(msgspec.Struct, frozen=True, kw_only=True):
    """A topic by its name, or by its id where the name is None."""

    name: str | None = None
    topic_id: str | None = None


class DeleteTopicsCall(msgspec.Struct, frozen=True, kw_only=True, tag="delete_topics"):
    topics: tuple[TopicToDelete, ...]


class RecordsBefore(msgspec.Struct, frozen=True, kw_only=True):
    """before_offset: the first offset to keep; -1: the high watermark."""

    partition: int
    before_offset: int


class RecordsToDelete(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    partitions: tuple[RecordsBefore, ...]


class DeleteRecordsCall(msgspec.Struct, frozen=True, kw_only=True, tag="delete_records"):
    """Asks whether records may be deleted. The broker that asks leads the partitions, and deletes them."""

    topics: tuple[RecordsToDelete, ...]


class PartitionsToCreate(msgspec.Struct, frozen=True, kw_only=True):
    """count: how many the topic shall have. assignments: replicas of each new one."""

    topic: str
    count: int
    assignments: tuple[tuple[int, ...], ...] | None = None


class CreatePartitionsCall(msgspec.Struct, frozen=True, kw_only=True, tag="create_partitions"):
    """wait_ms: as in CreateTopicsCall."""

    topics: tuple[PartitionsToCreate, ...]
    validate_only: bool = False
    wait_ms: int = 0


class ReassignmentWish(msgspec.Struct, frozen=True, kw_only=True):
    """replicas None: cancel."""

    topic: str
    partition: int
    replicas: tuple[int, ...] | None


class AlterReassignmentsCall(msgspec.Struct, frozen=True, kw_only=True, tag="alter_reassignments"):
    """may_change_factor: whether a partition may get more or fewer replicas than it has or is to have."""

    partitions: tuple[ReassignmentWish, ...]
    may_change_factor: bool = True


class ElectLeadersCall(msgspec.Struct, frozen=True, kw_only=True, tag="elect_leaders"):
    """partitions: (topic, number); None: all that lack their preferred leader, or, uncleanly, any."""

    unclean: bool = False
    partitions: tuple[tuple[str, int], ...] | None = None


class ListChange(msgspec.Struct, frozen=True, kw_only=True):
    """Items to add to a setting that is a list, or to take away from it. It stands in the place of a value:
    a controller that does not know it refuses the request, and does not ignore it."""

    append: tuple[str, ...] = ()
    subtract: tuple[str, ...] = ()


class ConfigsToAlter(msgspec.Struct, frozen=True, kw_only=True):
    """configs: a value, None to unset, or a change of a list. replaces: what is not named is unset."""

    kind: ResourceKind
    name: str
    configs: dict[str, str | ListChange | None]
    replaces: bool = False


class AlterConfigsCall(msgspec.Struct, frozen=True, kw_only=True, tag="alter_configs"):
    resources: tuple[ConfigsToAlter, ...]
    validate_only: bool = False


class ConfigsToDescribe(msgspec.Struct, frozen=True, kw_only=True):
    """names: these alone; None: all."""

    kind: ResourceKind
    name: str
    names: tuple[str, ...] | None = None


class DescribeConfigsCall(msgspec.Struct, frozen=True, kw_only=True, tag="describe_configs"):
    resources: tuple[ConfigsToDescribe, ...]


class AlterAclsCall(msgspec.Struct, frozen=True, kw_only=True, tag="alter_acls"):
    """An outcome for each binding to create, in order, or for each filter: bindings that it matched and that
    are gone."""

    create: tuple[AclBinding, ...] = ()
    delete: tuple[AclFilter, ...] = ()


class ScramUpsertion(msgspec.Struct, frozen=True, kw_only=True):
    """A new password, salted by the client (KIP-554). mechanism: its number on the wire."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes

    def __repr__(self) -> str:
        return f"ScramUpsertion({self.user}, {self.mechanism}, iterations={self.iterations})"


class ScramDeletion(msgspec.Struct, frozen=True, kw_only=True):
    user: str
    mechanism: int


class AlterScramCall(msgspec.Struct, frozen=True, kw_only=True, tag="alter_scram"):
    """An outcome for each user that is named, in order of their first mention, deletions first."""

    deletions: tuple[ScramDeletion, ...] = ()
    upsertions: tuple[ScramUpsertion, ...] = ()


class QuotasToAlter(msgspec.Struct, frozen=True, kw_only=True):
    """quotas: a value, or None to remove."""

    entity: QuotaEntity
    quotas: dict[str, float | None]


class AlterQuotasCall(msgspec.Struct, frozen=True, kw_only=True, tag="alter_quotas"):
    entities: tuple[QuotasToAlter, ...]
    validate_only: bool = False


AdminCall = (
    CreateTopicsCall
    | DeleteTopicsCall
    | DeleteRecordsCall
    | CreatePartitionsCall
    | AlterReassignmentsCall
    | ElectLeadersCall
    | AlterConfigsCall
    | DescribeConfigsCall
    | AlterAclsCall
    | AlterScramCall
    | AlterQuotasCall
)


class AdminRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`POST /internal/clusters/{cluster}/brokers/{id}:administer`. client_id, client_host: who asked the
    broker, for the audit: a claim, and the address it came from. principal: as the broker has verified it
    and found allowed by the cluster's ACLs; None: the client is not known, or there is no authorizer."""

    broker_id: int
    broker_epoch: BrokerEpoch
    client_id: str | None = None
    client_host: str
    principal: str | None = None
    call: AdminCall


class ConfigSource(WireWord):
    """The place that a value comes from."""

    TOPIC = "topic"
    BROKER = "broker"
    GROUP = "group"
    CLUSTER = "cluster"
    DEFAULT = "default"
    UNKNOWN = "unknown"


class ConfigType(WireWord):
    """The form of a setting's value."""

    BOOLEAN = "boolean"
    STRING = "string"
    LONG = "long"
    LIST = "list"
    UNKNOWN = "unknown"


class ConfigValue(msgspec.Struct, frozen=True, kw_only=True):
    """One layer of a setting."""

    name: str
    value: str | None
    source: ConfigSource


class DescribedConfig(msgspec.Struct, frozen=True, kw_only=True):
    """synonyms: what would apply if what precedes it were unset; the first is what applies. note: what
    becomes of a value that nothing acts upon; None where it is acted upon."""

    name: str
    value: str | None
    source: ConfigSource
    type: ConfigType
    is_read_only: bool = False
    synonyms: tuple[ConfigValue, ...] = ()
    note: str | None = None


class CreatedTopic(msgspec.Struct, frozen=True, kw_only=True):
    """topic_id: None after a dry run."""

    topic_id: str | None
    partitions: int
    replication_factor: int


class AdminOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome for one thing that was named. error_code: Kafka's. topic: of a deletion or an election.
    topic_id: of a deletion. partition: of an election, whose partitions need not have been named. created: of
    a topic. configs: of a new topic, or of a resource that was described.
    bindings: those that a filter of a deletion matched."""

    error_code: int = 0
    message: str | None = None
    topic: str | None = None
    topic_id: str | None = None
    partition: int = -1
    created: CreatedTopic | None = None
    configs: tuple[DescribedConfig, ...] = ()
    bindings: tuple[AclBinding, ...] = ()


class AdminResponse(ControllerAnswer, frozen=True, kw_only=True):
    """error: why nothing at all was tried, or, OUTCOME_UNKNOWN, why it is not known."""

    outcomes: tuple[AdminOutcome, ...] = ()
