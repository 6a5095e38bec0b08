"""Rows rebuilt from what brokers hold: who leads is who provably holds everything (11.4, recovery)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from controller.core.draft import Draft
from controller.core.events import (
    ConfigureTopic,
    MetadataRecovered,
    RecoverMetadata,
    Refusal,
    RefusalCode,
    RegisterMember,
    Report,
)
from controller.core.floor import Floors
from controller.core.loss import LogEnds
from controller.core.records import LevelRecord, RemoveTopicRecord
from controller.core.recovery import (
    EPOCH_MARGIN,
    HOLDINGS_MS_MAX,
    PARTITION_EPOCH_FLOOR_MAX,
    HeardBook,
    partition_epoch_floor,
    recover,
    topic_by_logs,
)
from springtide.contract.epochs import BrokerEpoch, ControllerEpoch, LeaderEpoch
from springtide.contract.holdings import HeldLog, Holdings, SetAsideLog
from springtide.contract.lag_report import LagReport
from springtide.contract.partition_state import NO_LEADER, PartitionState, TopicState
from springtide.contract.session import ShutdownKind, Witness
from springtide.levels import Level
from tests.kit.controller.core_cluster import CLUSTER_ID, Cluster, topic_id

KEY = (topic_id(), 0)
DRY_RUN = RecoverMetadata(wall_ms=0, actor="ann", dry_run=True)
#: As witnesses have heard.
RECORDS = 500
MINTED = RECORDS + EPOCH_MARGIN + 1


class LostHistory:
    """A cluster that knows `create((1, 2, 3))`; what came after it is told by brokers alone. held: the state
    that each broker holds. ends: (leader epoch, log end) of each broker's log; None: it has none."""

    def __init__(
        self,
        *,
        held: dict[int, PartitionState],
        ends: Mapping[int, tuple[int, int] | None],
        lost: tuple[int, ...] = (),
    ) -> None:
        self.cluster = Cluster()
        self.cluster.create((1, 2, 3))
        for broker_id, end in ends.items():
            self.tell(broker_id, held.get(broker_id), end, is_intact=broker_id not in lost)

    def tell(
        self,
        broker_id: int,
        state: PartitionState | None,
        end: tuple[int, int] | None,
        *,
        is_intact: bool = True,
        last_shutdown: ShutdownKind | None = None,
        dirs: tuple[str, ...] | None = None,
        broker_epoch: int = 60,
        set_aside: tuple[SetAsideLog, ...] = (),
        topics: tuple[TopicState, ...] | None = None,
        witness_epoch: int = 9,
        **fields: object,
    ) -> None:
        """fields: of the holdings, besides."""
        witness = Witness(
            cluster_id=CLUSTER_ID,
            controller_epoch=ControllerEpoch(witness_epoch),
            lineage="lost",
            records=RECORDS,
        )
        known = self.cluster.image.brokers.get(broker_id)
        worker_of = None if known is None else known.worker_of
        identity = msgspec.structs.replace(
            self.cluster.request(broker_id, dirs=dirs, worker_of=worker_of),
            cluster_id=CLUSTER_ID,
            witness=witness,
            previous_broker_epoch=broker_epoch,
            last_shutdown=last_shutdown
            or (ShutdownKind.PROCESS_CRASH if is_intact else ShutdownKind.MACHINE_CRASH),
        )
        holdings = Holdings(
            identity=identity,
            has_view=state is not None,
            broker_ids=(1, 2, 3),
            broker_epoch_max=BrokerEpoch(70),
            topics=topics if topics is not None else () if state is None else (self.topic(KEY[0], "t0"),),
            states=() if state is None else (state,),
            logs=()
            if end is None
            else (
                HeldLog(
                    topic_id=KEY[0],
                    topic="t0",
                    partition=0,
                    leader_epoch=LeaderEpoch(end[0]),
                    log_end_offset=end[1],
                ),
            ),
            set_aside=set_aside,
        )
        holdings = msgspec.structs.replace(holdings, **fields)
        report = LagReport(
            broker_id=broker_id, broker_epoch=BrokerEpoch(60), witness=witness, holdings=holdings
        )
        self.cluster.step(Report(wall_ms=0, request=report))

    def topic(self, of: str, name: str) -> TopicState:
        return TopicState(topic_id=of, topic=name, partitions=1, replication_factor=3)

    def recover(self, *gone: int) -> PartitionState:
        event = RecoverMetadata(wall_ms=0, actor="ann", gone_brokers=gone)
        self.cluster.ask(event, MetadataRecovered)
        return self.cluster.partition()


