from __future__ import annotations

import math
import random
from collections import Counter

import pytest

from admin_api.partitions.replication import sum_up
from admin_api.partitions.service import state_word
from admin_api.partitions.worst_first import SEVERITY
from controller.core.events import Report
from controller.core.image import ClusterImage
from springtide.contract.epochs import BrokerEpoch, LeaderEpoch
from springtide.contract.lag_report import FollowerLag, LagReport, PartitionLag
from springtide.contract.partition_state import PartitionKey
from tests.kit.admin_api.rest import Rest, controller, problem, silence
from tests.kit.controller.images import image_in_states
from tests.kit.controller.shell import Broker
from tests.kit.memory.zookeeper import MemoryZooKeeper

pytestmark = pytest.mark.anyio


async def report(
    rest: Rest, broker: Broker, topic_id: str, partition: int, *followers: FollowerLag, leader_epoch: int = 0
) -> None:
    lag = PartitionLag(
        topic_id=topic_id,
        partition=partition,
        leader_epoch=LeaderEpoch(leader_epoch),
        log_start_offset=0,
        log_end_offset=100,
        high_watermark=90,
        size_bytes=1_000 * (partition + 1),
        followers=followers,
    )
    request = LagReport(
        broker_id=broker.broker_id, broker_epoch=BrokerEpoch(broker.broker_epoch), lags=(lag,)
    )
    await rest.engine.submit("prod", Report(request=request, wall_ms=rest.clock.now_wall_ms()))


def follower(broker_id: int, lag_records: int, lag_ms: int) -> FollowerLag:
    return FollowerLag(
        broker_id=broker_id, log_end_offset=100 - lag_records, lag_records=lag_records, lag_ms=lag_ms
    )


