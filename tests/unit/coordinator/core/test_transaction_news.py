"""What a coordinator tells of transactions: those that linger, and the controller's suspects that it has."""

from __future__ import annotations

from coordinator.core.transaction_news import LOOK_MS, NewsOfTransactions
from coordinator.core.transactions.requests import ProducerClient
from springtide.contract.epochs import ControllerEpoch
from springtide.contract.session import HeartbeatResponse
from springtide.contract.transactions import LINGERS_AFTER_TIMEOUT_MS, Suspect, TransactionNews
from tests.kit.coordinator.machine_desk import WALL_MS
from tests.kit.coordinator.transaction_desk import CLIENT, FIRST_ID, P0, P1, TIMEOUT_MS, TransactionDesk

SUSPECT = Suspect(FIRST_ID, "t", 0, 10)


class Telling:
    """A coordinator of shard 7 that tells its controller."""

    def __init__(self) -> None:
        self.desk = TransactionDesk()
        self.news = NewsOfTransactions(lambda: {7: self.desk.machine})

    def take(self) -> TransactionNews | None:
        return self.news.take(self.desk.now_ms, self.desk.wall_ms)

    def ask(self, *suspects: Suspect) -> None:
        self.news.on_heartbeat(HeartbeatResponse(controller_epoch=ControllerEpoch(1), suspects=suspects))

    def held(self, suspect: Suspect = SUSPECT) -> bool:
        self.ask(suspect)
        news = self.take()
        assert news is not None and news.checked == (suspect,) and news.shards == (7,)
        return news.held == (suspect,)


def test_a_suspect_is_had_from_before_its_first_record_until_all_markers_are_written() -> None:
    telling = Telling()
    desk = telling.desk
    producer = desk.producer()
    assert not telling.held()
    desk.is_holding = True
    desk.start_add(producer, P0, P1)
    assert telling.held(), "its record is not committed yet"
    desk.commit()
    assert telling.held()
    assert not telling.held(Suspect(FIRST_ID, "t", 5, 10)) and not telling.held(Suspect(77, "t", 0, 10))
    desk.start_end(producer)
    desk.commit()
    assert telling.held(), "its end is decided"
    order = desk.orders.pop(desk.orders.copy().popitem()[0])
    desk.start_markers(order, P0)
    assert telling.held(), "another marker is not written"
    desk.start_markers(order, P1)
    assert telling.held(), "that is not on record"
    desk.commit()
    assert not telling.held()


def test_an_answer_is_told_once() -> None:
    telling = Telling()
    assert telling.take() is None
    telling.ask(SUSPECT)
    assert telling.take() == TransactionNews(checked=(SUSPECT,), shards=(7,))
    assert telling.take() is None


def test_a_transaction_lingers_when_it_is_older_than_its_timeout_by_a_minute() -> None:
    telling = Telling()
    desk = telling.desk
    desk.add(desk.producer(), P0, P1)
    desk.now_ms = TIMEOUT_MS + LINGERS_AFTER_TIMEOUT_MS
    assert telling.take() is None
    desk.now_ms += LOOK_MS
    news = telling.take()
    assert news is not None and not news.checked
    (told,) = news.lingering
    assert (told.transactional_id, told.producer_id, told.producer_epoch) == ("payments", FIRST_ID, 0)
    assert (told.state, told.since_ms, told.timeout_ms, told.partitions) == (
        "Ongoing",
        WALL_MS,
        TIMEOUT_MS,
        2,
    )
    assert (told.client_id, told.client_host) == (CLIENT.client_id, CLIENT.host)
    assert telling.take() == news, "as long as it lasts"
    desk.init(client=ProducerClient("another", "10.0.0.2"))
    desk.now_ms += LOOK_MS
    news = telling.take()
    assert news is not None
    (told,) = news.lingering
    assert told.state == "PrepareAbort", "no marker is written"
    who = (told.client_id, told.client_host)
    assert who == (CLIENT.client_id, CLIENT.host), "who has left it open, not who waits for the id"
    desk.write_markers()
    desk.now_ms += LOOK_MS
    assert telling.take() is None
