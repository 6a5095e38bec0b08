from __future__ import annotations

from typing import Any

import httpx
import pytest

from controller.core.events import Report
from springtide.contract.epochs import BrokerEpoch, LeaderEpoch
from springtide.contract.holdings import SetAsideLog
from springtide.contract.lag_report import LagReport
from springtide.contract.missing_topics import MissingTopic
from tests.kit.admin_api.coordinators import Coordinator
from tests.kit.admin_api.document import parameters_of
from tests.kit.admin_api.rest import Rest, controller, pointers, problem, speaking
from tests.kit.memory.zookeeper import MemoryZooKeeper

pytestmark = pytest.mark.anyio

PROD = "/clusters/prod"
FINDING = {"kind": "offset_gap", "topic": "c", "partition": 0, "first_offset": 1, "last_offset": 2}
VERIFICATION = dict.fromkeys(
    (
        "began_at_ms",
        "ended_at_ms",
        "topics",
        "partitions_total",
        "batches",
        "records",
        "bytes",
        "compared_bytes",
    ),
    1,
) | {"findings_total": 2, "findings": [FINDING, FINDING]}


def set_aside_log(partition: int) -> SetAsideLog:
    return SetAsideLog(
        directory=f"later-{partition}.Zk1lV0pCTEq4nY6mXw2v3A",
        topic_id="Zk1lV0pCTEq4nY6mXw2v3A",
        topic="later",
        partition=partition,
        why="not in the controller's full state",
        since_ms=0,
        leader_epoch=LeaderEpoch(3),
        log_start_offset=0,
        log_end_offset=12,
        size_bytes=900,
        is_whole=True,
    )


def missing_topic(rest: Rest, name: str) -> MissingTopic:
    now_ms = rest.clock.now_wall_ms()
    return MissingTopic(
        topic=name, asked=3, since_ms=now_ms, last_ms=now_ms, client_id="app", software="unknown"
    )


def query_of(path: str) -> dict[str, str]:
    """httpx replaces a path's query by the parameters that it is given."""
    return dict(httpx.URL(path).params)


async def pages(rest: Rest, path: str, *, limit: int) -> list[list[dict[str, Any]]]:
    """The pages of a list, each no longer than was asked for."""
    found: list[list[dict[str, Any]]] = []
    token: str | None = None
    while token is not None or not found:
        parameters = query_of(path) | {"limit": str(limit)}
        parameters |= {} if token is None else {"page_token": token}
        response = await rest.client.get(path, params=parameters)
        assert response.status_code == 200, response.text
        found.append(response.json()["items"])
        token = response.json()["next_page_token"]
        assert len(found[-1]) == limit or token is None
    return found


