"""What is seen of groups: kafka_exporter's metrics, bounded and without what is not known, and troubles."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
import trio
import trio.testing
from prometheus_client.parser import text_string_to_metric_families

from coordinator.core.group_records import CommittedOffset
from coordinator.core.groups.figures import GroupFigures
from coordinator.core.lags import Lag
from coordinator.shell import group_watch
from coordinator.shell.group_watch import GroupWatch, SeenGroups, write_groups
from coordinator.shell.log_ends import PartitionEnds
from localcluster.ports import PortReservation
from springtide.contract.epochs import BrokerEpoch, LeaderEpoch, PartitionEpoch
from springtide.contract.partition_state import PartitionState, TopicState
from springtide.contract.updates import BrokerEndpoint, UpdateBatch
from springtide.node.clock import MachineClock
from springtide.node.cluster_view import ClusterView
from springtide.node.net import SystemNet
from springtide.wire.questions import Place
from tests.kit.clocks import VirtualClock
from tests.kit.coordinator.consumer_desk import ConsumerDesk, topic
from tests.kit.coordinator.group_desk import GroupDesk

TOPIC_ID = "T" * 21 + "A"
Samples = dict[tuple[str, ...], float]


def told(seen: SeenGroups) -> dict[str, Samples]:
    """All samples by name, then by the values of their labels, in the order of the labels' names."""
    return {
        family.name: {
            tuple(value for _, value in sorted(sample.labels.items())): sample.value
            for sample in family.samples
        }
        for family in text_string_to_metric_families(write_groups(seen).decode())
    }


def at(offsets: dict[Place, int]) -> dict[Place, CommittedOffset]:
    return {place: CommittedOffset(offset, -1, "", 0) for place, offset in offsets.items()}


def test_a_groups_lag_is_from_its_offset_to_the_end_that_a_leader_told() -> None:
    billing = GroupFigures("billing", 2, at({("orders", 0): 40, ("orders", 1): 7, ("gone", 0): 3}))
    lags = {"billing": {("orders", 0): Lag(10, 2_500), ("orders", 1): Lag(0, 0)}}
    page = told(SeenGroups((billing, GroupFigures("new", 1, {})), lags))
    assert page == {
        "kafka_consumergroup_members": {("billing",): 2, ("new",): 1},
        "kafka_consumergroup_current_offset": {
            ("billing", "0", "orders"): 40,
            ("billing", "1", "orders"): 7,
            ("billing", "0", "gone"): 3,
        },
        "kafka_consumergroup_lag": {("billing", "0", "orders"): 10, ("billing", "1", "orders"): 0},
        "kafka_consumergroup_lag_seconds": {("billing", "0", "orders"): 2.5, ("billing", "1", "orders"): 0},
        "kafka_consumergroup_current_offset_sum": {("billing", "orders"): 47, ("billing", "gone"): 3},
        "kafka_consumergroup_lag_sum": {("billing", "orders"): 10},
        "springtide_groups_without_partitions": {(): 0},
    }


def test_an_id_of_any_characters_is_one_label() -> None:
    hostile = 'a"} 1\nkafka_brokers 9 \\'
    assert told(SeenGroups((GroupFigures(hostile, 1, at({("t", 0): 1})),)))[
        "kafka_consumergroup_members"
    ] == {(hostile,): 1}


def test_too_many_partitions_leave_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_watch, "PARTITIONS_TOLD_MAX", 3)
    places: list[Place] = [("t", 0), ("t", 1)]
    groups = tuple(GroupFigures(name, 1, at(dict.fromkeys(places, 1))) for name in "abc")
    page = told(SeenGroups(groups, dict.fromkeys("abc", dict.fromkeys(places, Lag(1, 1)))))
    assert {name for name, *_ in page["kafka_consumergroup_current_offset"]} == {"a"}
    assert {name for name, *_ in page["kafka_consumergroup_lag"]} == {"a"}
    assert page["kafka_consumergroup_lag_sum"] == {("a", "t"): 2, ("b", "t"): 2, ("c", "t"): 2}
    assert page["springtide_groups_without_partitions"] == {(): 2}


def test_a_leader_that_can_not_be_reached_leaves_ends_unknown() -> None:
    async def run() -> None:
        view = ClusterView()
        with PortReservation() as ports:
            broker = BrokerEndpoint(
                broker_id=1, broker_epoch=BrokerEpoch(1), host="127.0.0.1", port=ports.reserve_free()
            )
        topic = TopicState(topic_id=TOPIC_ID, topic="t", partitions=2, replication_factor=1)
        led, leaderless = (
            PartitionState(
                topic_id=TOPIC_ID,
                topic="t",
                partition=number,
                replicas=(1,),
                leader=leader,
                leader_epoch=LeaderEpoch(1),
                partition_epoch=PartitionEpoch(1),
                isr=(1,),
                min_insync_replicas=1,
            )
            for number, leader in enumerate((1, -1))
        )
        view.apply(UpdateBatch(brokers=(broker,), topics=(topic,), partitions=(led, leaderless)), now_ms=0)
        ends = PartitionEnds(view=view, net=SystemNet(), clock=MachineClock(), client_id="test")
        assert await ends.ask([("t", 0), ("t", 1), ("unknown", 0)]) == {}

    trio.run(run)


class GrowingLog(PartitionEnds):
    """A leader that tells of ten records more each second."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(view=ClusterView(), net=SystemNet(), clock=clock, client_id="test")
        self._now_ms = clock.mono_ms

    async def ask(self, places: Iterable[Place]) -> dict[Place, int]:
        return dict.fromkeys(places, self._now_ms() // 100)


def test_looks_find_groups_that_fall_behind_and_groups_that_do_not_settle() -> None:
    async def run() -> None:
        desk, clock = GroupDesk(), VirtualClock()
        desk.commit_offsets("a", desk.form("a"))
        watch = GroupWatch(lambda: [desk.machine], GrowingLog(clock), clock)

        async def codes(minutes: int) -> list[str]:
            with trio.move_on_after(60 * minutes):
                await watch.run()
            return [trouble.code for trouble in watch.troubles]

        assert await codes(10) == []
        (lag,) = watch.take_lags()
        assert (lag.group_id, lag.members, [one.topic for one in lag.topics]) == ("g", 1, ["t"])
        assert (lag.records, lag.age_ms < group_watch.LOOK_MS + 1, watch.take_lags()) == (
            sum(one.records for one in watch.seen.lags["g"].values()),
            True,
            (),
        )
        assert await codes(1) == ["lag_grows"]
        desk.start_join(new_id="b")
        assert await codes(11) == ["lag_grows", "unsettled"]
        assert told(watch.seen)["kafka_consumergroup_members"] == {("g",): 2}

    trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0))


def test_rebalances_of_consumer_groups_are_counted_over_the_looks() -> None:
    async def run() -> None:
        desk, clock = ConsumerDesk(topic("t", 2)), VirtualClock()
        watch = GroupWatch(lambda: [desk.machine], GrowingLog(clock), clock)
        for member_id in ("a", "b"):
            desk.join(member_id)
            await watch.look()
            await trio.sleep(2)
        desk.beat("a", -1)
        await watch.look()
        assert (watch.seen.rebalances, watch.seen.rebalances_per_s) == (3, 0.5)

    trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0))
