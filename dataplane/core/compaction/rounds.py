"""A round of compaction: what the leader writes into the log, and how it decides the next one.

A round says: below `end_offset`, of each key only the newest record stays, and no tombstone below
`tombstone_floor`. It is a control batch of its own type, which clients skip as they skip transaction markers
of a type that they do not know.

**When a tombstone goes.** A round that ends above a tombstone has removed every older record of its key. Once
delete.retention.ms have passed since that round was decided (KIP-354, KIP-534: readers that began before need
the tombstone), and every replica that fetches has it in its log, a later round names its offset as the floor.
A replica that comes back with a log that ends below the floor may hold a deleted record without its
tombstone: it starts again from an empty log (`must_restart`). So no deleted key returns, and no batch is
stamped with a horizon, as Kafka does it: the rounds that wait for their time stand in `waiting`.

**What a replica has to remember** is the last round that it applied, and where it stood in the log. It
applies a later one to all above that round's end, so a learner that copied a log while rounds went over it
ends with the same records. A log that is cut to before the round's record starts again: the round removed
records because of newer ones that are cut, or will be decided again (`must_restart_after_cut`).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

from dataplane.core.titles import NewerFormat
from springtide.contract.epochs import NO_LEADER_EPOCH, LeaderEpoch
from springtide.wire.record_batch import CorruptBatch
from springtide.wire.records import NewRecord, encode_batch

CONTROL_TYPE_ROUND = 0x5354
"""Type of the control record, far above Kafka's (0 to 6): clients skip what they do not know."""
WAITING_MAX = 16
"""Rounds remembered until their tombstones may go. More would let tombstones go sooner after their time, by
at most a sixteenth of delete.retention.ms."""

_KEY = struct.Struct(">hh")
_KEY_VERSION = 0
_VERSION = struct.Struct(">h")
_VALUE = struct.Struct(">hqqqqB")
_VALUE_VERSION = 0
_WAITING = struct.Struct(">qq")


class Decided(NamedTuple):
    """A round that was decided at `decided_ms` (agreed time, Unix ms) for the log below `end_offset`."""

    end_offset: int
    decided_ms: int


class Round(NamedTuple):
    """One round. It is known by the offset of its control record: after an unclean election another may take
    its place. Offsets here are exclusive ends, and begin batches.

    tombstone_floor: tombstones below it go.
    producers_floor: the last batch of each producer stays, empty if need be, if it begins at or above this
        offset: the leader knows the producer still, and its sequence must survive a restart.
    waiting: earlier rounds, oldest first, whose tombstones are too young to go; at most WAITING_MAX.
    """

    end_offset: int
    decided_ms: int
    tombstone_floor: int
    producers_floor: int
    waiting: tuple[Decided, ...] = ()


class CompactionOptions(NamedTuple):
    """The options of a compacted topic, which operators may tune: Kafka's settings of these names."""

    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int
    delete_retention_ms: int


class Dirt(NamedTuple):
    """A leader's measurements of its log.

    clean_bytes: below the last round's end. dirty_bytes: from there to `end_offset`, which is the highest
        offset that a round may reach: no higher than the high watermark, the active segment's base offset
        and the first record younger than min.compaction.lag.ms.
    oldest_dirty_ms: the smallest of the dirty segments' first timestamps, Unix ms; None if nothing is dirty.
    """

    end_offset: int
    clean_bytes: int
    dirty_bytes: int
    oldest_dirty_ms: int | None


def is_due(dirt: Dirt, *, now_ms: int, min_cleanable_dirty_ratio: float, max_compaction_lag_ms: int) -> bool:
    """Return whether the log needs a round: Kafka's two rules, the dirty ratio and max.compaction.lag.ms
    (KIP-354)."""
    if dirt.oldest_dirty_ms is not None and now_ms - dirt.oldest_dirty_ms > max_compaction_lag_ms:
        return True
    return dirt.dirty_bytes > min_cleanable_dirty_ratio * (dirt.clean_bytes + dirt.dirty_bytes)


