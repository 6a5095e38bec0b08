"""Changes from the operator's page: first what they would do, then, when the operator agrees, the change."""

from __future__ import annotations

import re

import pytest
from confluent_kafka import Consumer, TopicPartition

from localcluster.cluster import LocalCluster
from tests.kit.admin_api.canned import CannedController
from tests.kit.chromium import DESK, Browser, until
from tests.kit.console import do_it, fill, look, open_action
from tests.kit.dataplane.clients_in_threads import produce_blocking

pytestmark = pytest.mark.timeout(600)

PHONE = 375


def facts(browser: Browser) -> str:
    return browser.text("#view .facts")


def fill_kind(browser: Browser, text: str) -> None:
    browser.driver.find_element("id", "action-kind").send_keys(text)


def test_a_topic_is_created_and_a_setting_changed_on_a_real_controller(
    browser: Browser, shop: LocalCluster
) -> None:
    """The topic stays. The file of the tests that count the cluster's partitions comes before this one."""
    url = shop.controller_urls[0]
    browser.look(width=DESK, dark=False)
    open_action(browser, f"{url}/#prod/topics", "Create a topic")
    fill(browser, "name", "returns")
    fill(browser, "partitions", "2")
    fill(browser, "reason", "parcels come back")
    told = look(browser)
    assert "Create returns with 2 partitions of 3 replicas" in told
    assert "returns" not in browser.text("#view .body"), "nothing is created yet"
    browser.screenshot("console-create")
    assert do_it(browser).startswith("Done.")
    until("the topic", lambda: "returns" in browser.texts("#view tbody th a"))

    open_action(browser, f"{url}/#prod/topics/returns", "Change retention.ms")
    fill(browser, "value", "often")
    assert "retention.ms" in look(browser)
    fill(browser, "value", "3600000")
    assert "Make retention.ms 3600000 (1 h), from topic" in look(browser)
    assert do_it(browser).startswith("Done.")
    until("the value", lambda: "3600000 (1 h)" in browser.texts("#view [aria-label=Settings] td.value"))
    rows = shop.api.get("/audit?cluster=prod&topic=returns&kind=request")["items"]
    assert [row["cause"] for row in rows] == ["set_config", "create_topic"]
    assert rows[1]["reason"] == "parcels come back"


def test_each_action_is_shown_before_it_is_done(browser: Browser, canned: CannedController) -> None:
    operation = canned.example("/operations/op_1")["id"]
    own = f"/operations/{operation}"
    browser.look(width=PHONE, dark=False)
    for view, name, seen, path, body in [
        ("brokers/1", "Drain", "Move 1 partition", "/clusters/prod/brokers/1:drain", {}),
        ("brokers/1", "Take back", "Move 0 leaderships", "/clusters/prod/brokers/1:return", {}),
        ("topics/orders", "Move leaders back", "Move 1 leader back", None, {"topics": ["orders"]}),
        ("groups/search", "Delete", "Delete the empty group search", "/clusters/prod/groups/search", None),
        (f"operations/{operation}", "Pause", "Leave the operation paused", f"{own}:pause", {}),
        (f"operations/{operation}", "Resume", "Leave the operation", f"{own}:resume", {}),
        (f"operations/{operation}", "Undo", "Move 1 partition", f"{own}:undo", {}),
        (f"operations/{operation}", "Cancel", "Leave the operation cancelling", f"{own}:cancel", {}),
    ]:
        canned.changes.clear()
        open_action(browser, f"{canned.url}/#prod/{view}", name)
        assert seen in look(browser), name
        wide = browser.driver.execute_script("return document.documentElement.scrollWidth")
        assert wide <= PHONE, f"a phone would scroll sideways: {name}"
        if name == "Drain":
            browser.screenshot("console-drain-phone")
        assert do_it(browser).startswith("Done."), name
        dry, real = canned.changes
        assert "dry_run=true" in dry[1]
        assert "dry_run" not in real[1]
        assert real[1].startswith(path or "/clusters/prod/partitions:elect-preferred")
        assert dry[2] == real[2] == body, "the change is what was shown"


def test_a_coordinator_that_waits_is_admitted(browser: Browser, canned: CannedController) -> None:
    browser.look(width=PHONE, dark=False)
    open_action(browser, f"{canned.url}/#prod/coordinators", "Admit a coordinator")
    fill(browser, "coordinator_id", "1002")
    assert "Admit coordinator 1002 at desk2:9092." in look(browser)
    assert do_it(browser).startswith("Done.")
    asked = "POST", {"coordinator_ids": [1002]}
    assert [(method, body) for method, _, body in canned.changes] == [asked, asked]


