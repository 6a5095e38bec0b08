"""What operators are told of: why nobody leads, and which alarms are up, told and cleared."""

from __future__ import annotations

import msgspec
import pytest

from controller.core.alarms import (
    ALARMS_TOLD_PER_STEP_MAX,
    CERTIFICATE_WARNING_MS,
    AlarmBook,
    alarm_order,
    describe,
    describe_leap,
    explain_replicas,
    replica_alarm,
    way_on,
)
from controller.core.draft import Draft
from controller.core.effects import Alarm, AlarmCode, AlarmKey, ClearAlarm, MoreAlarms, Note
from controller.core.floor import Floors
from controller.core.loss import LogEnds
from controller.core.records import Cause, Change, PartitionRecord, RemoveTopicRecord, TopicRecord
from springtide.contract.partition_state import NO_LEADER, LeaderRecovery, PartitionState
from springtide.contract.session import ClockLeap, ShutdownKind
from tests.kit.controller.core_cluster import Cluster, changed, topic_id

CHANGE = Change(cause=Cause.LEADER_ELECTED, at_ms=0)


class Book:
    """An alarm book beside a cluster's image, to which the test writes what it likes."""

    def __init__(self, *topics: int, alarms_max: int = 100) -> None:
        self.cluster = Cluster()
        for number in topics:
            self.cluster.create((1, 2, 3), (2, 3, 1), number=number)
        self.image = self.cluster.image
        self.alarms = AlarmBook(alarms_max=alarms_max)

    def draft(self, wall_ms: int = 0) -> Draft:
        return Draft(self.image, wall_ms=wall_ms, floors=Floors(LogEnds()))

    def write(self, *states: PartitionState) -> Draft:
        return self.refresh(*(PartitionRecord(state=state, change=CHANGE) for state in states))

    def refresh(self, *records: PartitionRecord | TopicRecord | RemoveTopicRecord) -> Draft:
        draft = self.draft()
        for record in records:
            draft.write(record)
        self.alarms.refresh(draft, draft.records)
        return draft

    def raise_alarm(self, key: AlarmKey, detail: str = "why") -> Draft:
        draft = self.draft()
        self.alarms.raise_alarm(draft, key, detail)
        return draft

    @property
    def up(self) -> list[AlarmKey]:
        return [alarm.key for alarm in self.alarms.alarms(self.image)]


def without_leader(state: PartitionState, **fields: object) -> PartitionState:
    return changed(state, leader=NO_LEADER, isr=(), elr=(), **fields)


def partition_alarm(code: AlarmCode, topic: int = 0, partition: int = 0) -> AlarmKey:
    return AlarmKey(code=code, topic_id=topic_id(topic), partition=partition)


UNPROVEN = AlarmKey(code=AlarmCode.LOGS_UNPROVEN, broker_id=1)
LEADERLESS = AlarmCode.PARTITION_LEADERLESS

# --- words ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seats", "broker", "standing", "detail"),
    [
        ({"isr": (1,)}, {"fenced": True}, "in_sync", "is down: it leads as soon as it is back with its"),
        ({"elr": (1,)}, {"fenced": True}, "eligible", "is down: it leads as soon as it is back with its"),
        ({"elr": (1,)}, {"shutting_down": True}, "eligible", "is shutting down: it leads again once"),
        ({"elr": (1,)}, {}, "eligible", "is live: it leads once it has reported its log"),
        ({"elr": (1,)}, None, "eligible", "holds every acknowledged record but is not registered"),
        ({"last_known_elr": (1,)}, None, "excluded", "could not prove that its log is whole"),
        (
            {"last_known_elr": (1,)},
            {"last_shutdown": ShutdownKind.MACHINE_CRASH},
            "excluded",
            "could not prove that its log is whole (last stop: machine_crash)",
        ),
        ({"adding_replicas": (1,)}, {}, "learner", "was not in sync yet: it may lack acknowledged records"),
        ({}, {}, "behind", "was not in sync when the last leader left"),
        ({}, None, "behind", "was not in sync when the last leader left"),
    ],
)
def test_why_a_replica_does_not_lead(
    seats: dict[str, object], broker: dict[str, object] | None, standing: str, detail: str
) -> None:
    book = Book(0)
    state = changed(without_leader(book.cluster.partition()), **seats)
    if broker is None:
        del book.image.brokers[1]
    else:
        book.image.brokers[1] = msgspec.structs.replace(book.image.brokers[1], **broker)
    verdict = explain_replicas(book.image, state)[0]
    assert (verdict.standing, verdict.could_lead) == (standing, bool({"isr", "elr"} & set(seats)))
    assert detail in verdict.detail
    assert verdict.detail.endswith(detail) or not detail.endswith((")", "whole", "registered"))
    assert verdict.broker_status == ("unknown" if broker is None else book.image.brokers[1].status)
    assert explain_replicas(book.image, changed(state, leader=2)) == ()


