"""Disks that fill up, by what brokers report with heartbeats: how full, and how soon at the present rate.

A broker whose disk has less free than its reserve takes no records, so this has to be said long before. The
share says it of a disk that fills slowly, the rate of one that fills fast. A rate is that of the last ten
minutes: retention deletes in steps, and what is copied to a new replica comes in bursts.

New replicas go to no broker below its reserve, and to one whose disk is nearly full only for want of others.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from controller.core.alarms import AlarmBook
from controller.core.draft import Draft
from controller.core.effects import AlarmCode, AlarmKey
from controller.core.full_disks import FullDisks
from controller.core.kept_topics import kept_bytes
from springtide.contract.session import DiskSpace

SAMPLE_MS: Final = 30_000
WINDOW_MS: Final = 600_000
RATE_AFTER_MS: Final = 120_000
"""No rate is known before: a minute may be one segment."""
HOUR_MS: Final = 3_600_000


class DiskBound(NamedTuple):
    """A disk is below it with less than this share free, or less than this time left until it is full."""

    free_share: float
    left_ms: int

    def is_crossed(self, free_share: float, left_ms: float | None, *, slack: float) -> bool:
        """slack: an alarm that is up ends only above the bound by this factor, so that it does not come and
        go."""
        is_soon = left_ms is not None and left_ms < self.left_ms * slack
        return free_share < self.free_share * slack or is_soon


BOUNDS: Final = {
    AlarmCode.DISK_FULL: DiskBound(0.05, HOUR_MS),
    AlarmCode.DISK_FILLS: DiskBound(0.15, 6 * HOUR_MS),
}
"""The worse first: a disk has one of these alarms."""
SLACK: Final = 1.2
MAKE_ROOM: Final = (
    "shorten retention (retention.ms, retention.bytes), move replicas away with `springtide plans make`, or "
    "enlarge the disk"
)


class DiskWatch:
    """The free space of brokers' disks over the last minutes, under one controller."""

    def __init__(self, alarms: AlarmBook) -> None:
        self._alarms = alarms
        self._samples: dict[int, deque[tuple[int, int]]] = {}
        self.full_disks = FullDisks(set(), set())

    def see(self, draft: Draft, broker_id: int, disk: DiskSpace | None, now_ms: int) -> None:
        """Note what a broker reports; None: it does not know."""
        if disk is None:
            return
        short, full = self.full_disks
        key = AlarmKey(code=AlarmCode.DISK_BELOW_RESERVE, broker_id=broker_id)
        if disk.is_short:
            short.add(broker_id)
            for code in BOUNDS:
                self._alarms.clear_alarm(draft, AlarmKey(code=code, broker_id=broker_id))
            self._alarms.raise_alarm(
                draft, key, describe_short(draft.image.name_of(broker_id), disk) + _kept(draft, broker_id)
            )
        elif broker_id in short:
            short.discard(broker_id)
            self._alarms.clear_alarm(draft, key)
            self._samples.pop(broker_id, None)  # what was refused meanwhile is no rate; look again at once
        samples = self._samples.setdefault(broker_id, deque())
        if samples and now_ms - samples[-1][0] < SAMPLE_MS:
            return
        samples.append((now_ms, disk.free_bytes))
        while now_ms - samples[0][0] > WINDOW_MS:
            samples.popleft()
        if disk.is_short:
            return
        left_ms = _left_ms(samples)
        free_share = disk.free_bytes / disk.total_bytes
        keys = {AlarmKey(code=code, broker_id=broker_id): bound for code, bound in BOUNDS.items()}
        crossed = next(
            (
                key
                for key, bound in keys.items()
                if bound.is_crossed(free_share, left_ms, slack=SLACK if self._alarms.is_up(key) else 1)
            ),
            None,
        )
        for key in keys:
            if key != crossed:
                self._alarms.clear_alarm(draft, key)
        (full.add if crossed is not None and crossed.code is AlarmCode.DISK_FULL else full.discard)(broker_id)
        if crossed is not None:
            detail = describe_disk(draft.image.name_of(broker_id), disk, free_share, left_ms)
            self._alarms.raise_alarm(draft, crossed, detail + _kept(draft, broker_id))

    def forget(self, broker_id: int) -> None:
        """Forget a broker that was removed; its alarms go with all others about it."""
        self._samples.pop(broker_id, None)
        for brokers in self.full_disks:
            brokers.discard(broker_id)


def _left_ms(samples: deque[tuple[int, int]]) -> float | None:
    """Return in how long the disk is full at the rate of the samples; None: it does not fill, or no rate is
    known."""
    (first_ms, first_free), (last_ms, last_free) = samples[0], samples[-1]
    if last_ms - first_ms < RATE_AFTER_MS or last_free >= first_free:
        return None
    return last_free * (last_ms - first_ms) / (first_free - last_free)


def describe_disk(broker: str, disk: DiskSpace, free_share: float, left_ms: float | None) -> str:
    """Describe it in whole percent and hours, so that the words change only now and then."""
    detail = f"the disk of {broker} has {int(free_share * 100)} % of {disk.total_bytes >> 30} GiB free"
    if left_ms is not None and left_ms < 48 * HOUR_MS:
        hours = int(left_ms // HOUR_MS)
        soon = "less than an hour" if hours == 0 else f"{hours} hour{'s' if hours > 1 else ''}"
        detail += f" and is full in {soon} at the rate of the last ten minutes"
    return f"{detail}. Below its reserve the broker takes no records: {MAKE_ROOM}"


def describe_short(broker: str, disk: DiskSpace) -> str:
    """Describe it without what is free, which changes with every report."""
    gib = disk.total_bytes >> 30
    size = f"{gib} GiB" if gib >= 10 else f"{disk.total_bytes >> 20} MiB"
    return (
        f"the disk of {broker} ({size}) has less free than the reserve of "
        f"{disk.reserve_bytes >> 20} MiB (log.dir.reserve.bytes): producers to the partitions that it leads "
        f"are refused, and its other replicas fall behind. To make room, {MAKE_ROOM}. Writes then go on by "
        "themselves"
    )


def _kept(draft: Draft, broker_id: int) -> str:
    """Describe what can be freed at once, if that is anything."""
    size = kept_bytes(draft.image, broker_id)
    if not size:
        return ""
    return (
        f". {max(1, size >> 20)} MiB of it are logs of deleted topics: `springtide topics deleted` "
        "lists them, `springtide topics purge` frees them"
    )
