"""What heartbeats tell of transactions."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from coordinator.core.transaction_news import LOOK_MS, NewsOfTransactions
from coordinator.core.transactions.options import TransactionOptions
from springtide.contract.transactions import LINGERS_AFTER_TIMEOUT_MS, Suspect, TransactionNews
from tests.kit.coordinator.machine_desk import WALL_MS
from tests.kit.coordinator.transaction_desk import ID, P0, P1, TIMEOUT_MS, TransactionDesk

SHARD = 7
NEVER_LOOKS = TransactionOptions(timeout_check_ms=2**40)


def news_of(desk: TransactionDesk) -> NewsOfTransactions:
    return NewsOfTransactions(lambda: {SHARD: desk.machine}, lambda: desk.wall_ms)


def ask(news: NewsOfTransactions, *suspects: Suspect) -> TransactionNews | None:
    """Return what is told after the controller has asked so."""
    news.on_heartbeat(cast(Any, SimpleNamespace(suspects=suspects)), sent_ms=0, now_ms=0)
    return news.take()


def test_of_transactions_that_end_in_time_nothing_is_told() -> None:
    desk = TransactionDesk(NEVER_LOOKS)
    news = news_of(desk)
    assert news.take() is None
    desk.add(desk.producer(), P0)
    desk.wait(TIMEOUT_MS + LINGERS_AFTER_TIMEOUT_MS)
    assert news.take() is None


def test_one_that_lingers_is_told_until_it_has_ended() -> None:
    desk = TransactionDesk(NEVER_LOOKS)
    producer = desk.producer()
    desk.add(producer, P0, P1)
    news = news_of(desk)
    desk.wait(TIMEOUT_MS + LINGERS_AFTER_TIMEOUT_MS + 1)
    told = news.take()
    assert told is not None
    (one,) = told.lingering
    assert (one.transactional_id, one.state, one.partitions) == (ID, "Ongoing", 2)
    assert (one.producer_id, one.since_ms, one.timeout_ms) == (producer.producer_id, WALL_MS, TIMEOUT_MS)
    desk.end(producer)
    desk.start_markers(desk.orders[ID], P0)
    desk.wait(LOOK_MS)
    told = news.take()
    assert told is not None
    assert [(one.state, one.partitions) for one in told.lingering] == [("PrepareCommit", 1)]
    desk.write_markers()
    desk.wait(LOOK_MS)
    assert news.take() is None


def test_suspects_are_held_until_the_last_marker_is_on_record() -> None:
    desk = TransactionDesk()
    producer = desk.producer()
    desk.add(producer, P0)
    news = news_of(desk)
    mine = Suspect(producer.producer_id, *P0, 12)
    other, elsewhere = Suspect(1, *P0, 3), Suspect(producer.producer_id, *P1, 4)
    told = ask(news, mine, other, elsewhere)
    assert told == TransactionNews(checked=(mine, other, elsewhere), held=(mine,), shards=(SHARD,))
    desk.end(producer)
    told = ask(news, mine)
    assert told is not None and told.held == (mine,)
    desk.is_holding = True
    desk.start_markers(desk.orders[ID], P0)
    told = ask(news, mine)
    assert told is not None and told.held == (mine,), "the record may be refused"
    desk.commit()
    told = ask(news, mine)
    assert told is not None and (told.held, told.shards) == ((), (SHARD,))
    assert ask(news) is None
