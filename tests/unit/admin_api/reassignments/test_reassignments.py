"""Replicas are moved by hand: begun, followed, cancelled, replaced, and carried on by the next controller."""

from __future__ import annotations

import pytest

from admin_api.settings import ApiSettings
from controller.shell.known_cluster import KnownCluster
from tests.kit.admin_api.reassignments import ASSIGNMENT, PARTITION, formed, put, report, settled, shown
from tests.kit.admin_api.rest import controller, pointers, problem, silence
from tests.kit.memory.zookeeper import MemoryZooKeeper

pytestmark = pytest.mark.anyio

REASSIGNMENTS = "/clusters/prod/reassignments"


async def test_a_partition_moves_and_its_operation_ends_when_the_targets_are_in_sync(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest)
        accepted = await put(rest, 4, 2, 3, reason="store1 is to be replaced")
        assert (accepted.status_code, accepted.headers["retry-after"]) == (202, "1")
        path = accepted.headers["location"]
        begun = accepted.json()
        assert (path, begun["kind"], begun["state"]) == (
            f"/operations/{begun['id']}",
            "reassignment",
            "running",
        )
        assert begun["spec"]["moves"][0]["original"] == [1, 2, 3]
        assert (begun["progress"]["moves_total"], begun["progress"]["moves_done"]) == (1, 0)
        partition = await shown(rest, PARTITION)
        assert (partition["replicas"], partition["adding_replicas"]) == ([4, 2, 3, 1], [4])

        await report(rest, brokers)
        (moving,) = (await shown(rest, REASSIGNMENTS))["items"]
        assert (moving["topic"], moving["partition"], moving["operation_id"]) == ("orders", 0, begun["id"])
        assert (moving["original_replicas"], moving["target_replicas"]) == ([1, 2, 3], [4, 2, 3])
        assert (moving["adding_replicas"], moving["removing_replicas"]) == ([4], [1])
        assert (moving["size_bytes"], moving["targets_in_sync"], moving["blocked"]) == (4_096, 2, None)
        assert moving["targets"][0] == {
            "broker_id": 4,
            "is_learner": True,
            "in_sync": False,
            "log_end_offset": 30,
            "lag_records": 10,
            "copied_bytes": None,
            "remaining_bytes": None,
            "rate_bytes_per_s": None,
            "eta": None,
            "throttle_bytes_per_s": None,
        }

        await report(rest, brokers, 1, 2, 3, 4)
        done = await settled(rest, path)
        assert (done["state"], done["summary"]) == ("succeeded", "orders-0 is on brokers 4, 2, 3")
        assert done["progress"]["moves_done"] == 1
        assert (await shown(rest, REASSIGNMENTS))["items"] == []
        assert (await shown(rest, PARTITION))["replicas"] == [4, 2, 3]
        (started,) = await rest.recorded(cause="reassignment_started")
        assert (started["operation_id"], started["reason"]) == (begun["id"], "store1 is to be replaced")
        assert (started["before"]["replicas"], started["after"]["replicas"]) == ([1, 2, 3], [4, 2, 3, 1])
        (request,) = await rest.recorded(kind="request", cause="assign_partition")
        assert (request["brokers"], request["outcome"]["outcome"]) == ([2, 3, 4], "succeeded")


