"""The whole state of one cluster, moved only by replaying records.

Beside the rows themselves the image keeps the indexes that make a broker's death cost what it touches, and a
bounded log of what changed, from which brokers are told deltas. `sequence` counts replayed records; with the
controller epoch it is a position in the metadata stream. Two images that replayed the same records are
equal, positions included: the machine's speculative one and the published one that readers see.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple, assert_never

from controller.core.records import (
    AclsRecord,
    BrokerRegistration,
    ClusterRecord,
    CoordinatorRegistration,
    GroupRecord,
    LevelRecord,
    Member,
    MemberKind,
    MemberRecord,
    PartitionRecord,
    ProducerIdsRecord,
    QuotasRecord,
    Record,
    RemoveMemberRecord,
    RemoveTopicRecord,
    TopicRecord,
    UpgradeRecord,
    UserRecord,
)
from springtide.contract.epochs import BrokerEpoch
from springtide.contract.errors import ControllerError
from springtide.contract.groups import GroupConfigs
from springtide.contract.partition_state import (
    NO_LEADER,
    LeaderRecovery,
    PartitionKey,
    PartitionState,
    TopicState,
)
from springtide.contract.security import (
    AclsOfPattern,
    EntityQuotas,
    PatternKey,
    QuotaEntity,
    UserSecrets,
)
from springtide.levels import UNTOLD, Level

#: Changes remembered for deltas; a broker that is further behind gets a FULL batch.
CHANGE_LOG_ENTRIES_MAX = 200_000


#: Indexes of an image that hold a set of partitions a broker.
_BY_BROKER = frozenset({"replicas_of", "seats_of", "leader_of"})
#: What `rows` copies.
_ROWS = ("brokers", "configs", "deletions", "demoted", "partitions", "topics")


class Changed(NamedTuple):
    """One replayed record, by what it touched. key: a member's id, topic id, partition key,
    pattern of ACLs, user, entity with quotas, group with settings, or None."""

    kind: (
        MemberKind
        | Literal["cluster", "topic", "partition", "producer_ids", "level", "acls", "user", "quotas", "group"]
    )
    key: int | str | PartitionKey | PatternKey | QuotaEntity | None


class Deletion(NamedTuple):
    """A topic whose logs are being deleted, or kept. since_sequence: a broker that applied it has confirmed.
    brokers: ids assigned a replica when the deletion began, ascending."""

    since_sequence: int
    brokers: tuple[int, ...]


class ClusterImage:
    """Rows and indexes of one cluster. Read freely; change through `replay` only.

    brokers: registration by broker id. coordinators: by their ids, which no broker has.
    topics: by topic id, those being deleted included.
    topic_ids: name -> id of the topic that holds the name now (none being deleted).
    held_names: name -> id of a topic that is being deleted, and of which some leader may not have stopped.
    partitions: state by (topic id, partition). configs: cluster-wide defaults.
    acls, users, quotas, group_configs: those that are not empty.
    """

    def __init__(
        self, *, start_sequence: int = 0, change_log_entries_max: int = CHANGE_LOG_ENTRIES_MAX
    ) -> None:
        """start_sequence: 0 under a new controller epoch. An image rebuilt under the *same* epoch must start
        above every sequence it gave out before, or a broker's position would have two meanings."""
        self.cluster_id = ""
        #: By which everything is written (springtide/levels.py), and since when all brokers and coordinators
        #: support a higher one (Unix time); None: they don't.
        self.level: Level = UNTOLD
        self.upgrade_pending_since_ms: int | None = None
        self.configs: dict[str, str] = {}
        self.brokers: dict[int, BrokerRegistration] = {}
        #: broker, as operators know it -> ids of its registered workers, ascending.
        self.worker_ids: dict[int, tuple[int, ...]] = {}
        self.coordinators: dict[int, CoordinatorRegistration] = {}
        self.topics: dict[str, TopicState] = {}
        self.topic_ids: dict[str, str] = {}
        self.held_names: dict[str, str] = {}
        self.partitions: dict[PartitionKey, PartitionState] = {}
        self.acls: dict[PatternKey, AclsOfPattern] = {}
        #: How many bindings `acls` has, and how long the names and principals in them are together.
        self.acl_bindings = 0
        self.acl_characters = 0
        self.users: dict[str, UserSecrets] = {}
        #: The key of unknown users' salts; not in `users`, because no client is that user.
        self.unknown_users: UserSecrets | None = None
        self.quotas: dict[QuotaEntity, EntityQuotas] = {}
        self.group_configs: dict[str, GroupConfigs] = {}
        self.next_producer_id = 0
        #: Highest broker or coordinator epoch ever minted.
        self.last_broker_epoch = BrokerEpoch(0)
        #: Records replayed: the head of the metadata stream.
        self.sequence = start_sequence
        #: Sequence of each broker's latest row; of the row that began its, or a coordinator's, present
        #: incarnation; and of the row that admitted it.
        self.broker_sequences: dict[int, int] = {}
        self.registered_sequences: dict[int, int] = {}
        self.admitted_sequences: dict[int, int] = {}
        #: Sequence of each topic's latest row: its partitions are told to no broker before the first.
        self.announced_at: dict[str, int] = {}
        self.deletions: dict[str, Deletion] = {}
        #: Of `deletions`: topics whose logs are kept; and those that something is still waited for: brokers
        #: that are to stop, or to delete their logs.
        self.kept: dict[str, None] = {}
        self.ending: dict[str, None] = {}
        # Indexes over partitions of living topics. Dicts with no values serve as ordered sets: a step must
        # not depend on the hash seed.
        #: broker -> partitions assigned to it; with a seat (in ISR or ELR); led by it.
        self.replicas_of: dict[int, dict[PartitionKey, None]] = {}
        self.seats_of: dict[int, dict[PartitionKey, None]] = {}
        self.leader_of: dict[int, dict[PartitionKey, None]] = {}
        #: broker -> how many partitions name it first.
        self.preferred_counts: dict[int, int] = {}
        self.leaderless: dict[PartitionKey, None] = {}
        self.below_min: dict[PartitionKey, None] = {}
        self.under_replicated: dict[PartitionKey, None] = {}
        self.not_preferred: dict[PartitionKey, None] = {}
        self.recovering: dict[PartitionKey, None] = {}
        self.reassigning: dict[PartitionKey, None] = {}
        #: Brokers that are to lead only what no other broker may.
        self.demoted: dict[int, None] = {}
        #: Records persisted in the cluster's life, less `sequence`.
        self.records_before = 0
        #: Partitions of coordinator topics.
        self.shards: dict[PartitionKey, None] = {}
        #: Partitions with `new_replicas`.
        self.unconfirmed_new: dict[PartitionKey, None] = {}
        self._entries_max = change_log_entries_max
        self._changes: list[Changed] = []
        self._changes_start = start_sequence  # sequence before the first remembered change

    def copy(self) -> ClusterImage:
        """Return an equal image, to be moved by its own records: what is never changed in place is shared,
        keys and states among it. It takes a tenth of the time of replaying."""
        other = ClusterImage()
        for name, value in vars(self).items():
            if name in _BY_BROKER:
                setattr(other, name, {broker_id: keys.copy() for broker_id, keys in value.items()})
            else:
                setattr(other, name, value.copy() if isinstance(value, dict | list) else value)
        return other

    def rows(self) -> ClusterImage:
        """Return a copy of brokers, topics and partitions for a reader in another thread: it has no indexes,
        and takes a fifteenth of the time of a whole copy."""
        other = ClusterImage.__new__(ClusterImage)
        for name in _ROWS:
            setattr(other, name, getattr(self, name).copy())
        return other

    # --- the only way state moves -----------------------------------------------------------------------

    @property
    def records(self) -> int:
        """Return how many records were ever persisted for the cluster."""
        return self.records_before + self.sequence

    def replay(self, record: Record) -> None:
        self.sequence += 1
        match record:
            case PartitionRecord():
                changed = self._replay_partition(record.state)
            case MemberRecord():
                changed = self._replay_member(record.registration)
            case TopicRecord():
                changed = self._replay_topic(record.state)
            case RemoveTopicRecord():
                changed = self._replay_topic_removal(record.topic_id)
            case RemoveMemberRecord(kind=kind, member_id=member_id):
                if kind is MemberKind.BROKER:
                    self._unindex_worker(self.brokers.pop(member_id, None))
                    self.demoted.pop(member_id, None)
                    self.broker_sequences.pop(member_id, None)
                else:
                    self.coordinators.pop(member_id, None)
                self.registered_sequences.pop(member_id, None)
                self.admitted_sequences.pop(member_id, None)
                changed = Changed(kind, member_id)
            case ClusterRecord():
                self.cluster_id = record.cluster_id
                self.configs = record.configs
                self.last_broker_epoch = max(self.last_broker_epoch, record.last_broker_epoch)
                changed = Changed("cluster", None)
            case ProducerIdsRecord():
                self.next_producer_id = record.next_producer_id
                changed = Changed("producer_ids", None)
            case LevelRecord(level=level):
                self.level = level
                changed = Changed("level", None)
            case UpgradeRecord(pending_since_ms=since_ms):
                self.upgrade_pending_since_ms = since_ms
                changed = Changed("level", None)
            case AclsRecord():
                changed = self._replay_acls(record)
            case UserRecord(secrets=secrets):
                if record.is_of_unknown:
                    self.unknown_users = secrets
                elif record.is_removal:
                    self.users.pop(secrets.user, None)
                else:
                    self.users[secrets.user] = secrets
                changed = Changed("user", secrets.user)
            case QuotasRecord(quotas=quotas):
                if record.is_removal:
                    self.quotas.pop(quotas.entity, None)
                else:
                    self.quotas[quotas.entity] = quotas
                changed = Changed("quotas", quotas.entity)
            case GroupRecord(group=group):
                if record.is_removal:
                    self.group_configs.pop(group.group_id, None)
                else:
                    self.group_configs[group.group_id] = group
                changed = Changed("group", group.group_id)
            case _:
                assert_never(record)
        self._changes.append(changed)
        if len(self._changes) >= 2 * self._entries_max:
            drop = len(self._changes) - self._entries_max
            del self._changes[:drop]
            self._changes_start += drop

    def _replay_acls(self, record: AclsRecord) -> Changed:
        key = record.acls.key
        before = self.acls.pop(key, None)
        if before is not None:
            self.acl_bindings -= len(before.bindings)
            self.acl_characters -= before.characters
        if not record.is_removal:
            self.acls[key] = record.acls
            self.acl_bindings += len(record.acls.bindings)
            self.acl_characters += record.acls.characters
        return Changed("acls", key)

    def _replay_member(self, member: Member) -> Changed:
        member_id = member.member_id
        before = self.members_of(member.kind).get(member_id)
        if isinstance(member, BrokerRegistration):
            self._replay_broker(member)
        else:
            self.coordinators[member_id] = member
        if before is None or before.epoch != member.epoch:
            self.registered_sequences[member_id] = self.sequence
        if member.admitted:
            self.admitted_sequences.setdefault(member_id, self.sequence)
        self.last_broker_epoch = max(self.last_broker_epoch, member.epoch)
        return Changed(member.kind, member_id)

    def _replay_broker(self, registration: BrokerRegistration) -> None:
        broker_id = registration.broker_id
        before = self.brokers.get(broker_id)
        self.brokers[broker_id] = registration
        if before is None or before.owner_id != registration.owner_id:
            self._unindex_worker(before)
            known = self.worker_ids.get(registration.owner_id, ())
            self.worker_ids[registration.owner_id] = tuple(sorted((*known, broker_id)))
        self.broker_sequences[broker_id] = self.sequence
        if registration.demoted:
            self.demoted[broker_id] = None
        else:
            self.demoted.pop(broker_id, None)

    def _replay_topic(self, state: TopicState) -> Changed:
        self.topics[state.topic_id] = state
        self.announced_at[state.topic_id] = self.sequence
        if not state.deleting:
            self.topic_ids[state.topic] = state.topic_id
            if self.deletions.pop(state.topic_id, None) is not None:
                self._revive(state.topic_id)
        elif state.topic_id not in self.deletions:
            if self.topic_ids.get(state.topic) == state.topic_id:
                del self.topic_ids[state.topic]
            assigned: set[int] = set()
            for key in self.partition_keys(state.topic_id):
                partition = self.partitions[key]
                assigned.update(partition.replicas)
                self._unindex(key, partition)
            self.deletions[state.topic_id] = Deletion(self.sequence, tuple(sorted(assigned)))
            self.held_names[state.topic] = state.topic_id
        elif state.topic_id in self.kept and not state.kept:
            # From here on brokers are told to delete what they kept.
            deletion = self.deletions[state.topic_id]
            self.deletions[state.topic_id] = deletion._replace(since_sequence=self.sequence)
        if state.name_is_free:
            self._free_name(state)
        _mark(self.kept, state.topic_id, bool(state.deleting and state.kept))
        _mark(self.ending, state.topic_id, state.deleting and not (state.kept and state.name_is_free))
        return Changed("topic", state.topic_id)

    def _revive(self, topic_id: str) -> None:
        """Index the partitions of a deleted topic that lives again."""
        for key in self.partition_keys(topic_id):
            state = self.partitions[key]
            if state.shard is not None:
                self.shards[key] = None
            self._assign(key, state)
            self._index_seats(key, state)
            if state.new_replicas:
                self.unconfirmed_new[key] = None

    def _replay_topic_removal(self, topic_id: str) -> Changed:
        keys = self.keys_of(topic_id)
        topic = self.topics.pop(topic_id, None)
        if topic is not None:
            if self.topic_ids.get(topic.topic) == topic_id:
                del self.topic_ids[topic.topic]
            self._free_name(topic)
        for key in keys:
            state = self.partitions.pop(key, None)
            if state is not None and topic_id not in self.deletions:
                self._unindex(key, state)
        for known in (self.deletions, self.kept, self.ending):
            known.pop(topic_id, None)
        self.announced_at.pop(topic_id, None)
        return Changed("topic", topic_id)

    def _free_name(self, topic: TopicState) -> None:
        if self.held_names.get(topic.topic) == topic.topic_id:
            del self.held_names[topic.topic]

    def _replay_partition(self, state: PartitionState) -> Changed:
        key = (state.topic_id, state.partition)
        before = self.partitions.get(key)
        self.partitions[key] = state
        if state.topic_id in self.deletions:
            return Changed("partition", key)
        if before is None:
            if state.shard is not None:
                self.shards[key] = None
            self._assign(key, state)
            self._index_seats(key, state)
        else:
            if before.replicas != state.replicas:
                self._unassign(key, before)
                self._assign(key, state)
            self._reindex_seats(key, before, state)
        if state.new_replicas:
            self.unconfirmed_new[key] = None
        else:
            self.unconfirmed_new.pop(key, None)
        return Changed("partition", key)

    # --- indexes ----------------------------------------------------------------------------------------

    def _unindex_worker(self, worker: BrokerRegistration | None) -> None:
        if worker is None:
            return
        others = tuple(b for b in self.worker_ids[worker.owner_id] if b != worker.broker_id)
        if others:
            self.worker_ids[worker.owner_id] = others
        else:
            del self.worker_ids[worker.owner_id]

    # A leader stands in its ISR, so ISR and ELR are all the seats there are.

    def _index_seats(self, key: PartitionKey, state: PartitionState) -> None:
        for broker_id in (*state.isr, *state.elr):
            self.seats_of.setdefault(broker_id, {})[key] = None
        self._index_leader(key, state)
        self._index_conditions(key, state)

    def _unindex_seats(self, key: PartitionKey, state: PartitionState) -> None:
        for broker_id in (*state.isr, *state.elr):
            self.seats_of[broker_id].pop(key, None)
        self._unindex_leader(key, state)
        self.below_min.pop(key, None)
        self.under_replicated.pop(key, None)
        self.recovering.pop(key, None)
        self.reassigning.pop(key, None)

    def _reindex_seats(self, key: PartitionKey, before: PartitionState, state: PartitionState) -> None:
        """Touch only what differs: this runs once per partition of a broker that died."""
        seats = (*state.isr, *state.elr)
        old_seats = (*before.isr, *before.elr)
        for broker_id in old_seats:
            if broker_id not in seats:
                del self.seats_of[broker_id][key]
        for broker_id in seats:
            if broker_id not in old_seats:
                self.seats_of.setdefault(broker_id, {})[key] = None
        if before.leader != state.leader or before.replicas != state.replicas:
            self._unindex_leader(key, before)
            self._index_leader(key, state)
        self._index_conditions(key, state)

    def _index_leader(self, key: PartitionKey, state: PartitionState) -> None:
        if state.leader == NO_LEADER:
            self.leaderless[key] = None
            return
        self.leader_of.setdefault(state.leader, {})[key] = None
        if state.leader != state.replicas[0]:
            self.not_preferred[key] = None

    def _unindex_leader(self, key: PartitionKey, state: PartitionState) -> None:
        if state.leader == NO_LEADER:
            self.leaderless.pop(key, None)
            return
        self.leader_of[state.leader].pop(key, None)
        self.not_preferred.pop(key, None)

    def _index_conditions(self, key: PartitionKey, state: PartitionState) -> None:
        if len(state.isr) < state.min_insync_replicas:
            self.below_min[key] = None
        elif self.below_min:
            self.below_min.pop(key, None)
        if len(state.isr) < state.replication_factor:
            self.under_replicated[key] = None
        elif self.under_replicated:
            self.under_replicated.pop(key, None)
        if state.recovery is LeaderRecovery.RECOVERING:
            self.recovering[key] = None
        elif self.recovering:
            self.recovering.pop(key, None)
        if state.original_replicas:
            self.reassigning[key] = None
        elif self.reassigning:
            self.reassigning.pop(key, None)

    def _assign(self, key: PartitionKey, state: PartitionState) -> None:
        for broker_id in state.replicas:
            self.replicas_of.setdefault(broker_id, {})[key] = None
        first = state.replicas[0]
        self.preferred_counts[first] = self.preferred_counts.get(first, 0) + 1

    def _unindex(self, key: PartitionKey, state: PartitionState) -> None:
        self._unindex_seats(key, state)
        self._unassign(key, state)
        self.unconfirmed_new.pop(key, None)
        self.shards.pop(key, None)

    def _unassign(self, key: PartitionKey, state: PartitionState) -> None:
        for broker_id in state.replicas:
            self.replicas_of[broker_id].pop(key, None)
        self.preferred_counts[state.replicas[0]] -= 1

    # --- reading ----------------------------------------------------------------------------------------

    def topic_named(self, topic: str) -> TopicState | None:
        topic_id = self.topic_ids.get(topic)
        return None if topic_id is None else self.topics[topic_id]

    def keys_of(self, topic_id: str) -> list[PartitionKey]:
        """Return the keys that the topic's removal takes, also of one that was never announced (4.7,
        creation): that is rare, so the scan is all right."""
        topic = self.topics.get(topic_id)
        if topic is None:
            return [key for key in self.partitions if key[0] == topic_id]
        return [(topic_id, number) for number in range(topic.partitions)]

    def partition_keys(self, topic_id: str) -> Iterator[PartitionKey]:
        """Return the keys of a topic's partitions, in order."""
        for number in range(self.topics[topic_id].partitions):
            if (topic_id, number) in self.partitions:
                yield (topic_id, number)

    def partitions_of(self, topic_id: str) -> tuple[PartitionState, ...]:
        found = (self.partitions.get((topic_id, n)) for n in range(self.topics[topic_id].partitions))
        return tuple([state for state in found if state is not None])

    def is_eligible(self, broker_id: int) -> bool:
        """Registered, admitted, not fenced, not shutting down."""
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.is_eligible

    def members_of(self, kind: MemberKind) -> Mapping[int, Member]:
        return self.brokers if kind is MemberKind.BROKER else self.coordinators

    def member(self, member_id: int) -> Member | None:
        """Return the broker or coordinator of this id: no two have one."""
        return self.brokers.get(member_id) or self.coordinators.get(member_id)

    def what_is(self, broker_id: int, otherwise: str) -> str:
        """Return why this id is no broker's, for a message."""
        if broker_id in self.coordinators:
            return f"{broker_id} is a coordinator: it has no disk and holds no replicas"
        return f"broker {broker_id} {otherwise}"

    def name_of(self, broker_id: int) -> str:
        """Return what messages call a broker: "broker 5", or "worker 1 of broker 5"."""
        broker = self.brokers.get(broker_id)
        return f"broker {broker_id}" if broker is None else broker.name

    def placeable_brokers(self) -> tuple[BrokerRegistration, ...]:
        """Return the brokers that may be given replicas, ascending by id."""
        return tuple(self.brokers[b] for b in sorted(self.brokers) if self.brokers[b].takes_replicas)

    def placeable_owners(self) -> int:
        """Return how many replicas of one partition may be placed: no two on workers of one broker."""
        return len({broker.owner_id for broker in self.placeable_brokers()})

    @property
    def change_log_start(self) -> int:
        """The lowest sequence after which every change is still remembered."""
        return self._changes_start

    def changes_since(self, sequence: int) -> list[Changed] | None:
        """Return what was replayed after `sequence`, oldest first; None if that is no longer, or not yet,
        known."""
        if sequence < self._changes_start or sequence > self.sequence:
            return None
        return self._changes[sequence - self._changes_start :]


def _mark(topic_ids: dict[str, None], topic_id: str, is_in: bool) -> None:
    if is_in:
        topic_ids[topic_id] = None
    else:
        topic_ids.pop(topic_id, None)


def check_member(member: Member | None, epoch: BrokerEpoch) -> ControllerError:
    """Return what is wrong with a request of this member's process, which says that it has this epoch."""
    if member is None:
        return ControllerError.BROKER_NOT_REGISTERED
    return ControllerError.NONE if member.epoch == epoch else ControllerError.STALE_BROKER_EPOCH
