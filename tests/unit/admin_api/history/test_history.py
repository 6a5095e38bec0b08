"""The last hour over REST: series with gaps, of the cluster and of one thing in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from controller.core.last_hour import SAMPLE_MS
from springtide.contract.groups import GroupLag, GroupNews
from springtide.contract.session import DiskSpace, ProcessLoad
from tests.kit.admin_api.coordinators import Coordinator
from tests.kit.admin_api.plans import formed, report_sizes
from tests.kit.admin_api.rest import Rest, controller, problem
from tests.kit.controller.shell import Broker
from tests.kit.memory.zookeeper import MemoryZooKeeper

pytestmark = pytest.mark.anyio

HISTORY = "/clusters/prod/history"
SECOND = 1_000


async def history(rest: Rest, path: str = "") -> dict[str, Any]:
    answer = await rest.client.get(f"{HISTORY}{path}")
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    assert {len(values) for values in body["series"].values()} == {len(body["timestamps"])}
    return body


async def pass_samples(
    rest: Rest,
    brokers: list[Broker],
    count: int,
    *others: Coordinator,
    silent: tuple[int, ...] = (),
    each_second: Callable[[int], None] = lambda _: None,
) -> None:
    """Time passes in which all are heard but those that are silent."""
    hour = rest.engine.cluster("prod").last_hour()
    until = len(hour.times_ms) + count
    for second in range(2 * count * SAMPLE_MS // SECOND):
        if len(hour.times_ms) >= until:
            return
        each_second(second)
        for broker in brokers:
            if broker.broker_id not in silent:
                await broker.heartbeat()
                await broker.apply()
        for coordinator in others:
            await coordinator.heartbeat()
        await rest.clock.sleep_ms(SECOND)
    raise AssertionError("no sample was kept")


def busy(brokers: list[Broker], *, requests_per_s: int) -> Callable[[int], None]:
    def tell(second: int) -> None:
        for broker in brokers:
            broker.load = ProcessLoad(connections=7, requests=1_000 + requests_per_s * second)
            broker.disk = DiskSpace(free_bytes=400, total_bytes=1_000)

    return tell


async def test_what_passes_is_shown_by_cluster_topic_and_broker(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest, brokers=3, partitions=3)
        assert (await history(rest))["timestamps"] == []
        await report_sizes(rest, brokers, size_bytes=1_000, bytes_in=(0, 0, 0))
        await pass_samples(rest, brokers, 2, each_second=busy(brokers, requests_per_s=40))
        await report_sizes(rest, brokers, size_bytes=4_000, bytes_in=(30_000, 60_000, 90_000))
        await pass_samples(rest, brokers, 1, each_second=busy(brokers, requests_per_s=40))

        topic = (await history(rest, "/topics/orders"))["series"]
        in_all = topic["bytes_in_per_s"]
        assert in_all[:2] == [0, 0] and in_all[2] == pytest.approx(180_000 * SECOND / SAMPLE_MS, rel=0.2)
        assert topic["size_bytes"] == [3_000, 3_000, 12_000]
        cluster = (await history(rest))["series"]
        assert cluster["bytes_in_per_s"] == in_all
        assert cluster["requests_per_s"][1] == pytest.approx(3 * 40, rel=0.2)
        assert cluster["lag_records_max"] == [None] * 3
        broker = (await history(rest, "/brokers/1"))["series"]
        assert broker["bytes_in_per_s"][2] == pytest.approx(in_all[2] / 6, rel=0.1)
        assert broker["requests_per_s"][1] == pytest.approx(40, rel=0.2)
        assert (broker["connections"], broker["disk_used_bytes"]) == ([7] * 3, [600] * 3)
        shown = (await rest.client.get("/clusters/prod/brokers/1")).json()
        assert (shown["connections"], shown["requests_per_s"]) == (7, broker["requests_per_s"][-1])


async def test_a_broker_that_is_down_has_a_gap_and_its_partitions_are_counted(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest, brokers=3, partitions=3)
        tell = busy(brokers, requests_per_s=40)
        await pass_samples(rest, brokers, 1, each_second=tell)
        await pass_samples(rest, brokers, 2, silent=(3,), each_second=tell)
        of_three = (await history(rest, "/brokers/3"))["series"]
        assert {values[-1] for values in of_three.values()} == {None}
        assert of_three["connections"][0] == 7
        assert (await history(rest))["series"]["under_replicated"][-1] == 3
        assert (await history(rest, "/brokers/1"))["series"]["connections"][-1] == 7


async def test_a_groups_lag_is_what_its_coordinator_told(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await rest.form()
        coordinator = Coordinator(rest, 1001)
        await coordinator.register()
        await rest.post("/clusters/prod/coordinators", {"coordinator_ids": [1001]})
        await coordinator.poll()
        for group_id, records in (("a/b", 90), ("idle", 0)):
            lag = GroupLag(group_id=group_id, records=records, ms=10 * records)
            await coordinator.heartbeat(groups=GroupNews(lags=(lag,)))
        await pass_samples(rest, brokers, 2, coordinator)
        found = await history(rest, "/groups/a%2Fb")
        assert found["series"] == {"lag_records": [90, 90], "lag_ms": [900, 900]}
        assert (await history(rest, "/groups/idle"))["series"]["lag_records"] == [0, 0]
        assert (await history(rest))["series"]["lag_records_max"] == [90, 90]


async def test_an_unknown_name_is_a_problem_and_a_standby_sends_to_the_active_controller(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        for path, code in (
            ("/topics/none", "topic_not_found"),
            ("/brokers/9", "broker_not_found"),
            ("/groups/none", "group_not_found"),
        ):
            assert problem(await rest.client.get(f"{HISTORY}{path}")) == (404, code)
        assert problem(await rest.client.get("/clusters/none/history")) == (404, "cluster_not_found")
        async with controller(zookeeper, name="c2", is_active=False) as standby:
            await standby.clock.sleep_ms(5_000)
            for path in ("", "/brokers/1"):
                answer = await standby.client.get(f"{HISTORY}{path}")
                assert answer.status_code == 307, answer.text
            shown = (await standby.client.get("/clusters/prod/brokers/1")).json()
            assert (shown["connections"], shown["requests_per_s"]) == (None, None)
