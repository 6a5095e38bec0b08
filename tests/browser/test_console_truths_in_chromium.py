"""What the operator's page says of answers that are seldom, unknown or very many."""

from __future__ import annotations

import pytest

from controller.core.disk_watch import describe_short
from controller.core.effects import AlarmCode
from springtide.contract.session import DiskSpace
from tests.kit.admin_api.canned import CannedController
from tests.kit.chromium import DESK, Browser, until

pytestmark = pytest.mark.timeout(600)

PHONE = 375


def test_what_is_not_known_is_said_to_be_unknown(browser: Browser, canned: CannedController) -> None:
    replication = canned.example("/clusters/prod/replication")
    carried, *_ = replication["brokers"]
    late = {"lag_records_max": 5_343, "lag_records": 5_343, "lag_ms_max": None}
    silent = {"followed": 0, "unknown": 8, "lag_records": None, "lag_records_max": None, "lag_ms_max": None}
    replication["brokers"] = [
        {**carried, "broker_id": 1, "lag_records_max": 0, "lag_ms_max": 0},
        {**carried, "broker_id": 2, **late},
        {**carried, "broker_id": 3, **silent},
    ]
    canned.put("/clusters/prod/replication", replication)
    (cluster,) = canned.answers["GET /clusters"][1]["items"]
    cluster["skew"]["bytes"] |= {"broker_id": 3, "max_over_mean": 1.08}
    canned.put("/clusters/prod", cluster)
    brokers = canned.answers["GET /clusters/prod/brokers"][1]
    brokers["items"][1] |= {"draining": True, "drained": True}
    brokers["items"][2]["state"] = "fenced"
    browser.look(width=DESK, dark=False)
    browser.open(f"{canned.url}/")
    until("the brokers", lambda: len(browser.texts("#brokers tbody tr")) == 3)
    figures = [text.split("\n") for text in browser.texts("#overview .figures > div")]
    farthest = ["Farthest follower", "5,343 records", "time unknown of broker 2; 8 followers unknown"]
    assert farthest in figures
    assert ["Fullest broker", "1.08 of mean", "bytes on broker 3; replicas 1.00; leaders 1.00"] in figures
    behind = [text.split("\n") for text in browser.texts("#brokers tbody td:last-child")]
    assert behind == [["0 records", "0 ms"], ["5,343 records", "time unknown"], ["unknown", "broker is down"]]
    assert browser.texts("#brokers tbody .badge") == ["active", "active", "drained", "fenced"]

    copying = canned.example("/clusters/prod/replication")
    copying["brokers"][0]["out_of_sync"] = 5
    canned.put("/clusters/prod/replication", copying)
    until("the copies", lambda: browser.text("#verdict") == "5 replicas are being copied.")
    standby = {**canned.example("/readyz"), "role": "standby"}
    canned.put("/readyz", standby)
    until("a standby's limits", lambda: browser.text("#verdict") == "Nothing wrong that a standby can see.")
    assert "only the active controller hears of lag" in browser.text("#overview")
    problem = {"detail": "ZooKeeper is disconnected", "facts": {**standby, "zookeeper": "disconnected"}}
    canned.put("/readyz", problem, status=503)
    canned.put("/clusters", {"detail": "this controller is not active"}, status=503)
    until("the cause", lambda: "can't reach ZooKeeper" in browser.text("#notices"))
    assert browser.text("#connection") == "ZooKeeper can't be reached"


