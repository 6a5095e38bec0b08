"""Whether the group kept its word, from the diaries of its members. Pure.

The rules, of one group over all its generations:

1. (kept) Where a member begins is at or above every commit of that partition that was answered before it
   asked (I28, an answered commit survives; I29, it moves back only when a client asked for it).
2. (in order) Of two commits of a partition, one of which was asked for after the other was answered, the
   later is not the lower: a member that lost the partition is refused. One that was assigned the partition
   again since, and whose client goes on from where it stood itself, takes the others' commits back (I29):
   kafka-python does so. It is known by its first read.
3. (delivered) Each acknowledged record was given to a member at least once.
4. (one owner) No two members own a partition at one time. A member owns it for sure from the moment that it
   was told so until its session's timeout after it last asked for a commit that was accepted: until then no
   coordinator may give it up, and one that takes over begins the session anew. Before its first commit it
   does for half the timeout, which leaves the answer time to come; if the member or a coordinator stood still
   meanwhile, the answer may be old, and the commit is the proof. What a member believes for longer proves
   nothing.
5. (may act) Where generations are told: of a generation a partition has one owner, and no commit of it is
   answered with success that was asked for after a member had been told a later one (I30, one owner of a
   partition in a generation).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from tests.checker.group_diary import (
    UNTOLD,
    Assigned,
    Began,
    Committed,
    Entry,
    Left,
    Read,
    Refused,
    Revoked,
)

MILLISECOND_NS = 1_000_000
NOTED_BEFORE, NOTED_AFTER = 4, 3
"""What a failure tells of a member's diary around it."""


class Span(NamedTuple):
    begin_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Life:
    """One process of a member. ended_ns: when it was gone. stood: when it, or a coordinator, stood still."""

    name: str
    entries: Sequence[Entry]
    ended_ns: int
    stood: Sequence[Span] = ()


@dataclass(slots=True)
class Judgement:
    failures: list[str] = field(default_factory=list)
    lost: int = 0
    moved_back: int = 0
    two_owners: int = 0
    delivered: int = 0
    duplicates: int = 0
    refused: int = 0
    assignments: int = 0
    commit_ms: list[float] = field(default_factory=list)
    rebalance_ms: list[float] = field(default_factory=list)

    def fail(self, text: str) -> None:
        self.failures.append(text)


def judge(
    lives: Sequence[Life], acknowledged: Mapping[int, Collection[int]], *, session_ms: int
) -> Judgement:
    """acknowledged: the offsets of the records that were acknowledged, by partition. session_ms: the members'
    session timeout, from a commit on."""
    judgement = Judgement()
    _judge_offsets(judgement, lives)
    _judge_delivery(judgement, lives, acknowledged)
    _judge_owners(judgement, lives, session_ms * MILLISECOND_NS)
    _judge_generations(judgement, lives)
    _measure(judgement, lives)
    return judgement


def judge_acts(lives: Sequence[Life]) -> Judgement:
    """Judge commits alone, of members that read no records and that the network may keep news from."""
    judgement = Judgement()
    _judge_offsets(judgement, lives)
    _judge_generations(judgement, lives)
    _measure(judgement, lives)
    return judgement


# --- commits ------------------------------------------------------------------------------------------------


class _Seen(NamedTuple):
    """What one look at a partition's committed offset said, or one commit. goes_on_ns: of a member whose
    client goes on from where it stood itself: when it was assigned the partition."""

    asked_ns: int
    at_ns: int
    offset: int
    by: str
    is_commit: bool
    goes_on_ns: int = -1


