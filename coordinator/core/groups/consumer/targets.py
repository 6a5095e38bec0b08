"""A new target assignment: when one is due, by which assignor, and what it changes.

Targets follow one another at least `group.consumer.assignment.interval.ms` apart: while many members join at
once, they are assigned together. Kafka waits for the next heartbeat then; here a timer makes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from itertools import accumulate

from coordinator.core.consumer_group_records import encode_consumer_key, encode_consumer_value
from coordinator.core.groups.consumer.assigning import (
    Answer,
    AskedMember,
    Assignor,
    KnownTopic,
    Numbering,
    Subscriber,
    TargetQuestion,
)
from coordinator.core.groups.consumer.draft import GroupDraft
from coordinator.core.groups.consumer.following import begin_rebalance, follow, note_target
from coordinator.core.groups.consumer.groups import (
    LOST_MAX,
    ConsumerChanged,
    ConsumerGroups,
    LiveGroup,
    NextTarget,
)
from coordinator.core.groups.consumer.placing import Placing
from coordinator.core.groups.consumer.ranges import share_ranges
from coordinator.core.groups.consumer.state import Member
from coordinator.core.groups.consumer.uniform import uniform
from coordinator.core.groups.registry import Registry, Turn
from coordinator.core.machine import ShardRecord

LOST_AGAIN_MS = 60_000

ASSIGNORS: dict[str, Assignor] = {"uniform": uniform, "range": share_ranges}


def preferred_assignor(members: Mapping[str, Member], configured: Sequence[str]) -> str:
    """Return the assignor that most members ask for, the first of the alphabet at a draw, or else the first
    that is configured."""
    asked = Counter(name for one in members.values() if (name := one.about.assignor) and name in configured)
    return min(asked, key=lambda name: (-asked[name], name), default=configured[0])


def assign_if_due(registry: Registry, turn: Turn, draft: GroupDraft) -> None:
    """Make a new target if what has to be assigned has changed, or let a timer make it where the last one was
    just made. A group without members has an empty one at once (KAFKA-20442)."""
    if draft.target.epoch >= draft.epoch:
        return
    live = registry.consumers.live_group(draft.group.group_id)
    timer = NextTarget(draft.group.group_id)
    members = draft.members()
    if not members:
        live.targeted_ms = None
    elif live.placing is not None:
        return
    elif (due_ms := _due_ms(registry, draft.group.group_id, live)) > turn.now_ms:
        turn.timers[timer] = due_ms
        return
    else:
        live.targeted_ms = turn.now_ms
    turn.timers[timer] = None
    _assign(registry, turn, draft, live, members)


def _due_ms(registry: Registry, group_id: str, live: LiveGroup) -> int:
    """Return when the next target may be made, at the earliest."""
    targeted_ms, interval_ms = live.targeted_ms, registry.settings_of(group_id).assignment_interval_ms
    return max(live.put_off_ms, 0 if targeted_ms is None else targeted_ms + interval_ms)


def _assign(
    registry: Registry, turn: Turn, draft: GroupDraft, live: LiveGroup, members: Mapping[str, Member]
) -> None:
    name = preferred_assignor(members, registry.options.assignors)
    begin_rebalance(registry, turn, draft)
    live.placing = placing = _placing(registry.consumers, draft, name, members)
    question = placing.question
    at_once_max = registry.options.at_once_partitions_max
    is_light = question.is_equal or (
        name == "range" and sum(len(one.topics) for one in question.members) <= at_once_max
    )
    if is_light and question.starts[-1] <= at_once_max:
        placing.answer(answer_to(question))
        _place(registry, turn, draft, live, placing)
    else:
        turn.asks.append(question)


def answer_to(question: TargetQuestion) -> Answer:
    """Return the target that is asked for. Runs in another process, too."""
    numbering = Numbering(question.topics, question.starts)
    subscribers = [
        Subscriber(one.member_id, one.instance_id, one.topics, numbering.numbers(one.target))
        for one in question.members
    ]
    parts = ASSIGNORS[question.assignor](question.starts, subscribers)
    return [
        None if own == before.held and len(own) == sum(map(len, one.target.values())) else own
        for own, before, one in zip(parts, subscribers, question.members, strict=True)
    ]


def _placing(
    consumers: ConsumerGroups, draft: GroupDraft, assignor: str, members: Mapping[str, Member]
) -> Placing:
    """Return a target of the draft's epoch that is to be asked for."""
    withheld = consumers.live_group(draft.group.group_id).withheld
    topics: dict[Hashable, tuple[KnownTopic, ...]] = {}
    saying: dict[str, Hashable] = {}
    for member_id, member in members.items():
        said = saying[member_id] = member.about.topics, member.about.pattern, member_id in withheld
        if said not in topics:
            topics[said] = consumers.topics_of(draft, member_id, member.about)
    every = sorted({topic for subscribed in topics.values() for topic in subscribed})
    places = {topic.name: place for place, topic in enumerate(every)}
    subscribed = {said: tuple([places[topic.name] for topic in own]) for said, own in topics.items()}
    question = TargetQuestion(
        draft.group.group_id,
        draft.epoch,
        assignor,
        [topic.topic_id for topic in every],
        [*accumulate((topic.partitions for topic in every), initial=0)],
        [
            AskedMember(member_id, member.about.instance_id, subscribed[saying[member_id]], member.target)
            for member_id, member in members.items()
        ],
    )
    return Placing(question)


