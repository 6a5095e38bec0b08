"""Deleted topics that are kept for a time, and restored (docs/replication.md 4.12, kept topics).

    living --deleted--> kept --restored--> living
                         +----purged, or its time is over----> brokers delete its logs (deletions.py)

The rows of a kept topic stay as they were when it was deleted. Nothing is committed in it any more, so each
member of an ISR or ELR then holds every acknowledged record for as long as it can vouch for its log. So seats
are taken away here as in living topics: from a broker that returns without proof that its logs are whole,
whose disk failed, or that is removed. A restored partition is one without a leader, under the next epochs;
its first leader is elected by the rules that hold for each other partition (3.1, clean election).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec

from controller.core.configs import effective
from controller.core.draft import Draft
from controller.core.election import elect_restored
from controller.core.events import (
    DeleteTopic,
    PurgeTopic,
    Refusal,
    RefusalCode,
    RestoreTopic,
    TopicDeletionStarted,
    TopicsBroughtBack,
)
from controller.core.image import ClusterImage
from controller.core.isr import advance
from controller.core.minimum import follow_minimum
from controller.core.records import Cause, Change, PartitionRecord, TopicRecord
from controller.core.settings_table import DELETED_RETENTION
from controller.core.shards import reserved
from controller.core.topics import check_topic_name, is_held, operator_change
from springtide.contract.epochs import LeaderEpoch, PartitionEpoch
from springtide.contract.lag_report import PartitionLag
from springtide.contract.partition_state import (
    NO_LEADER,
    KeptTopic,
    PartitionKey,
    PartitionState,
    TopicState,
)
from springtide.levels import KEPT_DELETED_TOPICS, allows

EXPIRED_AT_ONCE: Final = 100
"""Topics whose time ends in one step; the others follow with the next."""


def keeping(
    image: ClusterImage, topic: TopicState, event: DeleteTopic, lags: Mapping[PartitionKey, PartitionLag]
) -> KeptTopic | msgspec.UnsetType:
    """Return how long the topic is kept that is deleted now; UNSET: its logs are deleted at once."""
    retention_ms = int(effective(DELETED_RETENTION, topic.configs, image.configs) or 0)
    if not retention_ms or not allows(image.level, KEPT_DELETED_TOPICS):
        return msgspec.UNSET
    sizes: dict[int, int] = {}
    for state in image.partitions_of(topic.topic_id):
        lag = lags.get((state.topic_id, state.partition))
        for broker_id in state.replicas:
            sizes[broker_id] = sizes.get(broker_id, 0) + (0 if lag is None else max(0, lag.size_bytes))
    return KeptTopic(
        deleted_at_ms=event.wall_ms,
        deleted_by=event.actor,
        until_ms=event.wall_ms + retention_ms,
        bytes_by_broker=dict(sorted(sizes.items())),
    )


def kept_bytes(image: ClusterImage, broker_id: int) -> int:
    """Return how much of a broker's disk the logs of deleted topics take."""
    kept = (image.topics[topic_id].kept for topic_id in image.kept)
    return sum(topic.bytes_by_broker.get(broker_id, 0) for topic in kept if topic)


def restore_topic(draft: Draft, event: RestoreTopic) -> TopicsBroughtBack | Refusal:
    """Let a kept topic live again, with its id, records and settings. Partitions of which no broker vouches
    for every acknowledged record are told as undecided: they wait for an operator."""
    image = draft.image
    found = _find(image, event.topic_id)
    if isinstance(found, Refusal):
        return found
    name = event.topic or found.topic
    refusal = (
        _check_stopped(image, found)
        or reserved(name, "the controller creates it")
        or check_topic_name(image, name)
    )
    if refusal is not None:
        hint = f"restore it under another name; its id is {found.topic_id}"
        return msgspec.structs.replace(refusal, field="name", hint=refusal.hint or hint)
    topic = msgspec.structs.replace(found, topic=name, deleting=False, name_is_free=False, kept=msgspec.UNSET)
    states = [_restored(image, state, name) for state in image.partitions_of(topic.topic_id)]
    lost = [state for state in states if not state.replicas]
    if lost:
        return Refusal(
            code=RefusalCode.NO_LIVE_REPLICA,
            field="topic_id",
            detail=f"all brokers that kept partition {lost[0].partition} of {name!r} were removed",
        )
    if not event.dry_run:
        change = operator_change(event, Cause.TOPIC_RESTORED)
        for state in states:
            draft.write(PartitionRecord(state=state, change=change))
        draft.write(TopicRecord(state=topic, change=change))
        follow_minimum(draft, [topic], change)
        elect_restored(draft, [(state.topic_id, state.partition) for state in states])
    return TopicsBroughtBack(
        topics=(topic,),
        partitions=tuple(states),
        undecided=tuple((s.topic_id, s.partition) for s in states if not s.isr and not s.elr),
        dry_run=event.dry_run,
    )


