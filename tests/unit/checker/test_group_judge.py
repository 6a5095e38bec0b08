"""Each rule of the groups' judge is broken by a diary that it finds, and by none that it should not."""

from __future__ import annotations

from pathlib import Path

from tests.checker.group_diary import (
    Assigned,
    Began,
    Committed,
    Diary,
    Entry,
    Left,
    Read,
    Revoked,
    read_diary,
)
from tests.checker.group_judge import Judgement, Life, Span, judge, judge_acts

MS = 1_000_000
SESSION_MS = 6_000


def life(name: str, *entries: Entry, ended_ms: int = 100_000, stood: tuple[Span, ...] = ()) -> Life:
    return Life(name, entries, ended_ms * MS, stood)


def committed(asked_ms: int, at_ms: int, offset: int) -> Committed:
    return Committed(asked_ms * MS, at_ms * MS, {0: offset})


def began(asked_ms: int, offset: int) -> Began:
    return Began(asked_ms * MS, (asked_ms + 1) * MS, 0, offset)


def owned(begin_ms: int, end_ms: int, asked_ms: int | None = None) -> tuple[Entry, ...]:
    """Return what a member notes that commits once, as it is told that it owns a partition or later."""
    asked_ms = begin_ms if asked_ms is None else asked_ms
    return (
        Assigned(begin_ms * MS, (0,)),
        Committed(asked_ms * MS, asked_ms * MS + 1, {}),
        Revoked(end_ms * MS, (0,)),
    )


def judged(*lives: Life, acknowledged: dict[int, set[int]] | None = None) -> Judgement:
    return judge(lives, acknowledged or {}, session_ms=SESSION_MS)


def test_a_sound_history_is_sound() -> None:
    first = life("a", *owned(0, 10), Read(1, 0, 0, 4), committed(2, 3, 5), ended_ms=20)
    second = life("b", *owned(12, 30), began(13, 5), Read(14, 0, 5, 9), committed(15, 16, 10))
    found = judged(first, second, acknowledged={0: set(range(10))})
    assert found.failures == []
    assert (found.delivered, found.duplicates, found.assignments) == (10, 0, 2)


def test_a_member_that_begins_below_an_answered_commit_is_found() -> None:
    found = judged(life("a", committed(2, 3, 5)), life("b", began(4, 4)))
    assert found.moved_back == 1
    assert "b was told to begin at 4 after a had committed 5" in found.failures[0]


def test_a_member_that_asked_before_the_commit_was_answered_may_begin_below() -> None:
    assert judged(life("a", committed(2, 6, 5)), life("b", began(4, 4))).failures == []


def test_a_later_commit_of_a_lower_offset_is_found() -> None:
    found = judged(life("a", committed(2, 3, 5)), life("b", committed(4, 5, 3)))
    assert "b committed 3 after a had committed 5" in found.failures[0]


def test_an_owner_that_goes_on_from_where_it_stood_takes_commits_back() -> None:
    """kafka-python keeps its position of a partition that it owns again."""
    first = (Assigned(0, (0,)), Read(MS, 0, 0, 4), committed(2, 3, 5), Revoked(4 * MS, (0,)))
    other = life("b", *owned(5, 15), Read(6 * MS, 0, 5, 9), committed(7, 8, 10))
    again = (Assigned(20 * MS, (0,)), Read(21 * MS, 0, 5, 6), committed(22, 24, 7))
    late = life("c", began(23, 7), began(25, 7))
    assert judged(life("a", *first, *again), other, late).failures == []
    assert judged(life("a", *first, *again), other, life("c", began(25, 6))).moved_back == 1
    elsewhere = (Assigned(20 * MS, (0,)), Read(21 * MS, 0, 4, 6), committed(22, 24, 7))
    assert judged(life("a", *first, *elsewhere), other).moved_back == 1
    before = (Assigned(7 * MS, (0,)), Read(21 * MS, 0, 5, 6), committed(22, 24, 7))
    assert judged(life("a", *first, *before), other).moved_back == 1, "the other committed later"


def test_nothing_committed_counts_as_lower() -> None:
    assert judged(life("a", committed(2, 3, 0)), life("b", began(4, -1))).moved_back == 1


def test_a_record_that_no_member_was_given_is_lost() -> None:
    found = judged(life("a", Read(1, 0, 0, 4), Read(2, 0, 6, 6)), acknowledged={0: set(range(7))})
    assert found.lost == 1
    assert "[5]" in found.failures[0]


def test_records_given_twice_are_counted() -> None:
    assert judged(life("a", Read(1, 0, 0, 4)), life("b", Read(2, 0, 3, 5))).duplicates == 2


