"""How long a fetch may wait."""

from __future__ import annotations

from dataplane.handlers.fetch import MAX_WAIT_MS_MAX, wait_until_ms


def test_followers_wait_until_the_last_beat_and_consumers_for_all_of_their_time() -> None:
    assert [wait_until_ms(500, now_ms=10_000 + past_ms, is_replica=True) for past_ms in (0, 1, 499, 500)] == [
        10_500,
        10_500,
        10_500,
        11_000,
    ]
    assert wait_until_ms(500, now_ms=10_001, is_replica=False) == 10_501


def test_no_fetch_waits_for_ever_and_none_for_less_than_nothing() -> None:
    assert wait_until_ms(2**31 - 1, now_ms=10_001, is_replica=False) == 10_001 + MAX_WAIT_MS_MAX
    assert wait_until_ms(-1, now_ms=10_001, is_replica=True) == 10_001
