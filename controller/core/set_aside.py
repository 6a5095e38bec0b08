"""Logs that brokers have set aside, and topics that an operator brings back from them (11.5, logs that were
set aside).

A broker sets a log aside when the metadata does not mention it (I22, deletion needs evidence): its topic was
made after a backup of ZooKeeper, on brokers that were given up when the metadata was recovered, or it was
deleted while the broker was away. Brokers tell each controller what they have in quarantine. To bring a topic
back is to write the rows that a recovery (recovery.py) would have written had it known of these logs: the
same epochs above everything heard, the same proof of which replica holds every committed record. Brokers that
then find themselves named as replicas take their logs up again. Nothing is decided while a broker is silent:
its log may be the longest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from controller.core.alarms import AlarmBook, replica_alarm
from controller.core.configs import effective_min_insync_replicas
from controller.core.draft import Draft
from controller.core.effects import AlarmCode
from controller.core.events import BringBackTopics, Refusal, RefusalCode, TopicsBroughtBack
from controller.core.image import ClusterImage
from controller.core.records import BrokerRegistration, Cause, PartitionRecord, ProducerIdsRecord, TopicRecord
from controller.core.recovery import (
    PRODUCER_IDS_MARGIN,
    best_set_aside,
    held_log,
    logs_by_partition,
    partition_epoch_floor,
    rebuilt_partition,
    states_by_partition,
    topic_by_logs,
)
from controller.core.shards import cluster_defaults
from controller.core.topics import check_topic_name, operator_change
from springtide.contract.holdings import Holdings, SetAsideLog
from springtide.contract.partition_state import NO_LEADER, PartitionKey, PartitionState, TopicState
from springtide.contract.session import RegisterRequest, ShutdownKind


class SetAsideBook:
    """told: what each broker last said that it has in quarantine, to this controller."""

    __slots__ = ("_alarmed", "told")

    def __init__(self) -> None:
        self.told: dict[int, tuple[SetAsideLog, ...]] = {}
        self._alarmed: dict[int, set[tuple[str, int]]] = {}

    def note(
        self, draft: Draft, alarms: AlarmBook, broker_id: int, set_aside: tuple[SetAsideLog, ...]
    ) -> None:
        """A log with records of an unknown partition is an alarm, until it is taken up or removed."""
        self.told[broker_id] = set_aside
        raised = set()
        for log in set_aside:
            key = (log.topic_id, log.partition)
            if log.records > 0 and not _is_known(draft.image, key):
                raised.add(key)
                way_out = (
                    "its topic has no such partition any more, its directory in quarantine/ has the records"
                    if log.topic_id in draft.image.topics
                    else "`springtide clusters bring-back` brings it back"
                )
                detail = (
                    f"{draft.image.name_of(broker_id)} has set {log.topic}-{log.partition} aside with "
                    f"{log.records} records: {log.why[:300]}; {way_out}"
                )
                alarms.raise_alarm(draft, replica_alarm(AlarmCode.LOG_SET_ASIDE, key, broker_id), detail)
        for key in sorted(self._alarmed.get(broker_id, set()) - raised):
            alarms.clear_alarm(draft, replica_alarm(AlarmCode.LOG_SET_ASIDE, key, broker_id))
        self._alarmed[broker_id] = raised

    def of(self, image: ClusterImage) -> dict[int, tuple[SetAsideLog, ...]]:
        """Return the logs set aside, by broker of the cluster, ascending."""
        return {
            broker_id: self.told[broker_id] for broker_id in sorted(self.told) if broker_id in image.brokers
        }


def _is_known(image: ClusterImage, key: PartitionKey) -> bool:
    """Return whether the rows have this partition, or it goes with a topic that is being deleted."""
    topic = image.topics.get(key[0])
    return key in image.partitions or (topic is not None and topic.deleting)


def bring_back(draft: Draft, book: SetAsideBook, event: BringBackTopics) -> TopicsBroughtBack | Refusal:
    """Write the rows, unless it is a dry run. Topics that the cluster already has are left as they are."""
    image = draft.image
    told = {b: logs for b, logs in book.of(image).items() if b not in event.gone_brokers}
    wanted = _wanted(image, told, event)
    if isinstance(wanted, Refusal):
        return wanted
    silent = [
        b
        for b, broker in sorted(image.brokers.items())
        if broker.admitted and b not in event.gone_brokers and (b not in told or not image.is_eligible(b))
    ]
    if silent and wanted:
        return Refusal(
            code=RefusalCode.RECOVERY_INCOMPLETE,
            field="gone_brokers",
            detail=f"brokers that have not reported what they have set aside: {silent}",
            hint="start them, or name those that will never come back in gone_brokers",
            facts={"silent_brokers": len(silent)},
        )
    topics: list[TopicState] = []
    states: list[PartitionState] = []
    for topic_id in wanted:
        held = {b: _holdings(image.brokers[b], logs, topic_id) for b, logs in told.items()}
        topic = topic_by_logs(
            topic_id, [log for logs in told.values() for log in logs if log.topic_id == topic_id]
        )
        refusal = check_topic_name(image, topic.topic)
        if refusal is None and topic.topic in {other.topic for other in topics}:
            detail = f"two topics that are set aside are called {topic.topic!r}"
            refusal = Refusal(code=RefusalCode.TOPIC_ALREADY_EXISTS, field="topic_ids", detail=detail)
        if refusal is not None:
            hint = f"its id is {topic_id}: name the others in topic_ids to leave it out"
            return msgspec.structs.replace(refusal, field="topic_ids", hint=hint)
        topics.append(topic)
        states += _partitions(image, topic, held, has_all=not event.gone_brokers)
    if topics and not event.dry_run:
        change = operator_change(event, Cause.TOPIC_BROUGHT_BACK)
        # Their records may be of producers whose ids were forgotten.
        next_producer_id = image.next_producer_id + PRODUCER_IDS_MARGIN
        draft.write(ProducerIdsRecord(next_producer_id=next_producer_id, change=change))
        for state in states:
            draft.write(PartitionRecord(state=state, change=change))
        for topic in topics:
            draft.write(TopicRecord(state=topic, change=change))
    return TopicsBroughtBack(
        topics=tuple(topics),
        partitions=tuple(states),
        undecided=tuple((state.topic_id, state.partition) for state in states if not state.isr),
        dry_run=event.dry_run,
    )


def _wanted(
    image: ClusterImage, told: Mapping[int, Iterable[SetAsideLog]], event: BringBackTopics
) -> list[str] | Refusal:
    """Ids of topics to bring back: those asked for, or all that are set aside and not known."""
    there = {log.topic_id: None for logs in told.values() for log in logs if log.is_whole or log.state}
    if not event.topic_ids:
        return [topic_id for topic_id in sorted(there) if topic_id not in image.topics]
    for number, topic_id in enumerate(event.topic_ids):
        if topic_id in image.deletions or (topic_id not in there and topic_id not in image.topics):
            why = "is being deleted" if topic_id in image.deletions else "is set aside by no broker"
            if topic_id in image.kept:
                why = "is deleted and kept: `springtide topics restore` brings it back"
            detail = f"topic {topic_id} {why}"
            return Refusal(code=RefusalCode.UNKNOWN_TOPIC, field=f"topic_ids.{number}", detail=detail)
    return sorted({topic_id for topic_id in event.topic_ids if topic_id not in image.topics})


def _holdings(broker: BrokerRegistration, logs: Iterable[SetAsideLog], topic_id: str) -> Holdings:
    """Return the holdings as the broker would have reported them in a recovery. A broker with a damaged log
    has lost something."""
    best = best_set_aside(log for log in logs if log.topic_id == topic_id)
    is_whole = all(log.is_whole for log in best)
    identity = RegisterRequest(
        broker_id=broker.broker_id,
        incarnation_id=broker.incarnation_id,
        host=broker.host,
        port=broker.port,
        log_dir_ids=broker.log_dir_ids,
        last_shutdown=ShutdownKind.PROCESS_CRASH if is_whole else ShutdownKind.MACHINE_CRASH,
    )
    return Holdings(
        identity=identity,
        states=tuple(log.state for log in best if log.state is not None and log.is_whole),
        logs=tuple(held_log(log) for log in best),
    )


def _partitions(
    image: ClusterImage, topic: TopicState, held: Mapping[int, Holdings], *, has_all: bool
) -> list[PartitionState]:
    states, logs = states_by_partition(held), logs_by_partition(held)
    holders = sorted({b for group in logs.values() for b in group})
    rebuilt = []
    for number in range(topic.partitions):
        key = (topic.topic_id, number)
        state = rebuilt_partition(
            image,
            topic,
            number,
            states=states.get(key, {}),
            logs=logs.get(key, {}),
            held=held,
            holders=holders,
            has_all=has_all,
            epoch_min=partition_epoch_floor(image.records),
        )
        replicas = tuple(b for b in state.replicas if b in image.brokers) or tuple(holders)
        leader = next((b for b in state.isr if image.is_eligible(b)), NO_LEADER)
        state = msgspec.structs.replace(
            state,
            replicas=replicas,
            adding_replicas=(),
            removing_replicas=(),
            original_replicas=(),
            throttle=None,
            new_replicas=(),
            leader=leader,
            last_known_leader=NO_LEADER if leader != NO_LEADER else state.last_known_leader,
            min_insync_replicas=effective_min_insync_replicas(
                topic.configs, cluster_defaults(image, topic.topic), replication_factor=len(replicas)
            ),
        )
        rebuilt.append(state)
    return rebuilt
