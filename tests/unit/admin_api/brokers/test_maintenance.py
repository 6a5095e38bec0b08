"""Brokers are cordoned, demoted and taken back, and many partitions get their preferred leaders back."""

from __future__ import annotations

from typing import Any

import pytest

from admin_api.settings import ApiSettings
from controller.shell.listeners import ListenerAnswer
from tests.kit.admin_api.rest import Rest, controller, pointers, problem, silence
from tests.kit.controller.shell import Broker, form_cluster
from tests.kit.memory.zookeeper import MemoryZooKeeper

pytestmark = pytest.mark.anyio

BROKER = "/clusters/prod/brokers/1"
ELECT = "/clusters/prod/partitions:elect-preferred"
CORDON = {"cordoned": True, "reason": "its disks are getting full"}


async def shown(rest: Rest, path: str) -> dict[str, Any]:
    body: dict[str, Any] = (await rest.client.get(path)).json()
    return body


async def leaders(rest: Rest) -> list[int | None]:
    items = (await shown(rest, "/clusters/prod/topics/orders/partitions"))["items"]
    return [item["leader"] for item in items]


async def test_a_cordoned_broker_gets_no_new_replicas_until_the_cordon_ends(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        await rest.form(4)
        changed = await rest.client.patch(BROKER, json=CORDON)
        assert (changed.status_code, changed.json()["cordoned"]) == (200, True)
        assert changed.headers["etag"] == (await rest.client.get(BROKER)).headers["etag"]
        planned = await rest.post(
            "/topics?dry_run=true", {"name": "t", "partitions": 8, "replication_factor": 3}
        )
        used = {broker for row in planned.json()["assignments"] for broker in row["replicas"]}
        assert used == {2, 3, 4}
        (row,) = await rest.recorded(cause="broker_maintenance")
        assert (row["before"]["cordoned"], row["after"]["cordoned"]) == (False, True)
        assert (row["reason"], row["operation_id"]) == (CORDON["reason"], None)
        await rest.client.patch(BROKER, json={"cordoned": False})
        assert (await shown(rest, BROKER))["cordoned"] is False


async def test_a_dry_run_of_a_cordon_shows_it_and_changes_nothing(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        before = (await rest.client.get(BROKER)).content
        planned = await rest.client.patch(f"{BROKER}?dry_run=true", json=CORDON)
        assert (planned.status_code, planned.json()["cordoned"]) == (200, True)
        assert (await rest.client.get(BROKER)).content == before
        assert await rest.recorded(kind="request", cause="change_broker") == []


async def test_a_change_of_a_broker_that_cannot_be(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        await Broker(rest.engine, 4).register()
        for path, body, expected in (
            ("/clusters/prod/brokers/9", CORDON, (404, "broker_not_found")),
            ("/clusters/none/brokers/1", CORDON, (404, "cluster_not_found")),
            ("/clusters/prod/brokers/4", CORDON, (422, "ineligible_broker")),
            (BROKER, {}, (422, "invalid_request")),
            (BROKER, {"cordoned": "yes"}, (422, "invalid_request")),
            (BROKER, {"cordoned": True, "colour": "red"}, (422, "invalid_request")),
        ):
            refused = await rest.client.patch(path, json=body)
            assert problem(refused) == expected, (path, body)
            assert refused.json()["hint"]
        for action in ("demote", "return"):
            assert problem(await rest.post(f"/clusters/prod/brokers/9:{action}", {})) == (
                404,
                "broker_not_found",
            )


async def test_only_the_broker_that_was_looked_at_is_changed(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper, settings=ApiSettings(if_match_required=True)) as rest:
        await rest.form()
        old = (await rest.client.get(BROKER)).headers["etag"]
        assert problem(await rest.client.patch(BROKER, json=CORDON)) == (428, "precondition_required")
        first = await rest.client.patch(BROKER, json=CORDON, headers={"If-Match": old})
        assert first.status_code == 200
        refused = await rest.post(f"{BROKER}:demote", {}, If_Match=old)
        assert (problem(refused), pointers(refused)) == ((412, "precondition_failed"), ["If-Match"])
        assert (await rest.post(f"{BROKER}:demote", {}, If_Match=first.headers["etag"])).status_code == 202


async def test_a_demotion_moves_the_leaderships_and_a_return_allows_them_back(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        await rest.create_topic(assignments=[[1, 2, 3], [2, 3, 1], [1, 3, 2]])
        planned = await rest.post(f"{BROKER}:demote?dry_run=true", {})
        assert (planned.status_code, planned.json()["leaders_moved"]) == (200, 2)
        assert (planned.json()["broker"]["demoted"], planned.json()["warnings"]) == (True, [])
        assert await leaders(rest) == [1, 2, 1]

        done = await rest.post(f"{BROKER}:demote", {"reason": "a new kernel"})
        assert (done.status_code, done.json()["kind"], done.json()["state"]) == (
            202,
            "broker_demote",
            "succeeded",
        )
        assert await leaders(rest) == [2, 2, 3]
        assert (await shown(rest, BROKER))["demoted"] is True
        moved = await rest.recorded(cause="leader_demoted")
        assert {(row["operation_id"], row["reason"]) for row in moved} == {
            (done.json()["id"], "a new kernel")
        }
        assert [row["before"]["leader"] for row in moved] == [1, 1]

        refused = await rest.post(ELECT, {})
        assert (refused.json()["state"], refused.json()["error"]["code"]) == ("failed", "elections_refused")
        back = await rest.post(f"{BROKER}:return", {"reason": "done"})
        assert (back.status_code, back.json()["kind"], back.json()["state"]) == (
            202,
            "broker_return",
            "succeeded",
        )
        elected = await rest.post(ELECT, {"reason": "done"})
        assert (elected.json()["state"], elected.json()["spec"]) == (
            "succeeded",
            {"elected": 2, "refused": 0},
        )
        assert await leaders(rest) == [1, 2, 1]
        again = await rest.post(ELECT, {})
        assert (again.json()["state"], again.json()["summary"]) == ("succeeded", "no leader was elected")


async def test_a_demotion_lasts_until_somebody_else_is_in_sync_and_says_so(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        brokers = await rest.form()
        await rest.create_topic(assignments=[[1, 2, 3]], partitions=1)
        await silence(rest, brokers, 1)
        planned = await rest.post(f"{BROKER}:demote?dry_run=true", {})
        assert planned.json()["warnings"] == ["1 partitions have no other replica in sync that may lead"]
        accepted = await rest.post(f"{BROKER}:demote", {})
        path = accepted.headers["location"]
        waiting = await shown(rest, path)
        assert (waiting["state"], waiting["blocked"][0]["code"]) == ("running", "no_other_leader")
        assert (waiting["blocked"][0]["topic"], waiting["blocked"][0]["partition"]) == ("orders", 0)
        refused = await rest.post(f"{path}:cancel", {})
        assert problem(refused) == (409, "operation_not_cancellable")

        await rest.post(f"{BROKER}:return", {})
        await brokers[0].heartbeat()
        await rest.clock.sleep_ms(500)
        ended = await shown(rest, path)
        assert (ended["state"], ended["blocked"]) == ("cancelled", [])
        assert ended["steps"][-1] == {"name": "hand_over", "state": "cancelled"}
        assert problem(await rest.post(f"{path}:cancel", {})) == (409, "operation_finished")


async def test_a_broker_whose_process_has_just_ended_is_forgotten_at_once(zookeeper: MemoryZooKeeper) -> None:
    """The command that stops it and the one that removes it follow each other in a script."""
    async with controller(zookeeper) as rest:
        await rest.form(4)
        await rest.clock.sleep_ms(700)  # the controller reaches its listener
        rest.listeners.kill("127.0.0.1", 9004)
        gone = await rest.client.delete("/clusters/prod/brokers/4")
        assert (gone.status_code, gone.json()["state"]) == (200, "fenced")


async def test_a_broker_that_the_controller_never_reached_is_not_taken_for_dead(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        brokers = await form_cluster(rest.engine, brokers=4)
        for broker in brokers:
            rest.listeners.answers["127.0.0.1", 9000 + broker.broker_id] = ListenerAnswer.REFUSED
        await rest.clock.sleep_ms(100)
        assert problem(await rest.client.delete("/clusters/prod/brokers/4")) == (409, "broker_in_use")
        await silence(rest, brokers, 1, 2, 3)
        assert (await rest.client.delete("/clusters/prod/brokers/4")).status_code == 200


async def test_only_a_broker_that_is_down_and_holds_nothing_is_forgotten(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await rest.form(4)
        await rest.create_topic(assignments=[[1, 2, 3]], partitions=1)
        fourth = "/clusters/prod/brokers/4"
        alive = await rest.client.delete(fourth)
        assert (problem(alive), alive.json()["detail"]) == (
            (409, "broker_in_use"),
            "broker 4 is still running",
        )
        assert alive.json()["hint"].startswith("stop it first")
        await silence(rest, brokers, 2, 3)
        holding = await rest.client.delete(BROKER)
        assert (problem(holding), holding.json()["facts"]) == ((409, "broker_in_use"), {"replicas": 1})
        tag = (await rest.client.get(fourth)).headers["etag"]
        stale = await rest.client.delete(fourth, headers={"If-Match": '"0.x"'})
        assert problem(stale) == (412, "precondition_failed")
        assert (await rest.client.delete(f"{fourth}?dry_run=true")).status_code == 200
        assert (await rest.client.get(fourth)).status_code == 200
        gone = await rest.client.delete(f"{fourth}?reason=replaced", headers={"If-Match": tag})
        assert (gone.status_code, gone.json()["state"], gone.json()["replicas"]) == (200, "fenced", 0)
        assert problem(await rest.client.get(fourth)) == (404, "broker_not_found")
        assert problem(await rest.client.delete(fourth)) == (404, "broker_not_found")
        (row,) = [row for row in await rest.recorded(cause="broker_removed") if row["entity"] == "broker"]
        assert (row["after"], row["reason"], row["brokers"]) == (None, "replaced", [4])


async def test_preferred_leaders_are_elected_each_alone(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        await rest.create_topic(assignments=[[1, 2, 3], [1, 3, 2]], partitions=2)
        await rest.create_topic("events", assignments=[[1, 2, 3]], partitions=1)
        await rest.post(f"{BROKER}:demote", {})
        await rest.post(f"{BROKER}:return", {})
        named = [
            {"topic": "orders", "partition": 1},
            {"topic": "orders", "partition": 7},
            {"topic": "none", "partition": 0},
        ]
        planned = await rest.post(f"{ELECT}?dry_run=true", {"partitions": named})
        assert [(item["partition"], item["leader"]) for item in planned.json()["elected"]] == [(1, 1)]
        assert [item["code"] for item in planned.json()["refused"]] == [
            "partition_not_found",
            "topic_not_found",
        ]
        assert await leaders(rest) == [2, 3]
        some = await rest.post(ELECT, {"partitions": named, "reason": "after maintenance"})
        assert (some.status_code, some.json()["state"]) == (202, "failed")
        assert some.json()["spec"] == {"elected": 1, "refused": 2}
        assert len(some.json()["refused"]) == 2
        assert await leaders(rest) == [2, 1]
        of_topic = await rest.post(ELECT, {"topics": ["orders"]})
        assert (of_topic.json()["state"], of_topic.json()["spec"]["elected"]) == ("succeeded", 1)
        assert await leaders(rest) == [1, 1]
        assert (await shown(rest, "/clusters/prod"))["partitions"]["leader_not_preferred"] == 1
        (row,) = await rest.recorded(cause="preferred_leader_elected", operation=some.json()["id"])
        assert (row["topic"], row["partition"], row["reason"]) == ("orders", 1, "after maintenance")


@pytest.mark.parametrize(
    ("body", "expected", "where"),
    [
        ({"topics": ["orders"], "partitions": [{"topic": "orders", "partition": 0}]}, 422, "/partitions"),
        ({"partitions": []}, 422, "/partitions"),
        ({"partitions": [{"topic": "orders"}]}, 422, "/partitions/0/partition"),
        ({"topics": []}, 422, "/topics"),
    ],
)
async def test_elections_that_make_no_sense_are_refused(
    zookeeper: MemoryZooKeeper, body: dict[str, Any], expected: int, where: str
) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        refused = await rest.post(ELECT, body)
        assert (refused.status_code, pointers(refused)) == (expected, [where])
        assert problem(await rest.post(ELECT, {"topics": ["none"]})) == (404, "topic_not_found")