@pytest.mark.parametrize("seat", [{"leader": 2}, {"isr": (2,)}, {"elr": (2,)}])
def test_an_unclean_election_is_pointed_at_only_where_nobody_has_a_seat(seat: dict[str, object]) -> None:
    state = without_leader(Book(0).cluster.partition())
    assert "--election-type unclean" in (way_on(state) or "")
    assert way_on(changed(state, **seat)) is None


def test_what_follows_from_a_failed_directory_is_counted_in_its_alarm() -> None:
    book = Book()
    offline, of_another = (AlarmKey(code=AlarmCode.LOG_DIRS_OFFLINE, broker_id=number) for number in (1, 2))
    fenced = AlarmKey(code=AlarmCode.BROKER_FENCED, broker_id=1)
    errors = [replica_alarm(AlarmCode.STORAGE_ERROR, (topic_id(), number), 1) for number in range(3)]
    other = replica_alarm(AlarmCode.STORAGE_ERROR, (topic_id(), 0), 2)
    for key in (*errors, other, fenced):
        book.raise_alarm(key)
    assert len(book.alarms.alarms(book.image)) == 5
    book.raise_alarm(offline)
    listed = {alarm.key: alarm.follows for alarm in book.alarms.alarms(book.image)}
    assert listed == {offline: {AlarmCode.STORAGE_ERROR: 3, AlarmCode.BROKER_FENCED: 1}, other: {}}
    counts = book.alarms.counts()
    assert {code: count for code, count in counts.items() if count} == {
        AlarmCode.LOG_DIRS_OFFLINE: 1,
        AlarmCode.STORAGE_ERROR: 1,
    }
    book.raise_alarm(of_another)
    assert {alarm.key for alarm in book.alarms.alarms(book.image)} == {offline, of_another}
    book.alarms.clear_alarm(book.draft(0), offline)
    assert len(book.alarms.alarms(book.image)) == 5, "they are still true"


def fault(code: AlarmCode, broker_id: int) -> AlarmKey:
    return AlarmKey(code=code, broker_id=broker_id)


def with_partition(book: Book, **changes: object) -> None:
    """The first partition's state changes, of three replicas."""
    state = changed(book.cluster.partition(), **changes)
    book.write(state)


@pytest.mark.parametrize(
    "code",
    [
        AlarmCode.LOG_DIRS_OFFLINE,
        AlarmCode.BROKER_FENCED,
        AlarmCode.BROKER_STOPPED,
        AlarmCode.DISK_BELOW_RESERVE,
    ],
)
def test_a_partition_below_its_minimum_follows_from_the_faults_of_its_missing_replicas(
    code: AlarmCode,
) -> None:
    book = Book(0)
    with_partition(book, isr=(1,), leader=1)
    below = AlarmCode.PARTITION_BELOW_MIN_ISR
    book.raise_alarm(fault(code, 3))
    assert [alarm.key.code for alarm in book.alarms.alarms(book.image)] == [below, code], "2 lags by itself"
    book.raise_alarm(fault(code, 2))
    first, second = book.alarms.alarms(book.image)
    assert (first.key, first.follows) == (fault(code, 2), {below: 1})
    assert (second.key, second.follows) == (fault(code, 3), {})
    assert book.alarms.counts()[below] == 1, "rules of Prometheus still see it"


def test_a_partition_without_a_leader_follows_only_where_it_comes_back_by_itself() -> None:
    book = Book(0)
    stopped = fault(AlarmCode.BROKER_STOPPED, 1)
    for number in (1, 2, 3):
        book.raise_alarm(fault(AlarmCode.BROKER_STOPPED, number))
    with_partition(book, leader=NO_LEADER, isr=(), elr=(1,))
    alarms = book.alarms.alarms(book.image)
    assert alarms[0].key == stopped, "as severe as what follows from it"
    assert alarms[0].follows == {LEADERLESS: 1, AlarmCode.PARTITION_BELOW_MIN_ISR: 1}
    with_partition(book, leader=NO_LEADER, isr=(), elr=())
    assert book.alarms.alarms(book.image)[0].key == partition_alarm(LEADERLESS)


