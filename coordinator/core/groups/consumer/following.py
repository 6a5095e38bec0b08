"""What a `consumer` group's rebalances move, and which members each waits for: for people.

Partitions are followed as members get them and give them up. The targets alone would tell it wrong where a
newer one comes before all members have reached the last.
"""

from __future__ import annotations

from itertools import islice

from coordinator.core.groups.consumer.draft import GroupDraft
from coordinator.core.groups.consumer.groups import LiveGroup
from coordinator.core.groups.consumer.state import AWAY, ConsumerGroup, Member, MemberState
from coordinator.core.groups.history import (
    CAUSES_KEPT_MAX,
    NOT_KNOWN,
    PARTITIONS_FOLLOWED_MAX,
    CauseKind,
    GroupCause,
    NotedRebalance,
)
from coordinator.core.groups.registry import Registry, Turn
from coordinator.core.topic_partitions import (
    StampedPartitions,
    TopicIdPartition,
    count,
    each_partition,
    epoch_of,
    merged,
    without,
)


def note_cause(registry: Registry, turn: Turn, draft: GroupDraft, cause: GroupCause) -> None:
    """Note why the draft's epoch is raised. A rebalance has all causes up to its target."""
    registry.history.consumers_begun += 1
    live = registry.consumers.live_group(draft.group.group_id)
    live.settling.begin(turn.now_ms)
    live.later.append(cause._replace(at_ms=turn.wall_ms))
    del live.later[CAUSES_KEPT_MAX:]
    if live.placing is None:
        begin_rebalance(registry, turn, draft)


def begin_rebalance(registry: Registry, turn: Turn, draft: GroupDraft) -> None:
    """Note the causes that have come; those that come while a target is made are of the next rebalance."""
    history, group = registry.history, draft.group
    live = registry.consumers.live_group(group.group_id)
    if not live.later:
        return
    rebalance = history.under_way(group.group_id)
    if rebalance is None or rebalance.assigned_ms != NOT_KNOWN:
        rebalance = history.begin(group.group_id, group.epoch + 1, turn.wall_ms)
    for cause in live.later:
        rebalance.note_cause(cause)
    live.later.clear()
    history.note(rebalance)


def note_target(registry: Registry, turn: Turn, draft: GroupDraft, assignor: str, to_move: int) -> None:
    """Note a new target, which the draft has: each member has to come to its epoch."""
    history, group_id = registry.history, draft.group.group_id
    live = registry.consumers.live_group(group_id)
    rebalance = history.under_way(group_id)
    if rebalance is None or rebalance.assigned_ms != NOT_KNOWN:
        rebalance = history.begin(group_id, draft.epoch, turn.wall_ms)
    members = draft.members()
    rebalance.generation_id = draft.target.epoch
    rebalance.assigned_ms, rebalance.assignor = turn.wall_ms, assignor
    rebalance.to_move = to_move
    rebalance.moved = 0
    existing = registry.consumers.existing(draft.subscribed())
    live.assigned_topics = {topic.name: topic for topic in existing}
    topic_ids = {topic.topic_id for topic in existing}
    if members:
        live.released = {one: by for one, by in live.released.items() if one.topic_id in topic_ids}
    live.unsettled = dict.fromkeys(members, turn.wall_ms)
    history.note(rebalance)
    begin_rebalance(registry, turn, draft)


def note_silence(registry: Registry, turn: Turn, group_id: str, member_id: str, session_ms: int) -> None:
    """Note when a member was last heard that is given up for its silence."""
    live = registry.consumers.live_group(group_id)
    heard_ms = live.members[member_id].expires_ms - session_ms
    live.last_heard[member_id] = turn.wall_ms - (turn.now_ms - heard_ms)


