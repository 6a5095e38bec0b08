"""Checks of a registration request: what it proves, and what is wrong with it. Predicates over values, for
sessions.py to act on. All claims of a broker about its disks are judged here (3.8, how a broker returns)."""

from __future__ import annotations

import msgspec

from controller.core.authorizer import registration_fault
from controller.core.image import ClusterImage
from controller.core.options import ControllerOptions
from controller.core.records import BrokerRegistration
from controller.core.workers import claim_fault
from springtide.contract.errors import ControllerError
from springtide.contract.session import (
    LISTENERS_MAX,
    UNANSWERED_INCARNATIONS_MAX,
    RegisterRequest,
    ShutdownKind,
)
from springtide.levels import RANGES_IN_ROWS, RELEASES, UNTOLD, Level, LevelRange, allows

LOG_DIRS_MAX = 64
TEXT_LENGTH_MAX = 255


def has_usable_dir(broker: BrokerRegistration) -> bool:
    return any(d not in broker.offline_log_dir_ids for d in broker.log_dir_ids)


def vouches_for_seats(before: BrokerRegistration, request: RegisterRequest) -> bool:
    """Return whether the new incarnation provably holds all that the old one had acknowledged (3.8, how a
    broker returns). It stopped cleanly or only its process died; it was the incarnation we know (or followed
    one that never learnt its epoch); and every directory that was usable is there. A directory that had
    failed proves nothing by working again: after a failed write its content is unknown."""
    usable = set(before.log_dir_ids) - set(before.offline_log_dir_ids)
    now_usable = set(request.log_dir_ids) - set(request.offline_log_dir_ids)
    return (
        request.last_shutdown.is_intact
        and follows(before, request)
        and usable <= now_usable
        and now_usable.isdisjoint(before.offline_log_dir_ids)
    )


def follows(before: BrokerRegistration, request: RegisterRequest) -> bool:
    """Return whether the directories last served the incarnation we know. One that died between being
    registered and learning its epoch has left its id, written before it asked; it never acted under that
    epoch. An older copy of the directories has neither the epoch nor the id. One that a recovery gave its
    epoch, and that died before it was unfenced under that, has left the one before (11.4, recovery)."""
    return (
        request.previous_broker_epoch == before.broker_epoch
        or (before.fenced and -1 < before.epoch_before_recovery == request.previous_broker_epoch)
        or before.incarnation_id in request.unanswered_incarnation_ids
    )


def continues_chain(before: BrokerRegistration, request: RegisterRequest) -> bool:
    """Return whether these are the very directories that the registered incarnation left, however it stopped:
    what it durably wrote down is there. An older copy of them, or others, begins a new chain (3.9, after
    total power loss)."""
    return (
        before.chain_epoch >= 0
        and follows(before, request)
        and set(before.log_dir_ids) == set(request.log_dir_ids)
        and not before.offline_log_dir_ids
    )


def proves_end(before: BrokerRegistration, request: RegisterRequest) -> bool:
    """A clean marker names the incarnation that wrote it, is its last write, and is deleted by the first act
    of a start: who presents the marker of the registered epoch is its successor, not its double."""
    return (
        request.last_shutdown is ShutdownKind.CLEAN
        and request.previous_broker_epoch == before.broker_epoch
        and set(before.log_dir_ids) <= set(request.log_dir_ids)
    )


