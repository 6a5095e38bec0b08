"""A look over REST: who may, what is asked of the room, and what the audit has before anything is shown."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from typing import Any

import msgspec
import pytest

from admin_api.http.tokens import Tokens
from admin_api.records.room.questions import (
    EARLIEST,
    AskedLog,
    LookRefusal,
    LookSummary,
    RecordFormat,
    RecordLook,
)
from admin_api.records.rooms import LOOKS_AT_ONCE_MAX
from springtide.contract.security import ALLOW_EVERYONE, AUTHORIZER, STANDARD_AUTHORIZER, SUPER_USERS
from tests.kit.admin_api.records import ANSWER, MemoryRooms
from tests.kit.admin_api.rest import ACTOR, TOKENS, Rest, ask, controller, pointers, problem
from tests.kit.memory.zookeeper import MemoryZooKeeper

pytestmark = pytest.mark.anyio

RECORDS = "/clusters/prod/topics/orders/records"
SECRET = "what-is-in-a-record"


@asynccontextmanager
async def looking(
    zookeeper: MemoryZooKeeper, *, tokens: Tokens | None = None, configs: dict[str, str] | None = None
) -> AsyncIterator[tuple[Rest, MemoryRooms]]:
    """A cluster with the topic orders. configs: those that say whether ACLs decide."""
    async with controller(zookeeper, tokens=tokens) as rest:
        rooms = rest.rooms
        await rest.form()
        headers = {} if tokens is None else {"Authorization": "Bearer the-token-of-a-admin-0123456789"}
        body = {"name": "orders", "cluster": "prod", "partitions": 3, "replication_factor": 3}
        made = await rest.client.post("/topics", json=body, headers=headers)
        assert made.status_code == 201, made.text
        if configs:
            image = rest.engine.cluster("prod").image
            image.configs = {**image.configs, **configs}  # its members have no TLS, which REST would refuse
        yield rest, rooms


async def test_a_look_is_asked_of_the_leaders_and_written_down_before_it_is_shown(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with looking(zookeeper) as (rest, rooms):
        query = {"partition": "1", "offset": "5", "key": SECRET, "limit": "3", "max_bytes": "5000"}
        answer = await rest.client.get(RECORDS, params={**query, "format": "hex", "ignore_case": "true"})
        assert answer.status_code == 200, answer.text
        assert answer.content == msgspec.json.encode(ANSWER)
        assert answer.headers["cache-control"] == "no-store"
        image = rest.engine.cluster("prod").image
        topic = image.topic_named("orders")
        assert topic is not None
        leader = image.brokers[image.partitions[topic.topic_id, 1].leader]
        assert rooms.asked == [
            RecordLook(
                topic="orders",
                topic_id=topic.topic_id,
                logs=(AskedLog(1, leader.host, leader.port, 5),),
                limit=3,
                bytes_max=5_000,
                key=SECRET,
                ignore_case=True,
                format=RecordFormat.HEX,
            )
        ]
        assert rooms.had_tls == [False]
        (row,) = await rest.recorded(entity="topic", kind="request", limit=1)
        assert (row["cause"], row["actor"], row["topic"], row["partition"]) == (
            "read_records",
            ACTOR,
            "orders",
            1,
        )
        assert row["after"] == {
            "partitions": [1],
            "offsets": {"1": 5},
            "at_ms": None,
            "newest": False,
            "key_filter": SECRET,
            "value_filter": None,
            "ignore_case": True,
            "limit": 3,
            "bytes_max": 5_000,
        }
        assert row["outcome"]["outcome"] == "succeeded"
        assert row["outcome"]["detail"] == "2 records of 90 bytes; 16 looked at; stopped by limit"
        assert (await rest.client.get("/audit/verification", params={"cluster": "prod"})).json()["ok"]


async def test_a_look_begins_at_the_newest_a_time_the_first_record_or_a_position(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with looking(zookeeper) as (rest, rooms):
        for query in (
            {},
            {"start": "earliest"},
            {"timestamp": "1970-01-01T00:00:01Z"},
            {"timestamp": "1960-01-01T00:00:01Z"},
            {"position": "2-7.0-9"},
        ):
            assert (await rest.client.get(RECORDS, params=query)).status_code == 200
        asked = [(look.is_newest, look.at_ms, [one.offset for one in look.logs]) for look in rooms.asked]
        every = [None, None, None]
        assert asked == [
            (True, None, every),
            (False, EARLIEST, every),
            (False, 1_000, every),
            (False, 0, every),
            (False, None, [7, 9]),
        ]
        assert [one.partition for one in rooms.asked[-1].logs] == [2, 0]


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ({"offset": "5"}, "partition"),
        ({"offset": "-1", "partition": "0"}, "offset"),
        ({"start": "newest", "offset": "5", "partition": "0"}, "offset"),
        ({"timestamp": "2026-11-21T09:30:00Z", "position": "0-1"}, "position"),
        ({"position": "0-1", "partition": "0"}, "partition"),
        ({"position": "0"}, "position"),
        ({"position": "0-1." * 300 + "0-1"}, "position"),
        ({"limit": "1001"}, "limit"),
        ({"limit": "0"}, "limit"),
        ({"max_bytes": "100"}, "max_bytes"),
        ({"max_bytes": "5000000"}, "max_bytes"),
        ({"key": ""}, "key"),
        ({"value": "x" * 1_001}, "value"),
        ({"format": "xml"}, "format"),
        ({"timestamp": "5"}, "timestamp"),
        ({"from": "5"}, "from"),
    ],
)
async def test_a_query_that_means_nothing_is_refused(
    zookeeper: MemoryZooKeeper, query: dict[str, str], named: str
) -> None:
    async with looking(zookeeper) as (rest, rooms):
        answer = await rest.client.get(RECORDS, params=query)
        assert problem(answer) == (422, "invalid_request")
        assert pointers(answer) == [named]
        assert rooms.asked == []


async def test_what_is_not_there_is_refused(zookeeper: MemoryZooKeeper) -> None:
    async with looking(zookeeper) as (rest, rooms):

        async def refused(path: str, **query: str) -> tuple[int, str]:
            return problem(await rest.client.get(path, params=query))

        assert await refused("/clusters/none/topics/orders/records") == (404, "cluster_not_found")
        assert await refused("/clusters/prod/topics/none/records") == (404, "topic_not_found")
        assert await refused(RECORDS, partition="3") == (404, "partition_not_found")
        assert await refused(RECORDS, position="0-1.3-1") == (404, "partition_not_found")
        assert rooms.asked == []
        await rest.create_topic("wide", partitions=257)
        assert await refused("/clusters/prod/topics/wide/records") == (422, "invalid_request")
        assert (await rest.client.get("/clusters/prod/topics/wide/records?partition=256")).status_code == 200

        rooms.summary = LookSummary(
            refused=LookRefusal.OFFSET, detail="not there", partition=0, log_start_offset=4, log_end_offset=9
        )
        answer = await rest.client.get(RECORDS, params={"partition": "0", "offset": "3"})
        assert problem(answer) == (422, "offset_out_of_range")
        assert answer.json()["facts"] == {"partition": 0, "log_start_offset": 4, "log_end_offset": 9}
        rooms.summary = LookSummary(refused=LookRefusal.LEADER, detail="partition 0: it has no leader")
        assert await refused(RECORDS) == (503, "log_unavailable")
        rooms.is_lost = True
        assert await refused(RECORDS) == (503, "look_failed")
        rows = await rest.recorded(kind="request", entity="topic", limit=4)
        assert [row["outcome"]["code"] for row in rows if row["cause"] == "read_records"][:3] == [
            "look_failed",
            "log_unavailable",
            "offset_out_of_range",
        ]


async def test_few_looks_are_under_way_at_once(zookeeper: MemoryZooKeeper) -> None:
    async with looking(zookeeper) as (rest, rooms):
        with ExitStack() as held:
            for _ in range(LOOKS_AT_ONCE_MAX):
                held.enter_context(rooms.turn())
            answer = await rest.client.get(RECORDS)
        assert problem(answer) == (429, "too_many_looks")
        assert answer.headers["retry-after"] == "2"
        assert rooms.asked == []
        assert "read_records" not in {row["cause"] for row in await rest.recorded()}


@pytest.mark.parametrize("writes", [0, 1])
async def test_what_is_not_written_down_is_not_shown(zookeeper: MemoryZooKeeper, writes: int) -> None:
    async with looking(zookeeper) as (rest, rooms):
        rest.sql.writes_left = writes
        assert problem(await rest.client.get(RECORDS)) == (503, "audit_unavailable")
        assert len(rooms.asked) == writes


async def test_a_standby_reads_nothing(zookeeper: MemoryZooKeeper) -> None:
    async with looking(zookeeper), controller(zookeeper, name="c2", is_active=False) as standby:
        await standby.clock.sleep_ms(5_000)
        assert problem(await standby.client.get(RECORDS)) == (307, "not_the_active_controller")
        assert standby.rooms.asked == []


ON = {AUTHORIZER: STANDARD_AUTHORIZER}


async def allow(rest: Rest, operation: str, permission: str = "allow", **fields: str) -> None:
    binding = {"principal": "User:the-viewer", "resource_type": "topic", "resource_name": "orders"}
    body = {"bindings": [{**binding, "operation": operation, "permission": permission, **fields}]}
    assert (await ask(rest, "POST", "/clusters/prod/acls", "admin", json=body)).status_code == 200


async def test_no_role_reads_records_and_read_by_acls_does(zookeeper: MemoryZooKeeper) -> None:
    async with looking(zookeeper, tokens=TOKENS, configs=ON) as (rest, rooms):
        for role in ("viewer", "operator", "admin", "broker"):
            answer = await ask(rest, "GET", RECORDS, role)
            assert problem(answer) == (403, "forbidden"), role
        await allow(rest, "describe")
        await allow(rest, "read", host="10.0.0.8")
        await allow(rest, "read", resource_name="order")
        answer = await ask(rest, "GET", RECORDS, "viewer")
        assert problem(answer) == (403, "forbidden")
        assert answer.json()["facts"] == {
            "principal": "User:the-viewer",
            "operation": "read",
            "resource_type": "topic",
            "resource_name": "orders",
        }
        # A topic that is not there is refused in the same words.
        assert problem(await ask(rest, "GET", RECORDS.replace("orders", "none"), "viewer"))[0] == 403
        assert rooms.asked == []
        await allow(rest, "read", resource_name="ord", pattern_type="prefixed", host="10.0.0.7")
        assert (await ask(rest, "GET", RECORDS, "viewer")).status_code == 200
        assert problem(await ask(rest, "GET", RECORDS, "admin")) == (403, "forbidden")
        await allow(rest, "read", "deny")
        assert problem(await ask(rest, "GET", RECORDS, "viewer")) == (403, "forbidden")


async def test_super_users_and_the_rule_for_topics_without_acls_are_those_of_brokers(
    zookeeper: MemoryZooKeeper,
) -> None:
    configs = {**ON, SUPER_USERS: "User:the-admin", ALLOW_EVERYONE: "true"}
    async with looking(zookeeper, tokens=TOKENS, configs=configs) as (rest, _):
        assert (await ask(rest, "GET", RECORDS, "viewer")).status_code == 200
        await allow(rest, "read", principal="User:another")
        assert problem(await ask(rest, "GET", RECORDS, "viewer")) == (403, "forbidden")
        assert (await ask(rest, "GET", RECORDS, "admin")).status_code == 200


async def test_without_an_authorizer_each_caller_may_and_without_tokens_the_caller_has_no_name(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with looking(zookeeper, tokens=TOKENS) as (rest, _):
        assert (await ask(rest, "GET", RECORDS, "viewer")).status_code == 200
        assert problem(await ask(rest, "GET", RECORDS, "broker")) == (403, "forbidden")
        assert problem(await rest.client.get(RECORDS)) == (401, "unauthenticated")
    async with looking(MemoryZooKeeper(), configs=ON) as (rest, _):
        answer = await rest.client.get(RECORDS, headers={"X-Actor": "alice"})
        assert problem(answer) == (403, "forbidden")
        assert answer.json()["facts"]["principal"] == "User:ANONYMOUS"


async def test_the_explanation_of_acls_says_what_decides(zookeeper: MemoryZooKeeper) -> None:
    async with looking(zookeeper, tokens=TOKENS, configs=ON) as (rest, _):
        query = {"principal": "User:the-viewer", "host": "10.0.0.7", "request": f"GET {RECORDS}"}

        async def explained() -> dict[str, Any]:
            answer = await ask(rest, "GET", "/clusters/prod/acls:explain", "admin", params=query)
            told: dict[str, Any] = answer.json()["rest"]
            return told

        told = await explained()
        assert (told["allowed"], told["roles"], told["needs"]["operation"]) == (False, [], "read")
        assert told["words"].endswith("its ACLs do not give it, and no role does")
        await allow(rest, "read")
        told = await explained()
        assert (told["allowed"], told["given_by_acls"], told["given_by_role"]) == (True, True, False)
