"""Plans: made, looked at, refused, carried out move by move, and not when they don't fit any more."""

from __future__ import annotations

import json
from typing import Any

import pytest
import sqlalchemy as sa

from admin_api.settings import ApiSettings
from controller.database.tables import plan_moves, plans
from springtide.contract.partition_state import PartitionState
from springtide.contract.session import DiskSpace
from tests.kit.admin_api.plans import (
    catch_up,
    ended,
    execute,
    formed,
    made,
    operation,
    partitions,
    pause,
    report_sizes,
)
from tests.kit.admin_api.rest import Rest, controller, pointers, problem
from tests.kit.memory.zookeeper import MemoryZooKeeper

pytestmark = pytest.mark.anyio

PLANS = "/clusters/prod/plans"
DRAIN_1 = {"kind": "drain", "broker_ids": [1]}


async def test_nothing_is_planned_onto_a_disk_that_is_full_as_far_as_is_known(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest)
        await report_sizes(rest, brokers, size_bytes=1_000)
        shown = (await rest.client.get("/clusters/prod/brokers/4")).json()
        assert (shown["disk_free_bytes"], shown["disk_total_bytes"]) == (None, None)
        rebalance = {"goal": {"kind": "rebalance"}}
        unknown = await rest.post(f"{PLANS}?dry_run=true", rebalance)
        assert unknown.json()["unknown_room"] == [4]
        brokers[3].disk = DiskSpace(free_bytes=7_500, total_bytes=100_000)
        await brokers[3].heartbeat()
        shown = (await rest.client.get("/clusters/prod/brokers/4")).json()
        assert (shown["disk_free_bytes"], shown["disk_total_bytes"]) == (7_500, 100_000)
        known = (await rest.post(f"{PLANS}?dry_run=true", rebalance)).json()
        assert (known["unknown_room"], known["totals"]["bytes"]) == ([], 2_000)
        setting = "/clusters/prod/configs/disk.reserve.percent"
        assert (await rest.client.put(setting, json={"value": "7"})).status_code == 200
        assert problem(await rest.post(PLANS, rebalance)) == (422, "no_improvement")
        brokers[3].disk = None
        await brokers[3].heartbeat()
        shown = (await rest.client.get("/clusters/prod/brokers/4")).json()
        assert shown["disk_free_bytes"] is None


async def test_a_full_disk_is_relieved(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest)
        await report_sizes(rest, brokers, size_bytes=1_000, less_bytes=100)
        goal = {"kind": "relieve", "broker_id": 1, "used_percent": 70}
        refused = await rest.post(PLANS, {"goal": goal})
        assert problem(refused) == (422, "plan_infeasible")
        assert refused.json()["detail"] == "broker 1 has not reported how full its disk is (not_measured)"
        for broker, free in zip(brokers, (1_500, 5_000, 5_000, 9_000), strict=True):
            broker.disk = DiskSpace(free_bytes=free, total_bytes=10_000)
            await broker.heartbeat()
        plan = (await rest.post(PLANS, {"goal": goal})).json()
        assert sorted(move["bytes"] for move in plan["moves"]) == [500, 1_000]
        assert {tuple(move["reasons"]) for move in plan["moves"]} == {("relief",)}
        assert all(move["replicas_after"].count(4) == 1 for move in plan["moves"])
        done = await execute(rest, plan)
        await pause(rest, brokers, 1_000)
        underway = await rest.post(f"{PLANS}?dry_run=true", {"goal": goal})
        assert problem(underway) == (422, "no_improvement"), "what is on its way counts as done"
        assert (await ended(rest, brokers, done.json()["id"]))["state"] == "succeeded"