def _place(registry: Registry, turn: Turn, draft: GroupDraft, live: LiveGroup, placing: Placing) -> None:
    """Write the next part of a target; its epoch with the last."""
    timer = NextTarget(draft.group.group_id)
    if not placing.write(draft):
        turn.timers[timer] = turn.now_ms
        return
    question, live.placing = placing.question, None
    draft.retarget(question.epoch, turn.wall_ms)
    note_target(registry, turn, draft, question.assignor, placing.to_move)
    if draft.target.epoch < draft.epoch:
        turn.timers[timer] = max(turn.now_ms, _due_ms(registry, draft.group.group_id, live))


def on_target_answered(
    registry: Registry, turn: Turn, question: TargetQuestion, answer: Answer | None
) -> None:
    """Take an answer in, if it is still waited for. None: it is lost; the question is put again at once, and
    after that from time to time, while the target stays."""
    group_id = question.group_id
    live = registry.consumers.live.get(group_id)
    if live is None or live.placing is None or live.placing.question is not question:
        return
    if answer is None:
        live.placing = None
        live.lost += 1
        live.targeted_ms = None
        live.put_off_ms = 0 if live.lost < LOST_MAX else turn.now_ms + LOST_AGAIN_MS
    else:
        live.lost = live.put_off_ms = 0
        live.placing.answer(answer)
    on_next_target(registry, turn, group_id)


def write(registry: Registry, turn: Turn, draft: GroupDraft, member_id: str = "") -> None:
    """Write what the draft changes. member_id: who is answered with it."""
    for key, value in draft.records():
        raw = None if value is None else encode_consumer_value(value)
        turn.records.append(ShardRecord(encode_consumer_key(key), raw))
    if turn.records:
        turn.work = ConsumerChanged(draft.group.group_id, member_id)
        follow(registry, turn, draft)


def on_next_target(registry: Registry, turn: Turn, group_id: str) -> None:
    """Make the target that is due, or go on with writing one."""
    group = registry.consumers.store.latest(group_id)
    if registry.consumers.topics is None:
        turn.timers[NextTarget(group_id)] = (
            turn.now_ms + registry.settings_of(group_id).assignment_interval_ms
        )
    elif group is not None:
        draft = GroupDraft(group)
        live = registry.consumers.live_group(group_id)
        if live.placing is not None and live.placing.is_answered:
            _place(registry, turn, draft, live, live.placing)
        else:
            assign_if_due(registry, turn, draft)
        write(registry, turn, draft)