def later(leader: int, leader_epoch: int, partition_epoch: int, *isr: int) -> PartitionState:
    cluster = Cluster()
    cluster.create((1, 2, 3))
    return msgspec.structs.replace(
        cluster.partition(),
        leader=leader,
        leader_epoch=leader_epoch,
        partition_epoch=partition_epoch,
        isr=isr,
        new_replicas=(),
    )


def test_the_leader_of_the_highest_epoch_stays_whatever_the_other_logs_look_like() -> None:
    """What it told of its log is older than what a follower told, or the reverse: it grows meanwhile."""
    state = later(2, 6, 14, 1, 2)
    old = later(1, 5, 12, 1, 2, 3)
    lost = LostHistory(held={1: state, 2: state, 3: old}, ends={1: (6, 80), 2: (6, 70), 3: (6, 90)})
    after = lost.recover()
    assert (after.isr, after.elr, after.leader, after.last_known_leader) == ((2,), (), NO_LEADER, 2)
    assert (after.leader_epoch, after.partition_epoch) == (MINTED, MINTED)


def test_without_that_leader_it_is_the_longest_of_all_logs_by_epoch_and_then_by_end() -> None:
    lost = LostHistory(held={}, ends={1: (5, 200), 2: (6, 90), 3: (6, 80)})
    after = lost.recover()
    assert (after.isr, after.leader_epoch, after.last_known_leader) == ((2,), MINTED, 2)
    assert after.high_watermark_floor == 0


def test_where_a_log_may_have_been_longer_nobody_is_chosen() -> None:
    lost = LostHistory(held={}, ends={1: (5, 200), 2: (6, 90), 3: (6, 80)}, lost=(1,))
    undecided = lost.cluster.ask(DRY_RUN, MetadataRecovered).undecided
    after = lost.recover()
    assert (after.isr, after.elr, after.leader, undecided) == ((), (), NO_LEADER, (KEY,))
    assert after.last_known_leader == 1  # as the rows have it


@pytest.mark.parametrize("dirs", [("another",), ("another", "dir-2")])
def test_a_replica_on_another_disk_than_the_rows_know_may_have_had_more(dirs: tuple[str, ...]) -> None:
    """It says that only its process crashed, and means the disk that it has now."""
    lost = LostHistory(held={}, ends={1: (5, 200), 3: (5, 200)})
    lost.tell(2, None, (5, 10), dirs=dirs)
    assert lost.recover().isr == ()


def test_a_replica_without_a_row_is_believed_that_only_its_process_crashed() -> None:
    lost = LostHistory(held={}, ends={1: (5, 200), 2: (5, 210), 3: (5, 200)})
    del lost.cluster.image.brokers[2]
    assert lost.recover().isr == (2,)


def test_a_process_that_began_on_an_empty_disk_is_believed_where_it_is_in_sync_by_its_own_latest_state() -> (
    None
):
    """Not so the word of the rows, or of an older state, which it had a seat in."""
    began: dict[str, Any] = {"last_shutdown": ShutdownKind.FIRST_START, "dirs": ("another",)}
    latest = later(9, 6, 14, 1, 2, 3)
    lost = LostHistory(held={1: latest, 3: latest}, ends={1: (6, 80), 3: (6, 80)})
    lost.tell(2, latest, (6, 90), **began)
    assert lost.recover().isr == (2,)
    lost = LostHistory(held={1: latest, 3: latest}, ends={1: (6, 80), 3: (6, 80)})
    lost.tell(2, later(9, 6, 13, 1, 2, 3), (6, 90), broker_epoch=71, **began)
    assert lost.recover().isr == ()


def test_a_seat_of_the_latest_state_is_proof_if_no_other_replica_can_have_led_since() -> None:
    """The disk of 2 was replaced before the state without a leader, which 2 was told."""
    state = msgspec.structs.replace(later(NO_LEADER, 6, 14), elr=(1,), last_known_leader=2)
    lost = LostHistory(held={}, ends={1: (5, 80), 3: (5, 90)})
    lost.tell(2, state, None, last_shutdown=ShutdownKind.FIRST_START, dirs=("another",))
    assert lost.recover().isr == (1,)