async def test_another_order_or_fewer_replicas_are_there_at_once(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await formed(rest)
        for replicas in ([3, 2, 1], [3, 2, 1], [3, 2]):
            done = await put(rest, *replicas)
            assert (done.status_code, done.json()["state"]) == (202, "succeeded")
            assert (await shown(rest, PARTITION))["replicas"] == replicas


async def test_a_dry_run_shows_what_would_be_copied_and_changes_nothing(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest, brokers=5)
        assert (await put(rest, 4, 5, 1, query="?dry_run=true")).json()["bytes_to_copy"] is None
        await report(rest, brokers, size_bytes=1_000)
        planned = await put(rest, 4, 5, 1, query="?dry_run=true")
        assert (planned.status_code, planned.json()["bytes_to_copy"]) == (200, 2_000)
        assert planned.json()["partition"]["adding_replicas"] == [4, 5]
        assert (await put(rest, 3, 2, query="?dry_run=true")).json()["bytes_to_copy"] == 0
        refused = await rest.client.delete(f"{ASSIGNMENT}?dry_run=true")
        assert problem(refused) == (409, "no_reassignment_in_progress")
        assert (await shown(rest, PARTITION))["replicas"] == [1, 2, 3]
        assert (await shown(rest, "/operations"))["items"] == []


@pytest.mark.parametrize(
    ("replicas", "expected"),
    [
        ([], (422, "invalid_request")),
        ([1, 1], (422, "invalid_replica_assignment")),
        ([1, 2, 9], (422, "unknown_broker")),
        ([-1], (422, "invalid_request")),
    ],
)
async def test_an_assignment_that_cannot_be(
    zookeeper: MemoryZooKeeper, replicas: list[int], expected: tuple[int, str]
) -> None:
    async with controller(zookeeper) as rest:
        await formed(rest)
        refused = await put(rest, *replicas)
        assert problem(refused) == expected
        assert pointers(refused)[0].startswith("/replicas")
        assert refused.json()["hint"]


async def test_a_cordoned_broker_gets_nothing_by_hand_either(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await formed(rest)
        await rest.client.patch("/clusters/prod/brokers/4", json={"cordoned": True})
        assert problem(await put(rest, 4, 2, 3)) == (422, "ineligible_broker")
        missing = await rest.client.put(f"{PARTITION[:-1]}9/assignment", json={"replicas": [1]})
        assert problem(missing) == (404, "partition_not_found")


async def test_what_blocks_a_move_is_in_the_list_and_in_its_operation(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest)
        path = (await put(rest, 4, 2, 3)).headers["location"]
        assert (await shown(rest, f"{REASSIGNMENTS}?blocked=true"))["items"] == []
        await silence(rest, brokers, 1, 2, 3)
        (stuck,) = (await shown(rest, f"{REASSIGNMENTS}?blocked=true&topic=orders"))["items"]
        assert stuck["blocked"] == {"code": "target_offline", "detail": "broker 4 is fenced"}
        waiting = await shown(rest, path)
        assert [(item["code"], item["partition"]) for item in waiting["blocked"]] == [("target_offline", 0)]
        assert (await shown(rest, f"{REASSIGNMENTS}?blocked=false"))["items"] == []
        assert (await shown(rest, f"{REASSIGNMENTS}?topic=other"))["items"] == []


async def test_a_cancelled_move_brings_the_original_replicas_back(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await formed(rest)
        path = (await put(rest, 4, 2, 3)).headers["location"]
        planned = await rest.client.delete(f"{ASSIGNMENT}?dry_run=true")
        assert (planned.status_code, planned.json()["partition"]["replicas"]) == (200, [1, 2, 3])
        cancelled = await rest.client.delete(f"{ASSIGNMENT}?reason=wrong+broker")
        assert (cancelled.status_code, cancelled.json()["state"]) == (202, "succeeded")
        assert cancelled.json()["summary"] == "orders-0 is on brokers 1, 2, 3 again"
        assert (await shown(rest, PARTITION))["replicas"] == [1, 2, 3]
        ended = await settled(rest, path)
        assert (ended["state"], ended["summary"]) == ("cancelled", "orders-0 rolled back")
        assert problem(await rest.client.delete(ASSIGNMENT)) == (409, "no_reassignment_in_progress")
        (row,) = await rest.recorded(cause="reassignment_cancelled")
        assert (row["reason"], row["operation_id"]) == ("wrong broker", cancelled.json()["id"])


async def test_another_target_replaces_the_first_and_ends_its_operation(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest, brokers=5)
        first = (await put(rest, 4, 2, 3)).headers["location"]
        second = (await put(rest, 5, 2, 3)).headers["location"]
        ended = await settled(rest, first)
        assert (ended["state"], ended["summary"]) == ("cancelled", "orders-0 replaced")
        await report(rest, brokers, 1, 2, 3, 5)
        assert (await settled(rest, second))["state"] == "succeeded"
        assert (await shown(rest, first))["state"] == "cancelled"


async def test_an_operation_is_cancelled_and_says_who_wanted_it(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await formed(rest)
        path = (await put(rest, 4, 2, 3)).headers["location"]
        tag = (await rest.client.get(path)).headers["etag"]
        stale = await rest.post(f"{path}:cancel", {}, If_Match='"9.x"')
        assert problem(stale) == (412, "precondition_failed")
        planned = await rest.post(f"{path}:cancel?dry_run=true", {})
        assert (planned.status_code, planned.json()["state"]) == (200, "cancelling")
        assert (await shown(rest, path))["state"] == "running"
        body = {"reason": "clients time out"}
        accepted = await rest.post(f"{path}:cancel", body, If_Match=tag, X_Actor="bob")
        assert accepted.status_code == 202, accepted.text
        assert accepted.headers["location"] == path
        assert accepted.json()["state"] == "cancelling"
        ended = await settled(rest, path)
        assert (ended["state"], ended["summary"]) == ("cancelled", "orders-0 rolled back")
        assert (await shown(rest, PARTITION))["replicas"] == [1, 2, 3]
        (row,) = await rest.recorded(cause="reassignment_cancelled")
        assert (row["actor"], row["reason"], row["operation_id"]) == (
            "unverified:bob@10.0.0.7",
            "clients time out",
            path.rpartition("/")[2],
        )
        assert problem(await rest.post(f"{path}:cancel", {})) == (409, "operation_finished")
        assert problem(await rest.post("/operations/op_none:cancel", {})) == (404, "operation_not_found")


async def test_a_cancellation_waits_until_it_is_safe_and_outlives_its_controller(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest, brokers=5)
        path = (await put(rest, 4, 5, 1)).headers["location"]
        await report(rest, brokers, 1, 2, 3, 4)
        await silence(rest, brokers, 1, 4, 5)
        assert (await shown(rest, PARTITION))["isr"] == [4, 1]
        unsafe = await rest.client.delete(ASSIGNMENT)
        assert (problem(unsafe), unsafe.json()["retryable"]) == ((409, "reassignment_not_safe"), True)
        cancelling = (await rest.post(f"{path}:cancel", {})).json()
        assert cancelling["state"] == "cancelling"
        waiting = await settled(rest, path)
        assert (waiting["state"], waiting["blocked"][0]["code"]) == ("cancelling", "reassignment_not_safe")
        again = await rest.post(f"{path}:cancel", {})
        assert (again.status_code, again.json()["state"]) == (202, "cancelling"), "asking twice is no error"

        first_epoch = rest.engine.controller_epoch
        rest.meta.expire_at_server()
        await rest.clock.sleep_ms(20_000)
        assert rest.engine.controller_epoch > first_epoch
        for broker in brokers:
            await broker.register()
        await silence(rest, brokers, 1, 2, 3, 4, 5)
        assert (await shown(rest, path))["state"] == "cancelling"
        await report(rest, brokers, 1, 2, 4)
        ended = await settled(rest, path)
        assert (ended["state"], ended["summary"]) == ("cancelled", "orders-0 rolled back")
        assert (await shown(rest, PARTITION))["replicas"] == [1, 2, 3]


async def test_another_controller_follows_a_move_to_its_end(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest)
        path = (await put(rest, 4, 2, 3)).headers["location"]
        first_epoch = rest.engine.controller_epoch
        rest.meta.expire_at_server()
        await rest.clock.sleep_ms(20_000)
        assert rest.engine.controller_epoch > first_epoch
        for broker in brokers:
            await broker.register()
        await silence(rest, brokers, 1, 2, 3, 4)
        assert (await shown(rest, path))["state"] == "running"
        (moving,) = (await shown(rest, REASSIGNMENTS))["items"]
        assert moving["operation_id"] == path.rpartition("/")[2]
        isr = (await shown(rest, PARTITION))["isr"]
        await report(rest, brokers, *{*isr, 2, 3, 4})
        assert (await settled(rest, path))["state"] == "succeeded"


async def test_a_throttle_ends_with_its_move_and_can_be_changed_before(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest)
        accepted = await put(rest, 4, 2, 3, throttle_bytes_per_s=1_000)
        path = accepted.headers["location"]
        ((_, state),) = rest.engine.cluster("prod").image.partitions.items()
        assert state.throttle is not None
        assert (state.throttle.rate, state.throttle.operation) == (1_000, accepted.json()["id"])
        await report(rest, brokers, size_bytes=4_096, lag_bytes=1_024)
        await rest.clock.sleep_ms(500)  # the runner looks
        progress = (await shown(rest, path))["progress"]
        assert (progress["bytes_total"], progress["bytes_done"]) == (4_096, 3_072)
        assert (progress["throttle_bytes_per_s"], progress["eta"]) == (1_000, None)
        (moving,) = (await shown(rest, REASSIGNMENTS))["items"]
        assert (moving["targets"][0]["remaining_bytes"], moving["targets"][0]["copied_bytes"]) == (
            1_024,
            3_072,
        )

        body = {"throttle_bytes_per_s": 5_000, "reason": "at night"}
        planned = await rest.client.patch(f"{path}?dry_run=true", json=body)
        assert (planned.status_code, planned.json()["progress"]["throttle_bytes_per_s"]) == (200, 1_000)
        changed = await rest.client.patch(path, json=body)
        assert (changed.status_code, changed.json()["progress"]["throttle_bytes_per_s"]) == (200, 5_000)
        lifted = await rest.client.patch(path, json={"throttle_bytes_per_s": None})
        assert lifted.json()["progress"]["throttle_bytes_per_s"] is None
        assert (await settled(rest, path))["state"] == "running", "it is still the same move"
        (row, *_) = await rest.recorded(kind="request", cause="throttle_operation")
        assert row["outcome"]["outcome"] == "succeeded"
        await rest.client.patch(path, json=body)
        await report(rest, brokers, 1, 2, 3, 4)
        assert (await settled(rest, path))["state"] == "succeeded"
        ((_, state),) = rest.engine.cluster("prod").image.partitions.items()
        assert state.throttle is None
        assert problem(await rest.client.patch(path, json=body)) == (409, "operation_finished")


async def test_progress_is_kept_by_the_next_controller_and_is_no_new_version(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest)
        path = (await put(rest, 4, 2, 3)).headers["location"]
        await report(rest, brokers, size_bytes=4_096, lag_bytes=3_072)
        await rest.clock.sleep_ms(500)
        before = await rest.client.get(path)
        await report(rest, brokers, size_bytes=4_096, lag_bytes=1_024)
        await rest.clock.sleep_ms(500)
        after = await rest.client.get(path)
        assert (before.json()["progress"]["bytes_done"], after.json()["progress"]["bytes_done"]) == (
            1_024,
            3_072,
        )
        match = {"if-match": before.headers["etag"]}
        body = {"throttle_bytes_per_s": 5_000}
        fits = await rest.client.patch(f"{path}?dry_run=true", json=body, headers=match)
        assert fits.status_code == 200, "what was decided by the first look still fits"
        await report(rest, brokers, size_bytes=9_000, lag_bytes=8_999)
        await rest.clock.sleep_ms(500)
        assert (await shown(rest, path))["progress"] == after.json()["progress"]
        rest.meta.expire_at_server()
        await rest.clock.sleep_ms(2_000)
        kept = (await shown(rest, path))["progress"]
        assert (kept["bytes_total"], kept["bytes_done"]) == (4_096, 3_072)


async def test_one_look_at_many_moves_asks_the_cluster_once(
    zookeeper: MemoryZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with controller(zookeeper) as rest:
        await rest.form(4)
        await rest.create_topic(assignments=[[1, 2, 3]] * 5, partitions=5)
        for number in range(5):
            path = f"/clusters/prod/topics/orders/partitions/{number}/assignment"
            assert (await rest.client.put(path, json={"replicas": [4, 2, 3]})).status_code == 202
        await rest.clock.sleep_ms(500)
        asked: list[str] = []
        found = rest.engine.cluster("prod").reassignments()
        assert len(found) == 5

        def reassignments(view: KnownCluster) -> object:
            asked.append(view.cluster)
            return found

        monkeypatch.setattr(KnownCluster, "reassignments", reassignments)
        await rest.app.state.operations.advance_all()
        assert asked == ["prod"]


async def test_a_throttle_that_cannot_be(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest)
        assert problem(await put(rest, 4, 2, 3, throttle_bytes_per_s=0)) == (422, "invalid_request")
        path = (await put(rest, 4, 2, 3)).headers["location"]
        for body in ({}, {"throttle_bytes_per_s": 0}, {"throttle_bytes_per_s": "5"}):
            assert problem(await rest.client.patch(path, json=body)) == (422, "invalid_request")
        await silence(rest, brokers, 1)
        other = (await rest.post("/clusters/prod/brokers/1:demote", {})).headers["location"]
        refused = await rest.client.patch(other, json={"throttle_bytes_per_s": 5})
        assert problem(refused) == (409, "operation_moves_nothing")


async def test_a_topic_that_is_deleted_ends_its_moves(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await formed(rest)
        path = (await put(rest, 4, 2, 3)).headers["location"]
        await rest.client.delete("/clusters/prod/topics/orders")
        ended = await settled(rest, path)
        assert (ended["state"], ended["error"]["code"]) == ("failed", "topic_deleted")


async def test_only_the_partition_that_was_looked_at_is_moved(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper, settings=ApiSettings(if_match_required=True)) as rest:
        await formed(rest)
        assert problem(await put(rest, 4, 2, 3)) == (428, "precondition_required")
        old = {"If-Match": (await rest.client.get(PARTITION)).headers["etag"]}
        body = {"replicas": [4, 2, 3]}
        assert (await rest.client.put(ASSIGNMENT, json=body, headers=old)).status_code == 202
        refused = await rest.client.put(ASSIGNMENT, json=body, headers=old)
        assert (problem(refused), pointers(refused)) == ((412, "precondition_failed"), ["If-Match"])
        assert problem(await rest.client.delete(ASSIGNMENT, headers=old)) == (412, "precondition_failed")


async def test_a_repeated_move_has_one_operation(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await formed(rest)
        key = {"Idempotency-Key": "k1"}
        first = await rest.client.put(ASSIGNMENT, json={"replicas": [4, 2, 3]}, headers=key)
        again = await rest.client.put(ASSIGNMENT, json={"replicas": [4, 2, 3]}, headers=key)
        assert (again.content, again.headers["idempotency-replayed"]) == (first.content, "true")
        assert len((await shown(rest, "/operations?kind=reassignment"))["items"]) == 1


async def test_a_standby_hears_no_reports_and_sends_on(zookeeper: MemoryZooKeeper) -> None:
    async with (
        controller(zookeeper, name="c1") as active,
        controller(zookeeper, name="c2", is_active=False) as standby,
    ):
        await formed(active)
        await standby.clock.sleep_ms(5_000)
        answer = await standby.client.get(REASSIGNMENTS)
        assert problem(answer) == (307, "not_the_active_controller")
        assert problem(await active.client.get("/clusters/none/reassignments")) == (404, "cluster_not_found")