async def test_each_broker_shows_what_it_carries_and_how_far_its_followers_are(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        brokers = await rest.form()
        created = await rest.create_topic(assignments=[[1, 2], [2, 3]], partitions=2, replication_factor=2)
        await report(rest, brokers[0], created["topic_id"], 0, follower(2, 5, 40))
        await report(rest, brokers[1], created["topic_id"], 1, follower(3, 10, 700))
        found = (await rest.client.get("/clusters/prod/replication")).json()
        assert (found["cluster"], found["partitions"], found["reported"]) == ("prod", 2, 2)
        assert [
            (b["broker_id"], b["replicas"], b["leaders"], b["bytes"], b["lag_records"], b["lag_ms_max"])
            for b in found["brokers"]
        ] == [(1, 1, 1, 1_000, None, None), (2, 2, 1, 3_000, 5, 40), (3, 1, 0, 2_000, 10, 700)]
        assert (found["brokers"][2]["farthest_topic"], found["brokers"][2]["farthest_partition"]) == (
            "orders",
            1,
        )


async def test_a_follower_that_its_leader_has_not_heard_of_has_no_lag(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await rest.form()
        created = await rest.create_topic(assignments=[[1, 2, 3]], partitions=1)
        silent = FollowerLag(broker_id=3, log_end_offset=-1, lag_records=-1, lag_ms=9_000)
        await report(rest, brokers[0], created["topic_id"], 0, follower(2, 5, 40), silent)
        found = (await rest.client.get("/clusters/prod/replication")).json()
        assert [
            (b["followed"], b["unknown"], b["lag_records_max"], b["lag_ms_max"]) for b in found["brokers"]
        ] == [(0, 0, None, None), (1, 0, 5, 40), (0, 1, None, None)]


async def test_the_time_of_a_replica_that_never_had_everything_is_not_known(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        brokers = await rest.form()
        created = await rest.create_topic(assignments=[[1, 2], [1, 2]], partitions=2, replication_factor=2)
        await report(rest, brokers[0], created["topic_id"], 0, follower(2, 53, -1))
        await report(rest, brokers[0], created["topic_id"], 1, follower(2, 0, 0))
        found = (await rest.client.get("/clusters/prod/replication")).json()["brokers"][1]
        assert (found["lag_records_max"], found["lag_ms_max"], found["farthest_partition"]) == (53, None, 0)


async def test_a_broker_that_is_down_is_behind_by_records_and_by_no_time(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await rest.form()
        created = await rest.create_topic(assignments=[[1, 2, 3]], partitions=1)
        await silence(rest, brokers, 1, 2)
        found = follower(2, 0, 0), follower(3, 7, 0)
        await report(rest, brokers[0], created["topic_id"], 0, *found)
        shown = (await rest.client.get("/clusters/prod/replication")).json()["brokers"]
        assert [(b["lag_records_max"], b["lag_ms_max"]) for b in shown] == [(None, None), (0, 0), (7, None)]


async def test_a_report_of_an_earlier_leadership_is_about_another_log(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await rest.form()
        created = await rest.create_topic(assignments=[[1, 2, 3]], partitions=1)
        await report(rest, brokers[0], created["topic_id"], 0, follower(2, 5, 40), follower(3, 5, 40))
        assert (await rest.client.get("/clusters/prod/replication")).json()["reported"] == 1
        await silence(rest, brokers, 2, 3)
        found = (await rest.client.get("/clusters/prod/replication")).json()
        assert found["reported"] == 0
        assert [(b["out_of_sync"], b["bytes"], b["followed"]) for b in found["brokers"]] == [
            (1, None, 0),
            (0, None, 0),
            (0, None, 0),
        ]


async def test_a_clusters_partitions_come_worst_first_and_in_pages(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await rest.form()
        await rest.create_topic("a", assignments=[[2], [3]], partitions=2, replication_factor=1)
        await rest.create_topic("b", assignments=[[1, 2, 3]], partitions=1, replication_factor=3)
        await rest.create_topic("d", assignments=[[2, 1]], partitions=1, replication_factor=2)
        await rest.create_topic("c", assignments=[[1]], partitions=1, replication_factor=1)
        await silence(rest, brokers, 2, 3)
        listed = []
        query = "?limit=2"
        for _ in range(3):
            page = (await rest.client.get(f"/clusters/prod/partitions{query}")).json()
            listed += [(item["state"], item["topic"], item["partition"]) for item in page["items"]]
            query = f"?limit=2&page_token={page['next_page_token']}"
        assert page["next_page_token"] is None
        assert listed == [
            ("leaderless", "c", 0),
            ("under_min_isr", "d", 0),
            ("under_replicated", "b", 0),
            ("online", "a", 0),
            ("online", "a", 1),
        ]
        states = (await rest.client.get("/clusters/prod/replication")).json()["states"]
        assert states == {
            "leaderless": 1,
            "under_min_isr": 1,
            "recovering": 0,
            "under_replicated": 1,
            "creating": 0,
            "online": 2,
        }
        chosen = (await rest.client.get("/clusters/prod/partitions?state=leaderless")).json()["items"]
        assert [(item["topic"], item["partition"]) for item in chosen] == [("c", 0)]
        assert "broker 1" in chosen[0]["why"]


async def test_a_cluster_that_is_not_there_has_neither(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        for path in ("/clusters/nope/partitions", "/clusters/nope/replication"):
            assert problem(await rest.client.get(path)) == (404, "cluster_not_found")


def reports(image: ClusterImage, rng: random.Random) -> dict[PartitionKey, PartitionLag]:
    """Return reports of most leaders; some are of an earlier leadership, some don't know a follower's lag."""
    return {
        key: PartitionLag(
            topic_id=key[0],
            partition=key[1],
            leader_epoch=LeaderEpoch(state.leader_epoch - (rng.random() < 0.1)),
            log_start_offset=0,
            log_end_offset=100,
            high_watermark=90,
            size_bytes=rng.randrange(1_000),
            followers=tuple(
                follower(
                    broker_id, rng.choice((-1, 0, rng.randrange(50))), rng.choice((-1, rng.randrange(9)))
                )
                for broker_id in state.replicas
                if broker_id != state.leader
            ),
        )
        for key, state in image.partitions.items()
        if rng.random() < 0.8
    }


@pytest.mark.parametrize("seed", range(8))
async def test_the_sums_are_those_over_each_partition(seed: int) -> None:
    rng = random.Random(seed)
    image = image_in_states(dict.fromkeys(SEVERITY, 1) | {"online": rng.choice((1, 50))}, rng)
    lags = reports(image, rng)
    found = await sum_up("prod", image, lags)
    states = [state for state in image.partitions.values() if state.topic_id not in image.deletions]
    announced = [state for state in states if state.topic_id in image.topics]
    assert found.partitions == len(announced)
    assert found.states.model_dump() == dict.fromkeys(SEVERITY, 0) | Counter(map(state_word, announced))
    told = [
        (state, lag)
        for state in states
        if (lag := lags.get((state.topic_id, state.partition))) and lag.leader_epoch == state.leader_epoch
    ]
    assert found.reported == len(told)
    for shown in found.brokers:
        broker_id = shown.broker_id
        held = [state for state in states if broker_id in state.replicas]
        heard = [
            (one.lag_records, one.lag_ms)
            for _, lag in told
            for one in lag.followers
            if one.broker_id == broker_id and one.lag_records >= 0
        ]
        behind = {
            (lag_ms if lag_ms >= 0 else math.inf, state.topic, state.partition)
            for state, lag in told
            for lag_ms in (
                one.lag_ms for one in lag.followers if one.broker_id == broker_id and one.lag_records >= 0
            )
        }
        assert shown.out_of_sync == sum(
            broker_id not in state.isr for state in announced if broker_id in state.replicas
        )
        assert shown.bytes == sum(lag.size_bytes for state, lag in told if broker_id in state.replicas)
        assert shown.followed == len(heard)
        assert shown.unknown == sum(state.leader != broker_id for state in held) - len(heard)
        assert (shown.lag_records, shown.lag_records_max) == (
            (sum(records for records, _ in heard), max(records for records, _ in heard))
            if heard
            else (None, None)
        )
        assert shown.lag_ms_max is None, "none of these brokers is there"
        longest = max((lag_ms for lag_ms, _, _ in behind), default=None)
        farthest = (longest, shown.farthest_topic, shown.farthest_partition)
        assert farthest in behind or farthest == (None, None, None)
