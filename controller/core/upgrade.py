"""Upgrades that can be undone: when a cluster's level may be raised, and what stands in the way
(docs/upgrades.md). Pure.

    level n, all of release n --processes restarted with release n+1--> level n, ranges (n, n+1)
        --an operator finalizes, and nothing stands in the way--> level n+1, and no way back

The level never falls. It is raised by one step, and only while every process that the controller knows of
runs and has told that it can run at the next level: one that can't would be refused from then on, and could
not read what the others write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from controller.core.alarms import AlarmBook
from controller.core.draft import Draft
from controller.core.durations import told
from controller.core.effects import AlarmCode, AlarmKey
from controller.core.events import (
    Blocker,
    FinalizeUpgrade,
    Process,
    Refusal,
    RefusalCode,
    UpgradeFinalized,
)
from controller.core.image import ClusterImage
from controller.core.records import Cause, LevelRecord, UpgradeRecord
from controller.core.topics import operator_change
from springtide.levels import RELEASES, UNTOLD, Level, LevelRange

#: An upgrade that could be finalized for so long is an alarm: the next one waits for it.
PENDING_ALARM_MS: Final = 14 * 24 * 3_600_000

_PENDING: Final = AlarmKey(code=AlarmCode.UPGRADE_PENDING)


def target_of(level: Level) -> Level:
    """Return the level that a cluster at this one may be raised to: the highest of its own release, or else
    of the next one; the same if there is none."""
    higher = [one for one in sorted(RELEASES) if one > level]
    return max((one for one in higher if RELEASES[one] == RELEASES[higher[0]]), default=level)


def blockers_of(image: ClusterImage, processes: Iterable[Process]) -> tuple[Blocker, ...]:
    """Return what stands in the way of raising the level, of these processes and of brokers that are known by
    their replicas alone; none if there is no higher level."""
    target = target_of(image.level)
    if target == image.level:
        return ()
    found = []
    for process in processes:
        reason = _reason(process, target)
        if reason is not None:
            found.append(Blocker(kind=process.kind, name=process.name, reason=reason))
    for broker_id in sorted(image.replicas_of):
        if image.replicas_of[broker_id] and broker_id not in image.brokers:
            reason = f"has replicas and is not registered: {_start(target)}, or move its replicas away"
            found.append(Blocker(kind="broker", name=f"broker {broker_id}", reason=reason))
    return tuple(found)


def _reason(process: Process, target: Level) -> str | None:
    levels = process.levels
    if not process.is_running:
        return f"is not running, so what it can run at is not certain: {_start(target)}, or remove it"
    if levels is None:
        return "has not told this controller which levels it can run at: ask again in some seconds"
    if levels.has(target):
        return None
    if levels == LevelRange():
        return f"runs release {RELEASES[UNTOLD]}, which has level {UNTOLD} only: {_start(target)}"
    return f"can run at levels {levels.lowest} to {levels.highest} only: {_start(target)}"


def _start(target: Level) -> str:
    return f"start it with release {RELEASES[target]}"


def finalize(
    draft: Draft, event: FinalizeUpgrade, members: tuple[Process, ...]
) -> UpgradeFinalized | Refusal:
    """Raise the level, for good. Nothing is written if it is at the highest already. members: the brokers and
    coordinators."""
    image = draft.image
    target = target_of(image.level)
    blockers = (*event.blockers, *blockers_of(image, (*event.controllers, *members)))
    if blockers and target != image.level:
        named = "; ".join(f"{blocker.name} {blocker.reason}" for blocker in blockers)
        return Refusal(
            code=RefusalCode.UPGRADE_BLOCKED,
            detail=f"the level stays at {image.level}: {named}",
            hint="`springtide upgrade status` shows each process with its levels",
            facts={"blockers": len(blockers)},
        )
    before = image.level
    if target != before and not event.dry_run:
        change = operator_change(event, Cause.UPGRADE_FINALIZED)
        draft.write(LevelRecord(level=target, change=change))
        if image.upgrade_pending_since_ms is not None:
            draft.write(UpgradeRecord(pending_since_ms=None, change=change))
    return UpgradeFinalized(level_before=before, level=target, dry_run=event.dry_run)


def watch_pending(
    draft: Draft, alarms: AlarmBook, levels_told: Callable[[], Mapping[int, LevelRange | None]]
) -> None:
    """Note since when every member supports a higher level, and raise the alarm when that is long ago.

    levels_told: returns what each broker and coordinator has told; None: nothing yet, to a controller that
    took over, which then leaves what its predecessor noted as it is."""
    image = draft.image
    target = target_of(image.level)
    since_ms = image.upgrade_pending_since_ms
    levels = {} if target == image.level else levels_told()
    is_out = any(known is not None and not known.has(target) for known in levels.values())
    if target == image.level or is_out:
        now_since_ms = None
    elif since_ms is None and levels and None not in levels.values():
        now_since_ms = draft.wall_ms
    else:
        now_since_ms = since_ms
    if now_since_ms != since_ms:
        change = draft.change(Cause.UPGRADE_POSSIBLE)
        draft.write(UpgradeRecord(pending_since_ms=now_since_ms, change=change))
    if now_since_ms is None or draft.wall_ms - now_since_ms < PENDING_ALARM_MS:
        alarms.clear_alarm(draft, _PENDING)
        return
    alarms.raise_alarm(
        draft,
        _PENDING,
        f"all processes have been able to run at level {target} (release {RELEASES[target]}) for more than "
        f"{told(PENDING_ALARM_MS)}, and the cluster is at level {image.level}: what is new is not used, and "
        "no later release can be installed. Look at `springtide upgrade status`, then run "
        "`springtide upgrade finalize`; there is no way back from it",
    )
