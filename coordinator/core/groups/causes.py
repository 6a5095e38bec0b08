"""Why a group of the classic protocol is rebalanced, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from coordinator.core.groups.classic_moves import BYTES_FOLLOWED_MAX
from coordinator.core.groups.consumer.assigning import KnownTopic
from coordinator.core.groups.consumer.causes import changed_names, changed_topics, topic_changes
from coordinator.core.groups.history import CauseKind, GroupCause
from coordinator.core.groups.requests import JoinProtocol
from coordinator.core.groups.state import ClassicGroup, GroupMember, GroupState
from coordinator.core.groups.subscription import owned_places, subscribed_topics

DOWNGRADED = GroupCause(CauseKind.CONVERTED, "the group was converted to the classic protocol")
TOO_LARGE = GroupCause(CauseKind.TOO_LARGE, "the group has more members than group.max.size")


def joined(member: GroupMember) -> GroupCause:
    return _by(CauseKind.JOINED, member, f"joined from host {member.client_host}")


def returned(group: ClassicGroup, member: GroupMember) -> GroupCause:
    how = "with another subscription" if group.state is GroupState.STABLE else "before the group was stable"
    return _by(CauseKind.RETURNED, member, f"came back {how}")


def rejoined(
    group: ClassicGroup,
    member: GroupMember,
    protocols: tuple[JoinProtocol, ...],
    topics: Mapping[str, KnownTopic],
) -> GroupCause:
    """Return why a member of the group has sent JoinGroup. protocols: that it speaks now. topics: that the
    group subscribes and that exist. A leader that sees new partitions joins again, as all do that were told
    to give partitions up (KIP-429)."""
    before, now = (
        subscribed_topics(one[0].metadata) if one else None for one in (member.protocols, protocols)
    )
    if before is not None and now is not None and before != now:
        return _by(CauseKind.SUBSCRIPTION, member, f"changed its subscription: {changed_names(before, now)}")
    if [own.name for own in member.protocols] != [own.name for own in protocols]:
        return _by(CauseKind.ASSIGNOR, member, "asks for other assignors")
    if topic_changes(group.assigned_topics, topics):
        return changed_topics(group.assigned_topics, topics)
    if group.state is GroupState.STABLE and (given := _given_up(member, protocols)):
        what = (
            f"gave up {given} partitions, as its leader had assigned, and joined again for others to get them"
        )
        return _by(CauseKind.REJOINED, member, what)
    if member.protocols != protocols:
        return _by(CauseKind.REJOINED, member, "joined again with the same topics and other data")
    return _by(CauseKind.REJOINED, member, "asked for a rebalance, as the leader")


def _given_up(member: GroupMember, protocols: tuple[JoinProtocol, ...]) -> int:
    """Return how many of the partitions that it was assigned before a cooperative member has given up."""
    before, now = (one[0].metadata if one else b"" for one in (member.protocols, protocols))
    if len(before) > BYTES_FOLLOWED_MAX:
        return 0
    return len(owned_places(before) - owned_places(now))


def left(members: Sequence[GroupMember]) -> GroupCause:
    """Return the cause for members that left, or that an operator has removed."""
    return _of_several(CauseKind.LEFT, members, "left")


def silent(member: GroupMember) -> GroupCause:
    session = f"{member.session_timeout_ms / 1_000:g} s"
    text = f"sent no heartbeat for {session}, its session; its last came from host {member.client_host}"
    return _by(CauseKind.SILENT, member, text)


def absent(group: ClassicGroup, member: GroupMember) -> GroupCause:
    """Return the cause for a member that did not come back into a rebalance."""
    text = (
        f"from host {member.client_host} did not join again within the rebalance timeout of "
        f"{group.rebalance_timeout_ms / 1_000:g} s, and was removed"
    )
    return _by(CauseKind.NOT_JOINED, member, text)


def not_synced(members: Sequence[GroupMember]) -> GroupCause:
    return _of_several(CauseKind.NOT_SYNCED, members, "did not ask for its assignment in time (SyncGroup)")


def not_written(error: str) -> GroupCause:
    return GroupCause(CauseKind.NOT_WRITTEN, f"the assignments could not be written: {error}")


def _by(kind: CauseKind, member: GroupMember, what: str) -> GroupCause:
    return GroupCause(kind, f"{member.title} {what}", member.member_id)


def _of_several(kind: CauseKind, members: Sequence[GroupMember], what: str) -> GroupCause:
    more = f" and {len(members) - 1} more" if len(members) > 1 else ""
    return GroupCause(kind, f"{members[0].title}{more} {what}", members[0].member_id)
