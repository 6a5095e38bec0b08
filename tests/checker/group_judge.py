"""Whether the group kept its word, from the diaries of its members. Pure.

The rules, of one group over all its generations:

1. (kept) Where a member begins is at or above every commit of that partition that was answered before it
   asked (I28, an answered commit survives; I29, it moves back only when a client asked for it).
2. (in order) Of two commits of a partition, one of which was asked for after the other was answered, the
   later is not the lower: a member that lost the partition is refused.
3. (delivered) Each acknowledged record was given to a member at least once.
4. (one owner) No two members own a partition at one time. A member that stands still can't be told, so its
   time until a moment after it goes on does not count; a dead one owns nothing. One that no coordinator has
   answered for the session's timeout may have been given up, and can't be told either: it waits for a
   coordinator that stands still, while another one serves the group. It owns nothing until it is answered.
5. (may act) Where generations are told: of a generation a partition has one owner, and no commit of it is
   answered with success that was asked for after a member had been told a later one (I30, one owner of a
   partition in a generation).

Rule 4 goes by what members believe, so it is no rule where the network may keep news from them; rule 5 goes
by what the coordinator lets them do.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from tests.checker.group_diary import UNTOLD, Assigned, Began, Committed, Entry, Read, Refused, Revoked

TOLD_NS_MAX = 5_000_000_000
"""A member that went on is told within this time that it lost its partitions: a heartbeat interval and a
retry."""
MILLISECOND_NS = 1_000_000


class Span(NamedTuple):
    begin_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Life:
    """One process of a member. ended_ns: when it was gone. stood: when it stood still."""

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
    session timeout."""
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
    """What one look at a partition's committed offset said, or one commit."""

    asked_ns: int
    at_ns: int
    offset: int
    by: str
    is_commit: bool


def _judge_offsets(judgement: Judgement, lives: Iterable[Life]) -> None:
    by_partition: dict[int, list[_Seen]] = defaultdict(list)
    for life in lives:
        for entry in life.entries:
            match entry:
                case Committed(asked_ns=asked_ns, at_ns=at_ns, offsets=offsets):
                    for partition, offset in offsets.items():
                        by_partition[partition].append(_Seen(asked_ns, at_ns, offset, life.name, True))
                case Began(asked_ns=asked_ns, at_ns=at_ns, partition=partition, offset=offset):
                    by_partition[partition].append(_Seen(asked_ns, at_ns, offset, life.name, False))
    for partition, seen in sorted(by_partition.items()):
        answered = sorted((each for each in seen if each.is_commit), key=lambda each: each.at_ns)
        highest: _Seen | None = None
        following = 0
        for each in sorted(seen, key=lambda each: each.asked_ns):
            while following < len(answered) and answered[following].at_ns < each.asked_ns:
                if highest is None or answered[following].offset > highest.offset:
                    highest = answered[following]
                following += 1
            if highest is not None and each.offset < highest.offset:
                judgement.moved_back += 1
                what = "committed" if each.is_commit else "was told to begin at"
                judgement.fail(
                    f"partition {partition}: {each.by} {what} {each.offset} after {highest.by} had committed "
                    f"{highest.offset}, {(each.asked_ns - highest.at_ns) // MILLISECOND_NS} ms before"
                )


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
    by_partition: dict[int, list[tuple[Span, str]]] = defaultdict(list)
    for life in lives:
        out_of_reach = sorted(
            [Span(each.begin_ns, each.end_ns + TOLD_NS_MAX) for each in life.stood]
            + _unanswered(life, session_ns)
        )
        for partition, span in _owned(life):
            by_partition[partition] += [(part, life.name) for part in _minus(span, out_of_reach)]
    for partition, spans in sorted(by_partition.items()):
        spans.sort()
        for (before, first), (after, second) in pairwise(spans):
            if after.begin_ns < before.end_ns and first != second:
                judgement.two_owners += 1
                overlap_ms = (min(before.end_ns, after.end_ns) - after.begin_ns) // MILLISECOND_NS
                judgement.fail(f"partition {partition}: {first} and {second} both own it for {overlap_ms} ms")


def _owned(life: Life) -> list[tuple[int, Span]]:
    """Return what it owned, from the moment that it was told so until it was told otherwise or was gone."""
    since: dict[int, int] = {}
    spans: list[tuple[int, Span]] = []
    for entry in life.entries:
        if isinstance(entry, Assigned):
            for partition in entry.partitions:
                since.setdefault(partition, entry.at_ns)
        elif isinstance(entry, Revoked):
            for partition in entry.partitions:
                if partition in since:
                    spans.append((partition, Span(since.pop(partition), entry.at_ns)))
    return spans + [(partition, Span(begin_ns, life.ended_ns)) for partition, begin_ns in since.items()]


def _unanswered(life: Life, session_ns: int) -> list[Span]:
    """Return when no coordinator had answered the member for its session's timeout, as far as it noted."""
    heard = sorted(
        entry.at_ns for entry in life.entries if isinstance(entry, Assigned | Revoked | Committed | Began)
    )
    return [
        Span(before + session_ns, after)
        for before, after in pairwise([*heard, life.ended_ns])
        if after - before > session_ns
    ]


def _minus(span: Span, others: Iterable[Span]) -> list[Span]:
    """Return the parts of the span that lie in none of the others, which are in order."""
    parts: list[Span] = []
    begin_ns = span.begin_ns
    for each in others:
        if each.end_ns <= begin_ns or each.begin_ns >= span.end_ns:
            continue
        if each.begin_ns > begin_ns:
            parts.append(Span(begin_ns, each.begin_ns))
        begin_ns = each.end_ns
    if begin_ns < span.end_ns:
        parts.append(Span(begin_ns, span.end_ns))
    return parts


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
