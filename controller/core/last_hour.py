"""The last hour of a cluster, in samples of half a minute, from what members report anyway. Pure.

A sample keeps rows for what was active in it: topics that took in or gave out bytes or changed their size,
groups that were behind, and members that were heard. What has no row was silent, so a silent topic costs
nothing. Of more than TOPICS_MAX or GROUPS_MAX the most active have rows, and of the others it is not known
what they did.

What was not reported is a gap, never a zero: the hour begins with the controller's term, a member that was
not heard in a sample has none, and groups are not known while their coordinator is not heard. A counter that
begins anew (a process restarts, a partition has another leader) or was not told for long begins a new
comparison, so it never shows as a peak.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Mapping
from heapq import nlargest
from math import isnan, nan
from typing import Final, NamedTuple

from springtide.contract.groups import GroupLag
from springtide.contract.session import DiskSpace, ProcessLoad

SAMPLE_MS: Final = 30_000
SAMPLES_MAX: Final = 120
TOPICS_MAX: Final = 10_000
"""Rows of 20 bytes in each sample: 24 MB, if all of them are active all the time."""
GROUPS_MAX: Final = 10_000
"""Groups that are behind, in each sample: as much."""
GROUPS_KNOWN_MAX: Final = 20_000
"""Groups whose latest lag is known; those that were told longest ago are forgotten first."""
UNTOLD_SAMPLES_MAX: Final = 4
"""A group that its coordinator has not told of for so long, while it is heard, is not known: it is gone, or
its lag is. Coordinators tell of each group every few seconds."""
UNHEARD_MS_MAX: Final = SAMPLE_MS // 2
"""Requests between two words of a member that are farther apart are not counted: nothing says when they
came."""

Value = float | None


class PartitionTotals(NamedTuple):
    """What the cluster's metadata says at the time of a sample. leaderless: partitions without a leader."""

    under_replicated: int
    leaderless: int


class ClusterSample(NamedTuple):
    """Rates are averages over the sample, in a second; None: not known. lag_records, lag_ms: of the group
    that is farthest behind."""

    bytes_in: Value
    bytes_out: Value
    requests: Value
    under_replicated: Value
    leaderless: Value
    lag_records: Value
    lag_ms: Value


class MemberSample(NamedTuple):
    """Of a process. Rates are averages over the sample, in a second; None: not known."""

    bytes_in: Value
    bytes_out: Value
    requests: Value
    connections: Value
    disk_free: Value
    disk_total: Value


class TopicSample(NamedTuple):
    """Rates are averages over the sample, in a second. size: bytes of one copy, at the end of the sample."""

    bytes_in: Value
    bytes_out: Value
    size: Value


class GroupSample(NamedTuple):
    """As of the end of the sample."""

    lag_records: Value
    lag_ms: Value


class _Rows(NamedTuple):
    """Rows of one sample, ascending by the number of what each is about. is_whole: what has none was
    silent."""

    numbers: array[int]
    columns: tuple[array[float], ...]
    is_whole: bool = True

    def of(self, number: int) -> tuple[float, ...] | None:
        at = bisect_left(self.numbers, number)
        if at == len(self.numbers) or self.numbers[at] != number:
            return None
        return tuple(column[at] for column in self.columns)


class _Sample(NamedTuple):
    """at_ms: the wall clock at its end. number: its place in time, without pauses."""

    number: int
    at_ms: int
    cluster: ClusterSample
    members: _Rows
    topics: _Rows
    groups: _Rows


class _Group:
    """records, ms: -1: not known. first, told: the samples that are the first to know it, and what was told
    last."""

    __slots__ = ("first", "member_id", "ms", "number", "records", "told")

    def __init__(self, number: int, first: int) -> None:
        self.number = number
        self.first = self.told = first
        self.member_id = self.records = self.ms = -1