async def a_bit_of_everything(rest: Rest) -> dict[str, str]:
    """Several of whatever there are lists of; the names to be put into their addresses."""
    brokers = await rest.form(5)
    first = brokers[0]
    first.missing_topics = tuple(missing_topic(rest, name) for name in ("lines", "words"))
    logs = tuple(set_aside_log(number) for number in (0, 1))
    report = LagReport(
        broker_id=first.broker_id, broker_epoch=BrokerEpoch(first.broker_epoch), set_aside=logs
    )
    await rest.engine.submit("prod", Report(request=report, wall_ms=0))
    for number in (901, 902):
        await Coordinator(rest, number).register()
    for name in ("billing", "search", "x" * 700):
        rest.groups.add(name)
    for name in ("test", "dev"):
        await rest.post("/clusters", {"name": name})
    for number, name in enumerate(("a", "b", "c", "d", "e")):
        kept = {"configs": {"deleted.topic.retention.ms": "600000"}} if name in ("a", "b") else {}
        await rest.create_topic(name, partitions=1 + number % 3, replication_factor=1 + number, **kept)
    async with speaking(rest, brokers):
        for name in ("a", "b"):
            await rest.client.delete(f"{PROD}/topics/{name}")
    for value in ("1000", "2000"):
        await rest.client.put(f"{PROD}/topics/c/configs/retention.ms", json={"value": value})
    for name in ("two", "three"):
        put = await rest.client.put(f"{PROD}/policies/{name}", json={"sql": "SELECT moves FROM plan WHERE 0"})
        assert put.status_code == 201, put.text
        webhook = await rest.client.put(f"{PROD}/webhooks/{name}", json={"url": "https://example.com/"})
        assert webhook.status_code == 201, webhook.text
        silence = await rest.post(f"{PROD}/silences", {"topic": name, "minutes": 1, "reason": "r"})
        assert silence.status_code == 201, silence.text
    for name in ("pay-1", "pay-2"):
        rest.transactions.add(name)
    for name in ("alice", "x" * 250):
        assert (await rest.client.put(f"{PROD}/users/{name}", json={"password": "pw"})).status_code == 201
        binding = {"resource_type": "topic", "resource_name": name * 3, "principal": f"User:{name}"}
        acls = {"bindings": [binding | {"operation": operation} for operation in ("read", "write")]}
        assert (await rest.post(f"{PROD}/acls", acls)).status_code == 200
    for _ in range(2):
        verification = await rest.post(f"{PROD}/verifications", VERIFICATION)
        assert verification.status_code == 201, verification.text
    assignments = [{"topic": "e", "partition": at, "replicas": [5, 4, 3, 2, 1]} for at in (0, 1)]
    goal = {"goal": {"kind": "assign", "assignments": assignments}}
    plan, _ = [await rest.post(f"{PROD}/plans", goal) for _ in range(2)]
    execution = await rest.post(f"{PROD}/plans/{plan.json()['id']}:execute", {})
    assert execution.status_code == 202, execution.text
    for partition in (0, 1):
        path = f"{PROD}/topics/c/partitions/{partition}"
        replicas = (await rest.client.get(path)).json()["replicas"]
        other = min({1, 2, 3, 4, 5} - set(replicas))
        await rest.client.put(f"{path}/assignment", json={"replicas": [other, *replicas[1:]]})
    await rest.outbox.flush()
    await rest.clock.sleep_ms(20_000)  # nobody sends heartbeats: brokers are fenced, partitions leaderless
    for name in ("alice", "x" * 250):  # now: these would wait for the brokers
        quotas = {"user": name, "quotas": {"request_percentage": 1}}
        assert (await rest.post(f"{PROD}/quotas:alter", {"entities": [quotas]})).status_code == 200
    return {
        "cluster": "prod",
        "topic": "c",
        "broker_id": "1",
        "plan_id": plan.json()["id"],
        "group_id": "billing",
        "transactional_id": "pay-1",
        "user": "alice",
        "operation_id": execution.json()["id"],
        "verification_id": verification.json()["id"],
    }


def _listed(rest: Rest) -> dict[str, set[str]]:
    """Parameters by path of every GET, but for answers to a question that must be put: they have tests of
    their own."""
    found: dict[str, set[str]] = {}
    document = rest.app.openapi()
    for path, operations in document["paths"].items():
        parameters = parameters_of(document, operations.get("get", {}))
        if not any(one["in"] == "query" and one["required"] for one in parameters):
            found[path] = {one["name"] for one in parameters}
    return found