def check_registration(
    image: ClusterImage, request: RegisterRequest, options: ControllerOptions
) -> tuple[ControllerError, str]:
    """Check everything that can be wrong with the request of a broker itself."""
    error, detail = check_node(image, request)
    if error is not ControllerError.NONE:
        return error, detail
    fault = claim_fault(image, request)
    if fault is not None:
        return ControllerError.INVALID_REQUEST, fault
    unanswered = request.unanswered_incarnation_ids
    dirs = request.log_dir_ids + request.offline_log_dir_ids
    if request.broker_id in image.coordinators:
        return ControllerError.INVALID_REQUEST, f"{request.broker_id} is the id of a coordinator"
    if len(unanswered) > UNANSWERED_INCARNATIONS_MAX:
        return (
            ControllerError.INVALID_REQUEST,
            f"more than {UNANSWERED_INCARNATIONS_MAX} unanswered incarnations",
        )
    if not request.log_dir_ids or len(dirs) > LOG_DIRS_MAX or len(set(dirs)) != len(dirs):
        return (
            ControllerError.INVALID_REQUEST,
            f"a broker has 1 to {LOG_DIRS_MAX} log directories, no two with one id",
        )
    for other_id, other in image.brokers.items():
        if other_id != request.broker_id and not set(dirs).isdisjoint(other.log_dir_ids):
            return (
                ControllerError.INCONSISTENT_CLUSTER_ID,
                f"a log directory belongs to {other.name}",
            )
    if request.broker_id not in image.brokers and len(image.brokers) >= options.brokers_max:
        return ControllerError.INVALID_REQUEST, f"the cluster has {options.brokers_max} brokers already"
    return ControllerError.NONE, ""


def check_levels(level: Level, levels: LevelRange) -> tuple[ControllerError, str]:
    """Check that a process can run at the cluster's level. One that tells none knows neither the error nor
    the levels; it tells its operator the detail."""
    if levels.has(level):
        return ControllerError.NONE, ""
    if levels == LevelRange():
        code, mine = ControllerError.INVALID_REQUEST, f"this process runs release {RELEASES[UNTOLD]}"
    else:
        code = ControllerError.UNSUPPORTED_LEVEL
        mine = f"this process can run at levels {levels.lowest} to {levels.highest}"
    todo = (
        f"start it with release {RELEASES[level]} or the one after it"
        if levels.highest < level
        else "start it with the release before, and finalize that first (`springtide upgrade status`)"
    )
    return code, f"the cluster is at level {level}, and {mine}: {todo}. Its data is untouched"


def levels_in_row(level: Level, levels: LevelRange) -> LevelRange | msgspec.UnsetType:
    """Return the levels that a process has told as its row may have them."""
    return levels if allows(level, RANGES_IN_ROWS) and levels != LevelRange() else msgspec.UNSET


def check_node(image: ClusterImage, request: RegisterRequest) -> tuple[ControllerError, str]:
    """Check what can be wrong with the request of any process."""
    error, detail = check_levels(image.level, request.levels)
    if error is not ControllerError.NONE:
        return error, detail
    texts = (
        request.incarnation_id,
        request.host,
        *request.log_dir_ids,
        *request.offline_log_dir_ids,
        *request.unanswered_incarnation_ids,
        *request.listeners,
        *(text for endpoint in request.listeners.values() for text in (endpoint.host, endpoint.protocol)),
    )
    optional = (request.rack or "", request.version)
    if request.broker_id < 0 or not 0 < request.port < 65_536:
        return ControllerError.INVALID_REQUEST, "broker_id or port out of range"
    endpoints = request.listeners.values()
    if len(endpoints) > LISTENERS_MAX or any(not 0 < endpoint.port < 65_536 for endpoint in endpoints):
        return ControllerError.INVALID_REQUEST, f"a listener's port is out of range, or over {LISTENERS_MAX}"
    if any(not 0 < len(t) <= TEXT_LENGTH_MAX for t in texts) or any(
        len(t) > TEXT_LENGTH_MAX for t in optional
    ):
        return ControllerError.INVALID_REQUEST, f"a text is empty or longer than {TEXT_LENGTH_MAX}"
    if request.cluster_id is not None and request.cluster_id != image.cluster_id:
        return (
            ControllerError.INCONSISTENT_CLUSTER_ID,
            f"the log directories belong to cluster {request.cluster_id[:64]!r}, not {image.cluster_id!r}",
        )
    fault = registration_fault(image, request)
    return (ControllerError.NONE, "") if fault is None else (ControllerError.INVALID_REQUEST, fault)
