from __future__ import annotations

import pytest

from controller.core.events import Report
from springtide.contract.epochs import BrokerEpoch, LeaderEpoch
from springtide.contract.lag_report import (
    FollowerLag,
    LagReport,
    LagReportResponse,
    PartitionLag,
    ProblemCode,
    ReplicaLogEnd,
    ReplicaProblem,
)
from springtide.log_lines import TextFormatter
from tests.kit.admin_api.rest import Rest, controller, problem, silence
from tests.kit.controller.shell import Broker
from tests.kit.memory.zookeeper import MemoryZooKeeper

pytestmark = pytest.mark.anyio

PARTITION = "/clusters/prod/topics/orders/partitions/0"


async def test_a_partition_shows_its_state_and_what_its_leader_reported(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await rest.form()
        created = await rest.create_topic(assignments=[[1, 2, 3]], partitions=1)
        assert (await rest.client.get(PARTITION)).json()["state"] == "creating"
        for _ in range(3):
            await rest.clock.sleep_ms(1_000)
            for broker in brokers:
                await broker.heartbeat()
                await broker.apply()
        view = (await rest.client.get(PARTITION)).json()
        assert {name: view[name] for name in ("state", "leader", "leader_epoch", "isr", "elr", "why")} == {
            "state": "online",
            "leader": 1,
            "leader_epoch": 0,
            "isr": [1, 2, 3],
            "elr": [],
            "why": None,
        }
        assert (view["high_watermark"], view["followers"]) == (None, [])
        lag = PartitionLag(
            topic_id=created["topic_id"],
            partition=0,
            leader_epoch=LeaderEpoch(0),
            log_start_offset=5,
            log_end_offset=40,
            high_watermark=38,
            size_bytes=4_096,
            followers=(
                FollowerLag(broker_id=2, log_end_offset=38, lag_records=2, lag_ms=10),
                FollowerLag(broker_id=3, log_end_offset=-1, lag_records=40, lag_ms=900),
            ),
        )
        report = LagReport(broker_id=1, broker_epoch=BrokerEpoch(brokers[0].broker_epoch), lags=(lag,))
        await rest.engine.submit("prod", Report(request=report, wall_ms=rest.clock.now_wall_ms()))
        view = (await rest.client.get(PARTITION)).json()
        assert (view["log_start_offset"], view["log_end_offset"], view["high_watermark"]) == (5, 40, 38)
        assert view["size_bytes"] == 4_096
        assert [(f["broker_id"], f["in_sync"], f["log_end_offset"]) for f in view["followers"]] == [
            (2, True, 38),
            (3, True, None),
        ]


async def test_a_blocked_partition_says_of_each_replica_why_it_cant_lead(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await rest.form()
        await rest.create_topic(assignments=[[1, 2, 3]], partitions=1)
        await silence(rest, brokers)
        view = (await rest.client.get(PARTITION)).json()
        assert (view["state"], view["leader"]) == ("leaderless", None)
        for broker_id in (1, 2, 3):
            assert f"broker {broker_id}" in view["why"]
        cluster = (await rest.client.get("/clusters/prod")).json()
        assert (cluster["health"], cluster["partitions"]["leaderless"]) == ("critical", 1)
        assert cluster["brokers"]["fenced"] == 3
        alarms = (await rest.client.get("/clusters/prod/alarms")).json()["items"]
        told = [(alarm["code"], alarm["broker_id"], alarm["follows"]) for alarm in alarms]
        blocked = {"partition_leaderless": 1, "partition_below_min_isr": 1}
        assert sorted(told, key=lambda one: len(one[2])) == [
            ("broker_fenced", 1, {}),
            ("broker_fenced", 3, {}),
            ("broker_fenced", 2, blocked),
        ]
        assert told[0] == ("broker_fenced", 2, blocked), "where the worst that follows would stand"
        blocked = (await rest.client.get("/clusters/prod/topics/orders/partitions?state=leaderless")).json()
        assert [item["partition"] for item in blocked["items"]] == [0]
        online = (await rest.client.get("/clusters/prod/topics/orders/partitions?state=online")).json()
        assert online["items"] == []


async def test_the_history_of_a_failover_is_in_the_audit_with_cause_before_and_after(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        brokers = await rest.form()
        await rest.create_topic(assignments=[[1, 2, 3]], partitions=1)
        await silence(rest, brokers, 2, 3)
        view = (await rest.client.get(PARTITION)).json()
        assert (view["leader"], view["isr"]) == (2, [2, 3])
        rows = await rest.recorded(topic="orders", partition=0, broker=1)
        assert rows[-1]["cause"] == "topic_created"
        failover = rows[0]
        assert (failover["cause"], failover["actor"]) == ("broker_fenced", "controller")
        assert (failover["before"]["leader"], failover["after"]["leader"]) == (1, 2)
        assert failover["brokers"] == [1, 2]
        assert (await rest.client.get(f"/audit/{failover['id']}")).json() == failover


async def test_elections_by_hand_are_operations_that_are_done_and_audited(
    zookeeper: MemoryZooKeeper, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "controller")
    caplog.handler.setFormatter(TextFormatter())
    async with controller(zookeeper) as rest:
        brokers = await rest.form()
        await rest.create_topic(assignments=[[1, 2, 3]], partitions=1)
        needless = await rest.post(f"{PARTITION}:elect-leader", {"election": "preferred"})
        assert problem(needless) == (409, "election_not_needed")
        await silence(rest, brokers, 2, 3)
        await silence(rest, brokers, 3)
        await silence(rest, brokers)
        view = (await rest.client.get(PARTITION)).json()
        assert view["leader"] is None
        body = {
            "election": "unclean",
            "broker_id": 1,
            "partition_epoch": view["partition_epoch"],
            "reason": "brokers 2 and 3 are lost for good",
        }
        refused = await rest.post(f"{PARTITION}:elect-leader", body)
        assert problem(refused) == (422, "ineligible_broker")
        for _ in range(3):
            await brokers[0].heartbeat()
            await brokers[0].apply()
        view = (await rest.client.get(PARTITION)).json()
        stale = await rest.post(f"{PARTITION}:elect-leader", body | {"partition_epoch": 0})
        assert problem(stale) == (409, "partition_changed")
        body["partition_epoch"] = view["partition_epoch"]
        preview = await rest.post(f"{PARTITION}:elect-leader?dry_run=true", body)
        assert (preview.status_code, preview.json()["partition"]["leader"]) == (200, 1)
        elected = await rest.post(f"{PARTITION}:elect-leader", body, X_Request_Id="asked-by-a-test")
        assert (elected.status_code, elected.json()["state"]) == (202, "succeeded")
        ids = f"request_id=asked-by-a-test operation_id={elected.json()['id']}"
        assert f"alarm {ids} cluster=prod code=partition_recovering" in caplog.text
        view = (await rest.client.get(PARTITION)).json()
        assert (view["leader"], view["unclean_leader_epoch"]) == (1, view["leader_epoch"])
        assert view["state"] == "recovering"
        (change,) = await rest.recorded(cause="unclean_leader_elected")
        assert (change["reason"], change["operation_id"]) == (body["reason"], elected.json()["id"])
        outcomes = [row["outcome"]["code"] for row in await rest.recorded(cause="elect_leader_unclean")]
        assert outcomes == [None, "partition_changed", "ineligible_broker"]


async def test_what_an_unclean_election_would_lose_is_seen_before_and_recorded_after(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        brokers = await rest.form()
        await rest.create_topic(assignments=[[3, 1, 2]], partitions=1, configs={"min.insync.replicas": "1"})
        needless = await rest.client.get(f"{PARTITION}/loss-preview")
        assert problem(needless) == (409, "election_not_needed")
        await silence(rest, brokers, 2, 3)
        await silence(rest, brokers, 3)
        await silence(rest, brokers)
        for broker in brokers[:2]:
            for _ in range(3):
                await broker.heartbeat()
                await broker.apply()
        state = next(iter(rest.engine.cluster("prod").decided.partitions.values()))
        assert (state.leader, state.isr, state.elr) == (-1, (), (3,))
        body = {
            "election": "unclean",
            "broker_id": 2,
            "partition_epoch": state.partition_epoch,
            "lost_records_max": 30,
            "reason": "broker 3 is lost for good",
        }
        unknown = await rest.post(f"{PARTITION}:elect-leader", body)
        assert problem(unknown) == (409, "loss_unknown")
        assert unknown.json()["retryable"] is True
        await tell(rest, brokers[0], 90, high_watermark=80)
        await tell(rest, brokers[1], 60, high_watermark=60)
        shown = await rest.client.get(f"{PARTITION}/loss-preview")
        assert shown.status_code == 200, shown.text
        seen = shown.json()
        assert (seen["unheard"], seen["partition_epoch"]) == ([3], state.partition_epoch)
        by_id = {one["broker_id"]: one for one in seen["candidates"]}
        assert (by_id[2]["log_end_offset"], by_id[2]["lost_records"], by_id[2]["lost_committed"]) == (
            60,
            30,
            20,
        )
        assert by_id[2]["held_elsewhere"] == [
            {
                "broker_id": 1,
                "first_offset": 60,
                "next_offset": 90,
                "records": 30,
                "committed": 20,
                "is_exact": True,
            }
        ]
        assert by_id[3]["lost_records"] is None
        assert seen["known_committed"] == 80
        assert seen["way_out"].startswith("bring back broker 3 with its disk")
        refused = await rest.post(f"{PARTITION}:elect-leader", body | {"lost_records_max": 29})
        assert problem(refused) == (409, "loss_too_large")
        dry = await rest.post(f"{PARTITION}:elect-leader?dry_run=true", body)
        assert dry.json()["loss"] == seen
        elected = await rest.post(f"{PARTITION}:elect-leader", body)
        assert elected.status_code == 202, elected.text
        sentence = "30 records are lost as far as is known, 20 of them acknowledged with acks=all"
        assert sentence in elected.json()["summary"]
        newest = (await rest.recorded(cause="elect_leader_unclean"))[0]
        assert newest["outcome"]["outcome"] == "succeeded"
        assert newest["outcome"]["detail"].startswith(sentence)
        assert "had not reported the ends of their logs: 3" in newest["outcome"]["detail"]


async def test_a_preview_does_not_hide_a_replica_in_quarantine_behind_a_leader(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        brokers = await rest.form()
        await rest.create_topic(assignments=[[1, 2, 3]], partitions=1, configs={"min.insync.replicas": "1"})
        await silence(rest, brokers, 2)
        state = next(iter(rest.engine.cluster("prod").decided.partitions.values()))
        problem_of_two = ReplicaProblem(
            topic_id=state.topic_id,
            partition=0,
            code=ProblemCode.QUARANTINED,
            detail="asked to cut at 367",
            leader_epoch=state.leader_epoch,
            first_offset=367,
            next_offset=750,
            high_watermark=743,
        )
        request = LagReport(
            broker_id=2, broker_epoch=BrokerEpoch(brokers[1].broker_epoch), problems=(problem_of_two,)
        )
        await rest.engine.submit("prod", Report(wall_ms=0, request=request))
        hidden = await rest.client.get(f"{PARTITION}/loss-preview")
        assert problem(hidden) == (409, "replica_quarantined")
        assert "broker 2 holds a log that ends at 750" in hidden.json()["detail"]
        assert f"stop broker {state.leader}" in hidden.json()["detail"]


async def tell(rest: Rest, broker: Broker, end: int, *, high_watermark: int) -> None:
    """A replica without a leader says how far its log goes."""
    state = next(iter(rest.engine.cluster("prod").decided.partitions.values()))
    log_end = ReplicaLogEnd(
        topic_id=state.topic_id,
        partition=state.partition,
        leader_epoch=state.leader_epoch,
        log_start_offset=0,
        log_end_offset=end,
        high_watermark=high_watermark,
        epochs=((0, 0),),
    )
    request = LagReport(
        broker_id=broker.broker_id, broker_epoch=BrokerEpoch(broker.broker_epoch), log_ends=(log_end,)
    )
    reply = await rest.engine.submit("prod", Report(wall_ms=0, request=request))
    assert isinstance(reply, LagReportResponse) and reply.error == "none"


@pytest.mark.parametrize(
    "body",
    [
        {"election": "unclean"},
        {"election": "unclean", "broker_id": 1, "partition_epoch": 0},
        {"election": "preferred", "broker_id": 1},
        {"election": "random"},
        {},
    ],
)
async def test_an_election_must_be_whole(zookeeper: MemoryZooKeeper, body: dict[str, object]) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        await rest.create_topic()
        assert problem(await rest.post(f"{PARTITION}:elect-leader", body)) == (422, "invalid_request")
        missing = await rest.post(f"{PARTITION[:-1]}9:elect-leader", {"election": "preferred"})
        assert problem(missing) == (404, "partition_not_found")
