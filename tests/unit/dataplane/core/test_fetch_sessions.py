"""Incremental fetch sessions at both ends."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.core.fetch_session import (
    AskedPartition,
    FetchPosition,
    FetchSession,
    FetchSessions,
    FollowerRequest,
    FollowerSession,
    SessionRequest,
)
from dataplane.core.results import FetchResult
from springtide.contract.epochs import BrokerEpoch, LeaderEpoch
from springtide.contract.partition_state import PartitionKey
from springtide.node.lease import NEVER_MS
from springtide.wire.errors import ErrorCode
from springtide.wire.fetch_request import LogMark
from springtide.wire.fetch_response import EpochEnd

A, B, C, D = ("a", 0), ("b", 0), ("b", 1), ("d", 0)


def asked(key: PartitionKey, fetch_offset: int = 0, *, leader_epoch: int = 1) -> AskedPartition:
    return AskedPartition(key, FetchPosition(fetch_offset, LeaderEpoch(-1), LeaderEpoch(leader_epoch), 0))


def request(*partitions: AskedPartition, session: tuple[int, int] = (0, 0), **fields: Any) -> SessionRequest:
    fields = {"replica_id": 2, "broker_epoch": 20, **fields}
    return SessionRequest(session_id=session[0], session_epoch=session[1], partitions=partitions, **fields)


def sessions(**options: Any) -> FetchSessions:
    return FetchSessions(count(100), **options)


def opened(table: FetchSessions, *args: Any, now_ms: int = 0, **fields: Any) -> FetchSession:
    session = table.open(request(*args, **fields), now_ms=now_ms)
    assert isinstance(session, FetchSession)
    return session


def answer_all(
    session: FetchSession, *, high_watermark: int = 0, error: ErrorCode = ErrorCode.NONE
) -> list[Any]:
    """Answer everything that is due, without records; returns the keys that were news."""
    news = []
    result = FetchResult(error, high_watermark, 0)
    for followed in session.due():
        if session.is_news(followed, result, 0):
            news.append(followed.key)
        session.settle(followed, result, is_more_left=False)
    return news


def test_a_full_fetch_opens_a_session_and_lists_everything() -> None:
    session = opened(sessions(), asked(A), asked(B))
    assert session.session_id == 100
    assert answer_all(session) == [A, B]


def test_an_idle_partition_costs_nothing_until_something_happens_to_it() -> None:
    table = sessions()
    session = opened(table, asked(A), asked(B))
    answer_all(session)
    session = opened(table, session=(100, 1))
    assert session.due() == []
    table.on_data_appended(B)
    assert [followed.key for followed in session.due()] == [B]


def test_a_mention_updates_the_position_and_makes_it_due() -> None:
    table = sessions()
    answer_all(opened(table, asked(A), asked(B)))
    session = opened(table, asked(B, 7, leader_epoch=3), session=(100, 1))
    (followed,) = session.due()
    assert (followed.key, followed.position.fetch_offset, followed.position.leader_epoch) == (B, 7, 3)


def test_i7_the_leader_epoch_is_kept_and_judged_again_after_a_change_of_leadership() -> None:
    """KAFKA-9338."""
    table = sessions()
    session = opened(table, asked(A, leader_epoch=4))
    answer_all(session)
    opened(table, session=(100, 1))
    table.on_leadership_changed(A)
    (followed,) = session.due()
    assert followed.position.leader_epoch == 4
    assert answer_all(session, error=ErrorCode.FENCED_LEADER_EPOCH) == [A]
    table.on_data_appended(A)
    assert answer_all(session) == [A]  # after an error even an unchanged high watermark is news


def test_a_follower_in_a_later_epoch_is_told_again() -> None:
    """It dropped the answer to its earlier epoch that was on its way: whole processes, seed 20261320."""
    table = sessions()
    answer_all(opened(table, asked(A, 7)), high_watermark=7)
    session = opened(table, asked(A, 7, leader_epoch=2), session=(100, 1))
    assert answer_all(session, high_watermark=7) == [A]
    session = opened(table, asked(A, 8, leader_epoch=2), session=(100, 2))
    assert answer_all(session, high_watermark=7) == []


def test_news_are_records_errors_divergence_and_watermarks_not_told() -> None:
    table = sessions()
    session = opened(table, asked(A))
    answer_all(session, high_watermark=3)
    opened(table, session=(100, 1))
    table.on_high_watermark_moved(A)
    assert answer_all(session, high_watermark=3) == []
    table.on_high_watermark_moved(A)
    assert answer_all(session, high_watermark=4) == [A]


def test_what_found_no_room_stays_due_behind_the_others() -> None:
    session = opened(sessions(), asked(A), asked(B), asked(C))
    first, *_ = session.due()
    session.settle(first, FetchResult(ErrorCode.NONE, 0, 0), is_more_left=True)
    assert [followed.key for followed in session.due()] == [B, C, A]


def test_forgotten_partitions_are_not_watched() -> None:
    table = sessions()
    session = opened(table, asked(A), asked(B))
    answer_all(session)
    opened(table, session=(100, 1), forgotten=(A,))
    table.park(session, "handle")
    assert table.on_data_appended(A) == ()
    assert table.on_data_appended(B) == [session]


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"session": (100, 2)}, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        ({"session": (101, 1)}, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        ({"session": (0, 1)}, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        ({"session": (100, 1), "replica_id": 3}, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        ({"session": (100, 1), "broker_epoch": 21}, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        ({"session": (100, 1), "principal": "other"}, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        ({"session": (100, 1), "uses_topic_ids": False}, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR),
    ],
)
def test_i8_a_request_that_is_not_the_sessions_next_one_gets_an_error(
    fields: dict[str, Any], error: ErrorCode
) -> None:
    table = sessions()
    session = opened(table, asked(A))
    assert table.open(request(**fields), now_ms=5) is error
    assert session.contact.last_fetch_ms == 0


def test_a_repeated_request_is_refused_and_the_session_lives_on() -> None:
    table = sessions()
    opened(table, asked(A))
    opened(table, session=(100, 1))
    assert table.open(request(session=(100, 1)), now_ms=0) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert opened(table, session=(100, 2)).session_id == 100


def test_a_full_fetch_replaces_the_session_and_ends_its_evidence() -> None:
    table = sessions()
    old = opened(table, asked(A), now_ms=5)
    new = opened(table, asked(B), session=(100, 0), now_ms=6)
    assert new.session_id == 101
    assert (old.contact.last_fetch_ms, new.contact.last_fetch_ms) == (NEVER_MS, 6)
    assert len(table) == 1


def test_s52_a_request_vouches_as_of_the_answer_that_it_follows() -> None:
    table = sessions()
    session = opened(table, asked(A), now_ms=5)
    contact = session.contact
    assert contact.vouched_ms == NEVER_MS
    contact.on_answer(7)
    opened(table, session=(100, 1), now_ms=18_000)  # it lay in the socket
    assert (contact.last_fetch_ms, contact.vouched_ms) == (18_000, 7)
    contact.on_answer(18_001)
    assert contact.vouched_ms == 7  # until the next request
    table.close(session)
    contact.on_answer(18_002)
    assert contact.vouched_ms == NEVER_MS


def test_a_fetch_without_a_session_can_wait_as_well() -> None:
    table = sessions()
    session = opened(table, asked(A), session=(0, -1), replica_id=-1, broker_epoch=-1)
    assert session.session_id == 0
    assert len(table) == 0
    table.park(session, "handle")
    assert table.on_high_watermark_moved(A) == [session]
    table.unpark(session)
    assert table.on_high_watermark_moved(A) == ()


def test_data_wakes_replicas_and_high_watermarks_wake_consumers() -> None:
    table = sessions()
    replica = opened(table, asked(A))
    consumer = opened(table, asked(A), replica_id=-1, broker_epoch=-1)
    for session in (replica, consumer):
        answer_all(session)
        table.park(session, session)
    assert table.on_data_appended(A) == [replica]
    assert consumer.due() == []
    assert table.on_high_watermark_moved(A) == [consumer]
    assert table.replicas_to_tell(A) == [replica]
    assert table.on_leadership_changed(A) == [replica, consumer]


def consumer_fetch(table: FetchSessions, *partitions: AskedPartition, now_ms: int = 0) -> FetchSession:
    return opened(table, *partitions, replica_id=-1, broker_epoch=-1, now_ms=now_ms)


def test_a_full_table_keeps_what_is_in_use() -> None:
    table = sessions(sessions_max=1, idle_ms=100)
    consumer_fetch(table, asked(A), now_ms=0)
    assert consumer_fetch(table, asked(A), now_ms=99).session_id == 0
    assert consumer_fetch(table, asked(A), now_ms=100).session_id != 0
    assert (len(table), table.evictions) == (1, 1)


def test_a_replica_takes_a_consumers_place_but_no_waiting_ones() -> None:
    table = sessions(sessions_max=1)
    consumer = consumer_fetch(table, asked(A))
    table.park(consumer, "handle")
    assert opened(table, asked(A)).session_id == 0
    table.unpark(consumer)
    assert opened(table, asked(A)).session_id != 0
    assert opened(table, asked(A)).session_id == 0  # not another replica's


def test_followed_partitions_are_bounded() -> None:
    table = sessions(partitions_max=2)
    session = opened(table, asked(A), asked(B))
    assert table.open(request(asked(C), session=(100, 1)), now_ms=0) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(table) == 0
    assert session.contact.last_fetch_ms == NEVER_MS
    assert opened(table, asked(A), asked(B), asked(C)).session_id == 0


# The follower's end.


def position(fetch_offset: int, leader_epoch: int = 1) -> FetchPosition:
    return FetchPosition(fetch_offset, LeaderEpoch(-1), LeaderEpoch(leader_epoch), 0)


def said(
    *partitions: Any,
    session: tuple[int, int],
    forgotten: tuple[PartitionKey, ...] = (),
    unproven: tuple[PartitionKey, ...] = (),
) -> FollowerRequest:
    return FollowerRequest(
        session_id=session[0],
        session_epoch=session[1],
        partitions=partitions,
        forgotten=forgotten,
        unproven=frozenset(unproven),
    )


def test_the_follower_says_everything_once_and_then_what_changed() -> None:
    follower = FollowerSession()
    follower.set_position(A, position(0))
    follower.set_position(B, position(5))
    assert follower.build() == said((A, position(0)), (B, position(5)), session=(0, 0), unproven=(A, B))
    assert follower.on_answer(ErrorCode.NONE, session_id=100)
    follower.set_position(A, position(3))
    follower.set_position(B, position(5))
    assert follower.build() == said((A, position(3)), session=(100, 1))
    assert follower.on_answer(ErrorCode.NONE, session_id=100)
    follower.remove(B)
    assert follower.build() == said(session=(100, 2), forgotten=(B,))
    assert follower.on_answer(ErrorCode.NONE, session_id=100)
    assert follower.build() == said(session=(100, 3))


def test_a_partition_that_comes_back_before_the_request_is_not_forgotten() -> None:
    follower = FollowerSession()
    follower.set_position(A, position(0))
    follower.build()
    follower.on_answer(ErrorCode.NONE, session_id=100)
    follower.remove(A)
    follower.set_position(A, position(0, leader_epoch=2))
    assert follower.build() == said((A, position(0, leader_epoch=2)), session=(100, 1), unproven=(A,))


def test_after_a_back_off_the_same_position_is_asked_again() -> None:
    """The leader has settled what it sent; only a mention makes it look again."""
    follower = FollowerSession()
    follower.set_position(A, position(0))
    follower.build()
    follower.on_answer(ErrorCode.NONE, session_id=100)
    follower.remove(A)
    follower.set_position(A, position(0))
    assert follower.build() == said((A, position(0)), session=(100, 1), unproven=(A,))


@pytest.mark.parametrize(
    ("error", "session_id"),
    [(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0), (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 100)],
)
def test_after_a_lost_session_everything_is_said_again(error: ErrorCode, session_id: int) -> None:
    follower = FollowerSession()
    follower.set_position(A, position(0))
    follower.build()
    follower.on_answer(ErrorCode.NONE, session_id=100)
    follower.build()
    assert not follower.on_answer(error, session_id=0)
    assert follower.build() == said((A, position(0)), session=(session_id, 0), unproven=(A,))


def test_after_a_broken_connection_the_session_is_replaced() -> None:
    follower = FollowerSession()
    follower.set_position(A, position(0))
    follower.build()
    follower.on_answer(ErrorCode.NONE, session_id=100)
    follower.build()
    follower.on_failure()
    assert follower.build() == said((A, position(0)), session=(100, 0), unproven=(A,))


def test_a_leader_without_room_is_asked_in_full_each_time() -> None:
    follower = FollowerSession()
    follower.set_position(A, position(0))
    for unproven in ((A,), ()):
        assert follower.build() == said((A, position(0)), session=(0, 0), unproven=unproven)
        assert follower.on_answer(ErrorCode.NONE, session_id=0)


def test_one_request_mentions_so_many_partitions_and_says_that_there_are_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dataplane.core.fetch_session.MENTIONED_MAX", 2)
    follower = FollowerSession()
    for key in (A, B, C):
        follower.set_position(key, position(0))
    first = follower.build()
    assert ([key for key, _ in first.partitions], first.has_more) == ([A, B], True)
    assert (follower.asked(B), follower.asked(C)) == (position(0), None)
    follower.on_answer(ErrorCode.NONE, session_id=100)
    second = follower.build()
    assert ([key for key, _ in second.partitions], second.has_more) == ([C], False)


def test_a_leader_without_a_session_is_told_of_every_partition_with_each_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dataplane.core.fetch_session.MENTIONED_MAX", 1)
    follower = FollowerSession()
    for key in (A, B):
        follower.set_position(key, position(0))
    follower.build()
    follower.on_answer(ErrorCode.NONE, session_id=0)
    assert [key for key, _ in follower.build().partitions] == [A, B]


def test_an_answer_is_about_the_position_that_was_asked_not_about_the_present_one() -> None:
    follower = FollowerSession()
    follower.set_position(A, position(3))
    follower.build()
    follower.set_position(A, position(3, leader_epoch=2))
    assert follower.asked(A) == position(3)
    follower.remove(A)
    assert follower.asked(A) is None
    follower.set_position(A, position(3))
    assert follower.asked(A) is None, "what is on its way is of the time before"


def test_a_position_that_goes_back_or_enters_another_leader_epoch_is_to_be_compared_again() -> None:
    follower = FollowerSession()
    for told, is_unproven in (
        (position(5), True),
        (position(6), False),
        (position(4), True),
        (position(4, leader_epoch=2), True),
        (position(9, leader_epoch=2), False),
    ):
        follower.set_position(A, told)
        assert (A in follower.build().unproven) is is_unproven, told
        follower.on_answer(ErrorCode.NONE, session_id=100)


KEYS = st.sampled_from([A, B, C])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), KEYS, st.integers(0, 3)),
        st.tuples(st.just("remove"), KEYS, st.just(0)),
        st.tuples(
            st.sampled_from(["answer", "lose answer", "lose request", "evict"]), st.just(A), st.just(0)
        ),
    ),
    max_size=40,
)


@given(STEPS)
def test_both_ends_agree_after_every_answer_whatever_is_lost(
    steps: list[tuple[str, PartitionKey, int]],
) -> None:
    table = sessions()
    follower = FollowerSession()
    wanted: dict[PartitionKey, int] = {}

    def exchange(fate: str) -> None:
        said = follower.build()
        if fate != "lose request":
            session = table.open(
                SessionRequest(
                    session_id=said.session_id,
                    session_epoch=said.session_epoch,
                    replica_id=2,
                    broker_epoch=BrokerEpoch(20),
                    partitions=[asked(key, p.fetch_offset) for key, p in said.partitions],
                    forgotten=said.forgotten,
                ),
                now_ms=0,
            )
            if fate == "evict" and isinstance(session, FetchSession):
                table.close(session)
            if fate in ("answer", "evict"):
                if isinstance(session, FetchSession):
                    assert follower.on_answer(ErrorCode.NONE, session_id=session.session_id)
                    held = {key: f.position.fetch_offset for key, f in session._partitions.items()}
                    assert held == wanted
                else:
                    assert not follower.on_answer(session, session_id=0)
                return
        follower.on_failure()

    for fate, key, fetch_offset in steps:
        match fate:
            case "set":
                follower.set_position(key, position(fetch_offset))
                wanted[key] = fetch_offset
            case "remove":
                follower.remove(key)
                wanted.pop(key, None)
            case _:
                exchange(fate)
    if wanted:
        exchange("answer")
        exchange("answer")


def test_a_session_remembers_no_more_names_than_it_follows_partitions() -> None:
    table = sessions()
    session = opened(table, asked(A), asked(B))
    session.note_names({"first": "a", "second": "b"})
    for epoch in range(1, 20):
        topic = f"t{epoch}"
        forgotten = [(f"t{epoch - 1}", 0)]
        opened(table, asked((topic, 0)), session=(session.session_id, epoch), forgotten=forgotten)
        session.note_names({f"name-{epoch}": topic})
        assert len(session.names) <= len(session) == 3
    assert session.names == {"first": "a", "second": "b", "name-19": "t19"}


def test_a_partition_that_is_forgotten_is_not_due_whatever_is_left_of_it() -> None:
    table = sessions()
    session = opened(table, asked(A), asked(B))
    followed, _ = session.due()
    opened(table, session=(100, 1), forgotten=(A,))
    assert [each.key for each in session.due()] == [B]
    session.settle(followed, FetchResult(ErrorCode.NONE, 0, 0), is_more_left=True)
    assert [each.key for each in session.due()] == [B], "an answer was on its way"


def test_a_session_remembers_all_that_a_mention_says() -> None:
    mark = LogMark(1, 4, ())
    table = sessions()
    opened(table, asked(A))
    position = FetchPosition(7, LeaderEpoch(3), LeaderEpoch(2), 5, 100, wants_producers=True)
    (followed,) = opened(table, AskedPartition(A, position, mark), session=(100, 1)).due()
    assert (followed.key, followed.position) == (A, position)
    assert (followed.take_mark(), followed.take_mark()) == (mark, None)


@pytest.mark.parametrize(
    ("replica_id", "is_replica", "is_debugging"),
    [(-3, False, False), (-2, False, True), (-1, False, False), (0, True, False), (2, True, False)],
)
def test_the_id_of_a_fetcher_says_what_it_is(replica_id: int, is_replica: bool, is_debugging: bool) -> None:
    session = opened(sessions(), asked(A), replica_id=replica_id)
    assert (session.is_replica, session.is_debugging) == (is_replica, is_debugging)


@pytest.mark.parametrize(
    "news",
    [
        {},
        {"error": ErrorCode.NOT_LEADER_OR_FOLLOWER},
        {"size_bytes": 1},
        {"diverging": EpochEnd(1, 2)},
        {"high_watermark": 4},
        {"log_start_offset": 1},
        {"is_full_answer": True},
    ],
)
def test_each_kind_of_news_is_one_by_itself(news: dict[str, Any]) -> None:
    session = opened(sessions(), asked(A))
    answer_all(session, high_watermark=3)
    session.mark_all_due()
    (followed,) = session.due()
    session.is_full_answer = news.pop("is_full_answer", False)
    is_news = session.is_full_answer or bool(news)
    size_bytes = news.pop("size_bytes", 0)
    same: dict[str, Any] = {"error": ErrorCode.NONE, "high_watermark": 3, "log_start_offset": 0}
    assert session.is_news(followed, FetchResult(**{**same, **news}), size_bytes) == is_news


def test_partitions_are_counted_when_they_come_and_when_they_go() -> None:
    table = sessions(partitions_max=3)
    session = opened(table, asked(A))
    table.park(session, "handle")
    for epoch in (1, 2):
        opened(table, asked(B), session=(100, epoch))  # the second time it is known
        assert table.on_data_appended(B) == [session]
    assert opened(table, asked(C), asked(D)).session_id == 0
    assert opened(table, asked(C)).session_id == 101
    opened(table, session=(100, 3), forgotten=(B,))
    assert opened(table, asked(C), asked(D)).session_id == 0
    assert opened(table, asked(D)).session_id == 102
    table.close(session)
    assert table.on_data_appended(A) == ()
    assert opened(table, asked(A)).session_id == 103


def test_a_session_may_grow_up_to_the_bound() -> None:
    table = sessions(partitions_max=2)
    opened(table, asked(A))
    assert len(opened(table, asked(B), session=(100, 1))) == 2


def test_a_full_fetch_of_nothing_begins_no_session() -> None:
    assert opened(sessions()).session_id == 0


def test_a_session_is_replaced_by_its_own_fetcher_only() -> None:
    for other in ({"replica_id": 3}, {"principal": "other"}):
        table = sessions()
        opened(table, asked(A))
        assert opened(table, asked(A), session=(100, 0), **other).session_id == 101
        assert len(table) == 2


def test_no_session_has_the_id_of_another_or_of_none() -> None:
    table = FetchSessions(iter((0, 100, 100, 101)))
    assert [opened(table, asked(A)).session_id for _ in range(2)] == [100, 101]


def test_after_the_last_epoch_comes_the_first() -> None:
    last = 2**31 - 1
    session = opened(table := sessions(), asked(A))
    session.next_epoch = last - 1
    for epoch, next_epoch in ((last - 1, last), (last, 1)):
        assert opened(table, session=(100, epoch)).next_epoch == next_epoch
    follower = FollowerSession()
    follower.set_position(A, position(0))
    follower.build()
    follower.on_answer(ErrorCode.NONE, session_id=100)
    follower._next_epoch = last - 1
    epochs = []
    for _ in range(3):
        epochs.append(follower.build().session_epoch)
        follower.on_answer(ErrorCode.NONE, session_id=100)
    assert epochs == [last - 1, last, 1]


def test_the_session_that_was_used_least_recently_gives_way() -> None:
    table = sessions(sessions_max=2, idle_ms=100)
    fields = {"replica_id": -1, "broker_epoch": -1}
    for now_ms in (1_000, 1_010):
        consumer_fetch(table, asked(A), now_ms=now_ms)
    opened(table, session=(100, 1), now_ms=1_050, **fields)
    assert consumer_fetch(table, asked(A), now_ms=1_109).session_id == 0
    assert consumer_fetch(table, asked(A), now_ms=1_110).session_id == 102
    assert consumer_fetch(table, asked(A), now_ms=1_149).session_id == 0
    assert opened(table, session=(100, 2), now_ms=1_110, **fields).session_id == 100


def test_a_replica_takes_a_consumers_place_behind_another_replica() -> None:
    """Broker 0 is one like all others."""
    for replica_id in (0, 2):
        table = sessions(sessions_max=2)
        replica = opened(table, asked(A))
        consumer_fetch(table, asked(A))
        assert opened(table, asked(B), replica_id=replica_id).session_id == 102
        assert opened(table, session=(100, 1)) is replica


def test_an_answer_of_another_session_is_none_to_this_one() -> None:
    follower = FollowerSession()
    follower.set_position(A, position(0))
    follower.build()
    follower.on_answer(ErrorCode.NONE, session_id=100)
    follower.build()
    assert not follower.on_answer(ErrorCode.NONE, session_id=101)
    assert follower.build().session_epoch == 0


def test_what_changed_and_changed_back_before_the_request_is_not_said() -> None:
    follower = FollowerSession()
    for key in (A, B):
        follower.set_position(key, position(0))
    follower.build()
    follower.on_answer(ErrorCode.NONE, session_id=100)
    for key, offset in ((A, 5), (A, 0), (B, 5)):
        follower.set_position(key, position(offset))
    follower.remove(B)
    assert follower.build() == said(session=(100, 1), forgotten=(B,))


def test_a_leader_should_hear_at_once_of_another_epoch_or_log_start() -> None:
    told = FetchPosition(3, LeaderEpoch(1), LeaderEpoch(1), 0)
    for other, tells_more in (
        (told._replace(fetch_offset=9), False),
        (told._replace(leader_epoch=LeaderEpoch(2)), True),
        (told._replace(log_start_offset=1), True),
    ):
        assert other.tells_more_than(told) is tells_more
