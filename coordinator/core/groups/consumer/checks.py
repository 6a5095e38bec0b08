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
    if fault := _fault_of(request, options):
        return HeartbeatRefusal(ErrorCode.INVALID_REQUEST, fault)
    if epoch not in (LEAVING, AWAY) and request.assignor not in (None, *options.assignors):
        text = f"the assignors are {', '.join(options.assignors)}"
        return HeartbeatRefusal(ErrorCode.UNSUPPORTED_ASSIGNOR, text)
    return None


def _fault_of(request: ConsumerHeartbeat, options: GroupOptions) -> str:
    epoch, fault = request.member_epoch, ""
    if not request.group_id:
        fault = "the group id is empty"
    elif request.instance_id == "":
        fault = "the instance id is empty"
    elif request.rack_id == "":
        fault = "the rack id is empty"
    elif not request.member_id and (epoch != JOINING or not request.new_member_id):
        fault = "the member id is empty"
    elif epoch < AWAY:
        fault = f"the member epoch is {epoch}"
    elif epoch == AWAY and request.instance_id is None:
        fault = "only a static member can leave for a while"
    elif epoch == JOINING and request.rebalance_timeout_ms == -1:
        fault = "a member that joins has a rebalance timeout"
    elif epoch == JOINING and request.owned != {}:
        fault = "a member that joins owns no partition"
    elif epoch == JOINING and request.topics is None and not request.pattern:
        fault = "a member that joins subscribes topics or a pattern"
    elif _is_too_long(request, options):
        fault = "a text or the subscription is too long"
    return fault


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
    for text in texts:
        if text and len(text.encode()) > STRING_BYTES_MAX:
            return True
    return sum(len(one.encode()) for one in request.topics or ()) > options.member_bytes_max