def test_a_seat_proves_nothing_if_another_replica_registered_and_lost_something_since() -> None:
    state = msgspec.structs.replace(later(NO_LEADER, 6, 14), elr=(1,), last_known_leader=2)
    for changed in ({"broker_epoch": 71}, {"is_intact": False}):
        lost = LostHistory(held={}, ends={1: (5, 80)})
        lost.tell(2, state, None, last_shutdown=ShutdownKind.FIRST_START, dirs=("another",))
        lost.tell(3, None, (5, 90), **changed)
        assert lost.recover().isr == ()


@pytest.mark.parametrize("other", ["a-topic-id", topic_id(9)])
def test_of_two_topics_of_one_name_the_one_that_brokers_were_told_of_last_stays(other: str) -> None:
    """A topic was deleted and made anew after the backup: logs of the first are set aside, not deleted."""
    lost = LostHistory(held={}, ends={})
    older = HeldLog(
        topic_id="older", topic="orders-0", partition=0, leader_epoch=LeaderEpoch(6), log_end_offset=80
    )
    lost.tell(3, None, None, logs=(older,))
    state = msgspec.structs.replace(later(1, 6, 14, 1, 2), topic_id=other)
    ends = msgspec.structs.replace(lost.topic("ends", "ends"), deleting=True)
    for broker_id in (1, 2):
        lost.tell(broker_id, state, None, topics=(lost.topic(other, "orders-0"), ends))
    lost.cluster.ask(RecoverMetadata(wall_ms=0, actor="ann"), MetadataRecovered)
    assert list(lost.cluster.image.topics) == [other]
    assert KEY not in lost.cluster.image.partitions
    assert not lost.cluster.image.deletions


def test_partitions_that_were_added_after_the_restore_stay() -> None:
    lost = LostHistory(held={}, ends={2: None, 3: None})
    known = lost.cluster.image.topics[KEY[0]]
    lost.tell(1, later(1, 6, 14, 1), None, topics=(msgspec.structs.replace(known, partitions=0),))
    lost.recover()
    assert lost.cluster.image.topics[KEY[0]].partitions == 1


def test_a_leader_that_told_and_was_given_up_is_not_put_in_sync() -> None:
    state = later(2, 6, 14, 1, 2)
    lost = LostHistory(held={1: state, 2: state}, ends={1: (6, 80), 2: (6, 90), 3: None})
    assert lost.recover(2).isr == ()


def aside(broker_id: int, *, end: int, is_whole: bool = True, partition: int = 0) -> SetAsideLog:
    return SetAsideLog(
        directory=f"t0-{partition}.{broker_id}",
        topic_id=KEY[0],
        topic="t0",
        partition=partition,
        why="no state names it",
        leader_epoch=LeaderEpoch(6),
        log_start_offset=0,
        log_end_offset=end,
        is_whole=is_whole,
    )


def test_a_whole_log_that_was_set_aside_counts_if_its_topic_is_known() -> None:
    """Two of three replicas had set their logs aside before there was evidence; one still holds the state."""
    state = later(1, 6, 14, 1, 2, 3)
    for is_whole, isr in ((True, (1,)), (False, ())):
        lost = LostHistory(held={3: state}, ends={3: (6, 80)})
        lost.tell(1, None, None, set_aside=(aside(1, end=90, is_whole=is_whole),))
        lost.tell(2, None, None, set_aside=(aside(2, end=80),))
        assert lost.recover().isr == isr


def test_a_log_that_was_set_aside_does_not_count_beside_a_later_one_of_its_broker_or_if_it_is_damaged() -> (
    None
):
    lost = LostHistory(held={}, ends={2: (6, 85), 3: (6, 70)})
    lost.tell(1, None, (6, 80), set_aside=(aside(1, end=90),))
    assert lost.recover().isr == (2,)
    state = msgspec.structs.replace(later(NO_LEADER, 6, 14), elr=(1, 2))
    lost = LostHistory(held={2: state, 3: state}, ends={2: (6, 80), 3: (6, 70)})
    lost.tell(1, state, None, set_aside=(aside(1, end=90, is_whole=False),))
    assert lost.recover().isr == (2,)


def test_the_state_that_was_noted_beside_a_log_counts_with_it() -> None:
    lost = LostHistory(held={}, ends={})
    noted = msgspec.structs.replace(aside(1, end=80), state=later(NO_LEADER, 6, 14))
    lost.tell(1, None, None, set_aside=(noted,))
    for broker_id in (2, 3):
        lost.tell(broker_id, None, None, set_aside=(aside(broker_id, end=80),))
    assert lost.recover().isr == ()


