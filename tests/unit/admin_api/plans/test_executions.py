"""Operations that carry out plans: paused, scheduled, cancelled both ways, slowed down, and carried on by the
next controller from wherever the last one stopped."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from admin_api.http.models import timestamp
from controller.database.plan_rows import get_moves
from controller.database.sql import DatabaseUnavailable
from controller.operations.model import Fate
from tests.kit.admin_api.plans import (
    catch_up,
    ended,
    execute,
    formed,
    made,
    operation,
    partitions,
    pause,
)
from tests.kit.admin_api.rest import Rest, controller, problem
from tests.kit.controller.shell import Broker
from tests.kit.memory.zookeeper import MemoryZooKeeper

pytestmark = pytest.mark.anyio

DRAIN_1 = {"kind": "drain", "broker_ids": [1]}


async def _begun(rest: Rest, brokers: list[Broker], **body: Any) -> str:
    """Of six moves, two are on their way."""
    response = await execute(rest, await made(rest, DRAIN_1), max_concurrent_moves=2, **body)
    assert response.status_code == 202, response.text
    await pause(rest, brokers, 1_000)
    operation_id: str = response.json()["id"]
    return operation_id


async def _steer(rest: Rest, operation_id: str, action: str, **body: Any) -> dict[str, Any]:
    response = await rest.client.post(f"/operations/{operation_id}:{action}", json=body)
    assert response.status_code in (200, 202), response.text
    found: dict[str, Any] = response.json()
    return found


async def _fates(rest: Rest, operation_id: str) -> list[str]:
    return [m["fate"] for m in (await rest.client.get(f"/operations/{operation_id}/moves")).json()["items"]]


def _moving(rest: Rest) -> list[tuple[str, int]]:
    return [(s.topic, s.partition) for s in partitions(rest) if s.is_reassigning]


async def test_a_paused_operation_begins_nothing_new_until_it_is_resumed(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest)
        operation_id = await _begun(rest, brokers)
        assert len(_moving(rest)) == 2
        assert (await _steer(rest, operation_id, "pause", reason="month's end"))["state"] == "paused"
        await catch_up(rest, brokers)
        await pause(rest, brokers, 5_000)
        assert _moving(rest) == []
        now = await operation(rest, operation_id)
        assert (now["state"], now["progress"]["moves_done"]) == ("paused", 2)
        assert await _fates(rest, operation_id) == ["moved"] * 2 + ["planned"] * 4
        assert (await _steer(rest, operation_id, "pause"))["state"] == "paused"
        assert (await _steer(rest, operation_id, "resume"))["state"] == "running"
        assert (await ended(rest, brokers, operation_id))["state"] == "succeeded"
        problem_of = await rest.client.post(f"/operations/{operation_id}:pause", json={})
        assert problem(problem_of) == (409, "operation_finished")


async def test_an_operation_waits_for_its_time(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest)
        at_ms = rest.clock.now_wall_ms() + 60_000
        response = await execute(rest, await made(rest, DRAIN_1), not_before=timestamp(at_ms))
        begun = response.json()
        assert (begun["state"], begun["started_at"] is not None) == ("scheduled", True)
        await pause(rest, brokers, 50_000)
        assert (_moving(rest), (await operation(rest, begun["id"]))["state"]) == ([], "scheduled")
        await _steer(rest, begun["id"], "pause")
        await pause(rest, brokers, 20_000)
        assert (_moving(rest), (await operation(rest, begun["id"]))["state"]) == ([], "paused")
        await _steer(rest, begun["id"], "resume")
        done = await ended(rest, brokers, begun["id"])
        assert done["state"] == "succeeded"
        assert datetime.datetime.fromisoformat(done["finished_at"]).timestamp() * 1000 >= at_ms


def _clock_at(rest: Rest, *, in_minutes: int) -> str:
    return timestamp(rest.clock.now_wall_ms() + in_minutes * 60_000)[11:16]


async def test_moves_begin_only_at_the_time_of_day_that_was_asked_for(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest)
        window = {"start": _clock_at(rest, in_minutes=3), "end": _clock_at(rest, in_minutes=5)}
        plan = await made(rest, DRAIN_1)
        begun = (await execute(rest, plan, max_concurrent_moves=2, window=window)).json()
        await pause(rest, brokers, 60_000)
        waiting = await operation(rest, begun["id"])
        assert (_moving(rest), waiting["state"]) == ([], "running")
        assert [found["code"] for found in waiting["blocked"]] == ["outside_window"]
        assert f"between {window['start']} and {window['end']} UTC" in waiting["blocked"][0]["detail"]
        await pause(rest, brokers, 150_000)
        assert len(_moving(rest)) == 2
        await pause(rest, brokers, 120_000)
        assert len(_moving(rest)) == 2, "what is on its way goes on"
        await catch_up(rest, brokers)
        await pause(rest, brokers, 60_000)
        waiting = await operation(rest, begun["id"])
        assert (_moving(rest), waiting["progress"]["moves_done"]) == ([], 2)
        assert [found["code"] for found in waiting["blocked"]] == ["outside_window"]
        lifted = await rest.client.patch(f"/operations/{begun['id']}", json={"window": None})
        assert lifted.status_code == 200, lifted.text
        assert (await ended(rest, brokers, begun["id"]))["state"] == "succeeded"


@pytest.mark.parametrize(
    ("window", "pointer", "message"),
    [
        ({"start": "24:00", "end": "06:00"}, "/window/start", "must be HH:MM, as in 22:00"),
        (
            {"start": "22:00", "end": "06:00", "utc_offset": "+1"},
            "/window/utc_offset",
            "must be Z or +HH:MM or -HH:MM, as in +01:00",
        ),
        ({"start": "22:00", "end": "22:00"}, "/window", "it ends when it starts"),
    ],
)
async def test_a_window_that_is_none_is_refused(
    zookeeper: MemoryZooKeeper, window: dict[str, str], pointer: str, message: str
) -> None:
    async with controller(zookeeper) as rest:
        await formed(rest)
        refused = await execute(rest, await made(rest, DRAIN_1), window=window)
        assert [(e["pointer"], e["message"]) for e in refused.json()["errors"]] == [(pointer, message)]


async def test_a_cancelled_operation_brings_back_what_is_on_its_way(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest)
        before = {s.partition: s.replicas for s in partitions(rest)}
        operation_id = await _begun(rest, brokers)
        await catch_up(rest, brokers, only=_moving(rest)[0])
        await pause(rest, brokers, 1_000)
        assert len(_moving(rest)) == 2  # one has arrived, and the next has begun
        undo = f"springtide operations undo {operation_id}"
        would = await rest.client.post(f"/operations/{operation_id}:cancel?dry_run=true", json={})
        cancelling = await _steer(rest, operation_id, "cancel")
        assert cancelling["state"] == "cancelling"
        assert (
            would.json()["cancellation"]
            == cancelling["cancellation"]
            == {
                "mode": "rollback",
                "moved": 1,
                "under_way": 2,
                "rolled_back": 0,
                "not_begun": 3,
                "undo": undo,
                "detail": "finished moves, which stay: 1 of 6; moves under way, which go back: 2; "
                f"moves that never begin: 3; `{undo}` takes back what stays once it has ended",
            }
        )
        await pause(rest, brokers, 2_000)
        done = await operation(rest, operation_id)
        assert (done["state"], done["summary"]) == ("cancelled", "1 of 6 moves had been made")
        assert done["cancellation"]["detail"] == (
            "finished moves, which stay: 1 of 6; moves that went back: 2; moves that never begin: 3; "
            f"`{undo}` takes back what stays"
        )
        assert sorted(await _fates(rest, operation_id)) == sorted(
            ["moved", "rolled_back", "rolled_back", "not_begun", "not_begun", "not_begun"]
        )
        after = {s.partition: s.replicas for s in partitions(rest)}
        assert sum(after[number] != before[number] for number in before) == 1
        not_begun = await rest.client.get(f"/operations/{operation_id}/moves?fate=not_begun&limit=2")
        assert [m["fate"] for m in not_begun.json()["items"]] == ["not_begun"] * 2
        assert not_begun.json()["next_page_token"] is not None


async def test_a_cancelled_operation_may_keep_what_is_on_its_way(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest)
        operation_id = await _begun(rest, brokers)
        await _steer(rest, operation_id, "cancel?mode=keep")
        await pause(rest, brokers, 2_000)
        assert len(_moving(rest)) == 2
        done = await ended(rest, brokers, operation_id)
        assert (done["state"], done["summary"]) == ("cancelled", "2 of 6 moves had been made")
        assert (done["cancellation"]["moved"], done["cancellation"]["not_begun"]) == (2, 4)
        assert sum(1 not in s.replicas for s in partitions(rest)) == 2


async def test_a_scheduled_operation_is_cancelled_before_it_begins(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest)
        plan = await made(rest, DRAIN_1)
        begun = (await execute(rest, plan, not_before="2099-01-01T00:00:00Z")).json()
        await _steer(rest, begun["id"], "cancel")
        await pause(rest, brokers, 1_000)
        done = await operation(rest, begun["id"])
        assert (done["state"], _moving(rest)) == ("cancelled", [])
        assert {step["state"] for step in done["steps"]} <= {"pending", "cancelled"}


async def test_a_new_rate_reaches_what_is_on_its_way(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest)
        operation_id = await _begun(rest, brokers, throttle_bytes_per_s=1_000)

        async def change(**body: Any) -> None:
            response = await rest.client.patch(f"/operations/{operation_id}", json=body)
            assert response.status_code == 200, response.text
            await pause(rest, brokers, 1_000)

        def rates() -> set[int | None]:
            states = [s for s in partitions(rest) if s.is_reassigning]
            return {None if s.throttle is None else s.throttle.rate for s in states}

        assert rates() == {1_000}
        await change(throttle_bytes_per_s=2_000)
        assert (rates(), len(_moving(rest))) == ({2_000}, 2)
        await change(max_concurrent_moves=4)
        assert (rates(), len(_moving(rest))) == ({2_000}, 4)
        await _steer(rest, operation_id, "pause")
        await change(throttle_bytes_per_s=3_000)
        assert (rates(), len(_moving(rest))) == ({3_000}, 4)
        await _steer(rest, operation_id, "resume")
        await change(throttle_bytes_per_s=None)
        assert rates() == {None}
        empty = await rest.client.patch(f"/operations/{operation_id}", json={"reason": "nothing"})
        assert problem(empty) == (422, "invalid_request")
        assert (await ended(rest, brokers, operation_id))["state"] == "succeeded"


async def test_a_target_that_is_down_holds_up_its_own_moves_only(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest, brokers=5)
        plan = await made(rest, DRAIN_1)
        away = plan["moves"][0]["replicas_after"]
        (target,) = set(away) - set(plan["moves"][0]["replicas_before"])
        cordoned = await rest.client.patch(f"/clusters/prod/brokers/{target}", json={"cordoned": True})
        assert cordoned.status_code == 200
        begun = (await execute(rest, plan, max_concurrent_moves=1)).json()
        for _ in range(20):
            await pause(rest, brokers, 500)
            await catch_up(rest, brokers)
        now = await operation(rest, begun["id"])
        to_target = sum(target in m["replicas_after"] for m in plan["moves"])
        assert 0 < to_target < len(plan["moves"])
        assert now["progress"]["moves_done"] == len(plan["moves"]) - to_target
        assert {(b["code"], b["broker_id"]) for b in now["blocked"]} == {("target_offline", target)}
        assert len(now["blocked"]) == to_target
        await rest.client.patch(f"/clusters/prod/brokers/{target}", json={"cordoned": False})
        assert (await ended(rest, brokers, begun["id"]))["state"] == "succeeded"


async def test_what_somebody_else_moves_meanwhile_is_left_to_them(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest)
        operation_id = await _begun(rest, brokers)
        moving = _moving(rest)
        other = next(s for s in partitions(rest) if (s.topic, s.partition) not in moving)
        path = f"/clusters/prod/topics/orders/partitions/{other.partition}/assignment"
        elsewhere = [other.replicas[1], other.replicas[0], other.replicas[2]]
        assert (await rest.client.put(path, json={"replicas": elsewhere})).status_code == 202
        path = f"/clusters/prod/topics/orders/partitions/{moving[0][1]}/assignment"
        assert (await rest.client.delete(path)).status_code == 202
        done = await ended(rest, brokers, operation_id)
        assert (done["state"], done["error"]["code"]) == ("failed", "moves_incomplete")
        assert {(r["partition"], r["code"]) for r in done["refused"]} == {
            (other.partition, "drifted"),
            (moving[0][1], "rolled_back"),
        }
        assert done["progress"]["moves_done"] == 4


async def test_a_deleted_topic_is_no_failure(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest)
        operation_id = await _begun(rest, brokers)
        assert (await rest.client.delete("/clusters/prod/topics/orders")).status_code == 202
        done = await ended(rest, brokers, operation_id)
        assert done["state"] == "succeeded"
        assert "6 belonged to topics that were deleted" in done["summary"]


@pytest.mark.parametrize("is_stored", [True, False])
@pytest.mark.parametrize("number", range(1, 8))
async def test_the_next_controller_goes_on_from_any_step(
    zookeeper: MemoryZooKeeper, number: int, is_stored: bool
) -> None:
    """Whoever carries it on dies at the operation's n-th write, before or after SQL has it, and what was in
    memory is gone: SQL says what was meant, the partitions' rows what was done."""
    async with controller(zookeeper) as rest:
        brokers = await formed(rest)
        plan = await made(rest, DRAIN_1)
        operation_id = (await execute(rest, plan, max_concurrent_moves=2)).json()["id"]
        write, runner = rest.store.write, rest.app.state.operations
        writes = 0

        async def dying(work: Any, *_: Any, **asked: Any) -> Any:
            nonlocal writes
            writes += 1
            if writes != number:
                return await write(work, **asked)
            if is_stored:
                await write(work, **asked)
            runner._executions.forget_all()
            runner._read_under = None
            raise DatabaseUnavailable("the controller died here")

        rest.store.write = dying  # type: ignore[method-assign]
        done = await ended(rest, brokers, operation_id)
        assert done["state"] == "succeeded", done
        assert writes > number
        assert await _fates(rest, operation_id) == ["moved"] * 6
        stored = await rest.store.read(lambda connection: get_moves(connection, plan["id"]))
        assert {found.fate for found in stored} == {Fate.MOVED}
        assert not any(1 in s.replicas for s in partitions(rest))
        for state in partitions(rest):
            wanted = next(m for m in plan["moves"] if m["partition"] == state.partition)
            assert list(state.replicas) == wanted["replicas_after"]


