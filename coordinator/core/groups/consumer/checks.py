"""What is wrong with a heartbeat whatever its group is: its handler asks before it looks for the shard."""

from __future__ import annotations

from typing import NamedTuple

from coordinator.core.groups.consumer.requests import JOINING, LEAVING, ConsumerHeartbeat
from coordinator.core.groups.consumer.state import AWAY
from coordinator.core.groups.options import STRING_BYTES_MAX, GroupOptions
from springtide.wire.errors import ErrorCode


class HeartbeatRefusal(NamedTuple):
    error: ErrorCode
    message: str


def refusal_of(request: ConsumerHeartbeat, options: GroupOptions) -> HeartbeatRefusal | None:
    """Return why a heartbeat is refused, None if it may be looked at. Clients end on INVALID_REQUEST and on
    UNSUPPORTED_ASSIGNOR."""
    epoch = request.member_epoch
    checks = (
        (not request.group_id, "the group id is empty"),
        (request.instance_id == "", "the instance id is empty"),
        (request.rack_id == "", "the rack id is empty"),
        (not request.member_id and (epoch != JOINING or not request.new_member_id), "the member id is empty"),
        (epoch < AWAY, f"the member epoch is {epoch}"),
        (epoch == AWAY and request.instance_id is None, "only a static member can leave for a while"),
        (
            epoch == JOINING and request.rebalance_timeout_ms == -1,
            "a member that joins has a rebalance timeout",
        ),
        (epoch == JOINING and request.owned != frozenset(), "a member that joins owns no partition"),
        (
            epoch == JOINING and request.topics is None and not request.pattern,
            "a member that joins subscribes topics or a pattern",
        ),
        (_is_too_long(request, options), "a text or the subscription is too long"),
    )
    for is_wrong, message in checks:
        if is_wrong:
            return HeartbeatRefusal(ErrorCode.INVALID_REQUEST, message)
    if epoch not in (LEAVING, AWAY) and request.assignor not in (None, *options.assignors):
        text = f"the assignors are {', '.join(options.assignors)}"
        return HeartbeatRefusal(ErrorCode.UNSUPPORTED_ASSIGNOR, text)
    return None


def _is_too_long(request: ConsumerHeartbeat, options: GroupOptions) -> bool:
    texts = (
        request.group_id,
        request.member_id,
        request.new_member_id,
        request.instance_id,
        request.rack_id,
        request.client_id,
        request.client_host,
        request.pattern,
    )
    subscription = sum(len(name.encode()) for name in request.topics or ())
    is_long = any(len(text.encode()) > STRING_BYTES_MAX for text in texts if text)
    return is_long or subscription > options.member_bytes_max
