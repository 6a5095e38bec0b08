"""Patterns that members subscribe: which topics each stands for, and for how long that holds (KIP-848).

What a pattern stands for is a record of the group (16), so a heartbeat does not match anything. It is found
out again when a pattern is new, when a topic was created, when a member came whose rights did not count, and
after REFRESH_MS; a group asks at most each PAUSE_MS. A pattern shows only topics that all of its subscribers
may DESCRIBE, whichever of them asked (KAFKA-19147). So the answer to a question counts only if each of them
was asked for by then; a member whose rights have not counted yet gets nothing by its pattern until they have.

Patterns are RE2's and match whole names: in a time that grows with the name only, whoever wrote them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

import re2
from msgspec import Struct

from coordinator.core.consumer_group_records import ResolvedPattern
from coordinator.core.groups.consumer import causes, targets
from coordinator.core.groups.consumer.draft import GroupDraft
from coordinator.core.groups.consumer.following import note_cause
from coordinator.core.groups.consumer.groups import Who
from coordinator.core.groups.registry import Registry, Turn

PATTERN_CHARS_MAX: Final = 10_000
MEMORY_BYTES_MAX: Final = 4 * 1024 * 1024
"""Of one compiled pattern."""
RESOLVED_BYTES_MAX: Final = 500_000
"""Of the names that one pattern stands for: they are one record."""
PAUSE_MS: Final = 10_000
REFRESH_MS: Final = 10 * 60_000


class PatternQuestion(Struct, frozen=True):
    """Which topics patterns stand for. asked: by pattern, all that subscribe it. version: of the topics."""

    group_id: str
    asked: Mapping[str, frozenset[Who]]
    names: tuple[str, ...]
    version: int


PatternAnswer: TypeAlias = Mapping[str, tuple[str, ...]]
"""By pattern the topics that match and that all of its subscribers may DESCRIBE, sorted. Those of which there
would be too many are left out."""


class Pattern:
    """A compiled pattern. Raise InvalidPattern."""

    __slots__ = ("matches",)

    def __init__(self, pattern: str) -> None:
        if len(pattern) > PATTERN_CHARS_MAX:
            raise InvalidPattern(f"it has {len(pattern)} characters; {PATTERN_CHARS_MAX} are the most")
        options = re2.Options()
        options.max_mem = MEMORY_BYTES_MAX
        options.log_errors = False
        try:
            self.matches = re2.compile(pattern, options).fullmatch
        except re2.error as error:
            (cause,) = error.args
            text = cause.decode(errors="replace") if isinstance(cause, bytes) else str(cause)
            raise InvalidPattern(text) from error


class InvalidPattern(Exception):
    """Why a pattern can't be used, in the engine's words."""


def fault_of(pattern: str) -> str:
    """Return why a pattern can't be used, "" if it can."""
    try:
        Pattern(pattern)
    except InvalidPattern as error:
        return str(error)
    return ""


# --- asking ----------------------------------------------------------------------------------------


def take_rights(registry: Registry, draft: GroupDraft, member_id: str, pattern: str | None, who: Who) -> bool:
    """Note whose rights a member has. It gets nothing by a pattern that was resolved without them. Return
    whether that is another answer than before."""
    live = registry.consumers.live_group(draft.group.group_id)
    before = member_id in live.withheld
    live.withheld.discard(member_id)
    live.who.pop(member_id, None)
    if pattern is None:
        return before
    live.who[member_id] = who
    if who not in live.counted.get(pattern, {who}):
        live.withheld.add(member_id)
    return before != (member_id in live.withheld)


def resolve_if_due(registry: Registry, turn: Turn, draft: GroupDraft) -> None:
    """Ask what the patterns of a group stand for, if that may have changed. Heartbeats call it: a group that
    has patterns has them."""
    asked = draft.asked()
    if not asked:
        return
    consumers, group = registry.consumers, draft.group
    live = consumers.live_group(group.group_id)
    if live.resolving is not None:
        return
    pause_ms = PAUSE_MS
    is_resolved = all(pattern in group.patterns for pattern in asked)
    if is_resolved and not live.withheld and live.resolved_version == consumers.created_version:
        pause_ms = REFRESH_MS
    if live.resolved_ms is not None and turn.now_ms < live.resolved_ms + pause_ms:
        return
    known = {
        pattern: frozenset(live.who[member_id] for member_id in member_ids)
        for pattern, member_ids in subscribers_of(draft).items()
        if live.who.keys() >= member_ids
    }
    if known:  # of the others a member has not been heard since the shard was opened here
        live.resolved_ms = turn.now_ms
        live.resolved_version = consumers.created_version if len(known) == len(asked) else -1
        live.resolving = PatternQuestion(
            group.group_id, known, tuple(sorted(consumers.topics or {})), consumers.topics_version
        )
        turn.asks.append(live.resolving)


def subscribers_of(draft: GroupDraft) -> dict[str, set[str]]:
    """Return the members that subscribe each pattern."""
    if not draft.group.asked and not any(one and one.about.pattern for one in draft.changed.values()):
        return {}
    found: dict[str, set[str]] = {}
    for member_id, member in draft.members().items():
        if member.about.pattern:
            found.setdefault(member.about.pattern, set()).add(member_id)
    return found


# --- the answer ------------------------------------------------------------------------------------


def on_patterns_answered(
    registry: Registry, turn: Turn, question: PatternQuestion, answer: PatternAnswer | None
) -> None:
    """Take in what patterns stand for, if that is still waited for. A pattern that no member subscribes any
    more has no record."""
    consumers = registry.consumers
    live, group = consumers.live.get(question.group_id), consumers.store.latest(question.group_id)
    if live is None or live.resolving is not question:
        return
    live.resolving = None
    if answer is None or group is None:
        return
    draft = GroupDraft(group)
    members, before_all, has_changed = draft.members(), draft.subscribed(), False
    for pattern, member_ids in subscribers_of(draft).items():
        names, counted = answer.get(pattern), question.asked.get(pattern, frozenset())
        if names is None or not counted.issuperset(live.who.get(member_id) for member_id in member_ids):
            live.resolved_version = -1  # again after the pause
            continue
        if pattern not in live.counted:  # who was withheld before the shard was opened here is not known
            matched = {topic.topic_id for topic in consumers.existing(names)}
            has_changed |= any(matched.isdisjoint(members[one].target) for one in member_ids)
        live.counted[pattern] = counted
        has_changed |= not live.withheld.isdisjoint(member_ids)
        live.withheld -= member_ids
        before = group.patterns.get(pattern)
        if before is None or before.topics != names:
            draft.resolved[pattern] = ResolvedPattern(names, question.version, turn.wall_ms)
            has_changed = True
    if has_changed:
        note_cause(registry, turn, draft, causes.matched(before_all, draft.subscribed()))
        draft.raise_epoch(consumers.hash_of(draft.subscribed()))
        targets.assign_if_due(registry, turn, draft)
        targets.write(registry, turn, draft)
