"""Transactions that hang: proven by what leaders report and coordinators deny, in whatever order."""

from __future__ import annotations

import msgspec
import pytest

from controller.core.alarms import AlarmBook
from controller.core.draft import Draft
from controller.core.effects import Alarm, AlarmCode, AlarmKey, ClearAlarm, Effect
from controller.core.floor import Floors
from controller.core.image import ClusterImage
from controller.core.loss import LogEnds
from controller.core.records import PartitionRecord, RemoveTopicRecord, TopicRecord
from controller.core.shards import TRANSACTIONS_TOPIC
from controller.core.transaction_watch import ASK_AGAIN_MS, SUSPECT_AFTER_MS, TransactionWatch
from dataplane.core.reports import OPEN_TOLD_AGAIN_MS
from springtide.contract.epochs import LeaderEpoch, PartitionEpoch
from springtide.contract.lag_report import PartitionLag
from springtide.contract.partition_state import WRITER_IDS, PartitionState, Shard, TopicState, WriterId
from springtide.contract.transactions import OpenTransaction, OpenTransactions, Suspect, TransactionNews
from tests.kit.controller.images import CHANGE

HANGS = AlarmKey(code=AlarmCode.TRANSACTION_HANGS, producer_id=7)
SUSPECT = Suspect(7, "orders", 0, 10)
#: Coordinator 1001 owns shards 0 and 1, 1002 owns 2.
OWNERS = (1001, 1001, 1002)


class Desk:
    """A cluster with a topic, and shards of transactions; the effects are those of the last call."""

    def __init__(self, suspects_max: int = 1_000) -> None:
        self.image = ClusterImage()
        self.watch = TransactionWatch(AlarmBook(alarms_max=10), suspects_max=suspects_max)
        self.now_ms = 0
        for topic, count in (("orders", 2), (TRANSACTIONS_TOPIC, len(OWNERS))):
            for number in range(count):
                self.own(topic, number, OWNERS[number] if topic == TRANSACTIONS_TOPIC else None)
            state = TopicState(topic_id=f"id-of-{topic}", topic=topic, partitions=count, replication_factor=1)
            self.image.replay(TopicRecord(state=state, change=CHANGE))

    def own(self, topic: str, number: int, owner: int | None) -> None:
        shard = None if owner is None else Shard(owner=owner, writer=WriterId(WRITER_IDS.start, 0))
        state = PartitionState(
            topic_id=f"id-of-{topic}",
            topic=topic,
            partition=number,
            replicas=(1,),
            leader=1,
            leader_epoch=LeaderEpoch(0),
            partition_epoch=PartitionEpoch(0),
            isr=(1,),
            min_insync_replicas=1,
            shard=shard,
        )
        self.image.replay(PartitionRecord(state=state, change=CHANGE))

    def draft(self) -> Draft:
        return Draft(self.image, wall_ms=1_000_000 + self.now_ms, floors=Floors(LogEnds()))

    def report(
        self, *opened: tuple[int, int, int], partition: int = 0, leader_epoch: int = 0
    ) -> list[Effect]:
        """The leader tells of open transactions: producer, first offset, for how long."""
        found = tuple(OpenTransaction(producer, 3, offset, open_ms) for producer, offset, open_ms in opened)
        lag = PartitionLag(
            topic_id="id-of-orders",
            partition=partition,
            leader_epoch=LeaderEpoch(leader_epoch),
            log_start_offset=0,
            log_end_offset=100,
            high_watermark=100,
            size_bytes=1,
            transactions=OpenTransactions(found[0].first_offset, len(found), found) if found else None,
        )
        draft = self.draft()
        self.watch.on_report(draft, lag)
        return draft.effects

    def tell(
        self, coordinator_id: int, *checked: Suspect, shards: tuple[int, ...], held: tuple[Suspect, ...] = ()
    ) -> list[Effect]:
        draft = self.draft()
        news = TransactionNews(checked=checked, held=held, shards=shards)
        self.watch.on_news(draft, coordinator_id, news, self.now_ms)
        return draft.effects

    def deny(self, suspect: Suspect = SUSPECT) -> None:
        self.tell(1001, suspect, shards=(0, 1))
        self.tell(1002, suspect, shards=(2,))

    def suspects(self, coordinator_id: int) -> tuple[Suspect, ...]:
        return self.watch.suspects(self.image, coordinator_id, self.now_ms)


OLD = (7, 10, SUSPECT_AFTER_MS)


def raised(effects: list[Effect]) -> list[AlarmKey]:
    return [effect.key for effect in effects if isinstance(effect, Alarm)]


def test_one_that_was_open_before_and_after_each_shard_denied_it_hangs() -> None:
    desk = Desk()
    assert desk.report((7, 10, SUSPECT_AFTER_MS - 1)) == [] and desk.suspects(1001) == ()
    assert desk.report(OLD) == []
    assert desk.suspects(1001) == desk.suspects(1002) == (SUSPECT,)
    desk.deny()
    assert desk.suspects(1001) == desk.suspects(1002) == (), "all is known"
    assert desk.report(OLD) == [], "this report may be older than the denial"
    (alarm,) = desk.report(OLD)
    assert isinstance(alarm, Alarm) and alarm.key == HANGS
    assert alarm.detail == (
        "a transaction of producer 7, epoch 3, is open in orders-0 from offset 10, since "
        "1970-01-01T00:16:20Z, and no coordinator has it: it ends only by an operator, and readers of "
        "committed records wait there. `springtide transactions end orders 0 --producer-id 7 --dry-run` says "
        "what that frees"
    )
    assert desk.report(OLD) == [], "it is told once"
    assert [case.suspect for case in desk.watch.hanging()] == [SUSPECT]
    assert desk.report() == [ClearAlarm(key=HANGS)], "somebody has ended it"
    assert desk.suspects(1001) == ()


