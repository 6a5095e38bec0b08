"""What a leader knows of one follower: when it was caught up last, and how often it asked for the same."""

from __future__ import annotations

import pytest

from dataplane.core.fetch import ReplicaFetch
from dataplane.core.fetch_session import Contact, FetchPosition
from dataplane.core.isr import FollowerProgress
from springtide.contract.epochs import BrokerEpoch, LeaderEpoch
from springtide.node.lease import NEVER_MS


def asks(
    follower: FollowerProgress,
    fetch_offset: int,
    *,
    leader_end: int,
    at_ms: int,
    contact: Contact | None = None,
) -> None:
    fetch = ReplicaFetch(
        2,
        BrokerEpoch(20),
        FetchPosition(fetch_offset, LeaderEpoch(1), LeaderEpoch(1), 0),
        1 << 20,
        contact=contact,
    )
    follower.on_fetch(fetch, leader_end_offset=leader_end, now_ms=at_ms)


def follower() -> FollowerProgress:
    return FollowerProgress(2)


def test_it_was_caught_up_when_it_asked_last_if_now_it_has_what_there_was_then() -> None:
    one = follower()
    asks(one, 0, leader_end=10, at_ms=100)
    assert one.last_caught_up_ms == NEVER_MS
    asks(one, 10, leader_end=20, at_ms=200)
    assert one.last_caught_up_ms == 100
    asks(one, 20, leader_end=20, at_ms=300)
    assert one.last_caught_up_ms == 300


def test_who_never_has_what_there_was_a_fetch_ago_lags_however_often_it_asks() -> None:
    one = follower()
    for at_ms in range(100, 1_000, 100):
        asks(one, at_ms // 100, leader_end=at_ms, at_ms=at_ms)
    assert one.last_caught_up_ms == NEVER_MS
    assert one.is_lagging(leader_end_offset=1_000, now_ms=1_000, lag_ms_max=500)


def test_a_sign_of_life_without_a_word_of_this_partition_is_not_taken_back_by_the_next_fetch() -> None:
    one, contact = follower(), Contact()
    asks(one, 10, leader_end=10, at_ms=100, contact=contact)
    contact.on_answer(100)
    contact.on_request(900)
    one.on_leader_append()
    caught_up_ms = one.last_caught_up_ms
    assert caught_up_ms > 100
    asks(one, 10, leader_end=11, at_ms=950, contact=contact)
    assert one.last_caught_up_ms == caught_up_ms


def test_at_the_leaders_end_it_does_not_lag_however_long_ago_it_asked() -> None:
    one = follower()
    asks(one, 10, leader_end=10, at_ms=100)
    assert not one.is_lagging(leader_end_offset=10, now_ms=10**9, lag_ms_max=500)
    assert not one.is_lagging(leader_end_offset=11, now_ms=600, lag_ms_max=500)
    assert one.is_lagging(leader_end_offset=11, now_ms=601, lag_ms_max=500)


@pytest.mark.parametrize(("leader_end", "repeats"), [(10, 0), (11, 2)])
def test_it_repeats_itself_only_where_there_is_more_to_be_had(leader_end: int, repeats: int) -> None:
    one = follower()
    for at_ms in (100, 200, 300):
        asks(one, 10, leader_end=leader_end, at_ms=at_ms)
    assert one.repeats == repeats
    asks(one, 11, leader_end=12, at_ms=400)
    assert one.repeats == 0
