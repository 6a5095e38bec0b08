"""Brokers that are added get data, brokers that are drained lose it, one takes another's place."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from admin_api.http.paging import encode_token
from springtide.log_lines import TextFormatter
from tests.kit.admin_api.broker_moves import BROKERS, accepted, become_active, join, spec
from tests.kit.admin_api.plans import (
    catch_up,
    ended,
    formed,
    operation,
    partitions,
    pause,
    report_sizes,
)
from tests.kit.admin_api.rest import Rest, controller, problem
from tests.kit.controller.shell import Broker
from tests.kit.memory.zookeeper import MemoryZooKeeper

pytestmark = pytest.mark.anyio


def held(rest: Rest) -> Counter[int]:
    return Counter(broker for state in partitions(rest) for broker in state.target_replicas)


async def test_a_drained_broker_holds_nothing_and_can_be_taken_offline(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest)
        operation_id = await accepted(
            rest, f"{BROKERS}/1:drain", throttle_bytes_per_s=5_000, max_concurrent_moves=2, reason="it goes"
        )
        await rest.clock.sleep_ms(900)
        running = await operation(rest, operation_id)
        assert (running["kind"], running["state"]) == ("broker_drain", "running")
        assert {step["name"]: step["state"] for step in running["steps"]} == {
            "mark": "succeeded",
            "plan": "succeeded",
            "move": "running",
            "elect": "pending",
        }
        assert running["progress"]["moves_total"] == 6
        moving = [state for state in partitions(rest) if state.is_reassigning]
        assert len(moving) == 2
        assert {state.throttle.rate for state in moving if state.throttle} == {5_000}
        shown = (await rest.client.get(f"{BROKERS}/1")).json()
        assert (shown["draining"], shown["drained"]) == (True, False)
        done = await ended(rest, brokers, operation_id)
        assert (done["state"], done["error"]) == ("succeeded", None)
        assert {step["state"] for step in done["steps"]} == {"succeeded"}
        assert held(rest) == {2: 6, 3: 6, 4: 6}
        shown = (await rest.client.get(f"{BROKERS}/1")).json()
        assert (shown["draining"], shown["drained"], shown["replicas"]) == (True, True, 0)
        # It is still running: it has to be stopped before it is forgotten.
        assert problem(await rest.client.delete(f"{BROKERS}/1")) == (409, "broker_in_use")
        for row in await rest.recorded(operation=operation_id):
            assert (row["actor"], row["reason"]) == ("anonymous@10.0.0.7", "it goes")


async def test_a_drain_tells_how_fast_it_is_and_when_it_will_be_done(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest)
        await report_sizes(rest, brokers, size_bytes=10_000_000)
        operation_id = await accepted(rest, f"{BROKERS}/1:drain", max_concurrent_moves=1)
        await rest.clock.sleep_ms(400)
        begun = await operation(rest, operation_id)
        assert begun["deadline_at"] is None, "it waits for as long as it has to"
        assert (begun["progress"]["bytes_total"], begun["progress"]["bytes_done"]) == (60_000_000, 0)
        assert (begun["progress"]["rate_bytes_per_s"], begun["progress"]["eta"]) == (None, None)
        for _ in range(3):  # 10 MB arrive every 4 s
            await pause(rest, brokers, 4_000)
            await catch_up(rest, brokers, size_bytes=10_000_000)
        await rest.clock.sleep_ms(400)
        midway = (await operation(rest, operation_id))["progress"]
        assert midway["bytes_done"] == 30_000_000
        assert midway["rate_bytes_per_s"] == pytest.approx(2_500_000, rel=0.1)
        assert midway["eta"]["p50_ms"] == pytest.approx(12_000, rel=0.1)
        (listed,) = (await rest.client.get("/operations")).json()["items"]
        assert listed["progress"] == midway
        await rest.client.post(f"/operations/{operation_id}:pause", json={})
        await rest.clock.sleep_ms(400)
        paused = (await operation(rest, operation_id))["progress"]
        assert (paused["rate_bytes_per_s"], paused["eta"]) == (None, None)
        await rest.client.post(f"/operations/{operation_id}:resume", json={})
        done = await ended(rest, brokers, operation_id)
        assert (done["state"], done["progress"]["eta"]) == ("succeeded", None)


async def test_the_time_left_follows_a_throttle_that_is_changed_meanwhile(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest)
        await report_sizes(rest, brokers, size_bytes=10_000_000)
        operation_id = await accepted(rest, f"{BROKERS}/1:drain", max_concurrent_moves=1)
        for _ in range(3):  # 10 MB arrive every 4 s
            await pause(rest, brokers, 4_000)
            await catch_up(rest, brokers, size_bytes=10_000_000)
        await rest.clock.sleep_ms(400)
        (moving,) = [state for state in partitions(rest) if state.is_reassigning]
        assert moving.throttle is None
        slower = {"throttle_bytes_per_s": 1_000_000, "reason": "clients time out"}
        assert (await rest.client.patch(f"/operations/{operation_id}", json=slower)).status_code == 200
        await rest.clock.sleep_ms(400)
        (moving,) = [state for state in partitions(rest) if state.is_reassigning]
        assert moving.throttle is not None and moving.throttle.rate == 1_000_000, "at once, on its way"
        told = (await operation(rest, operation_id))["progress"]
        assert (told["throttle_bytes_per_s"], told["rate_bytes_per_s"], told["eta"]) == (
            1_000_000,
            None,
            None,
        )
        for _ in range(2):  # and then every 10 s
            await pause(rest, brokers, 10_000)
            await catch_up(rest, brokers, size_bytes=10_000_000)
        await rest.clock.sleep_ms(400)
        told = (await operation(rest, operation_id))["progress"]
        assert told["rate_bytes_per_s"] == pytest.approx(1_000_000, rel=0.15), (
            "what was before does not count"
        )
        assert told["eta"]["p50_ms"] == pytest.approx(10_000, rel=0.2)


async def test_only_an_addition_has_a_deadline(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await formed(rest)
        added = await operation(rest, await accepted(rest, BROKERS, **spec(5)))
        assert (added["kind"], added["deadline_at"] > added["created_at"]) == ("broker_add", True)
        drained = await operation(rest, await accepted(rest, f"{BROKERS}/1:drain"))
        assert (drained["kind"], drained["deadline_at"]) == ("broker_drain", None)


async def test_the_log_tells_of_which_operation_and_which_request_a_line_is(
    zookeeper: MemoryZooKeeper, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "controller")
    caplog.handler.setFormatter(TextFormatter())
    async with controller(zookeeper) as rest:
        brokers = await formed(rest)
        answer = await rest.post(f"{BROKERS}/1:drain", {}, X_Request_Id="asked-by-a-test")
        operation_id = answer.json()["id"]
        await ended(rest, brokers, operation_id)
    (finished,) = (line for line in caplog.text.splitlines() if "operation_finished" in line)
    assert f" operation_id={operation_id} request_id=asked-by-a-test " in finished


async def test_a_drain_is_previewed_and_refused_where_there_is_no_other_place(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        await formed(rest)
        preview = await rest.client.post(f"{BROKERS}/1:drain?dry_run=true", json={})
        assert (preview.status_code, preview.json()["totals"]["moves"]) == (200, 6)
        assert (await rest.client.get(f"{BROKERS}/1")).json()["draining"] is False
        operation_id = await accepted(rest, f"{BROKERS}/4:drain")
        refused = await rest.client.post(f"{BROKERS}/1:drain", json={})
        # Nobody is left for the third replica: 4 takes none any more.
        assert problem(refused) == (422, "plan_infeasible")
        assert (refused.json()["facts"], len(refused.json()["errors"])) == ({"partitions": 6}, 6)
        assert (await rest.client.get(f"{BROKERS}/1")).json()["draining"] is False
        assert (await ended(rest, [], operation_id))["state"] == "succeeded"  # 4 held nothing
        unknown = await rest.client.post(f"{BROKERS}/9:drain", json={})
        assert problem(unknown) == (404, "broker_not_found")


async def test_one_drain_of_a_broker_at_a_time(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest)
        operation_id = await accepted(rest, f"{BROKERS}/1:drain")
        again = await rest.client.post(f"{BROKERS}/1:drain", json={})
        assert problem(again) == (409, "broker_operation_running")
        assert again.json()["operation_id"] == operation_id
        await ended(rest, brokers, operation_id)
        assert (await rest.client.post(f"{BROKERS}/1:drain", json={})).status_code == 202


async def test_a_cancelled_drain_puts_back_what_is_on_its_way(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest)
        operation_id = await accepted(rest, f"{BROKERS}/1:drain", max_concurrent_moves=2)
        await rest.clock.sleep_ms(900)
        assert any(state.is_reassigning for state in partitions(rest))
        cancelled = await rest.client.post(f"/operations/{operation_id}:cancel", json={"reason": "not now"})
        assert cancelled.status_code == 202, cancelled.text
        for _ in range(10):
            await rest.clock.sleep_ms(300)
        done = await operation(rest, operation_id)
        assert done["state"] == "cancelled", done
        assert held(rest) == {1: 6, 2: 6, 3: 6}
        shown = (await rest.client.get(f"{BROKERS}/1")).json()
        assert (shown["draining"], shown["replicas"]) == (False, 6)
        assert len(brokers) == 4


async def test_taking_a_broker_back_ends_its_drain(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await formed(rest)
        operation_id = await accepted(rest, f"{BROKERS}/1:drain", max_concurrent_moves=2)
        await rest.clock.sleep_ms(900)
        assert (await rest.client.post(f"{BROKERS}/1:return", json={})).status_code == 202
        for _ in range(10):
            await rest.clock.sleep_ms(300)
        assert (await operation(rest, operation_id))["state"] == "cancelled"
        assert held(rest) == {1: 6, 2: 6, 3: 6}


async def test_what_a_plan_could_not_do_another_one_does(zookeeper: MemoryZooKeeper) -> None:
    """A partition that somebody moves elsewhere meanwhile leaves the broker with the next plan."""
    async with controller(zookeeper) as rest:
        brokers = await formed(rest)
        operation_id = await accepted(rest, f"{BROKERS}/1:drain", max_concurrent_moves=1)
        await rest.clock.sleep_ms(900)
        still = next(s for s in partitions(rest) if not s.is_reassigning and 1 in s.replicas)
        path = f"/clusters/prod/topics/orders/partitions/{still.partition}/assignment"
        other = [b for b in (2, 3, 1) if b != still.replicas[0]]
        response = await rest.client.put(path, json={"replicas": [other[0], still.replicas[0], other[1]]})
        assert response.status_code == 202, response.text
        done = await ended(rest, brokers, operation_id)
        assert (done["state"], done["error"]) == ("succeeded", None)
        assert held(rest)[1] == 0
        listed = (await rest.client.get("/clusters/prod/plans")).json()["items"]
        made = [plan["id"] for plan in reversed(listed) if plan["operation_id"] == operation_id]
        assert len(made) == 2
        moves = await all_moves(rest, operation_id)
        assert len(moves) == 7
        assert [move["plan_id"] for move in moves] == [made[0]] * 6 + [made[1]]
        assert [move["position"] for move in moves] == [0, 1, 2, 3, 4, 5, 0]
        # What the first plan could not do the second one did.
        (drifted,) = [move for move in moves[:6] if move["fate"] != "moved"]
        assert (drifted["fate"], drifted["partition"]) == ("drifted", moves[6]["partition"])
        assert moves[6]["fate"] == "moved"
        assert await all_moves(rest, operation_id, fate="drifted") == [drifted]
        forged = encode_token(["moves", "plan_of_somebody_else", 0])
        refused = await rest.client.get(f"/operations/{operation_id}/moves?page_token={forged}")
        assert problem(refused) == (422, "invalid_request")


async def all_moves(rest: Rest, operation_id: str, **params: str) -> list[dict[str, Any]]:
    """Every item of every page, two a page."""
    items: list[dict[str, Any]] = []
    token: dict[str, str] = {}
    while True:
        query = {"limit": "2"} | params | token
        response = await rest.client.get(f"/operations/{operation_id}/moves", params=query)
        assert response.status_code == 200, response.text
        items += response.json()["items"]
        if response.json()["next_page_token"] is None:
            return items
        token = {"page_token": response.json()["next_page_token"]}


async def test_another_controller_goes_on_with_a_drain(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest)
        operation_id = await accepted(rest, f"{BROKERS}/1:drain", max_concurrent_moves=2)
        await rest.clock.sleep_ms(900)
        epoch = rest.engine.controller_epoch
        rest.meta.expire_at_server()
        for _ in range(60):
            await rest.clock.sleep_ms(300)
            if rest.engine.role == "active" and rest.engine.controller_epoch > epoch:
                break
        for broker in brokers:
            await broker.heartbeat()
            await broker.apply()
            await broker.heartbeat()
        done = await ended(rest, brokers, operation_id)
        assert done["state"] == "succeeded"
        assert held(rest)[1] == 0


async def test_a_new_broker_gets_its_share_and_only_it_receives(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest, brokers=3)
        operation_id = await accepted(
            rest, BROKERS, **spec(4, rebalance={"throttle_bytes_per_s": 7_000}, reason="growth")
        )
        newcomer = await join(rest, 4, brokers)
        await become_active(rest, newcomer, operation_id)
        done = await ended(rest, [*brokers, newcomer], operation_id)
        assert (done["state"], done["error"]) == ("succeeded", None)
        assert {step["state"] for step in done["steps"]} == {"succeeded"}
        after = held(rest)
        assert max(after.values()) - min(after.values()) <= 1
        assert after[4] in (4, 5)
        moves = (await rest.client.get(f"/operations/{operation_id}/moves")).json()["items"]
        for move in moves:
            assert set(move["replicas_after"]) <= set(move["replicas_before"]) | {4}
        leaders = Counter(state.leader for state in partitions(rest))
        assert max(leaders.values()) - min(leaders.values()) <= 1
        assert done["progress"]["moves_done"] == done["progress"]["moves_total"] == len(moves)


async def test_moves_begin_when_they_may_and_the_broker_serves_meanwhile(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest, brokers=3)
        later = "2100-01-01T00:00:00Z"
        operation_id = await accepted(rest, BROKERS, **spec(4, rebalance={"not_before": later}))
        newcomer = await join(rest, 4, brokers)
        await become_active(rest, newcomer, operation_id)
        await rest.clock.sleep_ms(1_000)
        scheduled = await operation(rest, operation_id)
        assert (scheduled["state"], scheduled["plan_id"]) == ("scheduled", None)
        path = f"/operations/{operation_id}"
        links = {"self": path, "events": f"{path}/events", "moves": f"{path}/moves", "receipt": None}
        assert scheduled["links"] == links | {"audit": f"/audit?operation={operation_id}"}
        assert (await rest.client.get(f"{BROKERS}/4")).json()["state"] == "active"
        assert held(rest)[4] == 0
        # Before it has a plan it can be cancelled as well.
        cancelled = await rest.client.post(f"/operations/{operation_id}:cancel", json={})
        assert cancelled.status_code == 202, cancelled.text
        await rest.clock.sleep_ms(600)
        assert (await operation(rest, operation_id))["state"] == "cancelled"


async def test_an_addition_that_waits_for_its_broker_can_be_cancelled(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await formed(rest, brokers=3)
        operation_id = await accepted(rest, BROKERS, **spec(4))
        await rest.clock.sleep_ms(500)
        assert (await rest.client.post(f"/operations/{operation_id}:cancel", json={})).status_code == 202
        await rest.clock.sleep_ms(600)
        assert (await operation(rest, operation_id))["state"] == "cancelled"
        await Broker(rest.engine, 4).register()
        await rest.clock.sleep_ms(600)
        assert (await rest.client.get(f"{BROKERS}/4")).json()["state"] == "waiting"


async def test_nothing_is_moved_when_that_is_what_was_asked(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest, brokers=3)
        operation_id = await accepted(rest, BROKERS, **spec(4, rebalance={"mode": "none"}))
        newcomer = await join(rest, 4, brokers)
        await become_active(rest, newcomer, operation_id)
        await rest.clock.sleep_ms(1_000)
        done = await operation(rest, operation_id)
        assert (done["state"], done["plan_id"]) == ("succeeded", None)
        assert [step["state"] for step in done["steps"]] == ["succeeded"] * 2 + ["skipped"] * 3
        links = done["links"]
        assert (links["events"], links["moves"]) == (None, None)
        await rest.outbox.flush()
        assert (await rest.client.get(links["receipt"])).json()["verdict"] == "nothing_moved"
        assert held(rest)[4] == 0


async def test_a_replacement_takes_every_place_of_a_broker_that_is_dead(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest, brokers=3)
        before = {(s.topic, s.partition): s.replicas for s in partitions(rest)}
        dead, *alive = brokers
        for _ in range(30):
            await rest.clock.sleep_ms(400)
            for broker in alive:
                await broker.heartbeat()
                await broker.apply()
        assert (await rest.client.get(f"{BROKERS}/1")).json()["state"] == "fenced"
        preview = await rest.client.post(f"{BROKERS}?dry_run=true", json=spec(4, replaces=1))
        assert (preview.status_code, preview.json()["moves"]) == (200, 6)
        operation_id = await accepted(rest, BROKERS, **spec(4, replaces=1))
        newcomer = await join(rest, 4, alive)
        await become_active(rest, newcomer, operation_id)
        done: dict[str, Any] = {}
        for _ in range(100):
            await rest.clock.sleep_ms(300)
            for broker in (*alive, newcomer):
                await broker.heartbeat()
            done = await operation(rest, operation_id)
            if done["finished_at"] is not None:
                break
            await catch_up(rest, [*alive, newcomer, dead])
        assert (done["state"], done["error"]) == ("succeeded", None), done
        after = {(s.topic, s.partition): s.replicas for s in partitions(rest)}
        assert after == {
            key: tuple(4 if broker == 1 else broker for broker in replicas)
            for key, replicas in before.items()
        }
        assert (await rest.client.delete(f"{BROKERS}/1")).status_code == 200
        assert problem(await rest.client.get(f"{BROKERS}/1")) == (404, "broker_not_found")


async def test_the_preview_of_an_addition_tells_plans_and_open_checks(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest, brokers=3)
        absent = (await rest.client.post(f"{BROKERS}?dry_run=true", json=spec(4))).json()
        assert (absent["checks"], len(absent["warnings"])) == ([], 1)
        assert absent["moves"] == absent["plans"][0]["totals"]["moves"] > 0
        await join(rest, 4, brokers)
        await brokers[0].report_preflight(unreachable=[4])
        there = (await rest.client.post(f"{BROKERS}?dry_run=true", json=spec(4))).json()
        failed = [check for check in there["checks"] if check["state"] != "passed"]
        assert [(check["name"], check["code"]) for check in failed] == [("peers", "listener_unreachable")]
        assert there["warnings"] == [failed[0]["detail"]]
        assert there["plans"] == absent["plans"]
        both = {"brokers": [spec(4, replaces=1), spec(5)], "rebalance": {"mode": "full"}}
        plans = (await rest.client.post(f"{BROKERS}?dry_run=true", json=both)).json()["plans"]
        assert [plan["goal"]["kind"] for plan in plans] == ["replace", "rebalance"]
        assert (await rest.client.get("/operations")).json()["items"] == []


async def test_what_fails_in_preflight_keeps_a_broker_out_until_it_is_mended(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest, brokers=3)
        newcomer = await join(rest, 4, brokers)
        await brokers[1].report_preflight(unreachable=[4])
        operation_id = await accepted(rest, BROKERS, **spec(4))
        await rest.clock.sleep_ms(900)
        held_up = await operation(rest, operation_id)
        assert held_up["state"] == "preflight"
        (blocked,) = held_up["blocked"]
        assert (blocked["code"], blocked["broker_id"]) == ("listener_unreachable", 4)
        assert blocked["detail"].startswith("broker 2 can't work with broker 4 at 127.0.0.1:9004")
        assert (await rest.client.get(f"{BROKERS}/4")).json()["state"] == "waiting"
        await brokers[1].report_preflight()
        await become_active(rest, newcomer, operation_id)
        assert (await ended(rest, [*brokers, newcomer], operation_id))["state"] == "succeeded"


async def test_a_rack_and_labels_are_set_and_taken_back(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest, brokers=3)
        path = f"{BROKERS}/1"
        tag = (await rest.client.get(path)).headers["etag"]
        body = {"rack": "r1", "labels": {"owner": "storage", "floor": "2"}, "cordoned": True}
        preview = await rest.client.patch(f"{path}?dry_run=true", json=body)
        assert (preview.status_code, preview.json()["rack"]) == (200, "r1"), preview.text
        assert (await rest.client.get(path)).headers["etag"] == tag
        changed = await rest.client.patch(path, json=body, headers={"If-Match": tag})
        shown = changed.json()
        assert (changed.status_code, shown["rack"], shown["assigned_rack"]) == (200, "r1", "r1")
        assert (shown["labels"], shown["cordoned"]) == ({"owner": "storage", "floor": "2"}, True)
        assert problem(await rest.client.patch(path, json=body, headers={"If-Match": tag})) == (
            412,
            "precondition_failed",
        )
        back = await rest.client.patch(path, json={"rack": None, "labels": {"floor": None}})
        assert (back.json()["rack"], back.json()["labels"]) == (None, {"owner": "storage"})
        assert back.json()["cordoned"] is True
        for nothing in ({}, {"reason": "x"}, {"cordoned": None}, {"rack": ""}, {"labels": {"a b": "c"}}):
            assert problem(await rest.client.patch(path, json=nothing)) == (422, "invalid_request")
        # One that waits is helped into its rack, and not cordoned.
        waiting = await join(rest, 4, brokers)
        path = f"{BROKERS}/{waiting.broker_id}"
        assert (await rest.client.patch(path, json={"rack": "r4"})).json()["rack"] == "r4"
        refused = await rest.client.patch(path, json={"rack": "r4", "cordoned": True})
        assert problem(refused) == (422, "ineligible_broker")
        many = {f"label{number}": "x" for number in range(64)}
        assert (await rest.client.patch(path, json={"labels": many})).status_code == 200
        over = await rest.client.patch(path, json={"labels": {"one-more": "x"}})
        assert problem(over) == (422, "invalid_request")