def test_a_full_disk_whose_directory_has_failed_is_one_alarm() -> None:
    book = Book(0)
    offline = fault(AlarmCode.LOG_DIRS_OFFLINE, 1)
    for code in (AlarmCode.DISK_BELOW_RESERVE, AlarmCode.DISK_FULL, AlarmCode.BROKER_FENCED):
        book.raise_alarm(fault(code, 1))
    book.raise_alarm(fault(AlarmCode.DISK_FULL, 2))
    book.raise_alarm(offline)
    listed = [alarm.key for alarm in book.alarms.alarms(book.image)]
    assert listed == [offline, fault(AlarmCode.DISK_FULL, 2)]


def test_the_first_of_each_code_are_described_and_no_others() -> None:
    book = Book(0, 1)
    book.write(*(without_leader(book.cluster.partition(number)) for number in (0, 1)))
    offline = AlarmKey(code=AlarmCode.LOG_DIRS_OFFLINE, broker_id=1)
    fenced = [AlarmKey(code=AlarmCode.BROKER_FENCED, broker_id=number) for number in (1, 2, 3, 4)]
    for key in (*fenced, offline):
        book.raise_alarm(key)
    first = [alarm.key for alarm in book.alarms.first_alarms(book.image, 2)]
    whole = book.up
    assert set(first) < set(whole)
    assert [key for key in first if key.code is AlarmCode.BROKER_FENCED] == fenced[1:3], "of 1 another tells"
    assert offline in first
    assert sum(key.code is LEADERLESS for key in first) == 2
    (one,) = [alarm for alarm in book.alarms.first_alarms(book.image, 1) if alarm.key.code is LEADERLESS]
    assert " has no leader" in one.detail


def test_what_partition_alarms_say() -> None:
    book = Book(0)
    state = without_leader(book.cluster.partition(), last_known_leader=NO_LEADER)
    assert "(last leader: none)" in describe(LEADERLESS, book.image, state)
    assert "(last leader: 0)" in describe(LEADERLESS, book.image, changed(state, last_known_leader=0))
    below = describe(AlarmCode.PARTITION_BELOW_MIN_ISR, book.image, changed(state, isr=(1,)))
    assert "orders-0-0 has 1 in sync of 3, needs" in below
    recovering = describe(AlarmCode.PARTITION_RECOVERING, book.image, changed(state, leader=2))
    assert recovering == "orders-0-0: broker 2 was elected uncleanly and has not confirmed its log yet"


@pytest.mark.parametrize(
    ("ms", "words"),
    [
        (29_999, "level with ZooKeeper's"),
        (30_000, "0 d 0 h 1 min ahead of ZooKeeper's"),
        (-30_000, "0 d 0 h 1 min behind ZooKeeper's"),
        (-29_999, "level with ZooKeeper's"),
        (24 * 3_600_000, "1 d 0 h 0 min ahead of ZooKeeper's"),
        (90_060_000, "1 d 1 h 1 min ahead of ZooKeeper's"),
    ],
)
def test_a_leap_is_told_in_whole_minutes(ms: int, words: str) -> None:
    assert f"is {words}: one" in describe_leap(None, ClockLeap(ahead_of_controller_ms=ms))


@pytest.mark.parametrize(("ends_ms", "is_up"), [(-1, False), (0, True), (1, True), (99, True), (100, False)])
def test_a_certificate_that_ends_within_two_weeks_is_an_alarm(ends_ms: int, is_up: bool) -> None:
    now, book = 1_000_000_000_000, Book()
    ends_ms += now + CERTIFICATE_WARNING_MS - 99 if ends_ms > 0 else 0
    book.alarms.on_certificate(book.draft(now), "broker 1", 1, ends_ms)
    key = AlarmKey(code=AlarmCode.CERTIFICATE_EXPIRES, broker_id=1)
    if ends_ms == 0:
        key = AlarmKey(code=AlarmCode.CERTIFICATE_EXPIRED, broker_id=1)
    assert book.up == ([key] if is_up else [])


def test_the_end_of_a_certificate_is_told_to_the_second() -> None:
    book, draft = Book(), Book().draft()
    book.alarms.on_certificate(draft, "broker 1", 1, 86_399_000)
    (alarm,) = draft.effects
    assert isinstance(alarm, Alarm)
    assert alarm.detail.startswith("a certificate of broker 1 ends at 1970-01-01T23:59:59Z, and new")


# --- which are up ---------------------------------------------------------------------------------


