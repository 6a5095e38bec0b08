"""Changes of settings: the values before and after, and undoing one of them."""

from __future__ import annotations

from typing import Any

import pytest

from springtide.levels import CONSUMER_GROUPS
from tests.kit.admin_api.rest import TOKENS, Rest, ask, controller, problem
from tests.kit.memory.zookeeper import MemoryZooKeeper

pytestmark = pytest.mark.anyio

CLUSTER = "/clusters/prod"
CHANGES = f"{CLUSTER}/config-changes"
TOPIC = f"{CLUSTER}/topics/orders"
RETENTION = f"{TOPIC}/configs/retention.ms"
RATE = "follower.replication.throttled.rate"


async def changes(rest: Rest, **query: Any) -> list[dict[str, Any]]:
    await rest.outbox.flush()
    answer = await rest.client.get(CHANGES, params=query)
    assert answer.status_code == 200, answer.text
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


def told(items: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [
        (item["entity"], one["name"], one["before"], one["after"])
        for item in items
        for one in item["changes"]
    ]


async def shorten(rest: Rest, value: str = "3600000", who: str = "alice") -> int:
    """Set the retention of `orders`, and return the change's id."""
    body = {"value": value, "reason": "the disk fills"}
    done = await rest.client.put(RETENTION, json=body, headers={"X-Actor": who})
    assert done.status_code == 200, done.text
    newest: int = (await changes(rest))[0]["id"]
    return newest


async def test_each_change_has_the_values_before_and_after(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        await rest.create_topic(configs={"segment.bytes": "1048576"})
        await rest.create_topic("payments")
        assert await changes(rest) == [], "a creation is no change"
        await shorten(rest)
        await rest.client.delete(f"{TOPIC}/configs/segment.bytes")
        await rest.client.put(f"{CLUSTER}/configs/num.partitions", json={"value": "3"})
        await rest.client.put(f"{CLUSTER}/brokers/2/configs/{RATE}", json={"value": "5"})
        both = {"retention.ms": "7", "segment.ms": "8"}
        await rest.post(f"{CLUSTER}/topics/payments/configs:alter", {"configs": both})
        found = await changes(rest)
        assert told(found) == [
            ("topic", "retention.ms", None, "7"),
            ("topic", "segment.ms", None, "8"),
            ("broker", RATE, None, "5"),
            ("cluster", "num.partitions", None, "3"),
            ("topic", "segment.bytes", "1048576", None),
            ("topic", "retention.ms", None, "3600000"),
        ]
        assert (found[-1]["topic"], found[-1]["reason"]) == ("orders", "the disk fills")
        assert found[-1]["actor"].startswith("unverified:alice@")
        assert told(await changes(rest, broker=2)) == [("broker", RATE, None, "5")]
        assert told(await changes(rest, defaults="true")) == [("cluster", "num.partitions", None, "3")]
        assert [item["topic"] for item in await changes(rest, topic="payments")] == ["payments"]
        named = await changes(rest, name="retention.ms")
        assert [item["topic"] for item in named] == ["payments", "orders"]
        page = (await rest.client.get(f"{CHANGES}?limit=2")).json()
        rest_of_it = (await rest.client.get(f"{CHANGES}?page_token={page['next_page_token']}")).json()
        assert [*page["items"], *rest_of_it["items"]] == found
        assert problem(await rest.client.get("/clusters/none/config-changes")) == (404, "cluster_not_found")


async def test_a_groups_first_setting_and_its_last_are_changes_that_are_undone(
    zookeeper: MemoryZooKeeper,
) -> None:
    """A group has a row only while it has settings of its own."""
    session = "consumer.session.timeout.ms"
    async with controller(zookeeper) as rest:
        await rest.form()
        rest.engine.cluster("prod").decided.level = CONSUMER_GROUPS.since
        alter = f"{CLUSTER}/group-configs/a%2Fb:alter"
        for value in ("50000", "60000", None):
            done = await rest.post(alter, {"configs": {session: value}})
            assert done.status_code == 200, done.text
        await rest.client.put(f"{CLUSTER}/configs/num.partitions", json={"value": "3"})
        found = await changes(rest, group="a/b")
        assert told(found) == [
            ("group", session, "60000", None),
            ("group", session, "50000", "60000"),
            ("group", session, None, "50000"),
        ]
        assert {item["group_id"] for item in found} == {"a/b"}
        assert (await changes(rest, group="a")) == []
        assert len(await changes(rest)) == 4
        undone = await rest.post(f"{CHANGES}/{found[0]['id']}:undo", {})
        assert (undone.status_code, undone.json()["items"][0]["value"]) == (200, "60000")
        assert problem(await rest.post(f"{CHANGES}/{found[2]['id']}:undo", {})) == (
            409,
            "config_changed_since",
        )


async def test_a_change_is_undone_by_one_call_which_is_a_change_itself(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        await rest.create_topic(configs={"segment.ms": "9"})
        both = {"retention.ms": "7", "segment.ms": "8", "segment.bytes": "1048576"}
        await rest.post(f"{TOPIC}/configs:alter", {"configs": both})
        (change,) = await changes(rest)
        undo = f"{CHANGES}/{change['id']}:undo"
        later = {"value": "2097152"}
        await rest.client.put(f"{TOPIC}/configs/flush.ms", json=later)
        planned = await rest.post(f"{undo}?dry_run=true", {})
        before = {"segment.ms": "9", "flush.ms": "2097152"}
        assert planned.status_code == 200
        assert (await rest.client.get(TOPIC)).json()["configs"] == both | before | {"segment.ms": "8"}
        done = await rest.post(undo, {"reason": "records went too early"}, X_Actor="bob")
        assert (done.status_code, done.json()) == (200, planned.json())
        assert [(one["name"], one["value"], one["source"]) for one in done.json()["items"]] == [
            ("retention.ms", "604800000", "default"),
            ("segment.bytes", "1073741824", "default"),
            ("segment.ms", "9", "topic"),
        ]
        version = (await rest.client.get(TOPIC)).headers["etag"].partition(".")[0]
        assert done.headers["etag"].startswith(f"{version}.")
        assert (await rest.client.get(TOPIC)).json()["configs"] == before
        newest = (await changes(rest))[0]
        assert newest["reason"] == "records went too early"
        assert told([newest])[2] == ("topic", "segment.ms", "8", "9")
        (request, *_) = await rest.recorded(kind="request", cause="undo_configs")
        assert (request["after"]["audit_id"], request["outcome"]["outcome"]) == (change["id"], "succeeded")
        assert problem(await rest.post(undo, {})) == (409, "config_changed_since"), "it is undone"
        again = await rest.post(f"{CHANGES}/{newest['id']}:undo", {})
        assert again.status_code == 200
        assert (await rest.client.get(TOPIC)).json()["configs"] == both | {"flush.ms": "2097152"}


async def test_a_value_that_was_changed_again_is_not_undone(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        await rest.create_topic()
        first = await shorten(rest)
        second = await shorten(rest, "60000", who="bob")
        for query in ("", "?dry_run=true"):
            refused = await rest.post(f"{CHANGES}/{first}:undo{query}", {})
            assert problem(refused) == (409, "config_changed_since")
            detail = refused.json()["detail"]
            assert "retention.ms is 60000, and the change had left it 3600000: unverified:bob@" in detail
            facts = refused.json()["facts"]
            assert (facts["name"], facts["value"], facts["audit_id"]) == ("retention.ms", "60000", second)
            assert facts["actor"].startswith("unverified:bob@")
        assert (await rest.client.get(RETENTION)).json()["value"] == "60000"
        (request, *_) = await rest.recorded(kind="request", cause="undo_configs")
        assert request["outcome"]["code"] == "config_changed_since"
        version = (await rest.client.get(f"{TOPIC}/configs")).headers["etag"]
        await shorten(rest, "7")
        newest = await shorten(rest, "8")
        stale = await rest.post(f"{CHANGES}/{newest}:undo", {}, If_Match=version)
        assert problem(stale) == (412, "precondition_failed")


async def test_changes_of_brokers_and_of_the_cluster_are_undone_too(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        own = f"{CLUSTER}/brokers/2/configs/{RATE}"
        await rest.client.put(own, json={"value": "5"})
        await rest.client.put(f"{CLUSTER}/configs/num.partitions", json={"value": "3"})
        for item in await changes(rest):
            assert (await rest.post(f"{CHANGES}/{item['id']}:undo", {})).status_code == 200
        assert (await rest.client.get(own)).json()["value"] is None
        assert (await rest.client.get(f"{CLUSTER}/configs/num.partitions")).json()["value"] == "1"


async def test_what_is_no_change_of_settings_is_not_undone(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        await rest.create_topic()
        change = await shorten(rest)
        request, created = [(await rest.recorded(kind=kind))[-1] for kind in ("request", "change")]
        for number in (request["id"], created["id"], 99_999):
            refused = await rest.post(f"{CHANGES}/{number}:undo", {})
            assert problem(refused) == (404, "audit_row_not_found")
        await rest.client.delete(TOPIC)
        assert problem(await rest.post(f"{CHANGES}/{change}:undo", {})) == (404, "topic_not_found")


async def test_undoing_needs_what_setting_the_value_needs(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper, tokens=TOKENS) as rest:
        await rest.form()
        topic = {"name": "orders", "cluster": "prod", "partitions": 1, "replication_factor": 3}
        await ask(rest, "POST", "/topics", "operator", json=topic)
        await ask(rest, "PUT", RETENTION, "operator", json={"value": "1000"})
        protect = {"value": "true"}
        await ask(rest, "PUT", f"{CLUSTER}/configs/cluster.protected", "admin", json=protect)
        await rest.outbox.flush()
        of_cluster, of_topic = (await ask(rest, "GET", CHANGES, "viewer")).json()["items"]
        body = {"reason": "a mistake"}
        any_version = {"If-Match": "*"}
        for item, role, needed in ((of_topic, "viewer", "operator"), (of_cluster, "operator", "admin")):
            path = f"{CHANGES}/{item['id']}:undo"
            seen = await ask(rest, "POST", f"{path}?dry_run=true", role, json=body)
            assert seen.status_code == 200, "to see what it would do is open"
            refused = await ask(rest, "POST", path, role, json=body, headers=any_version)
            assert problem(refused) == (403, "forbidden")
            assert refused.json()["facts"]["needed"] == needed
            unbound = await ask(rest, "POST", path, needed, json=body)
            assert problem(unbound) == (428, "precondition_required"), "the cluster is protected"
            done = await ask(rest, "POST", path, needed, json=body, headers=any_version)
            assert done.status_code == 200, done.text