def test_a_partition_comes_back_of_which_every_log_was_set_aside() -> None:
    """One broker was away when the others set the topic's logs aside, and had no log of this partition."""
    lost = LostHistory(held={}, ends={1: (6, 80)})
    lost.tell(2, None, None, set_aside=(aside(2, end=80), aside(2, end=40, partition=1)))
    lost.tell(3, None, None, set_aside=(aside(3, end=80), aside(3, end=40, partition=1)))
    del lost.cluster.image.topics[KEY[0]], lost.cluster.image.partitions[KEY]
    lost.recover()
    assert lost.cluster.image.topics[KEY[0]].partitions == 2
    assert set(lost.cluster.partition(1).replicas) == {2, 3}


def test_on_the_disk_that_the_rows_know_a_first_start_lost_nothing_since() -> None:
    lost = LostHistory(held={}, ends={1: (5, 200), 3: (5, 200)})
    lost.tell(2, None, (5, 210), last_shutdown=ShutdownKind.FIRST_START)
    assert lost.recover().isr == (2,)


@pytest.mark.parametrize("has_row", [True, False])
def test_who_had_lost_every_seat_before_is_not_whole_because_rows_were_lost(has_row: bool) -> None:
    nobody = later(NO_LEADER, 6, 14)
    lost = LostHistory(held={1: nobody}, ends={1: (6, 80), 2: (6, 70), 3: (6, 70)})
    if not has_row:
        del lost.cluster.image.topics[KEY[0]], lost.cluster.image.partitions[KEY]
    assert lost.recover().isr == ()


@pytest.mark.parametrize("leader", [2, 3])
def test_a_leader_that_still_runs_is_not_believed_if_it_does_not_know_of_its_leadership(leader: int) -> None:
    held = {1: later(2, 6, 14, 1, 2), 2: later(leader, 5, 12, 1, 2, 3)}
    lost = LostHistory(held=held, ends={1: (6, 80), 2: (6, 70), 3: (6, 70)})
    assert lost.recover().isr == (1,)


def test_where_two_histories_were_led_under_one_epoch_nobody_is_chosen() -> None:
    held = {1: later(1, 6, 14, 1, 2), 2: later(1, 6, 14, 1, 2), 3: later(3, 6, 13, 3)}
    lost = LostHistory(held=held, ends={1: (6, 80), 2: (6, 70), 3: (6, 90)})
    assert lost.recover().isr == ()


def test_a_leader_that_still_runs_is_not_believed_when_a_log_was_written_under_a_later_one() -> None:
    """Brokers 2 and 3 were started again: they hold logs, but no state."""
    lost = LostHistory(held={1: later(1, 5, 12, 1, 2, 3)}, ends={1: (5, 200), 2: (6, 90), 3: (6, 80)})
    assert lost.recover().isr == (2,)


def test_a_seat_of_the_latest_state_is_no_proof_when_a_log_was_written_under_a_later_one() -> None:
    state, old = later(3, 6, 14, 1, 3), later(2, 5, 12, 1, 2, 3)
    lost = LostHistory(held={1: state, 2: old, 3: old}, ends={1: (6, 80), 2: (7, 70), 3: (5, 60)})
    assert lost.recover().isr == (2,)


def test_where_nobody_has_a_log_of_a_new_partition_its_first_leader_begins_it() -> None:
    lost = LostHistory(held={}, ends={1: None, 2: None, 3: None})
    first = lost.cluster.partition().leader
    after = lost.recover()
    assert (after.isr, after.new_replicas) == ((first,), (first,))


def test_of_a_partition_whose_replicas_all_are_new_one_may_have_no_log_yet() -> None:
    lost = LostHistory(held={}, ends={1: (0, 5), 2: None, 3: (0, 9)})
    assert lost.recover().isr == (3,)


def test_where_nobody_has_a_log_and_one_may_have_lost_it_nobody_is_chosen() -> None:
    lost = LostHistory(held={}, ends={1: None, 2: None, 3: None}, lost=(2,))
    assert lost.recover().isr == ()
    given_up = LostHistory(held={}, ends={1: None, 2: None, 3: None, 4: None})
    assert given_up.recover(4).isr == ()


def test_a_leader_that_was_still_making_its_log_may_go_on() -> None:
    state = msgspec.structs.replace(later(2, 6, 14, 2, 3), new_replicas=(2, 3))
    lost = LostHistory(held={2: state}, ends={1: None, 2: None, 3: None})
    after = lost.recover()
    assert (after.isr, after.new_replicas) == ((2,), (2,))