def test_alarms_are_bounded_and_one_that_is_up_may_still_change_its_words() -> None:
    book = Book(alarms_max=2)
    one, two, three = (AlarmKey(code=AlarmCode.BROKER_FENCED, broker_id=number) for number in (1, 2, 3))
    for key in (one, two):
        assert book.raise_alarm(key).effects == [Alarm(key=key, detail="why")]
    (dropped,) = book.raise_alarm(three).effects
    assert isinstance(dropped, Note)
    assert (dropped.code, dropped.detail) == ("alarms_dropped", "more than 2 alarms: why")
    assert book.raise_alarm(one).effects == []
    assert book.raise_alarm(one, "other").effects == [Alarm(key=one, detail="other")]
    assert book.up == [one, two]


def test_most_severe_first_then_topics_or_groups_partitions_brokers() -> None:
    keys = [
        AlarmKey(code=AlarmCode.PARTITION_LEADERLESS, topic_id="b", partition=0),
        AlarmKey(code=AlarmCode.LOG_MISSING, broker_id=0),
        AlarmKey(code=AlarmCode.LOG_MISSING, topic_id="a"),
        AlarmKey(code=AlarmCode.LOG_MISSING, topic_id="a", broker_id=0),
        AlarmKey(code=AlarmCode.LOG_MISSING, topic_id="a", partition=0),
        AlarmKey(code=AlarmCode.LOG_MISSING, topic_id="a", partition=0, broker_id=0),
        AlarmKey(code=AlarmCode.LOG_MISSING, topic_id="a", partition=0, broker_id=1),
        AlarmKey(code=AlarmCode.LOG_MISSING, topic_id="a", partition=1, broker_id=0),
        AlarmKey(code=AlarmCode.LOG_MISSING, topic_id="b", partition=0, broker_id=0),
    ]
    orders = [alarm_order(Alarm(key=key, detail="")) for key in keys]
    assert orders == sorted(orders)
    assert len(set(orders)) == len(orders)
    assert all(min(partition, broker) >= 0 for _, _, partition, broker in orders)
    code = AlarmCode.CLOCK_LEAP
    groups = {
        alarm_order(Alarm(key=AlarmKey(code=code, group_id=g), detail="")) for g in ("g", "h", "g" * 999)
    }
    assert len(groups) == 3
    assert max(len(name) for _, name, _, _ in groups) == 32


def test_a_broker_that_is_removed_takes_its_alarms_along() -> None:
    book = Book(0)
    other = AlarmKey(code=AlarmCode.BROKER_FENCED, broker_id=2)
    book.raise_alarm(other)
    book.raise_alarm(AlarmKey(code=AlarmCode.BROKER_FENCED, broker_id=1))
    book.alarms.raise_unproven(book.draft(), 1, [(topic_id(), 1)], "lost its seats")
    book.alarms.clear_broker(book.draft(), 1)
    assert book.up == [other]
    # What its id lost before does not keep up an alarm of its next life.
    book.alarms.raise_unproven(book.draft(), 1, [(topic_id(), 0)], "lost its seats")
    assert book.up == [other, UNPROVEN]
    book.write(book.cluster.partition())
    assert book.up == [other]


def test_a_broker_is_unproven_until_it_is_in_sync_or_gone_from_each_partition() -> None:
    book = Book(0)
    keys = [(topic_id(), 0), (topic_id(), 1)]
    first, second = (book.cluster.partition(number) for number in (0, 1))
    book.alarms.raise_unproven(book.draft(), 1, keys, "lost its seats")
    book.write(changed(first, isr=(2, 3), leader=2))
    book.write(second)
    assert UNPROVEN in book.up
    draft = book.write(changed(first, replicas=(2, 3), isr=(2, 3), leader=2))
    assert ClearAlarm(key=UNPROVEN) in draft.effects
    assert book.up == []


@pytest.mark.parametrize("is_removed", [False, True])
def test_a_topic_takes_its_alarms_along(is_removed: bool) -> None:
    book = Book(0, 1, 2)
    kept = [partition_alarm(LEADERLESS, number) for number in (0, 2)]
    book.write(*(without_leader(book.cluster.partition(number=n), min_insync_replicas=0) for n in (0, 1, 2)))
    for number in (0, 1, 2):
        key = replica_alarm(AlarmCode.LOG_MISSING, (topic_id(number), 1), 1)
        book.raise_alarm(key)
        if number != 1:
            kept.append(key)
    for number in (0, 1, 2):
        book.alarms.raise_unproven(
            book.draft(), number, [(topic_id(number), 0), (topic_id(number), 1)], "lost"
        )
        if number != 1:
            kept.append(AlarmKey(code=AlarmCode.LOGS_UNPROVEN, broker_id=number))
    topic = book.image.topics[topic_id(1)]
    gone = TopicRecord(state=msgspec.structs.replace(topic, deleting=True), change=CHANGE)
    if is_removed:
        book.refresh(gone)
        book.raise_alarm(AlarmKey(code=AlarmCode.THROTTLED_BELOW_PRODUCE_RATE, topic_id=topic_id(1)))
        book.refresh(RemoveTopicRecord(topic_id=topic_id(1), topic="orders-1", change=CHANGE))
    else:
        book.refresh(gone)
    assert book.up == kept