def _judge_offsets(judgement: Judgement, lives: Iterable[Life]) -> None:
    by_partition: dict[int, list[_Seen]] = defaultdict(list)
    for life in lives:
        assigned_ns: dict[int, int] = {}
        goes_on_ns: dict[int, int] = {}
        next_read: dict[int, int] = {}
        for entry in life.entries:
            match entry:
                case Assigned(at_ns=at_ns, partitions=partitions):
                    assigned_ns.update(dict.fromkeys(partitions, at_ns))
                case Read(partition=partition, first=first, last=last):
                    since_ns = assigned_ns.pop(partition, None)
                    if since_ns is not None:
                        goes_on_ns[partition] = since_ns if first == next_read.get(partition) else -1
                    next_read[partition] = last + 1
                case Committed(asked_ns=asked_ns, at_ns=at_ns, offsets=offsets):
                    for partition, offset in offsets.items():
                        own_ns = goes_on_ns.get(partition, -1)
                        by_partition[partition].append(
                            _Seen(asked_ns, at_ns, offset, life.name, is_commit=True, goes_on_ns=own_ns)
                        )
                case Began(asked_ns=asked_ns, at_ns=at_ns, partition=partition, offset=offset):
                    by_partition[partition].append(_Seen(asked_ns, at_ns, offset, life.name, is_commit=False))
    for partition, looks in sorted(by_partition.items()):
        takers = {each for each, highest in _lower(looks, frozenset()) if each.goes_on_ns > highest.at_ns}
        for each, highest in _lower(looks, takers):
            if each in takers:
                continue
            judgement.moved_back += 1
            what = "committed" if each.is_commit else "was told to begin at"
            judgement.fail(
                f"partition {partition}: {each.by} {what} {each.offset} after {highest.by} had committed "
                f"{highest.offset}, {(each.asked_ns - highest.at_ns) // MILLISECOND_NS} ms before"
            )


def _lower(looks: Sequence[_Seen], takers: Collection[_Seen]) -> Iterator[tuple[_Seen, _Seen]]:
    """Yield what is below the highest commit that was answered before, and that one. takers: they take back
    what was answered before them."""
    answered = sorted((each for each in looks if each.is_commit), key=lambda each: each.at_ns)
    taking = sorted(takers)
    highest: _Seen | None = None
    following = taken = since_ns = 0
    for each in sorted(looks):
        while taken < len(taking) and taking[taken].asked_ns < each.at_ns:
            since_ns = max(since_ns, taking[taken].at_ns)
            taken += 1
            kept = (one for one in answered[:following] if one.at_ns >= since_ns)
            highest = max(kept, key=lambda one: one.offset, default=None)
        while following < len(answered) and answered[following].at_ns < each.asked_ns:
            one = answered[following]
            if one.at_ns >= since_ns and (highest is None or one.offset > highest.offset):
                highest = one
            following += 1
        if highest is not None and each.offset < highest.offset:
            yield each, highest


# --- records ------------------------------------------------------------------------------------------------


def _judge_delivery(
    judgement: Judgement, lives: Iterable[Life], acknowledged: Mapping[int, Collection[int]]
) -> None:
    given: dict[int, set[int]] = defaultdict(set)
    for life in lives:
        for entry in life.entries:
            if isinstance(entry, Read):
                judgement.delivered += entry.last - entry.first + 1
                given[entry.partition].update(range(entry.first, entry.last + 1))
    judgement.duplicates = judgement.delivered - sum(map(len, given.values()))
    for partition, offsets in sorted(acknowledged.items()):
        missing = sorted(set(offsets) - given[partition])
        judgement.lost += len(missing)
        if missing:
            judgement.fail(f"partition {partition}: {len(missing)} records given to no member, {missing[:5]}")


# --- owners -------------------------------------------------------------------------------------------------


def _judge_owners(judgement: Judgement, lives: Iterable[Life], session_ns: int) -> None:
    by_partition: dict[int, list[tuple[Span, Life]]] = defaultdict(list)
    for life in lives:
        for partition, span in _owned(life, session_ns):
            by_partition[partition].append((span, life))
    for partition, spans in sorted(by_partition.items()):
        spans.sort(key=lambda each: each[0])
        for (before, first), (after, second) in pairwise(spans):
            if after.begin_ns < before.end_ns and first is not second:
                judgement.two_owners += 1
                overlap_ms = (min(before.end_ns, after.end_ns) - after.begin_ns) // MILLISECOND_NS
                judgement.fail(
                    f"partition {partition}: {first.name} and {second.name} both own it for {overlap_ms} ms "
                    f"({_around(first, after.begin_ns)}; {_around(second, after.begin_ns)})"
                )