class _Member:
    """told_ms: when it was last heard. passed: requests since the last sample; None: not known."""

    __slots__ = ("bytes_in", "bytes_out", "incarnation_id", "load", "passed", "told_ms")

    def __init__(self) -> None:
        self.incarnation_id = ""
        self.load: ProcessLoad | None = None
        self.told_ms: int | None = None
        self.passed: int | None = None
        self.bytes_in = self.bytes_out = 0


class LastHour:
    """now_ms: of a monotonic clock. What is noted counts for the sample that comes next."""

    def __init__(self, *, topics_max: int = TOPICS_MAX, groups_max: int = GROUPS_MAX) -> None:
        self._topics_max = topics_max
        self._groups_max = groups_max
        self._samples: deque[_Sample] = deque(maxlen=SAMPLES_MAX)
        self._sampled_ms: int | None = None
        self._members: dict[int, _Member] = {}
        #: Those heard since the last sample.
        self._heard: dict[int, None] = {}
        #: By topic id: bytes in, bytes out, and growth of its logs since the last sample.
        self._passed: dict[str, list[int]] = {}
        self._sizes: dict[str, int] = {}
        self._numbers: dict[str, int] = {}
        self._next_number = 0
        self._groups: dict[str, _Group] = {}

    # What is told

    def note_partition(
        self, topic_id: str, leader: int, *, came: int, went: int, size: int, size_before: int | None
    ) -> None:
        """Count bytes that passed through a partition's leader. size_before: as its leader reported it
        last; None: this is the first report."""
        self._sizes[topic_id] = self._sizes.get(topic_id, 0) + size - (size_before or 0)
        grown = 0 if size_before is None else size - size_before
        if came or went:
            member = self._member(leader)
            member.bytes_in += came
            member.bytes_out += went
        elif not grown:
            return
        passed = self._passed.setdefault(topic_id, [0, 0, 0])
        passed[0] += came
        passed[1] += went
        passed[2] += grown

    def note_member(self, member_id: int, incarnation_id: str, load: ProcessLoad | None, now_ms: int) -> None:
        """Note that a member is heard. load: None if it does not tell it."""
        member = self._member(member_id)
        is_same = member.incarnation_id == incarnation_id and member.told_ms is not None
        if load is not None and member.load is not None and is_same and member.told_ms is not None:
            came = load.requests - member.load.requests
            if came >= 0 and now_ms - member.told_ms <= UNHEARD_MS_MAX:
                member.passed = (member.passed or 0) + came
        member.incarnation_id, member.load, member.told_ms = incarnation_id, load, now_ms
        self._heard[member_id] = None

    def note_lags(self, member_id: int, lags: Iterable[GroupLag]) -> None:
        """Note what a coordinator tells of its groups. One that has lost a group to another, which has told
        of it, knows nothing of it any more."""
        for lag in lags:
            group = self._groups.get(lag.group_id)
            if lag.records < 0 and (group is None or group.member_id != member_id):
                continue
            if group is None:
                group = _Group(self._new_number(), self._next_sample)
            self._groups.pop(lag.group_id, None)
            self._groups[lag.group_id] = group
            group.member_id, group.records, group.ms = member_id, lag.records, lag.ms
            group.told = self._next_sample
            if len(self._groups) > GROUPS_KNOWN_MAX:
                del self._groups[next(iter(self._groups))]

    def forget_topic(self, topic_id: str) -> None:
        self._passed.pop(topic_id, None)
        self._sizes.pop(topic_id, None)
        self._numbers.pop(topic_id, None)

    def forget_member(self, member_id: int) -> None:
        self._members.pop(member_id, None)
        self._heard.pop(member_id, None)

    # Samples

    def is_due(self, now_ms: int) -> bool:
        return self._sampled_ms is None or now_ms // SAMPLE_MS > self._sampled_ms // SAMPLE_MS

    def sample(
        self, totals: PartitionTotals, disks: Mapping[int, DiskSpace], *, now_ms: int, wall_ms: int
    ) -> None:
        """Keep a sample of what was noted since the one before. The first call only begins one."""
        before_ms, self._sampled_ms = self._sampled_ms, now_ms
        if before_ms is not None and now_ms > before_ms:
            seconds = (now_ms - before_ms) / 1_000
            members = {member_id: self._member_row(member_id, disks, seconds) for member_id in self._heard}
            number = now_ms // SAMPLE_MS
            groups, farthest = self._group_rows(number)
            taken = _Sample(
                number,
                wall_ms,
                ClusterSample(
                    _sum(member.bytes_in for member in members.values()),
                    _sum(member.bytes_out for member in members.values()),
                    _sum(member.requests for member in members.values()),
                    *totals,
                    *farthest,
                ),
                _rows(
                    {
                        member_id: tuple(nan if value is None else value for value in row)
                        for member_id, row in members.items()
                    },
                    "dddddd",
                ),
                self._topic_rows(seconds),
                groups,
            )
            self._samples.append(taken)
            while taken.number - self._samples[0].number >= SAMPLES_MAX:
                self._samples.popleft()
        self._begin_sample()

    def _begin_sample(self) -> None:
        self._passed = {}
        self._heard = {}
        for member in self._members.values():
            member.bytes_in = member.bytes_out = 0
            member.passed = None

    def _member_row(self, member_id: int, disks: Mapping[int, DiskSpace], seconds: float) -> MemberSample:
        member, disk = self._members[member_id], disks.get(member_id)
        return MemberSample(
            member.bytes_in / seconds,
            member.bytes_out / seconds,
            None if member.passed is None else member.passed / seconds,
            None if member.load is None else member.load.connections,
            None if disk is None else disk.free_bytes,
            None if disk is None else disk.total_bytes,
        )

    def _topic_rows(self, seconds: float) -> _Rows:
        passed = self._passed
        is_whole = len(passed) <= self._topics_max
        kept = passed if is_whole else nlargest(self._topics_max, passed, key=lambda t: sum(passed[t][:2]))
        rows: dict[int, tuple[float, ...]] = {}
        for topic_id in kept:
            came, went, grown = passed[topic_id]
            rows[self._number(topic_id)] = (came / seconds, went / seconds, grown)
        return _rows(rows, "ffq", is_whole=is_whole)

    def _group_rows(self, number: int) -> tuple[_Rows, GroupSample]:
        """Return rows of groups that are behind or not known, and the most that any is behind. Forget those
        that were not known for an hour."""
        rows: dict[int, tuple[float, ...]] = {}
        gone = [group_id for group_id, group in self._groups.items() if number - group.told >= SAMPLES_MAX]
        for group_id in gone:
            del self._groups[group_id]
        records = ms = -1
        for group in self._groups.values():
            is_told = number - group.told < UNTOLD_SAMPLES_MAX
            if group.records < 0 or not is_told or group.member_id not in self._heard:
                rows[group.number] = (-1, -1)
                continue
            records, ms = max(records, group.records), max(ms, group.ms)
            if group.records or group.ms:
                rows[group.number] = (group.records, group.ms)
        is_whole = len(rows) <= self._groups_max
        if not is_whole:
            rows = dict(nlargest(self._groups_max, rows.items(), key=lambda row: row[1]))
        return _rows(rows, "qq", is_whole=is_whole), GroupSample(*(_known(each) for each in (records, ms)))

    # What is asked

    @property
    def times_ms(self) -> list[int]:
        """Return the ends of the samples, oldest first, by the wall clock. Two that are farther apart than
        half as much again as SAMPLE_MS have a pause between them, of which nothing is known."""
        return [sample.at_ms for sample in self._samples]

    def of_cluster(self) -> list[ClusterSample]:
        return [sample.cluster for sample in self._samples]

    def of_members(self, member_ids: Iterable[int]) -> list[MemberSample]:
        """Return the samples of a broker, from those of its workers. The disk is that of the first."""
        ids = tuple(member_ids)
        return [self._of_members(sample, ids) for sample in self._samples]

    def latest_of_members(self, member_ids: Iterable[int]) -> MemberSample | None:
        """Return the newest sample of a broker; None: there is none."""
        return self._of_members(self._samples[-1], tuple(member_ids)) if self._samples else None

    @staticmethod
    def _of_members(sample: _Sample, member_ids: tuple[int, ...]) -> MemberSample:
        found = [sample.members.of(member_id) for member_id in member_ids]
        workers = [
            MemberSample(*(None if isnan(value) else value for value in row))
            for row in found
            if row is not None
        ]
        sums = MemberSample(*(_sum(values) for values in zip(*workers, strict=True))) if workers else None
        disk = workers[0][4:] if workers else (None, None)
        return MemberSample(*((None,) * 4 if sums is None else sums[:4]), *disk)

    def connections_of(self, member_ids: Iterable[int]) -> int | None:
        """Return the open connections of a broker, as its workers told them last; None: none has."""
        found = [self._members[member_id].load for member_id in member_ids if member_id in self._members]
        told = [load.connections for load in found if load is not None]
        return sum(told) if told else None

    def size_of(self, topic_id: str) -> int | None:
        """Return the bytes of one copy of a topic, as leaders reported them last; None: none has."""
        return self._sizes.get(topic_id)

    def of_topic(self, topic_id: str) -> list[TopicSample]:
        """Return the samples of a topic. Its size is known back to the first sample of which it is not known
        whether it grew."""
        number = self._numbers.get(topic_id, -1)
        size: Value = self._sizes.get(topic_id)
        found: list[TopicSample] = []
        for sample in reversed(self._samples):
            row = sample.topics.of(number)
            if row is not None:
                found.append(TopicSample(row[0], row[1], size))
                size = None if size is None else size - row[2]
            elif sample.topics.is_whole:
                found.append(TopicSample(0, 0, size))
            else:
                found.append(TopicSample(None, None, size))
                size = None
        return found[::-1]

    def of_group(self, group_id: str) -> list[GroupSample] | None:
        """Return the samples of a group; None: no coordinator has told of it."""
        group = self._groups.get(group_id)
        if group is None:
            return None
        return [self._of_group(sample, group) for sample in self._samples]

    @staticmethod
    def _of_group(sample: _Sample, group: _Group) -> GroupSample:
        row = sample.groups.of(group.number)
        if row is not None:
            return GroupSample(*(_known(value) for value in row))
        is_zero = sample.number >= group.first and sample.groups.is_whole
        return GroupSample(0, 0) if is_zero else GroupSample(None, None)

    # Parts

    @property
    def _next_sample(self) -> int:
        return -1 if self._sampled_ms is None else self._sampled_ms // SAMPLE_MS + 1

    def _member(self, member_id: int) -> _Member:
        found = self._members.get(member_id)
        if found is None:
            found = self._members[member_id] = _Member()
        return found

    def _number(self, topic_id: str) -> int:
        found = self._numbers.get(topic_id)
        if found is None:
            found = self._numbers[topic_id] = self._new_number()
        return found

    def _new_number(self) -> int:
        self._next_number += 1
        return self._next_number


def _rows(rows: Mapping[int, tuple[float, ...]], codes: str, *, is_whole: bool = True) -> _Rows:
    """codes: of the columns, as arrays have them."""
    numbers = sorted(rows)
    columns = tuple(
        array(code, [rows[number][index] for number in numbers]) for index, code in enumerate(codes)
    )
    return _Rows(array("I", numbers), columns, is_whole)


def _sum(values: Iterable[Value]) -> Value:
    """Return the sum of what is known; None: nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _known(value: float) -> Value:
    return None if value < 0 else value