def test_one_that_has_made_its_log_is_new_no_more() -> None:
    state = msgspec.structs.replace(later(2, 6, 14, 2, 3), new_replicas=(2, 3))
    lost = LostHistory(held={2: state}, ends={1: None, 2: (6, 80), 3: None})
    after = lost.recover()
    assert (after.isr, after.new_replicas) == ((2,), ())


def test_who_dies_before_it_hears_of_its_new_epoch_is_still_the_one_that_holds_everything() -> None:
    state = later(2, 6, 14, 1, 2)
    lost = LostHistory(held={2: state}, ends={1: (6, 80), 2: (6, 80), 3: (6, 80)})
    lost.recover()
    cluster = lost.cluster
    cluster.fail_over()
    cluster.register(2, "b", last_shutdown=ShutdownKind.PROCESS_CRASH, previous_broker_epoch=60)
    after = cluster.partition()
    assert 2 in (*after.isr, *after.elr)
    assert cluster.broker(2).epoch_before_recovery == -1


def test_an_older_copy_of_its_disk_is_not() -> None:
    state = later(2, 6, 14, 1, 2)
    lost = LostHistory(held={2: state}, ends={1: (6, 80), 2: (6, 80), 3: (6, 80)})
    lost.recover()
    cluster = lost.cluster
    cluster.fail_over()
    cluster.register(2, "b", last_shutdown=ShutdownKind.PROCESS_CRASH, previous_broker_epoch=59)
    after = cluster.partition()
    assert (after.isr, after.elr) == ((), ())


def test_a_deletion_that_the_rows_know_of_stands_against_an_older_view() -> None:
    state = later(2, 6, 14, 1, 2)
    lost = LostHistory(held={}, ends={})
    lost.cluster.delete()
    for broker_id in (1, 2, 3):
        lost.tell(broker_id, state if broker_id == 2 else None, (6, 80))
    planned = lost.cluster.ask(RecoverMetadata(wall_ms=0, actor="ann"), MetadataRecovered)
    assert (planned.partitions, planned.topics_brought_back) == (0, ())
    assert KEY[0] in lost.cluster.image.deletions


def kept_by_the_rows() -> LostHistory:
    """The rows have a topic as deleted and kept."""
    lost = LostHistory(held={}, ends={})
    lost.cluster.finalize()
    configs: dict[str, str | None] = {"deleted.topic.retention.ms": "5000"}
    lost.cluster.step(ConfigureTopic(wall_ms=0, actor="ann", topic="orders-0", configs=configs))
    lost.cluster.delete()
    assert lost.cluster.image.kept
    return lost


def test_a_topic_that_the_rows_have_as_kept_lives_if_a_newer_view_has_it() -> None:
    lost = kept_by_the_rows()
    state = later(2, 6, 14, 1, 2)
    for broker_id in (1, 2, 3):
        lost.tell(broker_id, state if broker_id == 2 else None, (6, 80))
    after = lost.recover()
    assert after.isr == (2,) and after.leader_epoch > 6, "it was restored after the rows were written"
    assert KEY[0] not in lost.cluster.image.deletions and not lost.cluster.image.kept
    assert not lost.cluster.image.topics[KEY[0]].kept


def test_a_topic_that_the_rows_have_as_kept_and_no_view_stays_so_without_seats() -> None:
    lost = kept_by_the_rows()
    for broker_id in (1, 2, 3):
        lost.tell(broker_id, None, (6, 80))
    after = lost.recover()
    assert (after.isr, after.elr, after.leader) == ((), (), NO_LEADER) and after.leader_epoch > 6
    assert list(lost.cluster.image.kept) == [KEY[0]]


def test_a_silent_broker_is_waited_for_or_given_up() -> None:
    state = later(2, 6, 14, 1, 2)
    lost = LostHistory(held={2: state}, ends={1: (6, 80), 2: (6, 80)})
    refused = lost.cluster.ask(RecoverMetadata(wall_ms=0, actor="ann"), Refusal)
    assert (refused.code, refused.facts) == (RefusalCode.RECOVERY_INCOMPLETE, {"silent_brokers": 1})
    assert lost.cluster.last.records == ()
    assert lost.recover(3).isr == (2,)


