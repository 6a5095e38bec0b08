"""Topics get other settings and more partitions."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest

from admin_api.settings import ApiSettings
from controller.core.configs import honoured_names
from controller.core.events import ConfigureCluster
from controller.core.settings_table import TOPIC_SETTINGS
from controller.database.idempotency import CLAIM_MS
from springtide.levels import CONSUMER_GROUPS
from tests.kit.admin_api.rest import Rest, controller, pointers, problem, silence
from tests.kit.memory.zookeeper import MemoryZooKeeper

pytestmark = pytest.mark.anyio

TOPIC = "/clusters/prod/topics/orders"
CONFIGS = f"{TOPIC}/configs"
MINIMUM = f"{CONFIGS}/min.insync.replicas"


async def setting(rest: Rest, path: str = MINIMUM) -> tuple[str, str, str]:
    shown = (await rest.client.get(path)).json()
    return shown["value"], shown["source"], shown["default"]


async def test_every_setting_says_what_applies_and_who_set_it(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        await rest.create_topic(configs={"retention.ms": "1000"})
        listed = (await rest.client.get(CONFIGS)).json()["items"]
        assert [item["name"] for item in listed] == honoured_names(TOPIC_SETTINGS)
        by_name = {item["name"]: item for item in listed}
        assert by_name["retention.ms"] == {
            "name": "retention.ms",
            "value": "1000",
            "in_words": "1 s",
            "source": "topic",
            "default": "604800000",
            "cluster_config": "log.retention.ms",
            "is_read_only": False,
            "note": None,
        }
        put = await rest.client.put(f"{CONFIGS}/retention.ms?dry_run=true", json={"value": "1 h 30 m"})
        assert (put.json()["value"], put.json()["in_words"]) == ("5400000", "1 h 30 min")
        unset = (await rest.client.get(f"{CONFIGS}/compression.type")).json()
        assert (unset["value"], unset["is_read_only"]) == ("producer", False)
        assert "at the producer" in unset["note"]
        assert await setting(rest) == ("2", "default", "2"), "a majority of three"
        page = (await rest.client.get(f"{CONFIGS}?limit=5")).json()
        rest_of_it = (await rest.client.get(f"{CONFIGS}?page_token={page['next_page_token']}")).json()
        assert [*page["items"], *rest_of_it["items"]] == listed


async def test_a_clusters_default_applies_where_the_topic_has_none(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        await rest.create_topic()
        event = ConfigureCluster(
            configs={"log.retention.ms": "5", "min.insync.replicas": "1"},
            actor="operator",
            wall_ms=rest.clock.now_wall_ms(),
        )
        await rest.engine.submit("prod", event)
        assert await setting(rest, f"{CONFIGS}/retention.ms") == ("5", "cluster", "604800000")
        assert await setting(rest) == ("1", "cluster", "2")
        await rest.client.put(MINIMUM, json={"value": "3"})
        assert await setting(rest) == ("3", "topic", "2")


async def test_a_minimum_is_set_in_the_topic_and_in_each_of_its_partitions(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        await rest.create_topic()
        planned = await rest.client.put(f"{MINIMUM}?dry_run=true", json={"value": "3"})
        assert (planned.status_code, planned.json()["value"]) == (200, "3")
        assert await setting(rest) == ("2", "default", "2")
        done = await rest.client.put(MINIMUM, json={"value": "3", "reason": "orders are money"})
        assert (done.status_code, done.json()["source"]) == (200, "topic")
        assert done.headers["etag"] == (await rest.client.get(MINIMUM)).headers["etag"]
        partitions = (await rest.client.get(f"{TOPIC}/partitions")).json()["items"]
        assert [item["min_insync_replicas"] for item in partitions] == [3, 3, 3]
        rows = await rest.recorded(cause="topic_configured")
        assert [row["entity"] for row in rows] == ["partition", "partition", "partition", "topic"]
        assert (rows[-1]["before"]["configs"], rows[-1]["after"]["configs"]) == (
            {},
            {"min.insync.replicas": "3"},
        )
        assert {row["reason"] for row in rows} == {"orders are money"}

        unset = await rest.client.delete(f"{MINIMUM}?reason=too+strict")
        assert (unset.status_code, unset.json()["value"], unset.json()["source"]) == (200, "2", "default")
        again = await rest.client.delete(MINIMUM)
        assert (again.status_code, again.json()) == (200, unset.json()), "it is as it was asked to be"
        partitions = (await rest.client.get(f"{TOPIC}/partitions")).json()["items"]
        assert [item["min_insync_replicas"] for item in partitions] == [2, 2, 2]


async def test_a_refused_secret_is_not_in_the_audit(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        await rest.create_topic()
        names = (
            "sasl.jaas.config",
            "listener.name.sasl.plain.ssl.key.password",
            "delegation.token.secret.key",
        )
        for name in names:
            for holder in ("/clusters/prod", "/clusters/prod/brokers/1", TOPIC):
                one = await rest.client.put(f"{holder}/configs/{name}", json={"value": "hunter2"})
                many = await rest.post(f"{holder}/configs:alter", {"configs": {name: "hunter2", "x": None}})
                assert (one.status_code, many.status_code) == (422, 422)
                assert "hunter2" not in one.text + many.text
        new = {"name": "n", "cluster": "prod", "configs": {names[0]: "hunter2", "retention.ms": "5"}}
        assert (await rest.post("/topics", new)).status_code == 422
        rows = await rest.recorded()
        assert "hunter2" not in json.dumps(rows)
        (request, *_) = await rest.recorded(kind="request", cause="create_topic")
        assert request["after"]["configs"] == {names[0]: "***", "retention.ms": "5"}


async def test_several_settings_change_together_or_not_at_all(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        await rest.create_topic(configs={"retention.ms": "1000"})
        configs = {"retention.ms": None, "min.insync.replicas": "1", "segment.bytes": "1048576"}
        refused = await rest.post(f"{CONFIGS}:alter", {"configs": configs | {"segment.bytes": "1"}})
        assert (problem(refused), pointers(refused)) == ((422, "invalid_config"), ["/configs/segment.bytes"])
        assert (await rest.client.get(TOPIC)).json()["configs"] == {"retention.ms": "1000"}
        done = await rest.post(f"{CONFIGS}:alter", {"configs": configs})
        assert done.status_code == 200
        assert [(item["name"], item["value"], item["source"]) for item in done.json()["items"]] == [
            ("min.insync.replicas", "1", "topic"),
            ("retention.ms", "604800000", "default"),
            ("segment.bytes", "1048576", "topic"),
        ]
        assert (await rest.client.get(TOPIC)).json()["configs"] == {
            "min.insync.replicas": "1",
            "segment.bytes": "1048576",
        }


async def test_a_brokers_throttle_is_its_own_or_the_clusters(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        of_broker = "/clusters/prod/brokers/1/configs"
        of_cluster = "/clusters/prod/configs"
        rate = "follower.replication.throttled.rate"
        listed = (await rest.client.get(of_broker)).json()["items"]
        assert [(item["name"], item["value"], item["source"]) for item in listed] == [
            (rate, None, "default"),
            ("leader.replication.throttled.rate", None, "default"),
        ]
        everywhere = await rest.client.put(f"{of_cluster}/{rate}", json={"value": "100", "reason": "all"})
        assert (everywhere.status_code, everywhere.json()["source"]) == (200, "cluster")
        assert everywhere.headers["etag"] == (await rest.client.get(f"{of_cluster}/{rate}")).headers["etag"]
        shown = (await rest.client.get(f"{of_broker}/{rate}")).json()
        assert (shown["value"], shown["source"], shown["default"]) == ("100", "cluster", None)
        await rest.client.put(f"{of_broker}/{rate}", json={"value": "5", "reason": "its disk is slow"})
        shown = (await rest.client.get(f"{of_broker}/{rate}")).json()
        assert (shown["value"], shown["source"]) == ("5", "broker")
        unset = await rest.post(f"{of_broker}:alter", {"configs": {rate: None}})
        assert (unset.json()["items"][0]["value"], unset.json()["items"][0]["source"]) == ("100", "cluster")
        rows = await rest.recorded(cause="broker_configured")
        assert [row["after"]["configs"] for row in rows] == [{}, {rate: "5"}]
        assert rows[1]["reason"] == "its disk is slow"
        (request, *_) = await rest.recorded(kind="request", cause="set_config", entity="broker")
        assert (request["brokers"], request["entity_id"]) == ([1], "1")


async def test_a_clusters_settings_are_defaults_of_its_topics(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        await rest.create_topic()
        configs = "/clusters/prod/configs"
        old = (await rest.client.get(configs)).headers["etag"]
        planned = await rest.client.put(f"{configs}/min.insync.replicas?dry_run=true", json={"value": "3"})
        assert (planned.json()["value"], (await rest.client.get(configs)).headers["etag"]) == ("3", old)
        done = await rest.client.put(f"{configs}/min.insync.replicas", json={"value": "3"})
        assert done.status_code == 200
        partitions = (await rest.client.get(f"{TOPIC}/partitions")).json()["items"]
        assert [item["min_insync_replicas"] for item in partitions] == [3, 3, 3]
        stale = await rest.client.delete(f"{configs}/min.insync.replicas", headers={"If-Match": old})
        assert problem(stale) == (412, "precondition_failed")
        unset = await rest.client.delete(f"{configs}/min.insync.replicas")
        assert (unset.json()["value"], unset.json()["default"]) == (None, None), "a majority"
        for path, expected in (
            (f"{configs}/retention.ms", (404, "config_not_found")),
            ("/clusters/prod/brokers/1/configs/retention.ms", (404, "config_not_found")),
            ("/clusters/prod/brokers/9/configs", (404, "broker_not_found")),
            ("/clusters/none/configs", (404, "cluster_not_found")),
        ):
            assert problem(await rest.client.get(path)) == expected
        refused = await rest.client.put("/clusters/prod/brokers/1/configs/retention.ms", json={"value": "1"})
        assert problem(refused) == (422, "unknown_config")


async def test_settings_that_cannot_be(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        await rest.create_topic()
        unknown = f"{CONFIGS}/retention.hours"
        missing = await rest.client.get(unknown)
        assert problem(missing) == (404, "config_not_found")
        for refused in (
            await rest.client.put(unknown, json={"value": "1"}),
            await rest.client.delete(unknown),
            await rest.post(f"{CONFIGS}:alter", {"configs": {"retention.hours": None}}),
        ):
            assert problem(refused) == (422, "unknown_config")
            assert "retention.ms" in refused.json()["hint"]
        bad = await rest.client.put(MINIMUM, json={"value": "none"})
        assert (problem(bad), pointers(bad)) == ((422, "invalid_config"), ["/value"])
        kept = await rest.client.put(f"{CONFIGS}/compression.type", json={"value": "zstd"})
        assert (kept.status_code, kept.json()["value"]) == (200, "zstd")
        assert kept.json()["note"].startswith("kept, changes nothing: batches are stored as")
        fixed = await rest.client.put(f"{CONFIGS}/remote.storage.enable", json={"value": "true"})
        assert problem(fixed) == (422, "invalid_config")
        assert "tiered" in fixed.json()["hint"]
        for body in ({}, {"value": 3}, {"value": None}):
            assert problem(await rest.client.put(MINIMUM, json=body)) == (422, "invalid_request")
        assert problem(await rest.post(f"{CONFIGS}:alter", {"configs": {}})) == (422, "invalid_request")
        assert problem(await rest.client.get(f"{TOPIC[:-1]}/configs")) == (404, "topic_not_found")


async def test_a_setting_with_one_value_is_shown_when_it_is_set_or_asked_for(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        await rest.create_topic(configs={"remote.storage.enable": "False"})
        listed = {item["name"]: item for item in (await rest.client.get(CONFIGS)).json()["items"]}
        tiered = listed["remote.storage.enable"]
        assert (tiered["value"], tiered["source"], tiered["is_read_only"]) == ("false", "topic", True)
        assert "segment.jitter.ms" not in listed
        assert await setting(rest, f"{CONFIGS}/segment.jitter.ms") == ("0", "default", "0")
        refused = await rest.client.put(f"{CONFIGS}/remote.storage.enable", json={"value": "true"})
        assert (problem(refused), pointers(refused)) == ((422, "invalid_config"), ["/value"])
        assert refused.json()["detail"] == "remote.storage.enable must be false, not 'true'"
        never = f"{CONFIGS}/message.format.version"
        assert problem(await rest.client.get(never)) == (404, "config_not_found")
        assert problem(await rest.client.put(never, json={"value": "3.0"})) == (422, "invalid_config")
        assert (await rest.client.delete(never)).status_code == 200, "it is as it was asked to be"


async def test_settings_change_only_in_the_topic_that_was_looked_at(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper, settings=ApiSettings(if_match_required=True)) as rest:
        await rest.form()
        await rest.create_topic()
        old = {"If-Match": (await rest.client.get(CONFIGS)).headers["etag"]}
        assert problem(await rest.client.put(MINIMUM, json={"value": "1"})) == (428, "precondition_required")
        assert (await rest.client.put(MINIMUM, json={"value": "1"}, headers=old)).status_code == 200
        for refused in (
            await rest.client.put(MINIMUM, json={"value": "3"}, headers=old),
            await rest.client.delete(MINIMUM, headers=old),
            await rest.post(f"{CONFIGS}:alter", {"configs": {"retention.ms": "1"}}, If_Match=old["If-Match"]),
            await rest.client.patch(TOPIC, json={"partitions": 9}, headers=old),
        ):
            assert problem(refused) == (412, "precondition_failed")
        assert await setting(rest) == ("1", "topic", "2")


# -- more partitions --


async def look(rest: Rest, path: str) -> dict[str, Any]:
    await rest.clock.sleep_ms(500)
    body: dict[str, Any] = (await rest.client.get(path)).json()
    return body


async def test_more_partitions_are_there_when_every_broker_has_its_replicas(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        brokers = await rest.form()
        await rest.create_topic()
        planned = await rest.client.patch(f"{TOPIC}?dry_run=true", json={"partitions": 5})
        assert (planned.status_code, planned.json()["topic"]["partitions"]) == (200, 5)
        assert [row["partition"] for row in planned.json()["assignments"]] == [3, 4]
        assert (await rest.client.get(TOPIC)).json()["partitions"] == 3

        body = {"partitions": 5, "reason": "twice the consumers"}
        accepted = await rest.client.patch(TOPIC, json=body)
        assert (accepted.status_code, accepted.json()["kind"]) == (202, "partitions_add")
        assert (accepted.json()["spec"]["partitions"], accepted.json()["state"]) == (5, "running")
        assert (await rest.client.get(TOPIC)).json()["partitions"] == 5
        path = accepted.headers["location"]
        assert (await look(rest, path))["state"] == "running", "no broker has applied it"
        for broker in brokers:
            await broker.apply()
        await silence(rest, brokers, 1, 2, 3)
        assert (await look(rest, path))["state"] == "succeeded"
        rows = await rest.recorded(cause="partitions_added")
        assert [(row["entity"], row["partition"]) for row in rows] == [
            ("topic", None),
            ("partition", 4),
            ("partition", 3),
        ]
        assert {(row["operation_id"], row["reason"]) for row in rows} == {
            (accepted.json()["id"], "twice the consumers")
        }


async def test_an_addition_waits_for_a_broker_that_is_down_and_ends_with_its_topic(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        brokers = await rest.form()
        await rest.create_topic()
        accepted = await rest.client.patch(TOPIC, json={"partitions": 4, "assignments": [[3, 1, 2]]})
        path = accepted.headers["location"]
        await silence(rest, brokers, 1, 2)
        waiting = await look(rest, path)
        waits_for = {(item["code"], item["broker_id"]) for item in waiting["blocked"]}
        assert (waiting["state"], waits_for) == ("running", {("replica_unreachable", 3)})
        await rest.client.delete(TOPIC)
        ended = await look(rest, path)
        assert (ended["state"], ended["error"]["code"]) == ("failed", "topic_deleted")


async def test_partitions_that_cannot_be_added(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        await rest.create_topic()
        for body, code, where in (
            ({"partitions": 3}, "invalid_partitions", "/partitions"),
            ({"partitions": 1}, "invalid_partitions", "/partitions"),
            ({"partitions": 0}, "invalid_request", "/partitions"),
            ({"partitions": 4, "assignments": [[1, 2]]}, "invalid_replica_assignment", "/assignments"),
            ({"partitions": 4, "replication_factor": 2}, "invalid_request", "/replication_factor"),
        ):
            refused = await rest.client.patch(TOPIC, json=body)
            assert problem(refused) == (422, code), body
            assert pointers(refused)[0].startswith(where)
        assert problem(await rest.client.patch(f"{TOPIC}x", json={"partitions": 9})) == (
            404,
            "topic_not_found",
        )
        assert (await rest.client.get("/operations")).json()["items"] == []


async def test_when_the_answer_was_lost_the_next_attempt_finds_its_own_partitions(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        await rest.create_topic()
        key = {"Idempotency-Key": "k1"}
        rest.sql.writes_left = 2  # the key and the intent, and not the operation
        lost = await rest.client.patch(TOPIC, json={"partitions": 5}, headers=key)
        assert problem(lost) == (504, "outcome_unknown")
        rest.sql.down, rest.sql.writes_left = False, None
        await rest.clock.sleep_ms(CLAIM_MS)
        assert (await rest.client.get(TOPIC)).json()["partitions"] == 5
        again = await rest.client.patch(TOPIC, json={"partitions": 5}, headers=key)
        assert (again.status_code, again.json()["spec"]["partitions"]) == (202, 5), again.text
        assert problem(await rest.client.patch(TOPIC, json={"partitions": 5})) == (422, "invalid_partitions")


async def test_a_raised_minimum_that_a_broker_has_not_applied_is_stored_and_said_to_be_late(
    zookeeper: MemoryZooKeeper,
) -> None:
    raised = {"configs": {"min.insync.replicas": "3"}}
    async with controller(zookeeper) as rest:
        brokers = await rest.form()
        await rest.create_topic()

        async def live() -> None:
            while True:
                for broker in brokers:
                    await broker.heartbeat()
                await brokers[0].apply()
                await rest.clock.sleep_ms(500)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(live)
            late = await rest.post(f"{TOPIC}/configs:alter", raised)
            for broker in brokers:
                await broker.apply()
            again = await rest.post(f"{TOPIC}/configs:alter", raised)
            tasks.cancel_scope.cancel()
        assert problem(late) == (504, "not_in_force")
        assert "stored; 2, 3 may" in late.json()["detail"]
        assert again.status_code == 200, again.text
        rows = [row for row in await rest.recorded(kind="request") if row["cause"].startswith("alter")]
        assert [row["outcome"]["outcome"] for row in rows] == ["succeeded"] * 2


async def test_a_groups_settings_are_listed_and_changed_under_any_id(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        path = "/clusters/prod/group-configs/a%2Fb"
        listed = (await rest.client.get(path)).json()["items"]
        assert [(item["name"], item["value"], item["source"]) for item in listed] == [
            ("consumer.assignment.interval.ms", "1000", "default"),
            ("consumer.heartbeat.interval.ms", "5000", "default"),
            ("consumer.session.timeout.ms", "45000", "default"),
        ]
        rest.engine.cluster("prod").decided.level = CONSUMER_GROUPS.since
        session = {"configs": {"consumer.session.timeout.ms": "50 s"}}
        altered = await rest.client.post(f"{path}:alter", json=session)
        assert altered.json()["items"][0]["value"] == "50000", altered.text
        shown = (await rest.client.get(path)).json()["items"][-1]
        assert (shown["value"], shown["source"], shown["default"]) == ("50000", "group", "45000")
        too_short = {"configs": {"consumer.session.timeout.ms": "5000"}}
        assert problem(await rest.client.post(f"{path}:alter", json=too_short))[1] == "invalid_config"