def test_the_alarm_of_a_replica_ends_when_it_is_in_sync_or_moved_away_but_not_a_leaders_rot() -> None:
    book, key = Book(0), (topic_id(), 0)
    state = book.cluster.partition()
    rotten = replica_alarm(AlarmCode.REPLICA_ROTTEN, key, 1)
    for alarm in (rotten, *(replica_alarm(AlarmCode.LOG_SHORT, key, b) for b in (1, 2, 3))):
        book.raise_alarm(alarm)
    book.write(changed(state, isr=(1, 2)))
    assert book.up == [replica_alarm(AlarmCode.LOG_SHORT, key, 3), rotten]
    book.write(changed(state, replicas=(1, 2), isr=(1, 2)))
    assert book.up == [rotten]
    book.raise_alarm(replica_alarm(AlarmCode.REPLICA_ROTTEN, key, 2))
    book.write(changed(state, leader=1, isr=(1, 2)))
    assert book.up == [rotten]
    book.write(changed(state, leader=2))
    assert book.up == []


def test_rot_that_an_earlier_process_told_of_is_cleared_for_its_broker_only() -> None:
    book, key = Book(0), (topic_id(), 0)
    rotten = [replica_alarm(AlarmCode.REPLICA_ROTTEN, key, b) for b in (1, 2, 3)]
    for alarm in (short := replica_alarm(AlarmCode.LOG_SHORT, key, 2), *rotten):
        book.raise_alarm(alarm)
    book.alarms.clear_rot(book.draft(), 2)
    assert book.up == [short, rotten[0], rotten[2]]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"leader": NO_LEADER, "isr": (1,), "min_insync_replicas": 1}, LEADERLESS),
        ({"isr": (1,), "min_insync_replicas": 2}, AlarmCode.PARTITION_BELOW_MIN_ISR),
        ({"recovery": LeaderRecovery.RECOVERING}, AlarmCode.PARTITION_RECOVERING),
    ],
)
def test_a_condition_of_a_partition_is_told_and_cleared(fields: dict[str, object], code: AlarmCode) -> None:
    book = Book(0)
    state = book.cluster.partition()
    (alarm,) = book.write(changed(state, **fields)).effects
    assert isinstance(alarm, Alarm) and alarm.key == partition_alarm(code)
    assert book.write(state).effects == [ClearAlarm(key=partition_alarm(code))]


def test_of_many_alarms_of_a_step_the_first_are_told_and_the_others_counted() -> None:
    many = 2 * ALARMS_TOLD_PER_STEP_MAX + 1
    book = Book(*range(many))
    states = [book.cluster.partition(number=number) for number in range(many)]
    left = [without_leader(state, min_insync_replicas=0) for state in states]
    most = ALARMS_TOLD_PER_STEP_MAX
    assert not [e for e in book.write(*left[:most]).effects if isinstance(e, MoreAlarms)]
    effects = book.write(*states[:most], *left[most:]).effects
    assert len([e for e in effects if isinstance(e, ClearAlarm)]) == most
    assert len([e for e in effects if isinstance(e, Alarm)]) == most
    assert effects[-1] == MoreAlarms(code=LEADERLESS, is_cleared=False, count=1)
    assert book.write(*states).effects[-1] == MoreAlarms(code=LEADERLESS, is_cleared=True, count=1)
    # A new controller tells them again.
    book.write(*left)
    draft = book.draft()
    AlarmBook(alarms_max=1).refresh_all(draft)
    assert draft.effects[-1] == MoreAlarms(code=LEADERLESS, is_cleared=False, count=many - most)


@pytest.mark.parametrize(
    ("topic", "partition", "key"), [("t", 0, ("t", 0)), ("t", None, None), (None, 0, None)]
)
def test_an_alarm_is_of_a_partition_where_it_names_a_topic_and_a_number(
    topic: str | None, partition: int | None, key: tuple[str, int] | None
) -> None:
    alarm = AlarmKey(code=AlarmCode.LOG_SHORT, topic_id=topic, partition=partition)
    assert alarm.partition_key == key
