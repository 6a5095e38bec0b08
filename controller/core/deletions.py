"""The deletion of a topic: how it begins, when its name is free, and when nothing is left of it (4.6,
deletion).

    living --deleted--> name held --every leader has stopped--> name free --every replica confirmed--> gone

A topic whose logs are kept for a time ends in the same way, only that it rests in between (kept_topics.py).

A broker that has not heard of the deletion goes on as the old topic's leader, and its followers copy what it
appends: records that clients believe to be in the topic that was made again would go with the old log. So the
name is held until no broker can acknowledge anything for the old topic.

A broker has stopped if it has applied the deletion, was removed, or its process is proven dead. One that is
not fenced is waited for, whether it has a replica or not: it may not have heard yet that it leads no more.
One that is fenced has no lease. It goes on only while other replicas vouch for it (2.9, leases). Those that
have stopped vouch for a lease more at most; and without every member of ISR and ELR it commits nothing (I2,
the leader is never laxer than the controller).
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from controller.core.configs import is_deletion_protected
from controller.core.draft import Draft
from controller.core.events import DeleteTopic, Refusal, RefusalCode, TopicDeletionStarted
from controller.core.image import ClusterImage, Deletion
from controller.core.kept_topics import keeping
from controller.core.options import ControllerOptions
from controller.core.records import Cause, RemoveTopicRecord, TopicRecord
from controller.core.sessions import Sessions
from controller.core.settings_table import DELETION_PROTECTED
from controller.core.shards import reserved
from controller.core.topics import find_topic, operator_change
from springtide.contract.lag_report import PartitionLag
from springtide.contract.partition_state import NO_EPOCH, PartitionKey, PartitionState


def delete_topic(
    draft: Draft, event: DeleteTopic, lags: Mapping[PartitionKey, PartitionLag]
) -> TopicDeletionStarted | Refusal:
    image = draft.image
    topic = find_topic(image, event.topic, event.topic_id)
    if isinstance(topic, Refusal):
        return topic
    refusal = reserved(topic.topic, "it is not deleted")
    if refusal is not None and (topic.topic_id, 0) in image.shards:
        return refusal
    if is_deletion_protected(topic.configs):
        return Refusal(
            code=RefusalCode.DELETION_PROTECTED,
            detail=f"topic {topic.topic!r} has {DELETION_PROTECTED}=true",
            hint=f"set {DELETION_PROTECTED} to false first",
        )
    kept = keeping(image, topic, event, lags)
    deleting = msgspec.structs.replace(topic, deleting=True, kept=kept)
    if event.dry_run:
        assigned = {b for state in image.partitions_of(topic.topic_id) for b in state.replicas}
        waiting_for = tuple(sorted(assigned))
    else:
        draft.write(TopicRecord(state=deleting, change=operator_change(event, Cause.TOPIC_DELETION_STARTED)))
        waiting_for = image.deletions[topic.topic_id].brokers
    return TopicDeletionStarted(state=deleting, waiting_for=waiting_for, dry_run=event.dry_run)


class Deletions:
    """The deletions of one cluster, as far as one controller counts time for them."""

    def __init__(self, options: ControllerOptions) -> None:
        self._options = options
        #: Topic id -> since when only fenced brokers have not stopped, and no two of them can go on alone.
        self._quiet_since_ms: dict[str, int] = {}
        #: Topics of which the listeners of fenced brokers were asked whether these are dead.
        self._probed: dict[str, None] = {}

    def follow_up(self, draft: Draft, sessions: Sessions, now_ms: int) -> int:
        """Free the names of topics whose leaders have stopped; remove the tombstones whose every replica has
        applied the deletion, or belongs to a removed broker. Return how many were removed."""
        image = draft.image
        count = 0
        for topic_id in list(image.ending):
            topic, deletion = image.topics[topic_id], image.deletions[topic_id]
            if not topic.name_is_free and not self._have_stopped(draft, sessions, topic_id, now_ms):
                continue
            if topic_id not in image.kept and all(
                _has_confirmed(image, sessions, b, deletion) for b in deletion.brokers
            ):
                change = draft.change(Cause.TOPIC_DELETED)
                draft.write(RemoveTopicRecord(topic_id=topic_id, topic=topic.topic, change=change))
                count += 1
            elif not topic.name_is_free:
                free = msgspec.structs.replace(topic, name_is_free=True)
                draft.write(TopicRecord(state=free, change=draft.change(Cause.TOPIC_NAME_FREED)))
            self._quiet_since_ms.pop(topic_id, None)
            self._probed.pop(topic_id, None)
        return count

    def next_deadline_ms(self) -> int | None:
        """Return when `follow_up` has something to do although no broker says anything."""
        since_ms = min(self._quiet_since_ms.values(), default=None)
        return None if since_ms is None else since_ms + self._options.grace_ms + 1

    def _have_stopped(self, draft: Draft, sessions: Sessions, topic_id: str, now_ms: int) -> bool:
        image = draft.image
        deletion = image.deletions[topic_id]
        going_on = {
            b: None
            for b, broker in image.brokers.items()
            if broker.admitted
            and not sessions.is_proven_dead(b)
            and not _has_confirmed(image, sessions, b, deletion)
        }
        is_waiting = any(not image.brokers[b].fenced for b in going_on)
        if not is_waiting and going_on.keys().isdisjoint(deletion.brokers):
            return True
        if not is_waiting and topic_id not in self._probed:
            self._probed[topic_id] = None
            for broker_id in going_on:
                sessions.probe(draft, broker_id, now_ms)
        if is_waiting or any(_may_go_on(state, going_on) for state in image.partitions_of(topic_id)):
            self._quiet_since_ms.pop(topic_id, None)
            return False
        since_ms = self._quiet_since_ms.setdefault(topic_id, now_ms)
        return now_ms - since_ms > self._options.grace_ms


def _has_confirmed(image: ClusterImage, sessions: Sessions, broker_id: int, deletion: Deletion) -> bool:
    return broker_id not in image.brokers or sessions.applied.get(broker_id, -1) >= deletion.since_sequence


def _may_go_on(state: PartitionState, fenced: dict[int, None]) -> bool:
    """Return whether fenced brokers that have not stopped may acknowledge records alone.

    A leader that was cut off with a follower goes on for as long as that vouches for it. By I2 (the leader is
    never laxer than the controller) it needs all of ISR and ELR; after an unclean election no such set is
    known."""
    left = [b for b in state.replicas if b in fenced]
    needed = {*state.isr, *state.elr} if state.unclean_leader_epoch == NO_EPOCH else set()
    return len(left) > 1 and needed <= set(left)