def test_a_topic_of_the_lost_history_comes_back_by_its_logs_and_every_epoch_is_above_what_was_heard() -> None:
    lost = LostHistory(held={}, ends={1: (6, 80), 2: (6, 80), 3: (6, 80)})
    cluster = lost.cluster
    del cluster.image.topics[KEY[0]], cluster.image.partitions[KEY]
    planned = cluster.ask(DRY_RUN, MetadataRecovered)
    assert (planned.topics_brought_back, planned.undecided, cluster.last.records) == (("t0",), (), ())
    assert (planned.controller_epoch_min, planned.records_min) == (9 + 1_000, 500 + 1_000_000)
    after = lost.recover()
    assert (after.replicas, after.isr, after.min_insync_replicas) == ((1, 2, 3), (1,), 2)
    assert [cluster.broker(b).broker_epoch for b in (1, 2, 3)] == [1_071, 1_072, 1_073]
    assert all(cluster.broker(b).admitted and cluster.broker(b).fenced for b in (1, 2, 3))
    assert cluster.image.last_broker_epoch == 1_073


def test_a_leader_that_was_told_begins_a_new_partition_and_else_the_first_replica() -> None:
    for leader, begins in ((2, 2), (NO_LEADER, 1)):
        state = msgspec.structs.replace(later(leader, 6, 14, 1, 2, 3), new_replicas=(1, 2, 3))
        lost = LostHistory(held={3: state}, ends={1: None, 2: None, 3: None})
        assert lost.recover().isr == (begins,)


def test_a_replica_that_has_not_all_of_its_disks_may_have_had_more() -> None:
    lost = LostHistory(held={}, ends={1: (5, 200), 3: (5, 200)})
    brokers = lost.cluster.image.brokers
    brokers[2] = msgspec.structs.replace(brokers[2], log_dir_ids=("dir-2", "and-another"))
    lost.tell(2, None, (5, 10), dirs=("dir-2",))
    assert lost.recover().isr == ()


def test_what_was_led_later_counts_though_nobody_had_a_seat_by_the_latest_state() -> None:
    nobody = later(NO_LEADER, 6, 14)
    lost = LostHistory(held={1: nobody}, ends={1: (6, 80), 2: (7, 70), 3: (6, 70)})
    assert lost.recover().isr == (2,)


def test_rows_in_which_nobody_had_a_seat_are_believed_where_no_broker_holds_a_state() -> None:
    lost = LostHistory(held={}, ends={1: (0, 80), 2: (0, 70), 3: (0, 70)})
    row = lost.cluster.image.partitions[KEY]
    lost.cluster.image.partitions[KEY] = msgspec.structs.replace(row, leader=NO_LEADER, isr=(), elr=())
    assert lost.recover().isr == ()


def test_a_broker_that_only_a_state_names_is_waited_for() -> None:
    state = msgspec.structs.replace(later(2, 6, 14, 1, 2), replicas=(1, 2, 3, 4))
    lost = LostHistory(held={2: state}, ends={1: (6, 80), 2: (6, 80), 3: (6, 80)})
    refused = lost.cluster.ask(RecoverMetadata(wall_ms=0, actor="ann"), Refusal)
    assert refused.detail.endswith("[4]")


def test_no_record_on_the_way_removes_a_topic_that_stays() -> None:
    """A controller that dies in between would have told the brokers to delete it."""
    state = later(2, 6, 14, 1, 2)
    lost = LostHistory(held={2: state}, ends={1: (6, 80), 2: (6, 80), 3: (6, 80)})
    lost.recover()
    assert not [record for record in lost.cluster.last.records if isinstance(record, RemoveTopicRecord)]


def test_a_broker_registers_anew_whatever_its_row_says_of_it_or_without_one() -> None:
    state = later(2, 6, 14, 1, 2)
    lost = LostHistory(held={2: state}, ends={1: (6, 80), 2: (6, 80), 3: (6, 80), 4: None})
    brokers = lost.cluster.image.brokers
    brokers[1] = msgspec.structs.replace(brokers[1], shutting_down=True, rack="r")
    lost.recover()
    assert (lost.cluster.broker(1).shutting_down, lost.cluster.broker(1).rack) == (False, "r")
    new = lost.cluster.broker(4)
    assert (new.host, new.log_dir_ids, new.fenced, new.admitted) == ("store4", ("dir-4",), True, True)