@pytest.mark.parametrize("denied_from_ms", [0, SUSPECT_AFTER_MS + 1, 2 * ASK_AGAIN_MS + 999])
def test_it_is_told_within_a_minute(denied_from_ms: int) -> None:
    """Leaders tell again what stays open, coordinators answer with their heartbeats; denied_from_ms: the
    coordinator loses the transaction so late."""
    desk = Desk()
    for now_ms in range(0, denied_from_ms + 60_000, 500):
        desk.now_ms = now_ms
        for coordinator_id, shards in ((1001, (0, 1)), (1002, (2,))):
            if asked := desk.suspects(coordinator_id):
                held = asked if coordinator_id == 1001 and now_ms < denied_from_ms else ()
                assert desk.tell(coordinator_id, *asked, shards=shards, held=held) == []
        if now_ms % OPEN_TOLD_AGAIN_MS == 0 and raised(desk.report((7, 10, now_ms))) == [HANGS]:
            assert now_ms >= denied_from_ms
            return
    raise AssertionError("no alarm")


@pytest.mark.parametrize("missing", ["a shard", "a coordinator", "another owner"])
def test_what_can_not_be_asked_is_not_concluded(missing: str) -> None:
    desk = Desk()
    desk.report(OLD)
    match missing:
        case "a shard":
            desk.tell(1001, SUSPECT, shards=(0,))
            desk.tell(1002, SUSPECT, shards=(2,))
        case "a coordinator":
            desk.tell(1001, SUSPECT, shards=(0, 1))
        case _:
            desk.own(TRANSACTIONS_TOPIC, 1, 1002)  # what 1001 still serves is not its own any more
            desk.tell(1001, SUSPECT, shards=(0, 1))
            desk.tell(1002, SUSPECT, shards=(2,))
    for _ in range(5):
        assert desk.report(OLD) == []
    assert desk.suspects(1001) or desk.suspects(1002), "those that are missing are asked on"


def test_one_that_its_coordinator_has_is_asked_for_again_after_a_while() -> None:
    desk = Desk()
    desk.report(OLD)
    desk.tell(1002, SUSPECT, shards=(2,))
    desk.tell(1001, SUSPECT, shards=(0, 1), held=(SUSPECT,))
    assert desk.suspects(1001) == desk.suspects(1002) == ()
    desk.now_ms += ASK_AGAIN_MS
    assert desk.suspects(1001) == desk.suspects(1002) == (SUSPECT,), "what was denied before counts no more"
    desk.tell(1001, SUSPECT, shards=(0, 1))
    assert not any(desk.report(OLD) for _ in range(3))
    desk.tell(1002, SUSPECT, shards=(2,))
    assert desk.report(OLD) == [] and raised(desk.report(OLD)) == [HANGS]


def test_a_denial_of_another_transaction_of_the_same_producer_says_nothing() -> None:
    desk = Desk()
    desk.report(OLD)
    desk.report((7, 50, SUSPECT_AFTER_MS))  # the first has ended, the next one is open for long, too
    desk.deny(SUSPECT)
    assert not any(desk.report((7, 50, SUSPECT_AFTER_MS)) for _ in range(3))
    assert desk.suspects(1001) == (Suspect(7, "orders", 0, 50),)


def test_reports_of_two_leaders_are_not_in_order() -> None:
    desk = Desk()
    desk.report(OLD)
    desk.deny()
    assert desk.report(OLD) == desk.report(OLD, leader_epoch=1) == []
    assert raised(desk.report(OLD, leader_epoch=1)) == [HANGS]


def test_a_producer_that_hangs_in_two_partitions_is_one_fault() -> None:
    desk = Desk()
    other = msgspec.structs.replace(SUSPECT, partition=1)
    for partition, suspect in ((0, SUSPECT), (1, other)):
        desk.report(OLD, partition=partition)
        desk.deny(suspect)
        desk.report(OLD, partition=partition)
    assert raised(desk.report(OLD)) == [HANGS]
    (again,) = desk.report(OLD, partition=1)
    assert isinstance(again, Alarm) and "orders-0 from offset 10, orders-1 from offset 10," in again.detail
    assert raised(desk.report()) == [HANGS], "in other words"
    assert desk.report(partition=1) == [ClearAlarm(key=HANGS)]


def test_a_transaction_that_is_found_after_all_does_not_hang() -> None:
    desk = Desk()
    desk.report(OLD)
    desk.deny()
    desk.report(OLD)
    desk.report(OLD)
    assert desk.tell(1001, SUSPECT, shards=(0, 1), held=(SUSPECT,)) == [ClearAlarm(key=HANGS)]


def test_a_partition_that_is_gone_hangs_no_more() -> None:
    desk = Desk()
    desk.report(OLD)
    desk.deny()
    desk.report(OLD)
    desk.report(OLD)
    desk.image.replay(RemoveTopicRecord(topic_id="id-of-orders", topic="orders", change=CHANGE))
    draft = desk.draft()
    desk.watch.on_tick(draft)
    assert draft.effects == [ClearAlarm(key=HANGS)]


def test_suspects_have_a_bound_and_make_room() -> None:
    desk = Desk(suspects_max=1)
    desk.report(OLD, (8, 20, SUSPECT_AFTER_MS))
    desk.report((9, 0, SUSPECT_AFTER_MS), partition=1)
    assert desk.suspects(1001) == (SUSPECT,)
    desk.report((8, 20, SUSPECT_AFTER_MS))
    assert desk.suspects(1001) == (Suspect(8, "orders", 0, 20),)