def test_what_a_role_may_not_do_is_refused_in_the_controllers_words(
    browser: Browser, canned: CannedController
) -> None:
    refused = {"detail": "this takes the role operator; the token of eve has the role viewer"}
    address = "/clusters/prod/brokers/1:drain"
    canned.put(address, canned.example(address, "post"), method="POST")
    canned.answers[f"POST {address}?dry_run=true"] = canned.answers[f"POST {address}"]
    canned.put(address, refused, method="POST", status=403)
    browser.look(width=DESK, dark=True)
    open_action(browser, f"{canned.url}/#prod/brokers/1", "Drain")
    look(browser)
    assert "the token of eve has the role viewer" in do_it(browser)
    browser.screenshot("console-refused-dark")


def test_a_group_is_looked_at_reset_and_deleted_on_a_real_cluster(browser: Browser) -> None:
    """About 25 s: a broker, a coordinator and a consumer of librdkafka's."""
    with LocalCluster(brokers=1, coordinators=1) as cluster:
        cluster.form()
        cluster.create_topic("orders", partitions=1, replication_factor=1)
        produce_blocking(cluster.bootstrap_servers, "orders", [b"a"] * 5)
        url = f"{cluster.controller_urls[0]}/#prod/groups"
        consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "group.id": "a/b",
                "client.id": "app",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        browser.look(width=DESK, dark=False)
        try:
            consumer.subscribe(["orders"])
            until("all records", lambda: len(consumer.consume(5, timeout=10)) > 0)
            consumer.commit(offsets=[TopicPartition("orders", 0, 2)], asynchronous=False)
            browser.open(url)
            until("the list", lambda: browser.texts("#view tbody th a") == ["a/b"])
            browser.driver.find_element("css selector", "#view tbody a").click()
            until("its lag", lambda: "3 records" in browser.text("#view [aria-label=Partitions]"))
            assert "orders: 0" in browser.text("#view [aria-label=Members]")
            why = "#view [aria-label=Rebalances]"
            until("why it was rebalanced", lambda: re.search("Member app-.* joined", browser.text(why)))
            browser.screenshot("console-group-real")
            open_action(browser, f"{url}/a%2Fb", "Reset offsets")
            assert "is stable" in look(browser), "its clients have to be stopped"
        finally:
            consumer.close()
        browser.open(f"{url}/a%2Fb")
        until("it is empty", lambda: browser.text("#view .facts .badge") == "empty")
        open_action(browser, f"{url}/a%2Fb", "Reset offsets")
        assert not browser.driver.find_element("id", "action-offset").is_displayed()
        fill_kind(browser, "an offset")
        fill(browser, "offset", "1")
        fill(browser, "topics", "orders")
        assert "Set 1 offset: 1 record is read again" in look(browser)
        browser.screenshot("console-reset")
        assert do_it(browser).startswith("Done.")
        until("it is behind", lambda: re.search(r"Records behind\s+4 ", browser.text("#view .facts")))
        open_action(browser, f"{url}/a%2Fb", "Delete")
        assert "Delete the empty group a/b with its offsets" in look(browser)
        assert do_it(browser).startswith("Done.")
        until("it is gone", lambda: "there is no consumer group" in browser.text("#view .body"))
        rows = cluster.api.get("/audit?cluster=prod&kind=request&limit=2")["items"]
        assert [row["cause"] for row in rows] == ["delete_group", "reset_group_offsets"]


def test_a_reset_asks_for_what_its_target_needs(browser: Browser, canned: CannedController) -> None:
    browser.look(width=PHONE, dark=False)
    asked = []
    date = "2026-11-21T09:30:00"
    for kind, field, value in [
        ("the end", None, None),
        ("forward or back by a number of records", "by", "-5"),
        ("the first record since a time", "time", date),
    ]:
        canned.changes.clear()
        open_action(browser, f"{canned.url}/#prod/groups/search", "Reset offsets")
        fill_kind(browser, kind)
        if field is not None:
            script = "document.getElementById(`action-${arguments[0]}`).value = arguments[1]"
            browser.driver.execute_script(script, field, value)
        assert "Set 1 offset: 20,400 records are read again" in look(browser)
        wide = browser.driver.execute_script("return document.documentElement.scrollWidth")
        assert wide <= PHONE, f"a phone would scroll sideways: {kind}"
        browser.screenshot(f"console-reset-{field}-phone")
        assert do_it(browser).startswith("Done.")
        assert canned.changes[0][2] == canned.changes[1][2], "the change is what was shown"
        asked.append(canned.changes[1][2])
    moment = browser.driver.execute_script("return new Date(arguments[0]).toISOString()", date)
    assert asked == [
        {"to": {"kind": "latest"}},
        {"to": {"kind": "shift", "by": -5}},
        {"to": {"kind": "time", "time": moment}},
    ]