def test_who_was_told_of_the_state_of_all_since_it_lost_something_can_not_have_led_since() -> None:
    state = msgspec.structs.replace(later(NO_LEADER, 6, 14), elr=(1,), last_known_leader=2)
    lost = LostHistory(
        held={1: state, 2: later(1, 5, 12, 1, 2, 3)}, ends={1: (6, 80), 2: (5, 70), 3: (5, 60)}, lost=(2,)
    )
    assert lost.recover().isr == (1,)


@pytest.mark.parametrize(("broker_epoch", "isr"), [(70, (1,)), (71, ())])
def test_a_registration_counts_as_known_up_to_the_highest_that_was_told(
    broker_epoch: int, isr: tuple[int, ...]
) -> None:
    state = msgspec.structs.replace(later(NO_LEADER, 6, 14), elr=(1,), last_known_leader=2)
    lost = LostHistory(held={}, ends={})
    lost.tell(1, state, (5, 80), broker_epoch_max=65)
    lost.tell(2, state, None, last_shutdown=ShutdownKind.FIRST_START, dirs=("another",))
    lost.tell(3, None, (5, 90), broker_epoch=broker_epoch)
    assert lost.recover().isr == isr


def test_a_topic_that_only_logs_tell_of_has_as_many_replicas_as_its_widest_partition() -> None:
    counts = {0: 2, 1: 3, 3: 1}
    logs = [
        HeldLog(
            topic_id=KEY[0], topic="t0", partition=partition, leader_epoch=LeaderEpoch(0), log_end_offset=0
        )
        for partition, count in counts.items()
        for _ in range(count)
    ]
    topic = topic_by_logs(KEY[0], logs)
    assert (topic.topic, topic.partitions, topic.replication_factor) == ("t0", 4, 3)
    for known, partitions in ((2, 4), (9, 9)):
        wider = msgspec.structs.replace(topic, partitions=known)
        assert topic_by_logs(KEY[0], logs, wider).partitions == partitions


def test_a_topic_by_its_logs_whose_leader_epoch_is_the_first_is_no_topic_without_seats() -> None:
    lost = LostHistory(held={}, ends=dict.fromkeys((1, 2, 3), (0, 80)))
    del lost.cluster.image.topics[KEY[0]], lost.cluster.image.partitions[KEY]
    assert lost.recover().isr == (1,)


def test_new_epochs_are_above_those_of_logs() -> None:
    lost = LostHistory(held={}, ends={1: (6, 80), 2: (7_000, 80), 3: (6, 80)})
    assert lost.recover().leader_epoch == 7_001
    assert partition_epoch_floor(2**40) == PARTITION_EPOCH_FLOOR_MAX


def test_a_broker_of_the_rows_is_waited_for_where_no_broker_has_a_view() -> None:
    lost = LostHistory(held={}, ends={1: (6, 80), 2: (6, 80)})
    assert lost.cluster.ask(DRY_RUN, Refusal).detail.endswith("[3]")


def test_what_the_rows_have_counts_where_brokers_were_given_up() -> None:
    """Nobody has told anything: epochs are above those of the rows, and no broker is trusted."""
    cluster = Cluster()
    cluster.create((1, 2, 3))
    records = cluster.image.records
    event = RecoverMetadata(wall_ms=0, actor="ann", gone_brokers=(1, 2, 3))
    recover(Draft(cluster.image, wall_ms=0, floors=Floors(LogEnds())), HeardBook(), event, 0)
    assert cluster.partition().leader_epoch == records + EPOCH_MARGIN + 1
    assert cluster.image.last_broker_epoch == 3 + EPOCH_MARGIN
    assert all(broker.fenced for broker in cluster.image.brokers.values())


@pytest.mark.parametrize("newest", [{"retention.ms": "2"}, {}])
def test_the_settings_of_the_newest_view_count_and_where_it_has_none_those_of_the_rows(
    newest: dict[str, str],
) -> None:
    lost = LostHistory(held={}, ends={1: None, 2: None, 3: None})
    lost.cluster.image.configs["retention.ms"] = "1"
    view = {"retention.ms": "3"}
    for broker_id, epoch, configs in ((1, 8, view), (2, 9, newest), (3, 7, view)):
        state = later(1, 6, 14, 1, 2)
        lost.tell(broker_id, state, None, cluster_configs=configs, witness_epoch=epoch)
    lost.recover()
    assert lost.cluster.image.configs == {"retention.ms": newest.get("retention.ms", "1")}


# What a halted controller hears.


