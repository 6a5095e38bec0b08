"""Why the epoch of a `consumer` group was raised, in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from coordinator.core.consumer_group_records import ConsumerMember
from coordinator.core.groups.consumer.assigning import KnownTopic
from coordinator.core.groups.history import ID_CHARS_MAX, CauseKind, GroupCause

NAMES_TOLD_MAX = 3


def title_of(member_id: str, about: ConsumerMember | None) -> str:
    """Return what people call a member, cut to a readable length."""
    instance_id = None if about is None else about.instance_id
    static = "" if instance_id is None else f" (static {instance_id[:ID_CHARS_MAX]})"
    return f"member {member_id[:ID_CHARS_MAX]}{static}"


def joined(member_id: str, about: ConsumerMember) -> GroupCause:
    text = f"{title_of(member_id, about)} joined from host {about.client_host}"
    return GroupCause(CauseKind.JOINED, text, member_id)


def returned(member_id: str, about: ConsumerMember) -> GroupCause:
    text = f"{title_of(member_id, about)} came back with another subscription"
    return GroupCause(CauseKind.RETURNED, text, member_id)


def left(member_id: str, about: ConsumerMember) -> GroupCause:
    return GroupCause(CauseKind.LEFT, f"{title_of(member_id, about)} left", member_id)


def silent(member_id: str, about: ConsumerMember, session_ms: int) -> GroupCause:
    title, session = title_of(member_id, about), f"{session_ms / 1_000:g} s"
    text = (
        f"{title} sent no heartbeat for {session}, its session; its last came from host {about.client_host}"
    )
    return GroupCause(CauseKind.SILENT, text, member_id)


def kept_partitions(member_id: str, about: ConsumerMember, partitions: int) -> GroupCause:
    text = (
        f"{title_of(member_id, about)} from host {about.client_host} did not give up {partitions} partitions "
        f"within its rebalance timeout of {about.rebalance_timeout_ms / 1_000:g} s"
    )
    return GroupCause(CauseKind.KEPT_PARTITIONS, text, member_id)


def missed_rebalance(member_id: str, about: ConsumerMember) -> GroupCause:
    """Return the cause for a member of the classic protocol that did not do what was next."""
    text = (
        f"{title_of(member_id, about)} from host {about.client_host} did not join again, or ask for its "
        f"assignment, within its rebalance timeout of {about.rebalance_timeout_ms / 1_000:g} s"
    )
    return GroupCause(CauseKind.MISSED_REBALANCE, text, member_id)


def upgraded(member_id: str, about: ConsumerMember) -> GroupCause:
    text = (
        f"{title_of(member_id, about)} joined from host {about.client_host} as the first one with the "
        "consumer protocol, to which the group was converted"
    )
    return GroupCause(CauseKind.CONVERTED, text, member_id)


def changed_protocol(member_id: str, about: ConsumerMember) -> GroupCause:
    text = f"{title_of(member_id, about)} came back with the classic protocol"
    return GroupCause(CauseKind.RETURNED, text, member_id)


def downgraded(gone: GroupCause) -> GroupCause:
    """Return the cause for a group that goes on with the classic protocol. gone: of the last other member."""
    text = f"{gone.text}, and the group was converted to the classic protocol, which all others speak"
    return GroupCause(CauseKind.CONVERTED, text, gone.member_id)


def subscribed(member_id: str, before: ConsumerMember, after: ConsumerMember) -> GroupCause:
    changes = [changed_names(before.topics, after.topics)] if before.topics != after.topics else []
    if before.pattern != after.pattern:
        pattern = f"the pattern {after.pattern[:ID_CHARS_MAX]}" if after.pattern else "no pattern"
        changes.append(f"with {pattern} now")
    told = ", ".join(changes) or "its pattern, with other rights"
    text = f"{title_of(member_id, after)} changed its subscription: {told}"
    return GroupCause(CauseKind.SUBSCRIPTION, text, member_id)


def matched(before: Iterable[str], after: Iterable[str]) -> GroupCause:
    """Return the cause for patterns that stand for other topics, or for ones that a member may see now."""
    changes = changed_names(before, after)
    how = f"topics that its members' patterns match have changed: {changes}" if changes else ""
    return GroupCause(CauseKind.TOPICS, how or "patterns of its members were resolved")


def prefers(member_id: str, about: ConsumerMember, assignor: str) -> GroupCause:
    text = f"most members ask for the assignor {assignor} now, with {title_of(member_id, about)}"
    return GroupCause(CauseKind.ASSIGNOR, text, member_id)


def changed_topics(before: Mapping[str, KnownTopic], now: Mapping[str, KnownTopic]) -> GroupCause:
    """Return the cause for topics that are others now. before: those of the last assignment."""
    texts = topic_changes(before, now) or ["topics that it subscribes have changed"]
    more = f", and {len(texts) - NAMES_TOLD_MAX} topics more" if len(texts) > NAMES_TOLD_MAX else ""
    return GroupCause(CauseKind.TOPICS, ", ".join(texts[:NAMES_TOLD_MAX]) + more)


def topic_changes(before: Mapping[str, KnownTopic], now: Mapping[str, KnownTopic]) -> list[str]:
    """Return what has changed, a topic each. before: empty where it is not known."""
    texts = []
    for name in sorted(before.keys() | now.keys()) if before else ():
        old, new = before.get(name), now.get(name)
        if new is None:
            texts.append(f"topic {name} was deleted")
        elif old is None:
            texts.append(f"topic {name} exists now, with {new.partitions} partitions")
        elif old.topic_id != new.topic_id:
            texts.append(f"topic {name} was deleted and created again, with {new.partitions} partitions")
        elif old.partitions != new.partitions:
            texts.append(f"topic {name} has {new.partitions} partitions instead of {old.partitions}")
    return texts


def changed_names(before: Iterable[str], after: Iterable[str]) -> str:
    """Return which topics a subscription has more and which it has no longer."""
    more, fewer = set(after) - set(before), set(before) - set(after)
    added = [f"it added {_names(more)}"] if more else []
    return ", ".join([*added, *([f"it dropped {_names(fewer)}"] if fewer else [])])


def _names(names: Iterable[str]) -> str:
    found = sorted(names)
    more = f" and {len(found) - NAMES_TOLD_MAX} more" if len(found) > NAMES_TOLD_MAX else ""
    return ", ".join(name[:ID_CHARS_MAX] for name in found[:NAMES_TOLD_MAX]) + more