async def test_a_finished_operation_is_undone_and_the_cost_is_shown_first(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest)
        before = {s.partition: s.replicas for s in partitions(rest)}
        operation_id = await _begun(rest, brokers)
        undo = f"/operations/{operation_id}:undo"
        assert problem(await rest.client.post(undo, json={})) == (409, "operation_running")
        assert (await ended(rest, brokers, operation_id))["state"] == "succeeded"
        preview = await rest.client.post(f"{undo}?dry_run=true", json={})
        assert preview.status_code == 200, preview.text
        assert (preview.json()["totals"]["moves"], preview.json()["totals"]["copies"]) == (6, 6)
        begun = await rest.client.post(undo, json={"reason": "store1 stays"})
        assert begun.status_code == 202, begun.text
        assert begun.json()["spec"]["undoes"] == operation_id
        assert (await ended(rest, brokers, begun.json()["id"]))["state"] == "succeeded"
        assert {s.partition: s.replicas for s in partitions(rest)} == before
        again = f"/operations/{begun.json()['id']}:undo?dry_run=true"
        assert (await rest.client.post(again, json={})).json()["totals"]["moves"] == 6


async def test_what_has_changed_since_is_not_undone_behind_anybodys_back(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest)
        before = {s.partition: s.replicas for s in partitions(rest)}
        operation_id = await _begun(rest, brokers)
        await ended(rest, brokers, operation_id)
        changed = next(s for s in partitions(rest) if s.partition == 3)
        theirs = (changed.replicas[1], changed.replicas[0], changed.replicas[2])
        path = "/clusters/prod/topics/orders/partitions/3/assignment"
        assert (await rest.client.put(path, json={"replicas": theirs})).status_code == 202
        undo = f"/operations/{operation_id}:undo"
        refused = await rest.client.post(undo, json={})
        assert problem(refused) == (409, "undo_conflicts")
        assert refused.json()["facts"]["conflicts"] == 1
        assert "orders-3" in refused.json()["errors"][0]["message"]
        begun = await rest.client.post(undo, json={"skip_conflicts": True})
        assert (await ended(rest, brokers, begun.json()["id"]))["state"] == "succeeded"
        assert {s.partition: s.replicas for s in partitions(rest)} == before | {3: theirs}


async def test_an_assignment_by_hand_is_undone_too(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest)
        path = "/clusters/prod/topics/orders/partitions/0/assignment"
        moved = await rest.client.put(path, json={"replicas": [4, 2, 3]})
        await ended(rest, brokers, moved.json()["id"])
        begun = await rest.client.post(f"/operations/{moved.json()['id']}:undo", json={})
        assert (await ended(rest, brokers, begun.json()["id"]))["state"] == "succeeded"
        assert partitions(rest)[0].replicas == (1, 2, 3)
        moves = (await rest.client.get(f"/operations/{moved.json()['id']}/moves")).json()["items"]
        assert [(m["fate"], m["replicas_after"], m["bytes"]) for m in moves] == [("moved", [4, 2, 3], None)]