def report_of(
    broker_id: int = 1,
    *,
    cluster_id: str = CLUSTER_ID,
    of_disk: str = CLUSTER_ID,
    less: int = 0,
    broker_epoch_max: int = 70,
) -> Report:
    cluster = Cluster()
    witness = Witness(
        cluster_id=cluster_id,
        controller_epoch=ControllerEpoch(9 - less),
        lineage="lost",
        records=RECORDS - less,
    )
    identity = msgspec.structs.replace(cluster.request(broker_id), cluster_id=of_disk, witness=witness)
    holdings = Holdings(identity=identity, broker_ids=(1,), broker_epoch_max=BrokerEpoch(broker_epoch_max))
    return Report(
        wall_ms=0,
        request=LagReport(
            broker_id=broker_id, broker_epoch=BrokerEpoch(60), witness=witness, holdings=holdings
        ),
    )


def test_what_a_broker_holds_counts_for_ten_seconds() -> None:
    book, image = HeardBook(), Cluster().image
    book.note(image, report_of(), 5)
    assert list(book.held(HOLDINGS_MS_MAX + 5)) == [1]
    assert not book.held(HOLDINGS_MS_MAX + 6)


@pytest.mark.parametrize(("incarnation", "still"), [("a", [1]), ("b", [])])
def test_what_a_process_held_ends_with_it(incarnation: str, still: list[int]) -> None:
    book, cluster = HeardBook(), Cluster()
    book.note(cluster.image, report_of(), 0)
    book.note(cluster.image, RegisterMember(wall_ms=0, request=cluster.request(1, incarnation)), 0)
    assert list(book.held(0)) == still


def test_what_another_cluster_was_told_raises_nothing() -> None:
    book, image = HeardBook(), Cluster().image
    book.note(image, report_of(cluster_id="another"), 0)
    assert (book.records, book.controller_epoch, book.broker_epoch, book.broker_ids) == (-1, -1, -1, set())
    book.note(image, report_of(), 0)
    book.note(image, report_of(2, less=1, broker_epoch_max=65), 0)
    assert (book.records, book.controller_epoch, book.broker_epoch) == (RECORDS, 9, 70)
    assert book.broker_ids == {1, 2}


def test_a_brokers_own_epoch_counts_if_what_it_holds_tells_of_lower_ones() -> None:
    book = HeardBook()
    book.note(Cluster().image, report_of(broker_epoch_max=50), 0)
    assert book.broker_epoch == 60


@pytest.mark.parametrize("of_disk", ["another", "z-another"])
def test_what_a_disk_of_another_cluster_holds_does_not_count(of_disk: str) -> None:
    book = HeardBook()
    book.note(Cluster().image, report_of(of_disk=of_disk), 0)
    assert not book.held(0)


def test_a_cluster_that_lost_nothing_is_not_recovered() -> None:
    cluster = Cluster()
    refused = cluster.ask(RecoverMetadata(wall_ms=0, actor="ann"), Refusal)
    assert refused.code is RefusalCode.RECOVERY_NOT_NEEDED


def test_a_partition_that_no_broker_has_comes_back_on_one_worker_of_each_broker() -> None:
    lost = LostHistory(held={}, ends={})
    lost.cluster.register(1_000_001, worker_of=1)
    known = (msgspec.structs.replace(lost.topic(KEY[0], "t0"), partitions=2),)
    lost.tell(1, later(1, 6, 14, 1, 2, 3), (6, 80), topics=known)
    for broker_id in (1_000_001, 2):
        lost.tell(broker_id, None, None)
    lost.recover(3)
    assert lost.cluster.partition(1).replicas == (1, 2)
    assert lost.cluster.partition(1).min_insync_replicas == 2
    assert lost.cluster.broker(1_000_001).worker_of == 1


def test_the_level_is_the_highest_that_a_broker_was_told() -> None:
    state = later(1, 1, 1, 1, 2, 3)
    history = LostHistory(held={1: state}, ends={1: (1, 10), 2: (1, 10)})
    for level in (1, 0):
        witness = Witness(
            cluster_id=CLUSTER_ID, controller_epoch=ControllerEpoch(9), records=RECORDS, level=Level(level)
        )
        report = LagReport(broker_id=1, broker_epoch=BrokerEpoch(60), witness=witness)
        history.cluster.step(Report(wall_ms=0, request=report))
    history.recover(3)
    assert history.cluster.image.level == 1
    assert [record.level for record in history.cluster.last.records if isinstance(record, LevelRecord)] == [1]