async def test_every_list_comes_in_pages_that_make_up_the_whole(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        names = await a_bit_of_everything(rest)
        lists = sorted(path for path, found in _listed(rest).items() if "page_token" in found)
        assert len(lists) >= 18
        for path in (path.format_map(names) for path in lists):
            ((*whole,),) = await pages(rest, path, limit=1_000)
            assert len(whole) > 1, path
            for limit in (1, 2, len(whole) - 1, len(whole)):
                parts = await pages(rest, path, limit=limit)
                assert [item for page in parts for item in page] == whole, (path, limit)


async def test_whatever_may_have_a_next_page_can_be_asked_for_it(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        document = rest.app.openapi()
        for path, operations in document["paths"].items():
            content = operations.get("get", {}).get("responses", {}).get("200", {}).get("content", {})
            name = content.get("application/json", {}).get("schema", {}).get("$ref", "").rpartition("/")[2]
            if "next_page_token" in document["components"]["schemas"].get(name, {}).get("properties", {}):
                names = {parameter["name"] for parameter in parameters_of(document, operations["get"])}
                assert {"limit", "page_token"} <= names, path


async def test_a_token_belongs_to_its_list_and_order(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await a_bit_of_everything(rest)
        lists = (
            "/clusters",
            "/problems",
            "/operations",
            "/audit",
            f"{PROD}/alarms",
            f"{PROD}/brokers",
            f"{PROD}/groups",
            f"{PROD}/brokers?sort=-replicas",
            f"{PROD}/topics",
            f"{PROD}/topics?sort=-name",
            f"{PROD}/topics?sort=partitions",
            f"{PROD}/topics/c/partitions",
        )
        tokens = {}
        for path in lists:
            response = await rest.client.get(path, params={"limit": "1"} | query_of(path))
            tokens[path] = response.json()["next_page_token"]
        for token_of, token in tokens.items():
            for path in lists:
                parameters = {"page_token": token} | query_of(path)
                response = await rest.client.get(path, params=parameters)
                if path == token_of:
                    assert response.status_code == 200, (path, response.text)
                else:
                    assert problem(response) == (422, "invalid_request"), (path, token_of)
                    assert pointers(response) == ["page_token"]


async def test_brokers_and_topics_can_be_sorted(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form(4)
        for name, replicas in (("a", [[1], [1], [1]]), ("b", [[3], [3]]), ("c", [[2], [3]])):
            body = {"name": name, "cluster": "prod", "partitions": len(replicas), "assignments": replicas}
            assert (await rest.post("/topics", body)).status_code == 201

        async def brokers(sort: str) -> list[int]:
            found = await pages(rest, f"{PROD}/brokers?sort={sort}", limit=1)
            return [broker["broker_id"] for page in found for broker in page]

        async def topics(sort: str) -> list[str]:
            found = await pages(rest, f"{PROD}/topics?sort={sort}", limit=1)
            return [topic["name"] for page in found for topic in page]

        assert await brokers("broker_id") == [1, 2, 3, 4]
        assert await brokers("-broker_id") == [4, 3, 2, 1]
        assert await brokers("replicas") == [4, 2, 1, 3]
        assert await brokers("-leaders") == [3, 1, 2, 4]
        assert await topics("name") == ["a", "b", "c"]
        assert await topics("-name") == ["c", "b", "a"]
        assert await topics("partitions") == ["b", "c", "a"]
        assert await topics("-partitions") == ["a", "c", "b"]
        for path in ("brokers?sort=rack", "topics?sort=--name", "topics?sort=", "topics?sort=-"):
            refused = await rest.client.get(f"{PROD}/{path}")
            assert (problem(refused), pointers(refused)) == ((422, "invalid_request"), ["sort"]), path


async def test_an_alarm_that_ends_meanwhile_hides_no_other(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await rest.form(3)
        await rest.create_topic(partitions=6, replication_factor=1)
        await rest.clock.sleep_ms(20_000)
        path = f"{PROD}/alarms"
        first = (await rest.client.get(path, params={"limit": 2})).json()
        assert len(first["items"]) == 2
        whole = (await rest.client.get(path)).json()["items"]
        for _ in range(3):
            await brokers[0].heartbeat()
            await brokers[0].apply()
            await rest.clock.sleep_ms(300)
        now = (await rest.client.get(path)).json()["items"]
        assert len(now) < len(whole), "one broker's have ended"
        second = (await rest.client.get(path, params={"page_token": first["next_page_token"]})).json()
        still = [alarm for alarm in whole[2:] if alarm in now]
        assert still
        assert [alarm for alarm in second["items"] if alarm in whole] == still
