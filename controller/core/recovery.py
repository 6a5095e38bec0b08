"""Rows for a cluster whose ZooKeeper went back, from what its brokers hold (docs/replication.md 11.4,
recovery).

Everything is minted above everything heard, by a margin for what was not: broker, leader and partition
epochs, producer ids, the number of records; the shell does the same with the controller epoch. A partition
gets the state with the highest partition epoch that a broker holds, which is a true state of the lost
history, and an in-sync set of one: the replica that provably holds every committed record. All others copy
from it and join as any learner does. It is

1. the leader of the highest leader epoch, if it is still running: no other can have committed since; else
2. the longest log of the seats (ISR and ELR) of a state that a running broker holds, if no other broker can
   have lost what it wrote under a later one: each holds the same state, or was not told of another since it
   registered, or lost nothing since a registration that the first broker knew of; else
3. the longest log, by leader epoch and end, if every replica told of its log, and each is in sync by the
   latest state, which it holds itself, or lost neither page cache nor disk since the rows were written. Where
   no broker has one of a partition whose replicas all are new, it was never written, and its first leader
   begins it; not if a broker was given up, which may have had it.

Logs that were set aside whole count as any other, if their topic is known. No replica of any other partition
is put in sync: it has no leader, says so, and an operator chooses (3.5, unclean elections).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from controller.core.draft import Draft
from controller.core.events import (
    BrokerApplied,
    Event,
    Heartbeat,
    MetadataRecovered,
    RecoverMetadata,
    Refusal,
    RefusalCode,
    RegisterMember,
    Report,
)
from controller.core.image import ClusterImage
from controller.core.kept_topics import forget_seats
from controller.core.records import (
    BrokerRegistration,
    Cause,
    Change,
    ClusterRecord,
    LevelRecord,
    MemberKind,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from controller.core.shards import unnamed_shard
from controller.core.topics import operator_change
from springtide.contract.epochs import BrokerEpoch, LeaderEpoch, PartitionEpoch
from springtide.contract.holdings import HeldLog, Holdings, SetAsideLog
from springtide.contract.partition_state import NO_LEADER, PartitionKey, PartitionState, TopicState
from springtide.contract.session import ShutdownKind, Witness, owner_of
from springtide.levels import UNTOLD

#: By how much epochs are minted above the highest heard: who could not be asked may have heard more.
EPOCH_MARGIN: Final = 1_000
RECORDS_MARGIN: Final = 1_000_000
PRODUCER_IDS_MARGIN: Final = 1_000_000_000
#: Leader epochs are int32 in the Kafka protocol; no partition has changed so often.
PARTITION_EPOCH_FLOOR_MAX: Final = 2**30
#: Holdings count for so long: brokers repeat them every two seconds.
HOLDINGS_MS_MAX: Final = 10_000


class _Held(NamedTuple):
    holdings: Holdings
    received_ms: int


class HeardBook:
    """The facts that a halted controller heard: the highest of everything, and what each broker holds."""

    __slots__ = ("_held", "broker_epoch", "broker_ids", "controller_epoch", "level", "records")

    def __init__(self) -> None:
        self.controller_epoch = -1
        self.records = -1
        self.level = UNTOLD
        self.broker_epoch = -1
        self.broker_ids: set[int] = set()
        self._held: dict[int, _Held] = {}

    def note(self, image: ClusterImage, event: Event, now_ms: int) -> None:
        """Take what the event brings, if it is of this cluster. Coordinators hold nothing."""
        witness: Witness | None
        match event:
            case RegisterMember() | Heartbeat() | BrokerApplied() if event.kind is MemberKind.COORDINATOR:
                return
            case RegisterMember(request=request):
                broker_id, witness = request.broker_id, request.witness
                epoch = request.previous_broker_epoch
                told = self._held.get(broker_id)
                if told is not None and told.holdings.identity.incarnation_id != request.incarnation_id:
                    del self._held[broker_id]  # Of a process that has ended.
            case Heartbeat(request=beat):
                broker_id, witness, epoch = beat.broker_id, beat.witness, beat.broker_epoch
            case BrokerApplied():
                broker_id, witness, epoch = event.broker_id, event.witness, event.broker_epoch
            case Report(request=report):
                broker_id, witness, epoch = report.broker_id, report.witness, report.broker_epoch
                if report.holdings is not None and report.holdings.identity.cluster_id == image.cluster_id:
                    self._held[broker_id] = _Held(report.holdings, now_ms)
                    epoch = max(epoch, report.holdings.broker_epoch_max)
            case _:
                return
        if witness is None or witness.cluster_id != image.cluster_id:
            return
        self.broker_ids.add(broker_id)
        self.broker_epoch = max(self.broker_epoch, epoch)
        self.controller_epoch = max(self.controller_epoch, witness.controller_epoch)
        self.records = max(self.records, witness.records)
        self.level = max(self.level, witness.level)

    def held(self, now_ms: int) -> dict[int, Holdings]:
        return {
            broker_id: held.holdings
            for broker_id, held in sorted(self._held.items())
            if now_ms - held.received_ms <= HOLDINGS_MS_MAX
        }


def recover(
    draft: Draft, heard: HeardBook, event: RecoverMetadata, now_ms: int
) -> MetadataRecovered | Refusal:
    """Write the rows, unless it is a dry run. Refused while a broker is silent that was not given up."""
    image = draft.image
    held = heard.held(now_ms)
    states = states_by_partition(held)
    view = _latest_view(held)
    rows = (b for b, broker in image.brokers.items() if broker.admitted)
    known = set(rows if view is None else view.broker_ids) | heard.broker_ids
    known.update(b for group in states.values() for state in group.values() for b in state.replicas)
    silent = sorted(known - held.keys() - set(event.gone_brokers))
    if silent:
        return Refusal(
            code=RefusalCode.RECOVERY_INCOMPLETE,
            field="gone_brokers",
            detail=f"brokers that have not reported what they hold: {silent}",
            hint="start them, or name those that will never come back in gone_brokers",
            facts={"silent_brokers": len(silent)},
        )
    for broker_id in event.gone_brokers:
        held.pop(broker_id, None)
    topics = _topics(image, held)
    logs = logs_by_partition(held)
    noted, damaged = _add_set_aside(held, topics, logs)
    epoch_min = partition_epoch_floor(max(heard.records, image.records) + EPOCH_MARGIN)
    back = tuple(sorted(t.topic for t in topics.values() if t.topic_id not in image.topics))
    holders = _one_of_each(held)
    rebuilt: list[PartitionState] = []
    for topic in topics.values():
        for number in range(topic.partitions):
            key = (topic.topic_id, number)
            rebuilt.append(
                rebuilt_partition(
                    image,
                    topic,
                    number,
                    states=states.get(key, {}),
                    noted=noted.get(key, ()),
                    logs=logs.get(key, {}),
                    held=held,
                    holders=holders,
                    has_all=not event.gone_brokers,
                    damaged=damaged.get(key, ()),
                    epoch_min=epoch_min,
                )
            )
    if not event.dry_run:
        change = operator_change(event, Cause.METADATA_RECOVERED)
        if heard.level > image.level:
            draft.write(LevelRecord(level=heard.level, change=change))
        broker_epoch_min = max(image.last_broker_epoch, heard.broker_epoch) + EPOCH_MARGIN
        _write(
            draft,
            held,
            topics,
            rebuilt,
            broker_epoch_min=BrokerEpoch(broker_epoch_min),
            epoch_min=epoch_min,
            change=change,
        )
    undecided = tuple((s.topic_id, s.partition) for s in rebuilt if not s.isr)
    return MetadataRecovered(
        brokers=tuple(held),
        topics_brought_back=back,
        partitions=len(rebuilt),
        undecided=undecided,
        controller_epoch_min=heard.controller_epoch + EPOCH_MARGIN,
        records_min=heard.records + RECORDS_MARGIN,
        dry_run=event.dry_run,
    )


def partition_epoch_floor(records: int) -> int:
    """Return an epoch above all that any partition can have had, by how many records the cluster ever had:
    each partition epoch was one of them, and no leader epoch is above its partition epoch."""
    return min(records + 1, PARTITION_EPOCH_FLOOR_MAX)


def states_by_partition(held: Mapping[int, Holdings]) -> dict[PartitionKey, dict[int, PartitionState]]:
    """Return the state that each broker holds of each partition."""
    states: dict[PartitionKey, dict[int, PartitionState]] = {}
    for broker_id, holdings in held.items():
        for state in holdings.states:
            of_brokers = states.setdefault((state.topic_id, state.partition), {})
            known = of_brokers.get(broker_id)
            if known is None or state.partition_epoch > known.partition_epoch:
                of_brokers[broker_id] = state
    return states


def logs_by_partition(held: Mapping[int, Holdings]) -> dict[PartitionKey, dict[int, HeldLog]]:
    logs: dict[PartitionKey, dict[int, HeldLog]] = {}
    for broker_id, holdings in held.items():
        for log in holdings.logs:
            logs.setdefault((log.topic_id, log.partition), {})[broker_id] = log
    return logs


def _add_set_aside(
    held: Mapping[int, Holdings],
    topics: Mapping[str, TopicState],
    logs: dict[PartitionKey, dict[int, HeldLog]],
) -> tuple[dict[PartitionKey, list[PartitionState]], dict[PartitionKey, set[int]]]:
    """Add to `logs` what is set aside whole, of known topics, where its broker has no other log of the
    partition: named as a replica, the broker takes it up again (11.5, logs that were set aside). Return the
    states that were noted with these logs, and the brokers whose log of a partition is set aside and is not
    whole."""
    noted: dict[PartitionKey, list[PartitionState]] = {}
    damaged: dict[PartitionKey, set[int]] = {}
    for broker_id, holdings in held.items():
        for log in best_set_aside(log for log in holdings.set_aside if log.topic_id in topics):
            key = (log.topic_id, log.partition)
            if broker_id in logs.get(key, ()):
                continue
            if not log.is_whole:
                damaged.setdefault(key, set()).add(broker_id)
                continue
            logs.setdefault(key, {})[broker_id] = held_log(log)
            if log.state is not None:
                noted.setdefault(key, []).append(log.state)
    return noted, damaged


def best_set_aside(logs: Iterable[SetAsideLog]) -> list[SetAsideLog]:
    """Return one broker's best of each partition: more than one were set aside only if the others are not
    whole."""
    ascending = sorted(logs, key=lambda log: (log.is_whole, log.leader_epoch))
    return list({(log.topic_id, log.partition): log for log in ascending}.values())


def held_log(log: SetAsideLog) -> HeldLog:
    return HeldLog(
        topic_id=log.topic_id,
        topic=log.topic,
        partition=log.partition,
        leader_epoch=log.leader_epoch,
        log_end_offset=log.log_end_offset,
    )


def _latest_view(held: Mapping[int, Holdings]) -> Holdings | None:
    """Return the holdings of the broker with the newest view; None if no broker has a view."""

    def told(holdings: Holdings) -> tuple[int, int]:
        witness = holdings.identity.witness
        return (-1, -1) if witness is None else (witness.controller_epoch, witness.records)

    return max((h for h in held.values() if h.has_view), key=told, default=None)


def _topics(image: ClusterImage, held: Mapping[int, Holdings]) -> dict[str, TopicState]:
    """Return the topics of the rows, of the latest view over them, and those known by their logs alone. Logs
    that were set aside tell of further partitions of these."""
    topics = {t.topic_id: t for t in image.topics.values() if not t.deleting}
    view = _latest_view(held)
    if view is not None:
        # A deletion that the rows know of stands, even if an older view has the topic. One that was kept may
        # have been restored since.
        witness = view.identity.witness
        is_newer = witness is not None and witness.records > image.records
        for topic in view.topics:
            is_deleted = topic.topic_id in image.deletions and not (is_newer and topic.topic_id in image.kept)
            if not is_deleted and not topic.deleting:
                row = topics.get(topic.topic_id, topic)  # partitions may have been added after the restore
                partitions = max(topic.partitions, row.partitions)
                topics[topic.topic_id] = msgspec.structs.replace(topic, partitions=partitions)
    found: dict[str, list[HeldLog | SetAsideLog]] = {}
    for holdings in held.values():
        for log in holdings.logs:
            found.setdefault(log.topic_id, []).append(log)
    known = topics.keys() | found.keys()
    for holdings in held.values():
        for aside in holdings.set_aside:
            if aside.topic_id in known:
                found.setdefault(aside.topic_id, []).append(aside)
    for topic_id, logs in sorted(found.items()):
        if topic_id in image.deletions and topic_id not in topics:
            continue
        topics[topic_id] = topic_by_logs(topic_id, logs, topics.get(topic_id))
    return _one_of_each_name(topics, () if view is None else view.topics)


def topic_by_logs(
    topic_id: str, logs: Sequence[HeldLog | SetAsideLog], known: TopicState | None = None
) -> TopicState:
    """Return the topic with all partitions that a log tells of. known: as rows or brokers have it; else it is
    as the latest state noted beside a log that was set aside, or by the logs alone."""
    partitions = max(log.partition for log in logs) + 1
    if known is None:
        asides = sorted((log for log in logs if isinstance(log, SetAsideLog)), key=lambda log: log.since_ms)
        known = next((log.topic_state for log in reversed(asides) if log.topic_state), None)
    if known is not None:
        return msgspec.structs.replace(known, partitions=max(partitions, known.partitions), deleting=False)
    counts = [sum(1 for log in logs if log.partition == number) for number in range(partitions)]
    return TopicState(
        topic_id=topic_id, topic=logs[0].topic, partitions=partitions, replication_factor=max(counts)
    )


def _one_of_each_name(topics: dict[str, TopicState], latest: Iterable[TopicState]) -> dict[str, TopicState]:
    """Return the topics without those whose name another one has now: of two, the one in `latest` stays.
    Brokers set the logs of the others aside, and the operator is told (11.5, logs that were set aside)."""
    stays = {topic.topic: topic_id for topic_id, topic in topics.items()}
    stays.update((topic.topic, topic.topic_id) for topic in latest if topic.topic_id in topics)
    return {topic_id: topic for topic_id, topic in topics.items() if stays[topic.topic] == topic_id}


def _one_of_each(held: Mapping[int, Holdings]) -> list[int]:
    """Return the brokers, of those with several workers the first that told."""
    first_of: dict[int, int] = {}
    for broker_id, holdings in held.items():
        first_of.setdefault(owner_of(broker_id, holdings.identity.worker_of), broker_id)
    return list(first_of.values())


def _base(
    image: ClusterImage,
    topic: TopicState,
    number: int,
    states: Iterable[PartitionState],
    holders: list[int],
) -> PartitionState:
    """Return the state of the partition, but for its epochs and seats. holders: brokers that have its log;
    where no broker has one, those that are there."""
    row = image.partitions.get((topic.topic_id, number))
    base = max(states, key=lambda state: state.partition_epoch, default=row)
    if base is not None:
        return base
    replicas = tuple(holders[: topic.replication_factor])
    return PartitionState(
        topic_id=topic.topic_id,
        topic=topic.topic,
        partition=number,
        replicas=replicas,
        leader=NO_LEADER,
        leader_epoch=LeaderEpoch(0),
        partition_epoch=PartitionEpoch(0),
        isr=(),
        min_insync_replicas=len(replicas) // 2 + 1,
        shard=unnamed_shard(topic.topic),
    )


def rebuilt_partition(
    image: ClusterImage,
    topic: TopicState,
    number: int,
    *,
    states: Mapping[int, PartitionState],
    logs: Mapping[int, HeldLog],
    held: Mapping[int, Holdings],
    holders: list[int],
    has_all: bool,
    epoch_min: int,
    noted: Sequence[PartitionState] = (),
    damaged: Collection[int] = (),
) -> PartitionState:
    """The row of one partition, by the states and logs that brokers hold of it. noted: states that stand
    beside logs in quarantine. holders: become its replicas
    where neither states nor logs of it are there. has_all: no broker was given up. damaged: brokers whose log
    of it is not whole. epoch_min: at least its new epochs; above all that it can have had, since each of them
    was a record of the cluster."""
    told = [*states.values(), *noted]
    base = _base(image, topic, number, told, list(logs) or holders)
    key = (topic.topic_id, number)
    intact = {
        b for b, holdings in held.items() if _is_intact_of(image, holdings, base, states.get(b))
    }.difference(damaged)
    has_rows = bool(told) or key in image.partitions
    whole = _whole(base, told, states, logs, held, intact=intact, has_rows=has_rows, has_all=has_all)
    known = [epoch for state in (base, *told) for epoch in (state.leader_epoch, state.partition_epoch)]
    known += [log.leader_epoch for log in logs.values()]
    minted = max(max(known) + 1, epoch_min)
    return msgspec.structs.replace(
        base,
        leader=NO_LEADER,
        last_known_leader=whole if whole is not None else base.leader,
        leader_epoch=minted,
        partition_epoch=minted,
        isr=() if whole is None else (whole,),
        elr=(),
        # Seats of rows that went back prove nothing, not even by a seal (3.9, after total power loss).
        last_known_elr=(),
        high_watermark_floor=0,
        # With a seat it may make its log only while it is new; any other replica needs no leave.
        new_replicas=tuple(b for b in base.new_replicas if b == whole and b not in logs),
    )


def _whole(
    base: PartitionState,
    told: Sequence[PartitionState],
    states: Mapping[int, PartitionState],
    logs: Mapping[int, HeldLog],
    held: Mapping[int, Holdings],
    *,
    intact: Collection[int],
    has_rows: bool,
    has_all: bool,
) -> int | None:
    """Return the replica that provably holds every committed record; None if none can be told. intact: those
    whose logs are all that they ever held. has_rows: the base is no guess. has_all: no broker was given up,
    not even one that the partition may have been moved to."""
    leaders = {state.leader for state in told if state.leader_epoch == base.leader_epoch} - {NO_LEADER}
    if len(leaders) > 1:
        return None  # two histories were led
    leads = states.get(base.leader) if base.leader in held else None  # not one that was given up
    is_latest = all(log.leader_epoch <= base.leader_epoch for log in logs.values())
    leadership = (base.leader, base.leader_epoch)
    if is_latest and leads is not None and (leads.leader, leads.leader_epoch) == leadership:
        return base.leader
    if has_rows and is_latest and not base.isr and not base.elr:
        return None  # nor could one be told before ZooKeeper went back
    seated = [b for b in (*base.isr, *base.elr) if b in logs]
    if seated and is_latest and has_all and _none_lost_more(base, states, held, intact):
        return _longest(seated, logs)
    if not all(b in intact for b in base.replicas):
        return None
    if not logs:
        return _first(base, intact) if has_all else None
    if any(b not in logs for b in (*base.isr, *base.elr)) and base.new_replicas != base.replicas:
        return None
    return _longest([b for b in base.replicas if b in logs], logs)


def _longest(brokers: Iterable[int], logs: Mapping[int, HeldLog]) -> int | None:
    return max(brokers, key=lambda b: (logs[b].leader_epoch, logs[b].log_end_offset), default=None)


def _none_lost_more(
    base: PartitionState,
    states: Mapping[int, PartitionState],
    held: Mapping[int, Holdings],
    intact: Collection[int],
) -> bool:
    """Return whether a running broker holds `base`, and no other can have lost what it wrote under a later
    state. The seats of `base` take into account what a broker lost before it registered, if the broker holds
    `base` itself, or if a holder of `base` was told of that registration. The broker must not have restarted
    since and lost something then."""
    holders = {b for b in held if states.get(b) == base}
    known = max((held[b].broker_epoch_max for b in holders if held[b].has_view), default=-1)
    return known >= 0 and all(
        b in holders
        or (holdings.identity.previous_broker_epoch <= known and (holdings.has_view or b in intact))
        for b, holdings in held.items()
    )


def _first(base: PartitionState, intact: Collection[int]) -> int | None:
    """Return the replica that begins a partition of which no broker has a log, or None if one may have had
    it. Only its first leader could have been told to begin it."""
    if base.new_replicas != base.replicas:
        return None
    if not all(b in intact for b in base.replicas):
        return None
    return base.leader if base.leader in base.replicas else base.replicas[0]


def _is_intact_of(
    image: ClusterImage, holdings: Holdings, base: PartitionState, state: PartitionState | None
) -> bool:
    """Return whether a broker's log of this partition is all that it ever held: by its own state, if that is
    the latest and has it in sync; else by its last shutdown, if its disk is the one that the rows know."""
    identity = holdings.identity
    broker_id = identity.broker_id
    if broker_id in base.isr and state == base:
        return True
    row = image.brokers.get(broker_id)
    known = () if row is None else (*row.log_dir_ids, *row.offline_log_dir_ids)
    is_the_same_disk = set(known) == {*identity.log_dir_ids, *identity.offline_log_dir_ids}
    if identity.last_shutdown is ShutdownKind.FIRST_START:
        return is_the_same_disk
    return identity.last_shutdown.is_intact and (is_the_same_disk or not known)


def _write(
    draft: Draft,
    held: Mapping[int, Holdings],
    topics: Mapping[str, TopicState],
    rebuilt: Iterable[PartitionState],
    *,
    broker_epoch_min: BrokerEpoch,
    epoch_min: int,
    change: Change,
) -> None:
    """Write the states in the order in which they may be persisted; not by `write_partition`, because epochs
    jump here."""
    image = draft.image
    view = _latest_view(held)
    draft.write(
        ClusterRecord(
            cluster_id=image.cluster_id,
            configs=image.configs if view is None else view.cluster_configs or image.configs,
            last_broker_epoch=broker_epoch_min,
            change=change,
        )
    )
    draft.write(
        ProducerIdsRecord(next_producer_id=image.next_producer_id + PRODUCER_IDS_MARGIN, change=change)
    )
    for broker_id, broker in list(image.brokers.items()):
        if broker_id not in held:
            draft.write_member(msgspec.structs.replace(broker, fenced=True), change)
    for number, holdings in enumerate(held.values(), start=1):
        draft.write_member(_registration(image, holdings, BrokerEpoch(broker_epoch_min + number)), change)
    forget_seats(draft, [t for t in image.kept if t not in topics], epoch_min=epoch_min, change=change)
    for topic in list(image.topics.values()):
        if topic.topic_id not in topics and not topic.deleting:
            draft.write(RemoveTopicRecord(topic_id=topic.topic_id, topic=topic.topic, change=change))
    for state in rebuilt:
        draft.write(PartitionRecord(state=state, change=change))
    for topic in topics.values():
        draft.write(TopicRecord(state=topic, change=change))


def _registration(image: ClusterImage, holdings: Holdings, broker_epoch: BrokerEpoch) -> BrokerRegistration:
    """Fenced, until it has registered under its new epoch and applied what was rebuilt."""
    identity = holdings.identity
    before = image.brokers.get(identity.broker_id) or BrokerRegistration(
        broker_id=identity.broker_id,
        broker_epoch=broker_epoch,
        incarnation_id=identity.incarnation_id,
        host=identity.host,
        port=identity.port,
        rack=identity.rack,
    )
    return msgspec.structs.replace(
        before,
        broker_epoch=broker_epoch,
        incarnation_id=identity.incarnation_id,
        host=identity.host,
        port=identity.port,
        listeners=identity.listeners,
        log_dir_ids=identity.log_dir_ids,
        offline_log_dir_ids=identity.offline_log_dir_ids,
        last_shutdown=identity.last_shutdown.judged,
        version=identity.version,
        admitted=True,
        fenced=True,
        shutting_down=False,
        epoch_before_recovery=identity.previous_broker_epoch,
        worker_of=identity.worker_of,
    )