def test_a_thousand_alarms_and_a_rebalance_are_a_few_lines(
    browser: Browser, canned: CannedController
) -> None:
    (alarm,) = canned.example("/clusters/prod/alarms")["items"]
    lost = {**alarm, "code": "partition_leaderless", "topic": "<i>orders</i>", "broker_id": None}
    items = [{**lost, "partition": number, "detail": f"no replica of {number}"} for number in range(199)]
    counts = {"partition_leaderless": 1_000, "broker_fenced": 1}
    canned.put("/clusters/prod/alarms", {"items": [*items, alarm], "counts": counts, "next_page_token": None})
    operations = canned.example("/operations")
    operations["items"] = [
        {**operations["items"][0], "id": "op_1", "kind": "plan_execution", "request_id": "asked-for"}
        | {"spec": {"plan_id": "plan_1", "undoes": None}}
    ]
    canned.put("/operations", operations)
    (row,) = canned.example("/audit")["items"]
    moved = {**row, "cause": "reassignment_completed", "operation_id": "op_1"}
    changes = [{**moved, "id": 900 - number, "partition": number} for number in range(150)]
    request = {**row, "id": 1, "kind": "request", "cause": "execute_plan", "request_id": "asked-for"}
    before = {**row, "id": 0, "cause": "topic_created", "actor": "bob"}
    canned.put("/audit", {"items": [*changes, request, before], "next_page_token": None})
    browser.look(width=DESK, dark=False)
    browser.open(f"{canned.url}/")
    until("the headline", lambda: browser.text("#verdict") == "1,001 alarms are up.")
    assert [text.split("\n")[0] for text in browser.texts("#alarms .alarms > li")] == [
        "Partition leaderless: 1,000",
        "Broker fencedbroker 3",
    ]
    assert len(browser.texts("#alarms .each li")) == 50
    assert "<i>orders</i>-0" in browser.text("#alarms")
    assert [text.split("\n")[0] for text in browser.texts("#audit .line")] == [
        "execute plan",
        "topic created",
    ]
    browser.look(width=PHONE, dark=False)
    wide = browser.driver.execute_script("return document.documentElement.scrollWidth")
    assert wide <= PHONE, "a phone would scroll sideways"
    browser.screenshot("console-many-phone")
    assert browser.complaints() == []


def test_a_full_disk_is_one_line_that_names_the_disk_and_counts_what_follows(
    browser: Browser, canned: CannedController
) -> None:
    (alarm,) = canned.example("/clusters/prod/alarms")["items"]
    disk = DiskSpace(free_bytes=0, total_bytes=100 << 30, reserve_bytes=1 << 30, is_short=True)
    full = {**alarm, "code": AlarmCode.DISK_BELOW_RESERVE.value, "broker_id": 8}
    full |= {"detail": describe_short("broker 8", disk), "follows": {"partition_below_min_isr": 291}}
    counts = {full["code"]: 1}
    canned.put("/clusters/prod/alarms", {"items": [full], "counts": counts, "next_page_token": None})
    browser.look(width=PHONE, dark=False)
    browser.open(f"{canned.url}/")
    until("the headline", lambda: browser.text("#verdict") != "All is well." and browser.texts("#alarms li"))
    (line,) = browser.texts("#alarms .alarms > li")
    assert line.split("\n")[0] == "Disk below reservebroker 8"
    assert "the disk of broker 8 (100 GiB) has less free than the reserve of 1024 MiB" in line
    assert "To make room, shorten retention" in line
    assert line.endswith("From it follow: refuses acks=all: 291.")
    assert browser.complaints() == []


def test_topics_that_clients_miss_are_on_the_first_page_while_there_are_any(
    browser: Browser, canned: CannedController
) -> None:
    browser.look(width=PHONE, dark=False)
    browser.open(f"{canned.url}/")
    until("a healthy cluster", lambda: browser.text("#verdict") == "All is well.")
    is_there = "return !document.getElementById('missing').hidden"
    assert not browser.driver.execute_script(is_there), "nothing is missed, so nothing is said of it"
    missing = canned.example("/clusters/prod/missing-topics")
    (lines,) = missing["items"]
    missing["items"] = [{**lines, "topic": "<i>few</i>", "asked": 3, "clients": []}, lines]
    canned.put("/clusters/prod/missing-topics", missing)
    until("what is missed", lambda: browser.driver.execute_script(is_there))
    first, second = browser.texts("#missing tbody tr")
    assert first.startswith("lines"), "what is asked for most comes first"
    assert "42" in first and "rsyslog, librdkafka 2.6.1" in first and "1, 2" in first
    assert second.startswith("<i>few</i>")
    assert "auto.create.topics.enable" in browser.text("#missing .empty")
    wide = browser.driver.execute_script("return document.documentElement.scrollWidth")
    assert wide <= PHONE, "a phone would scroll sideways"
    canned.put("/clusters/prod/missing-topics", {**missing, "items": []})
    until("it is mended", lambda: not browser.driver.execute_script(is_there))
    assert browser.complaints() == []