def _owned(life: Life, session_ns: int) -> list[tuple[int, Span]]:
    """Return what it owned for sure, by partition."""
    asked = [entry.asked_ns for entry in life.entries if isinstance(entry, Committed)]
    spans: list[tuple[int, Span]] = []
    since: dict[int, tuple[int, bool]] = {}

    def end(partition: int, at_ns: int) -> None:
        begin_ns, is_fresh = since.pop(partition)
        last = bisect_right(asked, at_ns) - 1
        if last >= 0 and asked[last] >= begin_ns:
            spans.append((partition, Span(begin_ns, min(at_ns, asked[last] + session_ns))))
        elif is_fresh:
            spans.append((partition, Span(begin_ns, min(at_ns, begin_ns + session_ns // 2))))

    before_ns = 0
    for entry in life.entries:
        match entry:
            case Assigned(at_ns=at_ns, partitions=partitions):
                is_fresh = not any(each.begin_ns < at_ns and before_ns < each.end_ns for each in life.stood)
                for partition in partitions:
                    since.setdefault(partition, (at_ns, is_fresh))
            case Revoked(at_ns=at_ns, partitions=partitions):
                for partition in since.keys() & set(partitions):
                    end(partition, at_ns)
            case Left(at_ns=at_ns):
                for partition in list(since):
                    end(partition, at_ns)
        before_ns = entry.at_ns
    for partition in list(since):
        end(partition, life.ended_ns)
    return spans


def _around(life: Life, moment_ns: int) -> str:
    """Return what the member noted around a moment, in ms from it: who reads a failure has no diaries."""
    noted = [entry for entry in life.entries if not isinstance(entry, Read)]
    following = sum(entry.at_ns < moment_ns for entry in noted)

    def ms(at_ns: int) -> str:
        return f"{(at_ns - moment_ns) / MILLISECOND_NS:+.0f}"

    def tell(entry: Entry) -> str:
        asked = f" asked {ms(entry.asked_ns)}" if isinstance(entry, Committed | Began) else ""
        return f"{type(entry).__name__.lower()}{asked} {ms(entry.at_ns)}"

    told = [tell(entry) for entry in noted[max(0, following - NOTED_BEFORE) : following + NOTED_AFTER]]
    return f"{life.name}: {', '.join([*told, f'ended {ms(life.ended_ns)}'])}"


def _judge_generations(judgement: Judgement, lives: Iterable[Life]) -> None:
    owners: dict[tuple[int, int], str] = {}
    told: list[tuple[int, int, str]] = []
    commits: list[tuple[Committed, str]] = []
    for life in lives:
        for entry in life.entries:
            if isinstance(entry, Assigned) and entry.generation != UNTOLD:
                told.append((entry.at_ns, entry.generation, life.name))
                for partition in entry.partitions:
                    owner = owners.setdefault((entry.generation, partition), life.name)
                    if owner != life.name:
                        judgement.two_owners += 1
                        judgement.fail(
                            f"partition {partition}: {owner} and {life.name} both own it in generation "
                            f"{entry.generation}"
                        )
            elif isinstance(entry, Committed) and entry.generation != UNTOLD:
                commits.append((entry, life.name))
    told.sort()
    latest, following = (0, UNTOLD, ""), 0
    for commit, name in sorted(commits, key=lambda each: each[0].asked_ns):
        while following < len(told) and told[following][0] < commit.asked_ns:
            latest = max(latest, told[following], key=lambda each: each[1])
            following += 1
        if commit.generation < latest[1]:
            judgement.two_owners += 1
            judgement.fail(
                f"{name} committed in generation {commit.generation} "
                f"{(commit.asked_ns - latest[0]) // MILLISECOND_NS} ms after {latest[2]} was told {latest[1]}"
            )


# --- figures ------------------------------------------------------------------------------------------------


def _measure(judgement: Judgement, lives: Iterable[Life]) -> None:
    for life in lives:
        revoked_ns: int | None = None
        for entry in life.entries:
            match entry:
                case Committed(asked_ns=asked_ns, at_ns=at_ns):
                    judgement.commit_ms.append((at_ns - asked_ns) / MILLISECOND_NS)
                case Refused():
                    judgement.refused += 1
                case Revoked(at_ns=at_ns, partitions=partitions) if partitions:
                    revoked_ns = at_ns
                case Assigned(at_ns=at_ns):
                    judgement.assignments += 1
                    if revoked_ns is not None:
                        judgement.rebalance_ms.append((at_ns - revoked_ns) / MILLISECOND_NS)
                        revoked_ns = None
