"""Client groups over REST: listed, shown, reset and deleted, with the audit's word of each change."""

from __future__ import annotations

import dataclasses
from typing import Any
from urllib.parse import quote

import pytest

from controller.shell.client_groups import CommittedPlace, MemberDetail
from springtide.contract.groups import (
    AwaitedStep,
    GroupNews,
    GroupRebalance,
    GroupTrouble,
    MovedPartition,
    MovedPartitions,
    RebalanceCause,
)
from tests.kit.admin_api.coordinators import Coordinator
from tests.kit.admin_api.plans import protect
from tests.kit.admin_api.rest import TOKENS, Rest, ask, controller, pointers, problem
from tests.kit.memory.zookeeper import MemoryZooKeeper

pytestmark = pytest.mark.anyio

GROUPS = "/clusters/prod/groups"
BILLING = f"{GROUPS}/billing"
RESET = f"{BILLING}:reset-offsets"
MEMBER = MemberDetail(
    member_id="app-1", instance_id=None, client_id="app", host="/10.0.0.9", assigned=(("orders", 0),)
)
#: Offsets 10 to 13, a second apart.
TIMES_MS = (1_000_000, 1_001_000, 1_002_000, 1_003_000)


async def billing(rest: Rest, *members: MemberDetail, **offsets: int) -> None:
    """A group that has read one of four records of orders-0; orders-1 is empty, and not read."""
    await rest.form()
    await rest.create_topic(partitions=2)
    rest.groups.logs = {("orders", 0): (10, TIMES_MS), ("orders", 1): (0, ())}
    rest.groups.add("billing", *members, **offsets or {"orders": 11})


def offsets_of(rest: Rest, group_id: str = "billing") -> dict[int, int]:
    return {number: at.offset for (_, number), at in rest.groups.offsets[group_id].items()}