def test_two_owners_at_one_time_are_found() -> None:
    found = judged(life("a", *owned(0, 10)), life("b", *owned(9, 20)))
    assert found.two_owners == 1
    assert "both own it for 1 ms" in found.failures[0]
    assert "a: assigned -9, committed asked -9 -9, revoked +1, ended +99991" in found.failures[0]


def test_a_member_owns_for_its_session_after_it_last_asked_for_a_commit_that_was_accepted() -> None:
    silent = life("a", *owned(0, 20_000, asked_ms=100))
    assert judged(silent, life("b", *owned(100 + SESSION_MS, 90_000))).failures == []
    assert judged(silent, life("b", *owned(99 + SESSION_MS, 90_000))).two_owners == 1


def test_an_answer_that_comes_late_proves_nothing_of_the_time_since_it_was_asked_for() -> None:
    assigned, revoked = Assigned(0, (0,)), Revoked(9_011 * MS, (0,))
    late = life("a", assigned, committed(100, 9_000, 5), revoked)
    assert judged(late, life("b", *owned(8_000, 20_000))).failures == []
    again = life("a", assigned, committed(100, 9_000, 5), committed(9_001, 9_002, 6), revoked)
    assert judged(again, life("b", *owned(8_000, 20_000))).two_owners == 1


def test_an_assignment_proves_half_a_session() -> None:
    told = life("a", Assigned(0, (0,)), Revoked(5_000 * MS, (0,)))
    assert judged(told, life("b", *owned(SESSION_MS // 2 - 1, 9_000))).two_owners == 1
    assert judged(told, life("b", *owned(SESSION_MS // 2, 9_000))).failures == []


def test_an_assignment_that_may_be_old_is_proved_by_a_commit_only() -> None:
    """Who stood still while it was asked for may be heard of late."""
    asked, told = Revoked(5 * MS, ()), Assigned(50 * MS, (0,))
    next_owner = life("b", *owned(60, 200))
    for stood, found in ((Span(4 * MS, 6 * MS), 0), (Span(49 * MS, 80 * MS), 0), (Span(1 * MS, 5 * MS), 1)):
        entries = (asked, told, Revoked(70 * MS, (0,)))
        assert judged(life("a", *entries, stood=(stood,)), next_owner).two_owners == found
    committing = (asked, told, committed(51, 52, 3), Revoked(70 * MS, (0,)))
    assert judged(life("a", *committing, stood=(Span(4 * MS, 60 * MS),)), next_owner).two_owners == 1


def test_a_member_that_has_left_owns_nothing() -> None:
    left = life("a", Assigned(0, (0,)), committed(1, 2, 0), Left(8 * MS))
    assert judged(left, life("b", *owned(9, 20))).failures == []
    assert judged(left, life("b", *owned(7, 20))).two_owners == 1


def test_a_dead_member_owns_nothing() -> None:
    killed = (Assigned(0, (0,)), committed(1, 2, 0))
    assert judged(life("a", *killed, ended_ms=8), life("b", *owned(9, 20))).failures == []
    assert judged(life("a", *killed, ended_ms=10), life("b", *owned(9, 20))).two_owners == 1


def test_a_diary_that_a_kill_has_cut_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    diary = Diary(path)
    diary.assigned([0, 1])
    diary.committed(1, {0: 7})
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"type":"Re')
    first, second = read_diary(path)
    assert isinstance(first, Assigned) and first.partitions == (0, 1)
    assert isinstance(second, Committed) and second.offsets == {0: 7}


def assigned(at_ms: int, generation: int, *partitions: int) -> Assigned:
    return Assigned(at_ms * MS, partitions, generation)


def test_two_owners_in_a_generation_are_found() -> None:
    found = judge_acts([life("a", assigned(1, 3, 0, 1)), life("b", assigned(9, 3, 1))])
    assert found.failures == ["partition 1: a and b both own it in generation 3"]
    assert judge_acts([life("a", assigned(1, 3, 0)), life("b", assigned(9, 4, 0))]).failures == []


def test_a_commit_of_a_generation_that_is_over_is_found() -> None:
    late = Committed(6 * MS, 7 * MS, {0: 9}, 3)
    found = judge_acts([life("a", assigned(1, 3, 0), late), life("b", assigned(4, 4, 0))])
    assert found.failures == ["a committed in generation 3 2 ms after b was told 4"]
    assert found.two_owners == 1


def test_a_commit_that_was_asked_for_before_the_next_generation_was_told_is_none() -> None:
    early = Committed(3 * MS, 7 * MS, {0: 9}, 3)
    assert judge_acts([life("a", assigned(1, 3, 0), early), life("b", assigned(4, 4, 0))]).failures == []
