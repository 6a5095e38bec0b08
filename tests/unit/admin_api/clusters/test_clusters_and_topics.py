from __future__ import annotations

from typing import Any

import anyio
import httpx
import pytest

from admin_api.topics.names import NAME_WAIT_MS
from controller.core.events import Report
from springtide.contract.epochs import BrokerEpoch, ControllerEpoch, LeaderEpoch
from springtide.contract.holdings import SetAsideLog
from springtide.contract.lag_report import LagReport
from springtide.contract.session import Witness
from tests.kit.admin_api.rest import ACTOR, controller, pointers, problem, speaking
from tests.kit.memory.zookeeper import MemoryZooKeeper

pytestmark = pytest.mark.anyio


async def test_a_cluster_is_created_listed_and_looked_at(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        body = {"name": "prod", "configs": {"default.replication.factor": "3"}, "reason": "first"}
        created = await rest.post("/clusters", body)
        assert (created.status_code, created.headers["location"]) == (201, "/clusters/prod")
        shown = await rest.client.get("/clusters/prod")
        assert shown.json() == created.json()
        assert created.json() == {
            "name": "prod",
            "cluster_id": created.json()["cluster_id"],
            "health": "ok",
            "configs": {"default.replication.factor": "3"},
            "protected": False,
            "brokers": {"active": 0, "fenced": 0, "shutting_down": 0, "waiting": 0},
            "topics": 0,
            "partitions": {
                "total": 0,
                "leaderless": 0,
                "under_min_isr": 0,
                "under_replicated": 0,
                "leader_not_preferred": 0,
            },
            "controller": {"active_url": "http://c1:8080", "epoch": rest.engine.controller_epoch},
            "resilience": {"broker": None, "host": None, "rack": None},
            "skew": created.json()["skew"],
            "last_change": {
                "cause": "cluster_created",
                "actor": ACTOR,
                "at": created.json()["last_change"]["at"],
                "reason": "first",
                "request_id": created.headers["x-request-id"],
                "operation_id": None,
            },
        }
        listed = (await rest.client.get("/clusters")).json()
        assert [cluster["name"] for cluster in listed["items"]] == ["prod"]
        assert problem(await rest.post("/clusters", body)) == (409, "cluster_already_exists")
        assert problem(await rest.client.get("/clusters/test")) == (404, "cluster_not_found")


async def test_a_dry_run_creates_nothing_and_leaves_no_row(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        assert (await rest.post("/clusters?dry_run=true", {"name": "prod"})).status_code == 200
        assert (await rest.client.get("/clusters")).json()["items"] == []
        await rest.form()
        rows = len(await rest.recorded())
        planned = await rest.post(
            "/topics?dry_run=true", {"name": "orders", "partitions": 3, "replication_factor": 3}
        )
        assert planned.status_code == 200
        assert [len(set(p["replicas"])) for p in planned.json()["assignments"]] == [3, 3, 3]
        assert len({p["replicas"][0] for p in planned.json()["assignments"]}) == 3
        assert problem(await rest.client.get("/clusters/prod/topics/orders")) == (404, "topic_not_found")
        assert len(await rest.recorded()) == rows
        refused = await rest.post(
            "/topics?dry_run=true", {"name": "orders", "partitions": 3, "replication_factor": 4}
        )
        assert problem(refused) == (422, "replication_factor_too_large")


async def test_a_topic_is_created_by_either_path_and_found_where_location_says(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        body = {
            "name": "orders",
            "partitions": 4,
            "replication_factor": 3,
            "configs": {"min.insync.replicas": "2"},
            "reason": "launch",
        }
        created = await rest.post("/topics", body)
        assert (created.status_code, created.headers["location"]) == (201, "/clusters/prod/topics/orders")
        shown = await rest.client.get(created.headers["location"])
        assert shown.json() == created.json() | {"readers": []}
        view = created.json()
        assert (view["partitions"], view["replication_factor"], view["min_insync_replicas"]) == (4, 3, 2)
        assert (view["online_partitions"], view["tolerates_broker_losses"]) == (0, 1)  # no log is made
        assert (view["last_change"]["cause"], view["last_change"]["reason"]) == ("topic_created", "launch")
        other = await rest.post("/clusters/prod/topics", {"name": "events", "partitions": 1})
        assert other.status_code == 201
        listed = (await rest.client.get("/clusters/prod/topics")).json()
        assert [topic["name"] for topic in listed["items"]] == ["events", "orders"]


async def test_a_topic_may_prefer_availability_to_its_records(zookeeper: MemoryZooKeeper) -> None:
    """A minimum of one and unclean elections: Kafka's names, per topic, and shown to who asks."""
    configs = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}
    async with controller(zookeeper) as rest:
        await rest.form()
        body = {"name": "clicks", "partitions": 2, "replication_factor": 3, "configs": configs}
        created = await rest.post("/topics", body)
        assert created.status_code == 201
        view = created.json()
        assert (view["configs"], view["min_insync_replicas"]) == (configs, 1)
        partitions = (await rest.client.get("/clusters/prod/topics/clicks/partitions")).json()["items"]
        assert [partition["min_insync_replicas"] for partition in partitions] == [1, 1]
        refused = await rest.post(
            "/topics", body | {"name": "views", "configs": {"unclean.leader.election.enable": "maybe"}}
        )
        assert problem(refused)[:2] == (422, "invalid_config")


async def test_lists_come_in_pages_that_go_on_where_the_last_one_ended(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        for name in ("a", "b", "c", "d", "e"):
            await rest.create_topic(name, partitions=1)
        first = (await rest.client.get("/clusters/prod/topics?limit=2")).json()
        assert [topic["name"] for topic in first["items"]] == ["a", "b"]
        await rest.create_topic("aa", partitions=1)
        rest_of_it = []
        token = first["next_page_token"]
        while token is not None:
            page = (await rest.client.get(f"/clusters/prod/topics?limit=2&page_token={token}")).json()
            rest_of_it += [topic["name"] for topic in page["items"]]
            token = page["next_page_token"]
        assert rest_of_it == ["c", "d", "e"]


IMPOSSIBLE: list[tuple[dict[str, Any], int, str, list[str]]] = [
    ({"replication_factor": 4}, 422, "replication_factor_too_large", ["/replication_factor"]),
    ({"replication_factor": 0}, 422, "invalid_request", ["/replication_factor"]),
    ({"partitions": 0}, 422, "invalid_request", ["/partitions"]),
    ({"partitions": 10**9}, 422, "invalid_request", ["/partitions"]),
    ({"partitions": 10**100}, 422, "invalid_request", ["/partitions"]),
    ({"partitions": "3"}, 422, "invalid_request", ["/partitions"]),
    ({"partitions": 3.0}, 422, "invalid_request", ["/partitions"]),
    ({"partitions": True}, 422, "invalid_request", ["/partitions"]),
    ({"configs": {"min.insync.replica": "2"}}, 422, "unknown_config", ["/configs/min.insync.replica"]),
    ({"configs": {"retention.ms": "soon"}}, 422, "invalid_config", ["/configs/retention.ms"]),
    ({"configs": {"retention.ms": 5}}, 422, "invalid_request", ["/configs/retention.ms"]),
    ({"name": ""}, 422, "invalid_request", ["/name"]),
    ({"name": "."}, 422, "invalid_request", ["/name"]),
    ({"name": ".."}, 422, "invalid_request", ["/name"]),
    ({"name": "a" * 250}, 422, "invalid_request", ["/name"]),
    ({"name": "a/b"}, 422, "invalid_request", ["/name"]),
    ({"name": "a\x00b"}, 422, "invalid_request", ["/name"]),
    ({"name": "orders\n"}, 422, "invalid_request", ["/name"]),
    ({"name": "a\u202eb"}, 422, "invalid_request", ["/name"]),
    ({"name": None}, 422, "invalid_request", ["/name"]),
    ({"factor": 3}, 422, "invalid_request", ["/factor"]),
    ({"a/b~c": 3}, 422, "invalid_request", ["/a~1b~0c"]),
    ({"reason": "x" * 1_001}, 422, "invalid_request", ["/reason"]),
    ({"assignments": [[1, 1]]}, 422, "invalid_replica_assignment", ["/assignments/0"]),
    ({"assignments": [[1, 2], [9, 1]], "partitions": 2}, 422, "unknown_broker", ["/assignments/1"]),
    ({"assignments": [[]]}, 422, "invalid_request", ["/assignments/0"]),
    ({"cluster": "test"}, 404, "cluster_not_found", []),
]


async def test_an_impossible_topic_is_refused_with_the_field_at_fault(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        for change, status, code, where in IMPOSSIBLE:
            body = {"name": "orders", "partitions": 3, "replication_factor": 3} | change
            if "assignments" in change:
                del body["replication_factor"]
                body["partitions"] = len(change["assignments"])
            response = await rest.post("/topics", body)
            assert problem(response) == (status, code), change
            assert pointers(response) == where
        assert (await rest.client.get("/clusters/prod/topics")).json()["items"] == []


async def test_an_existing_topic_is_a_conflict_unless_that_was_expected(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        created = await rest.create_topic()
        body = {"name": "orders", "partitions": 3, "replication_factor": 3}
        refused = await rest.post("/topics", body)
        assert problem(refused) == (409, "topic_already_exists")
        assert refused.json()["kafka_error"] == {"code": 36, "name": "TOPIC_ALREADY_EXISTS"}
        accepted = await rest.post("/topics", body | {"if_not_exists": True})
        assert (accepted.status_code, accepted.json()["topic_id"]) == (200, created["topic_id"])
        clash = await rest.post("/topics", body | {"name": "or.ders"})
        assert clash.status_code == 201
        assert problem(await rest.post("/topics", body | {"name": "or_ders"})) == (
            409,
            "topic_name_collision",
        )


async def test_without_a_cluster_named_there_must_be_exactly_one(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        body = {"name": "orders"}
        assert problem(await rest.post("/topics", body)) == (422, "cluster_required")
        for name in ("prod", "test"):
            assert (await rest.post("/clusters", {"name": name})).status_code == 201
        assert problem(await rest.post("/topics", body)) == (422, "cluster_required")
        disagreeing = await rest.post("/clusters/prod/topics", body | {"cluster": "test"})
        assert problem(disagreeing) == (422, "invalid_request")


async def test_a_deletion_is_answered_when_all_have_stopped_and_ends_with_the_last_replica(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        brokers = await rest.form()
        created = await rest.create_topic()
        for broker in brokers:
            await broker.heartbeat()
            await broker.apply()
        plan = await rest.client.delete("/clusters/prod/topics/orders?dry_run=true")
        assert (plan.status_code, plan.json()["waits_for_brokers"]) == (200, [1, 2, 3])
        answers: list[httpx.Response] = []

        async def delete() -> None:
            answers.append(await rest.client.delete("/clusters/prod/topics/orders?reason=old"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(delete)
            for broker in brokers:
                await rest.clock.sleep_ms(500)
                assert not answers, f"broker {broker.broker_id} may still lead"
                assert problem(await rest.client.get("/clusters/prod/topics/orders")) == (
                    404,
                    "topic_not_found",
                )
                await broker.heartbeat()
                await broker.apply()
        (deleted,) = answers
        assert deleted.status_code == 202
        assert deleted.json()["kind"] == "topic_delete"
        assert problem(await rest.client.delete("/clusters/prod/topics/orders")) == (404, "topic_not_found")
        again = await rest.create_topic()
        assert again["topic_id"] != created["topic_id"]
        await rest.clock.sleep_ms(500)
        ended = (await rest.client.get(deleted.headers["location"])).json()
        assert (ended["state"], ended["reason"]) == ("succeeded", "old")
        assert [step["state"] for step in ended["steps"]] == ["succeeded", "succeeded"]


async def test_a_creation_waits_for_the_name_and_is_refused_with_what_to_do_if_it_is_held_for_long(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        brokers = await rest.form()
        await rest.create_topic()
        began_ms = rest.clock.now_mono_ms()
        first = await rest.client.delete("/clusters/prod/topics/orders")
        assert (first.status_code, first.json()["state"]) == (202, "running")
        assert rest.clock.now_mono_ms() - began_ms >= NAME_WAIT_MS
        body = {"name": "orders", "partitions": 1, "replication_factor": 1}
        refused = await rest.post("/topics", body)
        assert problem(refused) == (409, "topic_already_exists")
        assert "is being deleted" in refused.json()["detail"]
        assert "[1, 2, 3]" in refused.json()["hint"]
        async with speaking(rest, brokers):
            await rest.create_topic()


async def test_one_resource_has_an_etag_that_moves_with_it(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await rest.form()
        await rest.create_topic()
        for path in ("/clusters/prod", "/clusters/prod/brokers/1", "/clusters/prod/topics/orders"):
            shown = await rest.client.get(path)
            again = await rest.client.get(path, headers={"If-None-Match": shown.headers["etag"]})
            assert (again.status_code, again.content) == (304, b"")
        path = "/clusters/prod/topics/orders/partitions/0"
        before = (await rest.client.get(path)).headers["etag"]
        for broker in brokers:
            await broker.heartbeat()
            await broker.apply()
        await rest.clock.sleep_ms(2_000)
        assert (await rest.client.get(path)).headers["etag"] != before


async def test_metadata_that_went_back_is_told_wherever_an_operator_looks(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        (broker, *_) = await rest.form()
        cluster = (await rest.client.get("/clusters/prod")).json()
        broker.witness = Witness(cluster_id=cluster["cluster_id"], controller_epoch=ControllerEpoch(99))
        await broker.heartbeat()
        assert (await rest.client.get("/clusters/prod")).json()["health"] == "metadata_went_back"
        alarms = (await rest.client.get("/clusters/prod/alarms?limit=1")).json()
        (alarm,) = alarms["items"]
        assert next(iter(alarms["counts"].items())) == ("metadata_went_back", 1)
        assert alarm["code"] == "metadata_went_back"
        assert "broker 1 has seen controller epoch 99" in alarm["detail"]
        refused = await rest.post("/topics", {"name": "orders", "partitions": 3})
        assert problem(refused) == (503, "metadata_went_back")
        metrics = (await rest.client.get("/metrics")).text
        assert 'springtide_controller_metadata_went_back{cluster="prod"} 1.0' in metrics


async def test_a_standby_shows_that_metadata_went_back_until_another_term_begins(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with (
        controller(zookeeper) as rest,
        controller(zookeeper, name="c2", is_active=False) as standby,
    ):
        (broker, *_) = await rest.form()
        cluster = (await rest.client.get("/clusters/prod")).json()
        await standby.clock.sleep_ms(5_000)
        assert (await standby.client.get("/clusters/prod")).json()["health"] != "metadata_went_back"
        broker.witness = Witness(cluster_id=cluster["cluster_id"], controller_epoch=ControllerEpoch(99))
        await broker.heartbeat()
        await standby.clock.sleep_ms(3_000)
        assert (await standby.client.get("/clusters/prod")).json()["health"] == "metadata_went_back"
        assert standby.engine.cluster("prod").went_back == rest.engine.cluster("prod").went_back
        assert standby.engine.drivers.went_back("other") is None
        rest.engine.stand_down()
        await standby.clock.sleep_ms(5_000)
        assert standby.engine.role == "active"
        assert (await standby.client.get("/clusters/prod")).json()["health"] != "metadata_went_back"


async def test_logs_that_were_set_aside_are_listed_and_brought_back_by_one_call(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        brokers = await rest.form()
        lost_id = "Zk1lV0pCTEq4nY6mXw2v3A"
        log = SetAsideLog(
            directory=f"later-0.{lost_id}",
            topic_id=lost_id,
            topic="later",
            partition=0,
            why="not in the controller's full state",
            since_ms=0,
            leader_epoch=LeaderEpoch(3),
            log_start_offset=0,
            log_end_offset=12,
            size_bytes=900,
            is_whole=True,
        )
        for broker in brokers:
            told = (log,) if broker is brokers[0] else ()
            report = LagReport(
                broker_id=broker.broker_id, broker_epoch=BrokerEpoch(broker.broker_epoch), set_aside=told
            )
            await rest.engine.submit("prod", Report(request=report, wall_ms=0))
        (listed,) = (await rest.client.get("/clusters/prod/set-aside-logs")).json()["items"]
        assert listed == {
            "broker_id": 1,
            "directory": log.directory,
            "topic": "later",
            "topic_id": lost_id,
            "partition": 0,
            "leader_epoch": 3,
            "log_start_offset": 0,
            "log_end_offset": 12,
            "high_watermark": None,
            "size_bytes": 900,
            "why": "not in the controller's full state",
            "since": "1970-01-01T00:00:00.000Z",
            "can_come_back": True,
        }
        (alarm, *_) = (await rest.client.get("/clusters/prod/alarms")).json()["items"]
        assert alarm["code"] == "log_set_aside"
        url = "/clusters/prod:bring-back-topics"
        planned = await rest.post(f"{url}?dry_run=true", {})
        assert (planned.status_code, planned.json()["dry_run"]) == (200, True)
        assert (await rest.client.get("/clusters/prod/topics/later")).status_code == 404
        done = await rest.post(url, {"reason": "made after the backup"})
        assert done.json() == {
            "topics": ["later"],
            "partitions": [
                {"topic": "later", "topic_id": lost_id, "partition": 0, "replicas": [1], "whole_replica": 1}
            ],
            "undecided": [],
            "dry_run": False,
        }
        view = (await rest.client.get("/clusters/prod/topics/later")).json()
        assert (view["topic_id"], view["last_change"]["cause"]) == (lost_id, "topic_brought_back")
        assert (await rest.post(url, {})).json()["topics"] == []
        unknown = await rest.post(url, {"topic_ids": ["A" * 22]})
        assert problem(unknown) == (404, "topic_not_found")