async def test_a_group_is_shown_with_members_offsets_and_lag(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await billing(rest, MEMBER)
        shown = (await rest.client.get(BILLING)).json()
        (partition,) = shown.pop("partitions")
        assert shown == {
            "group_id": "billing",
            "state": "stable",
            "protocol_type": "consumer",
            "protocol": "classic",
            "epoch": None,
            "target_epoch": None,
            "assignor": "range",
            "coordinator_id": 1001,
            "coordinator_endpoint": "desk1:9092",
            "lag": None,
            "lag_ms": None,
            "lag_age_ms": None,
            "until_gone_ms": None,
            "lag_by_offsets": 3,
            "last_rebalance": None,
            "members_total": 1,
            "partitions_total": 1,
            "members": [
                {
                    "member_id": "app-1",
                    "instance_id": None,
                    "client_id": "app",
                    "host": "/10.0.0.9",
                    "epoch": None,
                    "target": None,
                    "protocol": "classic",
                    "assigned": [{"topic": "orders", "partitions": [0]}],
                }
            ],
        }
        assert partition == {
            "topic": "orders",
            "partition": 0,
            "member_id": "app-1",
            "committed_offset": 11,
            "leader_epoch": 3,
            "log_end_offset": 14,
            "lag": 3,
            "lag_ms": 2_000,
            "next_record_at": "1970-01-01T00:16:41.000Z",
            "newest_record_at": "1970-01-01T00:16:43.000Z",
        }


async def test_a_group_of_the_consumer_protocol_shows_what_each_member_is_to_have(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        member = dataclasses.replace(MEMBER, epoch=6, target=(("orders", 1),), is_classic=False)
        await billing(rest, member)
        found = rest.groups.groups["billing"]
        rest.groups.groups["billing"] = dataclasses.replace(
            found, state="reconciling", epoch=8, target_epoch=7
        )
        shown = (await rest.client.get(BILLING)).json()
        assert (shown["protocol"], shown["epoch"], shown["target_epoch"]) == ("consumer", 8, 7)
        (told,) = shown["members"]
        assert (told["epoch"], told["protocol"]) == (6, "consumer")
        assert told["assigned"] == [{"topic": "orders", "partitions": [0]}]
        assert told["target"] == [{"topic": "orders", "partitions": [1]}]
        listed = (await rest.client.get(f"{GROUPS}?state=reconciling")).json()["items"]
        assert [group["group_id"] for group in listed] == ["billing"]


async def test_the_last_rebalance_is_shown_as_the_groups_coordinator_told_it(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        await billing(rest, MEMBER)
        coordinator = Coordinator(rest, 1001)
        await coordinator.register()

        async def shown(**values: Any) -> Any:
            told: dict[str, Any] = {
                "generation_id": 1,
                "began_ms": 1_000_000,
                "ended_ms": 1_003_500,
                "reason": "it moved",
            }
            rebalance = GroupRebalance(group_id="billing", **told | values)
            await coordinator.heartbeat(groups=GroupNews(rebalances=(rebalance,)))
            last = (await rest.client.get(BILLING)).json()["last_rebalance"]
            listed = (await rest.client.get("/clusters/prod/rebalances/billing")).json()["items"]
            assert listed[0] == last
            return {name: last[name] for name in ("began_at", "ended_at", "reason")}

        times = {"began_at": "1970-01-01T00:16:40.000Z", "ended_at": "1970-01-01T00:16:43.500Z"}
        assert await shown() == times | {"reason": "it moved"}
        assert await shown(ended_ms=-1) == times | {"ended_at": None, "reason": "it moved"}
        taken_over = {"generation_id": 2, "began_ms": -1, "reason": ""}
        assert await shown(**taken_over) == times | {"began_at": None, "reason": None}
        coordinator.epoch -= 1
        assert await shown(generation_id=3) == times | {"began_at": None, "reason": None}, "a dead process's"


async def test_all_of_a_rebalance_is_shown(zookeeper: MemoryZooKeeper) -> None:
    told = GroupRebalance(
        group_id="billing",
        generation_id=7,
        began_ms=1_000,
        ended_ms=-1,
        reason="it left",
        assigned_ms=2_000,
        assignor="uniform",
        causes=(
            RebalanceCause(kind="left", text="it left", at_ms=1_000, member_id="a"),
            RebalanceCause(kind="topics", text="more", at_ms=-1, member_id=""),
        ),
        causes_total=3,
        to_move=4,
        moved=2,
        moves=(
            MovedPartitions("a", "b", 1, 40, (MovedPartition("t", 1, 40),)),
            MovedPartitions("", "b", 1, -1, (MovedPartition("t", 0, -1),)),
        ),
        paused=5,
        paused_ms_max=60,
        awaited=(AwaitedStep("b", 3_000, "to give up"), AwaitedStep("", 1_000, "the next assignment")),
        awaited_total=9,
    )
    async with controller(zookeeper) as rest:
        await billing(rest, MEMBER)
        coordinator = Coordinator(rest, 1001)
        await coordinator.register()
        await coordinator.heartbeat(groups=GroupNews(rebalances=(told,)))
        (shown,) = (await rest.client.get("/clusters/prod/rebalances/billing")).json()["items"]
    second = "1970-01-01T00:00:0{}.000Z"
    assert shown == {
        "began_at": second.format(1),
        "ended_at": None,
        "reason": "it left",
        "took_ms": None,
        "state": "under_way",
        "generation_id": 7,
        "assigned_at": second.format(2),
        "assignor": "uniform",
        "causes": [
            {"kind": "left", "text": "it left", "at": second.format(1), "member_id": "a"},
            {"kind": "topics", "text": "more", "at": None, "member_id": None},
        ],
        "causes_total": 3,
        "partitions_to_move": 4,
        "partitions_moved": 2,
        "moves": [
            {
                "from_member_id": "a",
                "to_member_id": "b",
                "count": 1,
                "unowned_ms_max": 40,
                "partitions": [{"topic": "t", "partition": 1, "unowned_ms": 40}],
            },
            {
                "from_member_id": None,
                "to_member_id": "b",
                "count": 1,
                "unowned_ms_max": None,
                "partitions": [{"topic": "t", "partition": 0, "unowned_ms": None}],
            },
        ],
        "partitions_paused": 5,
        "paused_ms_max": 60,
        "waiting_for": [
            {"member_id": "b", "since": second.format(3), "what": "to give up"},
            {"member_id": None, "since": second.format(1), "what": "the next assignment"},
        ],
        "waiting_for_total": 9,
    }


async def test_groups_in_trouble_are_alarms_page_by_page(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        coordinator = Coordinator(rest, 1001)
        await coordinator.register()
        ids = ["billing", "x" * 900, "a/b"]
        troubles = tuple(GroupTrouble(group_id=one, code="unsettled", detail=one[:9]) for one in ids)
        await coordinator.heartbeat(groups=GroupNews(troubles=troubles))
        seen, query = [], "?limit=1"
        while query:
            page = (await rest.client.get(f"/clusters/prod/alarms{query}")).json()
            seen += page["items"]
            token = page["next_page_token"]
            query = f"?limit=1&page_token={token}" if token else ""
        assert sorted(alarm["group_id"] for alarm in seen if alarm["code"] == "group_unsettled") == sorted(
            ids
        )
        assert page["counts"]["group_unsettled"] == 3


async def test_what_is_not_known_is_null_and_what_is_read_to_the_end_has_no_lag(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        await billing(rest, orders=14)
        read = (await rest.client.get(BILLING)).json()
        assert [(p["lag"], p["lag_ms"], p["next_record_at"]) for p in read["partitions"]] == [(0, 0, None)]
        rest.groups.add("billing", orders=14, gone=5)
        shown = (await rest.client.get(BILLING)).json()
        assert [(p["topic"], p["log_end_offset"], p["lag"], p["lag_ms"]) for p in shown["partitions"]] == [
            ("gone", None, None, None),
            ("orders", 14, 0, 0),
        ]
        assert shown["lag_by_offsets"] is None


async def test_groups_are_narrowed_by_state_and_prefix(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await billing(rest, MEMBER)
        rest.groups.add("billing-2")
        rest.groups.add("search")
        rest.groups.unanswered = ["desk2: Local: Timed out"]

        async def found(**query: str) -> list[str]:
            response = await rest.client.get(GROUPS, params=query)
            assert response.status_code == 200, response.text
            assert response.json()["unanswered"] == ["desk2: Local: Timed out"]
            return [group["group_id"] for group in response.json()["items"]]

        assert await found() == ["billing", "billing-2", "search"]
        assert await found(state="empty") == ["billing-2", "search"]
        assert await found(prefix="billing", state="empty") == ["billing-2"]
        refused = await rest.client.get(GROUPS, params={"state": "Stable"})
        assert (problem(refused), pointers(refused)) == ((422, "invalid_request"), ["state"])


@pytest.mark.parametrize(
    "group_id",
    ["a/b", "a/../b", "a b", "ä中🚀", "x:reset-offsets", "100%", "q?#&=", "\n\r\t", "x" * 700, "{}", "%2F"],
)
async def test_an_id_may_have_any_characters(zookeeper: MemoryZooKeeper, group_id: str) -> None:
    async with controller(zookeeper) as rest:
        await billing(rest)
        rest.groups.add(group_id, orders=11)
        rest.groups.add(f"{group_id}!", orders=11)
        path = f"{GROUPS}/{quote(group_id, safe='')}"
        assert (await rest.client.get(path)).json()["group_id"] == group_id
        done = await rest.post(f"{path}:reset-offsets", {"to": {"kind": "latest"}})
        assert (done.status_code, offsets_of(rest, group_id)) == (200, {0: 14})
        first = (await rest.client.get(GROUPS, params={"limit": 2})).json()
        second = await rest.client.get(GROUPS, params={"page_token": first["next_page_token"]})
        ids = {group["group_id"] for group in first["items"] + second.json()["items"]}
        assert ids == {"billing", group_id, f"{group_id}!"}
        assert (await rest.client.delete(path)).status_code == 200
        assert set(rest.groups.groups) == {"billing", f"{group_id}!"}
        (deleted, reset) = await rest.recorded(entity="group")
        assert (deleted["cause"], reset["cause"]) == ("delete_group", "reset_group_offsets")
        assert {row["outcome"]["outcome"] for row in (deleted, reset)} == {"succeeded"}


@pytest.mark.parametrize(
    ("to", "after"),
    [
        ({"kind": "earliest"}, 10),
        ({"kind": "latest"}, 14),
        ({"kind": "offset", "offset": 12}, 12),
        ({"kind": "offset", "offset": 2}, 10),
        ({"kind": "offset", "offset": 99}, 14),
        ({"kind": "time", "time": "1970-01-01T00:16:41.001Z"}, 12),
        ({"kind": "time", "time": "1960-01-01T00:00:00Z"}, 10),
        ({"kind": "time", "time": "2026-11-24T00:00:00Z"}, 14),
        ({"kind": "shift", "by": 2}, 13),
        ({"kind": "shift", "by": -1}, 10),
        ({"kind": "shift", "by": -99}, 10),
    ],
)
async def test_offsets_are_reset_within_the_log(
    zookeeper: MemoryZooKeeper, to: dict[str, Any], after: int
) -> None:
    async with controller(zookeeper) as rest:
        await billing(rest)
        tried = await rest.client.post(RESET, json={"to": to}, params={"dry_run": "true"})
        item = {"topic": "orders", "partition": 0, "before": 11, "after": after}
        item |= {"log_start_offset": 10, "log_end_offset": 14}
        assert tried.json() == {"group_id": "billing", "changed": False, "items": [item]}
        assert offsets_of(rest) == {0: 11}
        assert await rest.recorded(entity="group") == []
        done = await rest.post(RESET, {"to": to, "reason": "again"})
        assert done.json() == {"group_id": "billing", "changed": True, "items": [item]}
        assert offsets_of(rest) == {0: after}
        (row,) = await rest.recorded(entity="group")
        assert (row["entity_id"], row["reason"]) == ("billing", "again")
        outcome = row["outcome"]
        assert (outcome["outcome"], outcome["detail"]) == ("succeeded", f"orders-0 11->{after}")


async def test_topics_and_partitions_may_be_named_of_a_new_group_too(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await billing(rest)
        new = f"{GROUPS}/new:reset-offsets"
        earliest = {"to": {"kind": "earliest"}}
        assert problem(await rest.post(new, earliest)) == (404, "group_not_found")
        done = await rest.post(new, earliest | {"topics": ["orders"]})
        assert [(item["partition"], item["before"]) for item in done.json()["items"]] == [
            (0, None),
            (1, None),
        ]
        assert offsets_of(rest, "new") == {0: 10, 1: 0}
        one = {"to": {"kind": "offset", "offset": 12}, "partitions": [{"topic": "orders", "partition": 0}]}
        assert (await rest.post(new, one)).status_code == 200
        assert offsets_of(rest, "new") == {0: 12, 1: 0}
        unknown = await rest.post(new, earliest | {"topics": ["orders", "bills"]})
        assert (problem(unknown), pointers(unknown)) == ((422, "unknown_topic"), ["/topics/1"])
        shift = await rest.post(RESET, {"to": {"kind": "shift", "by": 1}, "topics": ["orders"]})
        assert (problem(shift), pointers(shift)) == ((422, "invalid_request"), ["/to/by"])


async def test_a_group_with_members_is_neither_reset_nor_deleted(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await billing(rest, MEMBER)
        for query in ("", "?dry_run=true"):
            refused = await rest.post(f"{RESET}{query}", {"to": {"kind": "earliest"}})
            assert problem(refused) == (409, "group_in_use")
            assert "stop its clients" in refused.json()["hint"]
            assert problem(await rest.client.delete(f"{BILLING}{query}")) == (409, "group_in_use")
        assert offsets_of(rest) == {0: 11}
        rest.groups.stop("billing")
        assert (await rest.client.delete(f"{BILLING}?dry_run=true")).json()["state"] == "empty"
        assert (await rest.client.delete(f"{BILLING}?reason=old")).json()["group_id"] == "billing"
        assert problem(await rest.client.get(BILLING)) == (404, "group_not_found")
        assert problem(await rest.client.delete(BILLING)) == (404, "group_not_found")


async def test_without_a_coordinator_every_answer_says_so(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await billing(rest)
        rest.groups.down = True
        for asked in (
            rest.client.get(GROUPS),
            rest.client.get(BILLING),
            rest.client.delete(BILLING),
            rest.post(RESET, {"to": {"kind": "earliest"}}),
        ):
            refused = await asked
            assert problem(refused) == (503, "coordinator_unavailable")
            assert (refused.json()["retryable"], refused.headers["retry-after"]) == (True, "1")


async def test_a_partition_that_does_not_answer_or_is_left_out_is_named(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await billing(rest)
        rest.groups.unset = {("orders", 1): "Broker: Unknown topic or partition"}
        both = {"to": {"kind": "latest"}, "topics": ["orders"]}
        halfway = await rest.post(RESET, both)
        assert problem(halfway) == (409, "reset_incomplete")
        assert halfway.json()["errors"][0]["message"] == "orders-1: Broker: Unknown topic or partition"
        assert halfway.json()["facts"] == {"failed": 1, "set": 1}
        del rest.groups.logs["orders", 1]
        silent = await rest.post(RESET, both)
        assert problem(silent) == (503, "log_unavailable")
        assert "orders-1" in silent.json()["detail"]
        assert silent.headers["retry-after"] == "1"


async def test_partitions_that_do_not_exist_are_refused_or_left_out(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await billing(rest)
        for place in ({"topic": "gone", "partition": 0}, {"topic": "orders", "partition": 99}):
            refused = await rest.post(RESET, {"to": {"kind": "latest"}, "partitions": [place]})
            assert problem(refused) == (422, "unknown_topic")
            assert refused.json()["errors"][0]["pointer"] == "/partitions/0"
        rest.groups.offsets["billing"]["gone", 0] = CommittedPlace(offset=3)
        reset = await rest.post(RESET, {"to": {"kind": "latest"}})
        assert reset.status_code == 200
        assert {item["topic"] for item in reset.json()["items"]} == {"orders"}


async def test_a_lost_answer_is_said_to_be_lost(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await billing(rest)
        rest.groups.loses_answers = True
        assert problem(await rest.post(RESET, {"to": {"kind": "latest"}})) == (504, "outcome_unknown")
        (row,) = await rest.recorded(entity="group")
        assert row["outcome"]["outcome"] == "unknown"


async def test_operators_change_groups_viewers_look_and_protection_wants_a_reason(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper, tokens=TOKENS) as rest:
        await rest.form()
        rest.groups.add("billing")
        latest = {"to": {"kind": "latest"}}
        assert (await ask(rest, "GET", BILLING, "viewer")).status_code == 200
        assert (await ask(rest, "POST", f"{RESET}?dry_run=true", "viewer", json=latest)).status_code == 200
        assert problem(await ask(rest, "POST", RESET, "viewer", json=latest)) == (403, "forbidden")
        assert problem(await ask(rest, "DELETE", BILLING, "viewer")) == (403, "forbidden")
        assert (await ask(rest, "POST", RESET, "operator", json=latest)).status_code == 200
    async with controller(zookeeper, name="c2") as rest:
        rest.groups.add("billing")
        assert (await protect(rest)).status_code == 200
        assert problem(await rest.post(RESET, latest)) == (422, "reason_required")
        assert (await rest.post(RESET, latest | {"reason": "r"})).status_code == 200
        assert problem(await rest.client.delete(BILLING)) == (422, "reason_required")