def next_round(
    last: Round | None,
    *,
    end_offset: int,
    now_ms: int,
    delete_retention_ms: int,
    log_ends: Iterable[int],
    producers_floor: int,
) -> Round:
    """Return the round that a leader appends after `last`.

    now_ms: the agreed time, since a tombstone that goes too soon destroys (I36, no clock destroys alone).
        log_ends: the log end of each replica that fetches, learners too. producers_floor: where the oldest of
        the last batches of the producers begins that the leader remembers.
    """
    floor = 0 if last is None else last.tombstone_floor
    rounds = () if last is None else (*last.waiting, Decided(last.end_offset, last.decided_ms))
    old_enough = [past for past in rounds if past.decided_ms + delete_retention_ms <= now_ms]
    if old_enough:
        floor = max(floor, min(old_enough[-1].end_offset, *log_ends, end_offset))
    return Round(
        end_offset=end_offset,
        decided_ms=now_ms,
        tombstone_floor=floor,
        producers_floor=producers_floor,
        waiting=_thinned([past for past in rounds if past.end_offset > floor]),
    )


def must_restart(*, log_end_offset: int, floor_known: int, leader_floor: int) -> bool:
    """Return whether a follower has to start again from an empty log, because tombstones that it never had
    are gone from the leader's.

    floor_known: the leader's floor when the follower's log was empty last, or when its log end had reached
        that floor, the later of the two.
    """
    return floor_known < leader_floor and log_end_offset < leader_floor


def must_restart_after_cut(*, cut_to: int, applied_at: int | None) -> bool:
    """Return whether a log that is cut to `cut_to` (an unclean election) has to start again.

    applied_at: the offset of the record of the last round that this replica applied, None before the first.
    """
    return applied_at is not None and cut_to <= applied_at


def encode_round(
    round_: Round, *, leader_epoch: LeaderEpoch = NO_LEADER_EPOCH, base_offset: int = 0
) -> bytes:
    """Return the control batch that carries the round, with its CRC."""
    value = _VALUE.pack(
        _VALUE_VERSION,
        round_.end_offset,
        round_.decided_ms,
        round_.tombstone_floor,
        round_.producers_floor,
        len(round_.waiting),
    ) + b"".join(_WAITING.pack(*past) for past in round_.waiting)
    record = NewRecord(_KEY.pack(_KEY_VERSION, CONTROL_TYPE_ROUND), value, timestamp=round_.decided_ms)
    return encode_batch((record,), is_control=True, leader_epoch=leader_epoch, base_offset=base_offset)


def is_round_key(key: bytes | None) -> bool:
    """Return whether a control record's key says that it is a round."""
    return key is not None and len(key) == _KEY.size and _KEY.unpack(key)[1] == CONTROL_TYPE_ROUND


def decode_round(value: bytes | None) -> Round:
    """Return the round in a control record's value; raise CorruptBatch if it is none, NewerFormat if a later
    release wrote it: the record is sound, and its meaning is not known here."""
    value = value or b""
    try:
        (version,) = _VERSION.unpack_from(value)
        if version > _VALUE_VERSION:
            raise NewerFormat("a round of compaction in the log", version, known=_VALUE_VERSION)
        _, end, decided, floor, producers, count = _VALUE.unpack_from(value)
        if version == _VALUE_VERSION and len(value) == _VALUE.size + count * _WAITING.size:
            waiting = tuple(map(Decided._make, _WAITING.iter_unpack(value[_VALUE.size :])))
            return Round(end, decided, floor, producers, waiting)
    except struct.error:
        pass
    raise CorruptBatch("a control record says that it is a round and is none")


def _thinned(waiting: list[Decided]) -> tuple[Decided, ...]:
    """Return at most WAITING_MAX of them: the one goes whose neighbours are closest in time."""
    while len(waiting) > WAITING_MAX:
        gaps = [
            after.decided_ms - before.decided_ms for before, after in zip(waiting, waiting[2:], strict=False)
        ]
        del waiting[gaps.index(min(gaps)) + 1]
    return tuple(waiting)