async def test_replicas_come_only_to_the_chosen_brokers(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await formed(rest, brokers=6)
        chosen = {"include": ["broker:4", "host:127.0.0.1"], "exclude": ["broker:5"]}
        body = {"goal": DRAIN_1, "destinations": chosen}
        plan = (await rest.post(PLANS, body)).json()
        assert plan["destinations"] == [1, 2, 3, 4, 6]
        assert {b for move in plan["moves"] for b in move["replicas_after"]} == {2, 3, 4, 6}
        shown = await rest.client.get(f"{PLANS}/{plan['id']}")
        assert shown.json() == plan
        wrong = await rest.post(PLANS, {"goal": DRAIN_1, "destinations": {"exclude": ["rack:r9"]}})
        assert problem(wrong) == (422, "unknown_broker")
        assert pointers(wrong) == ["/destinations/exclude/0"]


async def test_a_rebalance_empties_one_and_fills_another_and_leaves_small_differences_alone(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest)
        goal = {"kind": "rebalance", "mode": "new_only", "new_broker_ids": [4]}
        plan = (await rest.post(PLANS, {"goal": goal | {"drain_broker_ids": [1]}})).json()
        assert plan["goal"]["drain_ids"] == [1]
        done = await execute(rest, plan)
        assert (await ended(rest, brokers, done.json()["id"]))["state"] == "succeeded"
        assert {b for state in partitions(rest) for b in state.replicas} == {2, 3, 4}
        below = await rest.post(PLANS, {"goal": {"kind": "rebalance", "floor_percent": 100}})
        assert problem(below) == (422, "no_improvement")
        assert below.json()["detail"].endswith("nothing moves (below_floor)")


async def test_a_plan_is_made_and_stays_as_it_was_made(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest)
        await report_sizes(rest, brokers, size_bytes=4_096)
        response = await rest.client.post(PLANS, json={"goal": DRAIN_1, "reason": "store1 goes"})
        assert response.status_code == 201, response.text
        plan = response.json()
        assert response.headers["location"] == f"{PLANS}/{plan['id']}"
        assert (plan["outcome"], plan["goal"]) == ("ready", {"kind": "drain", "broker_ids": [1]})
        assert plan["totals"]["moves"] == len(plan["moves"]) > 0
        assert plan["totals"]["bytes"] == 4_096 * plan["totals"]["copies"]
        for move in plan["moves"]:
            assert 1 in move["replicas_before"] and 1 not in move["replicas_after"]
        shown = await rest.client.get(response.headers["location"])
        assert shown.json() == plan
        moves = (await rest.client.get(f"{PLANS}/{plan['id']}/moves?limit=2")).json()
        rest_of_them = await rest.client.get(
            f"{PLANS}/{plan['id']}/moves?page_token={moves['next_page_token']}"
        )
        assert [*moves["items"], *rest_of_them.json()["items"]] == plan["moves"]
        (listed,) = (await rest.client.get(PLANS)).json()["items"]
        assert (listed["id"], listed["moves"]) == (plan["id"], plan["totals"]["moves"])


async def test_a_dry_run_keeps_nothing_and_moves_nothing(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await formed(rest)
        before = partitions(rest)
        response = await rest.client.post(f"{PLANS}?dry_run=true", json={"goal": DRAIN_1})
        assert (response.status_code, response.json()["id"]) == (200, None)
        assert (await rest.client.get(PLANS)).json()["items"] == []
        plan = await made(rest, DRAIN_1)
        preview = await execute(rest, plan, query="?dry_run=true")
        assert (preview.status_code, preview.json()["content_hash"]) == (200, plan["content_hash"])
        assert partitions(rest) == before
        assert (await rest.client.get("/operations")).json()["items"] == []


async def test_what_a_goal_demands_and_cant_be_had_is_refused_by_partition(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        await formed(rest, brokers=3)
        response = await rest.client.post(PLANS, json={"goal": DRAIN_1})
        assert problem(response) == (422, "plan_infeasible")
        refused = response.json()
        assert refused["facts"]["reasons"] == 6
        assert "orders-0" in refused["errors"][0]["message"]
        assert "no_receiver" in refused["errors"][0]["message"]
        response = await rest.client.post(PLANS, json={"goal": {"kind": "rebalance"}})
        assert problem(response) == (422, "no_improvement")
        wanted = [
            {"topic": "orders", "partition": 0, "replicas": [1, 2, 3]},
            {"topic": "orders", "partition": 1, "replicas": [1, 2, 9]},
        ]
        response = await rest.client.post(PLANS, json={"goal": {"kind": "assign", "assignments": wanted}})
        assert problem(response) == (422, "plan_infeasible")
        assert pointers(response) == ["/goal/assignments/1"]
        wanted[1]["topic"] = "ordrs"
        response = await rest.client.post(PLANS, json={"goal": {"kind": "assign", "assignments": wanted}})
        assert problem(response) == (422, "unknown_topic")
        assert pointers(response) == ["/goal/assignments/1/topic"]
        response = await rest.client.post(PLANS, json={"goal": {"kind": "tidy_up"}})
        assert problem(response) == (422, "invalid_request")
        assert problem(await rest.client.get(f"{PLANS}/plan_none")) == (404, "plan_not_found")


async def test_a_plan_is_carried_out_a_few_moves_at_a_time(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest)
        plan = await made(rest, DRAIN_1)
        accepted = await execute(rest, plan, max_concurrent_moves=2, throttle_bytes_per_s=1_000, reason="go")
        assert accepted.status_code == 202, accepted.text
        begun = accepted.json()
        assert (begun["kind"], begun["plan_id"]) == ("plan_execution", plan["id"])
        assert begun["progress"]["moves_total"] == plan["totals"]["moves"]
        seen_at_once = 0
        for _ in range(40):
            await pause(rest, brokers, 500)
            moving = [state for state in partitions(rest) if state.is_reassigning]
            seen_at_once = max(seen_at_once, len(moving))
            for state in moving:
                assert state.throttle is not None
                assert (state.throttle.rate, state.throttle.operation) == (1_000, begun["id"])
            now = await operation(rest, begun["id"])
            if now["state"] != "running":
                break
            await catch_up(rest, brokers)
        assert (now["state"], now["error"]) == ("succeeded", None)
        assert [step["state"] for step in now["steps"]] == ["succeeded", "succeeded"]
        assert now["progress"]["moves_done"] == plan["totals"]["moves"]
        assert seen_at_once == 2
        after = {(s.topic, s.partition): list(s.replicas) for s in partitions(rest)}
        for move in plan["moves"]:
            assert after[move["topic"], move["partition"]] == move["replicas_after"]
        assert all(s.leader == s.preferred_leader for s in partitions(rest))
        moves = (await rest.client.get(f"/operations/{begun['id']}/moves")).json()["items"]
        assert {move["fate"] for move in moves} == {"moved"}
        assert all(move["begun_at"] <= move["ended_at"] for move in moves)
        assert (await rest.client.get(f"{PLANS}/{plan['id']}")).json()["operation_id"] == begun["id"]
        assert problem(await execute(rest, plan)) == (409, "plan_executed")
        assert problem(await rest.client.delete(f"{PLANS}/{plan['id']}")) == (409, "plan_executed")


async def _drift(rest: Rest, *, topic: str = "orders", partition: int = 0) -> None:
    """Another order of replicas: done at once, and a new epoch."""
    state = next(s for s in partitions(rest) if (s.topic, s.partition) == (topic, partition))
    first, second, *others = state.replicas
    path = f"/clusters/prod/topics/{topic}/partitions/{partition}/assignment"
    response = await rest.client.put(path, json={"replicas": [second, first, *others]})
    assert response.status_code == 202, response.text


async def test_a_plan_that_does_not_fit_any_more_is_refused_with_what_has_drifted(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest)
        plan = await made(rest, DRAIN_1)
        await _drift(rest)
        stale = await execute(rest, plan)
        assert problem(stale) == (409, "plan_stale")
        assert stale.json()["facts"]["drifted"] == 1
        place = next(m["position"] for m in plan["moves"] if (m["topic"], m["partition"]) == ("orders", 0))
        assert pointers(stale) == [f"/moves/{place}"]
        assert not any(state.is_reassigning for state in partitions(rest))

        skipping = await execute(rest, plan, query="?dry_run=true", drifted="skip")
        assert [m["topic_id"] for m in skipping.json()["moves"]] != []
        assert ("orders", 0) not in {(m["topic"], m["partition"]) for m in skipping.json()["moves"]}

        accepted = await execute(rest, plan, drifted="re_plan")
        assert accepted.status_code == 202, accepted.text
        assert accepted.json()["plan_id"] != plan["id"]
        again = (await rest.client.get(f"{PLANS}/{accepted.json()['plan_id']}")).json()
        others = {(m["topic"], m["partition"]): m for m in plan["moves"]}
        for move in again["moves"]:
            key = (move["topic"], move["partition"])
            if key == ("orders", 0):
                assert move["partition_epoch"] > others[key]["partition_epoch"]
            else:
                assert move["replicas_after"] == others[key]["replicas_after"]
                assert move["partition_epoch"] == others[key]["partition_epoch"]
        done = await ended(rest, brokers, accepted.json()["id"])
        assert done["state"] == "succeeded"
        assert not any(1 in state.replicas for state in partitions(rest))


async def test_a_plan_changed_in_sql_is_not_carried_out(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await formed(rest)
        plan = await made(rest, DRAIN_1)

        def tamper(connection: sa.Connection) -> None:
            connection.execute(
                plan_moves.update().where(plan_moves.c.position == 0).values(replicas_after=[2, 3, 4])
            )
            connection.execute(
                plan_moves.update().where(plan_moves.c.position == 1).values(replicas_after=[4, 3, 2])
            )

        await rest.store.write(tamper)
        assert problem(await execute(rest, plan)) == (409, "plan_tampered_with")


async def test_a_plan_expires_and_can_be_deleted(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await formed(rest)
        response = await rest.client.post(PLANS, json={"goal": DRAIN_1, "expires_in_s": 10})
        plan = response.json()
        await rest.clock.sleep_ms(10_001)
        assert problem(await execute(rest, plan)) == (409, "plan_expired")
        etag = (await rest.client.get(f"{PLANS}/{plan['id']}")).headers["etag"]
        stale = {"If-Match": '"00.00"'}
        assert problem(await rest.client.delete(f"{PLANS}/{plan['id']}", headers=stale)) == (
            412,
            "precondition_failed",
        )
        deleted = await rest.client.delete(f"{PLANS}/{plan['id']}", headers={"If-Match": etag})
        assert (deleted.status_code, deleted.content) == (204, b"")
        assert problem(await rest.client.get(f"{PLANS}/{plan['id']}")) == (404, "plan_not_found")
        count = sa.select(sa.func.count())
        for table in (plans, plan_moves):
            statement = count.select_from(table)
            assert await rest.store.read(lambda c: c.execute(statement).scalar_one()) == 0  # noqa: B023


async def test_a_repeated_execution_under_one_key_is_one_operation(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest)
        plan = await made(rest, DRAIN_1)
        key = {"Idempotency-Key": "drain-store1"}
        path = f"{PLANS}/{plan['id']}:execute"
        first, again = [await rest.client.post(path, json={}, headers=key) for _ in range(2)]
        assert (first.status_code, again.status_code) == (202, 202)
        assert first.json()["id"] == again.json()["id"]
        assert (await ended(rest, brokers, first.json()["id"]))["state"] == "succeeded"


async def test_only_the_moves_that_pay_most(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest)
        await report_sizes(rest, brokers, size_bytes=1_000)
        plan = await made(rest, DRAIN_1)
        accepted = await execute(rest, plan, bytes_max=2_500)
        assert accepted.json()["progress"]["moves_total"] == 2
        done = await ended(rest, brokers, accepted.json()["id"])
        assert (done["state"], done["progress"]["bytes_done"]) == ("succeeded", 2_000)
        first = {(m["topic"], m["partition"]) for m in plan["moves"][:2]}
        changed: list[PartitionState] = [s for s in partitions(rest) if 1 not in s.replicas]
        assert {(s.topic, s.partition) for s in changed} >= first
        assert problem(await execute(rest, await made(rest, DRAIN_1), bytes_max=10)) == (
            422,
            "no_improvement",
        )


# --- evened out by what was measured ------------------------------------------------------------------------

MEASURED = ["disk", "bytes_in", "leader_bytes_in", "bytes_out"]


def even_out(topic_id: str, **measured: Any) -> dict[str, Any]:
    """A goal for `orders`, whose first partition is hot."""
    topics = [{"topic_id": topic_id, "bytes_in": [9_000_000] + 5 * [1_000_000]}]
    return {"kind": "even_out", "weights": MEASURED, "measured": {"topics": topics} | measured}


async def test_what_was_measured_is_evened_out_and_carried_out(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest)
        await report_sizes(rest, brokers, size_bytes=2**30)
        goal = even_out(partitions(rest)[0].topic_id)
        said = {"goal": goal, "reason": "before the sale"}
        dry = (await rest.client.post(f"{PLANS}?dry_run=true", json=said)).json()
        response = await rest.client.post(PLANS, json=said)
        assert response.status_code == 201, response.text
        plan = response.json()
        assert (plan["moves"], plan["content_hash"]) == (dry["moves"], dry["content_hash"])
        assert plan["goal"] == {
            "kind": "even_out",
            "weights": MEASURED,
            "target_permille": 1_100,
            "bytes_max": None,
            "moves_max": 10_000,
        }
        before, after = (
            {load["weight"]: load for load in plan[when]["loads"]} for when in ("before", "after")
        )
        assert before["bytes_in"]["total"] == 3 * 14_000_000
        for weight in MEASURED:
            assert after[weight]["highest_over_mean"] <= before[weight]["highest_over_mean"]
        assert after["disk"]["highest_over_mean"] < before["disk"]["highest_over_mean"]
        assert "too_heavy" in [one["code"] for one in plan["skipped"]]
        assert (await rest.client.get(response.headers["location"])).json() == plan
        operation_id = (await execute(rest, plan)).json()["id"]
        await catch_up(rest, brokers)
        assert (await ended(rest, brokers, operation_id))["state"] == "succeeded"
        now = {p.partition: p.replicas for p in partitions(rest)}
        assert {m["partition"]: tuple(m["replicas_after"]) for m in plan["moves"]}.items() <= now.items()


async def test_rates_are_averages_of_what_leaders_report(zookeeper: MemoryZooKeeper) -> None:
    goal = {"kind": "even_out", "weights": ["bytes_in", "bytes_out"]}
    async with controller(zookeeper) as rest:
        brokers = await formed(rest)
        await report_sizes(rest, brokers, size_bytes=2**30, bytes_in=[0] * 6)
        await pause(rest, brokers, 100_000)
        refused = await rest.client.post(PLANS, json={"goal": goal})
        assert problem(refused) == (422, "plan_infeasible")
        assert "five minutes" in refused.json()["detail"]
        await pause(rest, brokers, 200_000)
        hot = [300 * rate for rate in (9_000_000, *5 * [1_000_000])]
        await report_sizes(rest, brokers, size_bytes=2**30, bytes_in=hot)
        plan = await made(rest, goal)
        before, after = ({one["weight"]: one for one in plan[when]["loads"]} for when in ("before", "after"))
        assert before["bytes_in"]["total"] == pytest.approx(3 * 14_000_000, rel=0.05)
        assert before["bytes_out"]["total"] == pytest.approx(2 * 14_000_000, rel=0.05)
        assert after["bytes_in"]["highest_over_mean"] < before["bytes_in"]["highest_over_mean"]
        only_room = goal | {"measured": {"brokers": [{"broker_id": 4, "room_bytes": 0}]}}
        assert 4 not in {b for m in (await made(rest, only_room))["moves"] for b in m["replicas_after"]}, (
            "without topics, the rates are those that leaders report"
        )


async def test_no_rate_is_guessed_while_a_leader_of_an_older_release_does_not_count(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest)
        await report_sizes(rest, brokers, size_bytes=2**30)
        await pause(rest, brokers, 400_000)
        goal = {"kind": "even_out", "weights": ["bytes_in"]}
        assert problem(await rest.client.post(PLANS, json={"goal": goal})) == (422, "plan_infeasible")


async def test_the_audit_keeps_a_hash_of_what_was_measured(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest)
        await report_sizes(rest, brokers, size_bytes=2**30)
        await made(rest, even_out(partitions(rest)[0].topic_id))
        (asked,) = await rest.recorded(cause="make_plan")
        assert list(asked["after"]["goal"]["measured"]) == ["sha256"]


async def test_where_nothing_helps_the_loads_are_told(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await formed(rest, brokers=3)
        goal = {"kind": "even_out", "weights": ["replicas", "leaders"]}
        response = await rest.client.post(PLANS, json={"goal": goal})
        assert problem(response) == (422, "no_improvement")
        facts = response.json()["facts"]
        assert facts["skipped"] == []
        assert {load["weight"]: load["highest_over_mean"] for load in facts["after"]["loads"]} == {
            "replicas": 1.0,
            "leaders": 1.0,
            "disk": 1.0,
        }


@pytest.mark.parametrize(
    ("change", "code", "pointer"),
    [
        ({"weights": ["bytes_in"], "measured": None}, "plan_infeasible", "/goal"),
        ({"weights": []}, "invalid_request", "/goal/even_out/weights"),
        ({"weights": ["cpu"]}, "invalid_request", "/goal/even_out/weights/0"),
        ({"target_permille": 1_000}, "invalid_request", "/goal/even_out/target_permille"),
        ({"moves_max": 10_001}, "invalid_request", "/goal/even_out/moves_max"),
        ({"bytes_max": -1}, "invalid_request", "/goal/even_out/bytes_max"),
        ({"topics": [{"bytes_in": [-1]}]}, "invalid_request", "/goal/even_out/measured/topics/0/bytes_in/0"),
        (
            {"topics": [{"bytes_in": [2**40 + 1]}]},
            "invalid_request",
            "/goal/even_out/measured/topics/0/bytes_in/0",
        ),
        ({"topics": [{"bytes_in": [1.5]}]}, "invalid_request", "/goal/even_out/measured/topics/0/bytes_in/0"),
        ({"topics": [{"bytes_in": [1] * 7}]}, "invalid_request", "/goal/measured/topics/0/bytes_in"),
        (
            {"topics": [{"bytes_in": [], "bytes_out": [1] * 7}]},
            "invalid_request",
            "/goal/measured/topics/0/bytes_out",
        ),
        (
            {"topics": [{"bytes_in": [1]}, {"bytes_in": [2]}]},
            "invalid_request",
            "/goal/measured/topics/1/topic_id",
        ),
        (
            {"topics": [{"topic_id": "gone", "bytes_in": [1]}]},
            "unknown_topic",
            "/goal/measured/topics/0/topic_id",
        ),
        (
            {"brokers": [{"broker_id": 9, "room_bytes": 1}]},
            "unknown_broker",
            "/goal/measured/brokers/0/broker_id",
        ),
        (
            {"brokers": [{"broker_id": 1, "room_bytes": 1}] * 2},
            "invalid_request",
            "/goal/measured/brokers/1/broker_id",
        ),
        (
            {"brokers": [{"broker_id": 1, "room_bytes": 2**63}]},
            "invalid_request",
            "/goal/even_out/measured/brokers/0/room_bytes",
        ),
    ],
)
async def test_what_can_not_have_been_measured_is_refused(
    zookeeper: MemoryZooKeeper, change: dict[str, Any], code: str, pointer: str
) -> None:
    async with controller(zookeeper) as rest:
        await formed(rest)
        known = {"topic_id": partitions(rest)[0].topic_id}
        goal = even_out(known["topic_id"])
        for name in ("topics", "brokers"):
            if name in change:
                goal["measured"][name] = [one if name == "brokers" else known | one for one in change[name]]
        goal |= {name: value for name, value in change.items() if name not in ("topics", "brokers")}
        response = await rest.client.post(PLANS, json={"goal": goal})
        assert (problem(response), pointers(response)) == ((422, code), [pointer])


@pytest.mark.parametrize("rate", ["NaN", "Infinity", "1e999", "-1e999"])
async def test_rates_that_are_no_numbers_are_refused(zookeeper: MemoryZooKeeper, rate: str) -> None:
    async with controller(zookeeper) as rest:
        await formed(rest)
        said = json.dumps({"goal": even_out("x")}).replace("9000000", rate)
        response = await rest.client.post(PLANS, content=said, headers={"Content-Type": "application/json"})
        assert response.status_code in (400, 422)


async def test_a_body_about_plans_may_bring_what_was_measured_of_a_large_cluster(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper, settings=ApiSettings(measured_bytes_max=1_000)) as rest:
        await formed(rest)
        refused = await rest.client.post(PLANS, json={"goal": even_out("x" * 1_000)})
        assert problem(refused) == (413, "body_too_large")
        assert refused.json()["facts"] == {"body_bytes_max": 1_000}
    assert ApiSettings().measured_bytes_max > ApiSettings().body_bytes_max