def follow(registry: Registry, turn: Turn, draft: GroupDraft) -> None:
    """Note what the draft's members have got and given up, and end the rebalance if all of them have what
    they are to have."""
    group_id, history = draft.group.group_id, registry.history
    live = registry.consumers.live_group(group_id)
    rebalance = history.under_way(group_id)
    before = {member_id: draft.group.members.get(member_id) for member_id in draft.changed}
    changed = {
        member_id: member
        for member_id, member in draft.changed.items()
        if _current(member) != _current(before[member_id])
    }
    for member_id, member in changed.items():
        since_ms = live.last_heard.pop(member_id, turn.wall_ms)
        lost = without(held_by(before[member_id]), held_by(member))
        for partition in islice(each_partition(lost), max(0, PARTITIONS_FOLLOWED_MAX - len(live.released))):
            live.released.setdefault(partition, (member_id, since_ms))
    for member_id, member in changed.items():
        gained = without(held_by(member), held_by(before[member_id]))
        if gained:
            _note_gained(registry, turn, live, rebalance, member_id, gained)
    for member_id, member in draft.changed.items():
        _note_settled(live, draft, member_id, member, turn.wall_ms)
    if draft.target.epoch == draft.epoch and not live.unsettled:
        live.settling.end(turn.now_ms, is_empty=not draft.members())
    if rebalance is None:
        return
    if rebalance.assigned_ms != NOT_KNOWN and not live.unsettled:
        history.end(rebalance, turn.wall_ms)
    elif changed:
        history.note(rebalance)


def _note_gained(
    registry: Registry,
    turn: Turn,
    live: LiveGroup,
    rebalance: NotedRebalance | None,
    member_id: str,
    gained: StampedPartitions,
) -> None:
    known = {one for one in live.released if epoch_of(gained, *one) is not None}
    for partition in sorted(known, key=_number):
        owner, since_ms = live.released.pop(partition)
        if rebalance is not None:
            place = registry.consumers.place_of(partition)
            rebalance.note_move(place, owner, member_id, max(0, turn.wall_ms - since_ms))
    new = count(gained) - len(known)
    if rebalance is not None and new:
        others = (one for one in each_partition(gained) if one not in known)
        rebalance.note_new(map(registry.consumers.place_of, others), new, member_id)


def _number(partition: TopicIdPartition) -> tuple[int, int]:
    return partition.partition, partition.topic_id.int


def _note_settled(
    live: LiveGroup, draft: GroupDraft, member_id: str, member: Member | None, wall_ms: int
) -> None:
    if member is None or member.is_settled(draft.target.epoch):
        live.unsettled.pop(member_id, None)
        return
    before = draft.group.members.get(member_id)
    is_revoking = member.current.state == MemberState.UNREVOKED_PARTITIONS
    if is_revoking and (before is None or before.current.state != MemberState.UNREVOKED_PARTITIONS):
        live.unsettled[member_id] = wall_ms
    live.unsettled.setdefault(member_id, wall_ms)


def _current(member: Member | None) -> object:
    return None if member is None else member.current


def held_by(member: Member | None) -> StampedPartitions:
    """Return what a member may consume. A static member that is away consumes nothing."""
    if member is None or member.current.epoch == AWAY:
        return {}
    return merged(member.current.assigned, member.current.revoking)


def follow_anew(registry: Registry, turn: Turn, group: ConsumerGroup) -> None:
    """Begin to follow a group of a shard that was just opened: what has raised its epoch is not known."""
    live = registry.consumers.live_group(group.group_id)
    live.unsettled = {
        member_id: turn.wall_ms
        for member_id, member in group.members.items()
        if not member.is_settled(group.target.epoch)
    }
    is_settled_now = not group.is_due and not live.unsettled
    if not is_settled_now:
        live.settling.begin(turn.now_ms)
    ended_ms = max(0, group.target.made_ms) if is_settled_now else NOT_KNOWN
    rebalance = registry.history.take_over(group.group_id, group.epoch, ended_ms=ended_ms)
    if not group.is_due:
        rebalance.assigned_ms = group.target.made_ms or NOT_KNOWN


def follow_back(registry: Registry, turn: Turn, group_id: str, group: ConsumerGroup | None) -> None:
    """Take in that a change of the group was refused, and taken back."""
    live, rebalance = registry.consumers.live_group(group_id), registry.history.under_way(group_id)
    live.unsettled = {
        member_id: live.unsettled.get(member_id, turn.wall_ms)
        for member_id, member in ({} if group is None else group.members).items()
        if group is not None and not member.is_settled(group.target.epoch)
    }
    is_over = group is None or not (group.is_due or live.unsettled)
    if is_over:
        live.settling.end(turn.now_ms, is_empty=group is None or not group.members)
    if rebalance is None:
        return
    text = "a change of the group could not be stored, and was taken back"
    rebalance.note_cause(GroupCause(CauseKind.NOT_WRITTEN, text, at_ms=turn.wall_ms))
    if is_over:
        registry.history.end(rebalance, turn.wall_ms)
    else:
        registry.history.note(rebalance)