def purge_topic(draft: Draft, event: PurgeTopic) -> TopicDeletionStarted | Refusal:
    """Have the logs of a kept topic deleted now."""
    image = draft.image
    found = _find(image, event.topic_id)
    if isinstance(found, Refusal):
        return found
    if not event.dry_run:
        _end(draft, found, operator_change(event, Cause.TOPIC_PURGED))
    waiting_for = image.deletions[found.topic_id].brokers
    return TopicDeletionStarted(
        state=msgspec.structs.replace(found, kept=msgspec.UNSET),
        waiting_for=waiting_for,
        dry_run=event.dry_run,
    )


def expire_kept(draft: Draft, expired_ms: int) -> None:
    """End the keeping of topics whose time was over at `expired_ms` (Unix time)."""
    topics = (draft.image.topics[topic_id] for topic_id in draft.image.kept)
    over = [topic for topic in topics if topic.kept and topic.kept.until_ms <= expired_ms]
    for topic in over[:EXPIRED_AT_ONCE]:
        _end(draft, topic, draft.change(Cause.TOPIC_EXPIRED))


def vacate_kept_seats(draft: Draft, broker_id: int, change: Change) -> None:
    """Take a broker that can't vouch for its logs any more from the ISR and ELR of all kept partitions."""
    for state in _seats(draft.image, {broker_id}):
        after = advance(
            state,
            isr=tuple(b for b in state.isr if b != broker_id),
            leader=NO_LEADER if state.leader == broker_id else state.leader,
            excluded=broker_id,
        )
        assert after is not None
        draft.write(PartitionRecord(state=after, change=change))


def last_holder_of(image: ClusterImage, broker_ids: Collection[int]) -> TopicState | None:
    """Return a kept topic that could not be restored whole without these brokers."""
    for state in _seats(image, broker_ids):
        if all(b in broker_ids for b in (*state.isr, *state.elr)):
            return image.topics[state.topic_id]
    return None


def forget_seats(draft: Draft, topic_ids: Iterable[str], *, epoch_min: int, change: Change) -> None:
    """Take every seat of these topics' partitions, and begin their time anew: rows that went back prove
    nothing, and a topic may have lived again after them (11.4, recovery). epoch_min: above all epochs that
    the partitions can have had."""
    image = draft.image
    for topic_id in topic_ids:
        for state in image.partitions_of(topic_id):
            minted = max(state.leader_epoch + 1, state.partition_epoch + 1, epoch_min)
            after = msgspec.structs.replace(
                state,
                leader=NO_LEADER,
                leader_epoch=LeaderEpoch(minted),
                partition_epoch=PartitionEpoch(minted),
                isr=(),
                elr=(),
                last_known_elr=(),
            )
            draft.write(PartitionRecord(state=after, change=change))
        topic = image.topics[topic_id]
        assert topic.kept
        until_ms = draft.wall_ms + topic.kept.until_ms - topic.kept.deleted_at_ms
        kept = msgspec.structs.replace(topic.kept, until_ms=max(until_ms, topic.kept.until_ms))
        draft.write(TopicRecord(state=msgspec.structs.replace(topic, kept=kept), change=change))


def _find(image: ClusterImage, topic_id: str) -> TopicState | Refusal:
    if topic_id in image.kept:
        return image.topics[topic_id]
    is_ending = topic_id in image.deletions
    why = "its logs are being deleted" if is_ending else "`springtide topics deleted` lists those that are"
    return Refusal(
        code=RefusalCode.UNKNOWN_TOPIC,
        field="topic_id",
        detail=f"no deleted topic with the id {topic_id[:64]!r} is kept: {why}",
    )


def _check_stopped(image: ClusterImage, topic: TopicState) -> Refusal | None:
    """Refuse while a leader may not have heard of the deletion."""
    if topic.name_is_free:
        return None
    refusal = is_held(image, topic.topic)
    hint = (refusal.hint or "").replace("create it", "restore it")
    return msgspec.structs.replace(refusal, hint=hint)


def _restored(image: ClusterImage, state: PartitionState, name: str) -> PartitionState:
    """Return the state without a leader, under the next epochs. The assignment is as it was, a reassignment
    that was running included; if a broker of it was removed, it is what is left."""
    state = msgspec.structs.replace(
        state,
        topic=name,
        leader=NO_LEADER,
        last_known_leader=state.last_known_leader if state.leader == NO_LEADER else state.leader,
        leader_epoch=LeaderEpoch(state.leader_epoch + 1),
        partition_epoch=PartitionEpoch(state.partition_epoch + 1),
    )
    left = tuple(b for b in state.replicas if b in image.brokers)
    if left == state.replicas:
        return state
    return msgspec.structs.replace(
        state,
        replicas=left,
        adding_replicas=(),
        removing_replicas=(),
        original_replicas=(),
        throttle=None,
        new_replicas=tuple(b for b in state.new_replicas if b in left),
    )


def _seats(image: ClusterImage, broker_ids: Collection[int]) -> Iterable[PartitionState]:
    """Return the kept partitions in which one of these brokers has a seat."""
    return [
        state
        for topic_id in image.kept
        for state in image.partitions_of(topic_id)
        if any(b in broker_ids for b in (*state.isr, *state.elr))
    ]


def _end(draft: Draft, topic: TopicState, change: Change) -> None:
    draft.write(TopicRecord(state=msgspec.structs.replace(topic, kept=msgspec.UNSET), change=change))
