"""Transactions in memory, behind the port through which REST asks for them, and what processes tell."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from controller.core.events import Report
from controller.core.shards import TRANSACTIONS_TOPIC
from controller.core.transaction_watch import SUSPECT_AFTER_MS
from controller.shell.client_groups import GroupsUnavailable, Place
from controller.shell.client_transactions import (
    OpenProducer,
    TransactionAbsent,
    TransactionChanged,
    TransactionDetail,
    TransactionListing,
)
from springtide.contract.epochs import BrokerEpoch
from springtide.contract.lag_report import LagReport, PartitionLag
from springtide.contract.transactions import OpenTransaction, OpenTransactions, TransactionNews

if TYPE_CHECKING:
    from tests.kit.admin_api.coordinators import Coordinator
    from tests.kit.admin_api.rest import Rest


class MemoryTransactions:
    """down: no coordinator answers. fenced: ids whose producers were fenced. fences_late: calls of `fence`
    that find something being written. opened: what leaders hold open. aborted: markers that leaders wrote."""

    def __init__(self) -> None:
        self.down = False
        self.fences_late = 0
        self.unanswered: list[str] = []
        self.found: dict[str, TransactionDetail] = {}
        self.fenced: list[str] = []
        self.opened: dict[Place, list[OpenProducer]] = {}
        self.aborted: list[tuple[Place, OpenProducer]] = []

    def add(self, transactional_id: str, *partitions: Place, **values: Any) -> TransactionDetail:
        found = TransactionDetail(
            **{
                "transactional_id": transactional_id,
                "producer_id": 4_000 + len(self.found),
                "producer_epoch": 3,
                "state": "ongoing",
                "timeout_ms": 60_000,
                "started_ms": 0,
                "partitions": partitions,
                "coordinator_id": 1001,
                "endpoint": "desk1:9092",
                **values,
            }
        )
        self.found[transactional_id] = found
        return found

    async def listed(
        self, cluster: str, *, producer_ids: Iterable[int] = ()
    ) -> tuple[list[TransactionListing], list[str]]:
        self._check()
        wanted = set(producer_ids)
        found = [one for one in self.found.values() if not wanted or one.producer_id in wanted]
        return list(found), self.unanswered

    async def described(self, cluster: str, transactional_id: str) -> TransactionDetail:
        self._check()
        if transactional_id not in self.found:
            raise TransactionAbsent("Broker: Transactional id not found")
        return self.found[transactional_id]

    async def fence(self, cluster: str, seen: TransactionDetail) -> None:
        self._check()
        now = self.found[seen.transactional_id]
        if (now.producer_id, now.producer_epoch) != (seen.producer_id, seen.producer_epoch):
            raise TransactionChanged("Broker: Producer fenced")
        self.fences_late -= 1
        if self.fences_late < 0:
            self.fenced.append(seen.transactional_id)
            state = "prepare_abort" if now.is_live else now.state
            self.found[seen.transactional_id] = dataclasses.replace(
                now, state=state, producer_epoch=now.producer_epoch + 1
            )

    async def open_producers(self, cluster: str, place: Place) -> list[OpenProducer]:
        return list(self.opened.get(place, ()))

    async def write_abort(self, cluster: str, place: Place, seen: OpenProducer) -> None:
        self.opened[place].remove(seen)
        self.aborted.append((place, seen))

    def _check(self) -> None:
        if self.down:
            raise GroupsUnavailable("no coordinator answered within 5 s")


async def report_open(rest: Rest, *opened: tuple[int, int], open_ms: int = SUSPECT_AFTER_MS) -> None:
    """The leader of orders-0 tells of open transactions, by producer and first offset; all of epoch 3. Its
    high watermark is 100."""
    image = rest.engine.cluster("prod").image
    state = image.partitions[image.topic_ids["orders"], 0]
    found = tuple(OpenTransaction(producer, 3, offset, open_ms) for producer, offset in opened)
    lag = PartitionLag(
        topic_id=state.topic_id,
        partition=0,
        leader_epoch=state.leader_epoch,
        log_start_offset=0,
        log_end_offset=100,
        high_watermark=100,
        size_bytes=1,
        transactions=OpenTransactions(found[0].first_offset, len(found), found) if found else None,
    )
    epoch = BrokerEpoch(image.brokers[state.leader].broker_epoch)
    report = LagReport(broker_id=state.leader, broker_epoch=epoch, lags=(lag,))
    await rest.engine.submit("prod", Report(request=report, wall_ms=rest.clock.now_wall_ms()))


async def hang(rest: Rest, coordinator: Coordinator, *, producer_id: int = 4_000) -> None:
    """A transaction is open in orders-0 from offset 10 on that the only coordinator denies."""
    await coordinator.register()
    body = {"coordinator_ids": [coordinator.coordinator_id]}
    assert (await rest.post("/clusters/prod/coordinators", body)).status_code == 200
    await coordinator.poll()
    await coordinator.heartbeat(wants_transactions=True)
    while TRANSACTIONS_TOPIC not in (image := rest.engine.cluster("prod").image).topic_ids:
        await rest.clock.sleep_ms(500)
    await report_open(rest, (producer_id, 10))
    (suspect,) = (await coordinator.heartbeat()).suspects
    shards = tuple(
        number for topic_id, number in image.shards if topic_id == image.topic_ids[TRANSACTIONS_TOPIC]
    )
    await coordinator.heartbeat(transactions=TransactionNews(checked=(suspect,), shards=shards))
    for _ in range(2):
        await report_open(rest, (producer_id, 10))
