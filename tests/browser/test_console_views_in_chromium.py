"""The views of the operator's page: each has an address, and the keyboard and a phone are enough."""

from __future__ import annotations

from functools import partial

import pytest

from tests.kit.admin_api.canned import CannedController, page_of
from tests.kit.chromium import DESK, Browser, until
from tests.kit.console import do_it, look, open_action

pytestmark = pytest.mark.timeout(600)

PHONE = 375
HOSTILE = '<img src="/x" onerror="document.title=1">'


def press(browser: Browser, selector: str, keys: str) -> None:
    browser.driver.find_element("css selector", selector).send_keys(keys)


def names(browser: Browser) -> list[str]:
    return browser.texts("#view tbody th a")


def is_in_view(browser: Browser, text: str) -> bool:
    return text in browser.text("#view .body")


def address(browser: Browser) -> str:
    return str(browser.driver.execute_script("return location.hash"))


def test_a_topic_is_found_and_looked_at_with_the_keyboard(browser: Browser, canned: CannedController) -> None:
    from selenium.webdriver.common.keys import Keys

    (orders,) = canned.example("/clusters/prod/topics")["items"]
    warned = {**orders, "name": "audited", "warnings": [HOSTILE]}
    items = [orders, warned, *({**orders, "name": f"shop.{number:03}"} for number in range(300))]
    canned.put("/clusters/prod/topics", lambda asked: page_of(items, asked))
    partitions = canned.example("/clusters/prod/topics/orders/partitions")
    (item,) = partitions["items"]
    silent = {"partition": 1, "log_end_offset": None, "log_start_offset": None, "size_bytes": None}
    partitions["items"].append({**item, **silent, "high_watermark": None, "followers": []})
    canned.put("/clusters/prod/topics/orders/partitions", partitions)
    browser.look(width=DESK, dark=False)
    browser.open(f"{canned.url}/#prod")
    until("the tabs", lambda: len(browser.texts("#views a")) == 11)
    press(browser, "#views a[href='#prod/topics']", Keys.ENTER)
    until("the list", lambda: len(browser.texts("#view tbody tr")) == 100)
    assert "Next 100" in browser.text("#view .pages")
    assert HOSTILE in browser.text("#view .body"), "text, and no markup"
    press(browser, "#search", "ORD")
    until("the one that is meant", lambda: names(browser) == ["orders"])
    assert address(browser) == "#prod/topics?q=ORD"
    browser.driver.refresh()
    until("the same after a reload", lambda: names(browser) == ["orders"])
    press(browser, "#view tbody a", Keys.ENTER)
    until("the topic", lambda: browser.text("#view-title") == "orders")
    until("its partitions", lambda: len(browser.texts("#view [aria-label=Partitions] tbody tr")) == 2)
    assert address(browser) == "#prod/topics/orders"
    facts = browser.text("#view .facts")
    assert "384 MiB; 1 partition unknown" in facts
    row = browser.texts("#view [aria-label=Partitions] tbody tr:last-child td")
    assert row[-4:] == ["unknown", "unknown", "unknown", "2 replicas unknown"]
    until("a rate", lambda: "0 records/s" in browser.text("#view .facts"))
    assert "retention.ms" in browser.text("#view [aria-label=Settings]")
    browser.screenshot("console-topic")
    browser.driver.back()
    until("the list again", lambda: browser.text("#view-title") == "Topics")
    assert browser.complaints() == []


def test_coordinators_are_shown_with_what_keeps_them_from_serving(
    browser: Browser, canned: CannedController
) -> None:
    coordinators = canned.example("/clusters/prod/coordinators")
    coordinators["items"][0] |= {"state": "fenced", "draining": True, "demoted": True, "endpoint": HOSTILE}
    canned.put("/clusters/prod/coordinators", coordinators)
    (alarm,) = canned.example("/clusters/prod/alarms")["items"]
    nobody = {**alarm, "code": "no_coordinator", "broker_id": None, "detail": "no coordinator is alive"}
    restless = {**nobody, "code": "group_unsettled", "group_id": "billing", "detail": "it does not settle"}
    counts = {"no_coordinator": 1, "broker_fenced": 1, "group_unsettled": 1}
    alarms = {"items": [alarm, nobody, restless], "counts": counts}
    canned.put("/clusters/prod/alarms", {**alarms, "next_page_token": None})
    browser.look(width=DESK, dark=False)
    browser.open(f"{canned.url}/#prod")
    until("the panel", lambda: len(browser.texts("#coordinators tbody tr")) == 2)
    assert "no coordinator is alive" in browser.text("#alarms")
    assert "Group unsettledgroup billing" in browser.text("#alarms").replace("\n", "")
    browser.open(f"{canned.url}/#prod/coordinators")
    until("the list", lambda: len(browser.texts("#view tbody tr")) == 2)
    assert browser.texts("#view .blocked li") == ["no coordinator is alive"], "and no alarm of another thing"
    named = [text.split("\n") for text in browser.texts("#view tbody th")]
    assert named == [["1001", f"{HOSTILE} · r1"], ["1002", "desk2:9092 · r2"]]
    assert browser.texts("#view tbody .badge") == ["fenced", "draining", "demoted", "waiting"]
    assert browser.texts("#view tbody td.number") == ["50", "0", "0", "0"]
    browser.screenshot("console-coordinators")
    canned.put("/clusters/prod/coordinators", {"items": [], "next_page_token": None})
    until("what to do", lambda: "Start one with this cluster's name" in browser.text("#view .body"))
    assert browser.complaints() == []


def test_a_group_is_found_and_looked_at_with_the_keyboard(browser: Browser, canned: CannedController) -> None:
    from selenium.webdriver.common.keys import Keys

    groups = canned.example("/clusters/prod/groups")
    groups["unanswered"] = [f"desk2: {HOSTILE}"]
    groups["items"].append({**groups["items"][0], "group_id": HOSTILE, "state": "preparing_rebalance"})
    canned.put("/clusters/prod/groups", {**groups, "next_page_token": "more"})
    group = canned.example("/clusters/prod/groups/billing")
    (partition,) = group["partitions"]
    silent = {"partition": 1, "member_id": None, "log_end_offset": None, "lag": None, "lag_ms": None}
    behind = {"partition": 2, "lag": 9, "lag_ms": None}
    group["partitions"] += [{**partition, **silent}, {**partition, **behind}]
    group["members"][0] |= {
        "assigned": [{"topic": "orders", "partitions": [0, 1, 2, 7]}],
        "target": [{"topic": "orders", "partitions": [0, 1]}],
        "epoch": 6,
    }
    group |= {"epoch": 8, "target_epoch": 7}
    shrinking = {"lag": 9_000, "lag_ms": 90_000, "lag_age_ms": 1_300, "until_gone_ms": 240_000}
    canned.put("/clusters/prod/groups/billing", {**group, **shrinking, "partitions_total": 700})
    browser.look(width=DESK, dark=False)
    browser.open(f"{canned.url}/#prod")
    until("the tabs", lambda: browser.texts("#views a"))
    press(browser, "#views a[href='#prod/groups']", Keys.ENTER)
    until("the list", lambda: names(browser) == ["billing", "search", HOSTILE])
    assert "Next 100" in browser.text("#view .pages")
    assert browser.texts("#view .blocked li")[1:] == [f"desk2: {HOSTILE}"], "what is missing is said"
    assert browser.texts("#view tbody .badge") == ["stable", "empty", "preparing rebalance"]
    browser.requests()
    press(browser, "#search", "bil")
    until("the search", lambda: address(browser) == "#prod/groups?q=bil")
    press(browser, "#filter-state", "stable")
    until(
        "the filter",
        lambda: any("state=stable&search=bil&sort=-lag" in asked for asked in browser.requests()),
    )
    assert address(browser) == "#prod/groups?q=bil&state=stable"
    press(browser, "#view tbody a", Keys.ENTER)
    until("the group", lambda: browser.text("#view-title") == "billing")
    until("its partitions", lambda: len(browser.texts("#view [aria-label=Partitions] tbody tr")) == 3)
    facts = browser.texts("#view .facts dd")
    assert facts[:4] == ["stable", "9,000 as of 1.3 s ago", "1 min 30 s", "4 min"]
    assert "0\N{EN DASH}2, 7" in browser.text("#view [aria-label=Members]")
    assert "to have: orders: 0\N{EN DASH}1" in browser.text("#view [aria-label=Members]")
    assert "epoch 6" in browser.text("#view [aria-label=Members]")
    assert "8; assigned: 7" in facts
    assert "3 of 700 are shown" in browser.text("#view .body")
    cells = browser.texts("#view [aria-label=Partitions] tbody tr td:last-child")
    assert cells == ["250 records\n4.2 s", "unknown", "9 records\ntime unknown"]
    browser.screenshot("console-group")
    assert browser.complaints() == []
    canned.put(
        "/clusters/prod/groups/billing",
        {"title": "Not found", "status": 404, "detail": "there is no consumer group 'billing'"},
        status=404,
    )
    until("it is gone", lambda: "There is no consumer group" in browser.text("#view .body").capitalize())


def test_a_group_tells_why_it_was_rebalanced_and_whom_it_waits_for(
    browser: Browser, canned: CannedController
) -> None:
    (joined,) = canned.example("/clusters/prod/rebalances/{group_id}")["items"]
    (cause,) = joined["causes"]
    silent = "member app-2 sent no heartbeat for 45 s, its session; its last came from host /10.0.0.7"
    move = {"from_member_id": "app-2", "to_member_id": "app-1", "count": 3, "unowned_ms_max": 46_200}
    running = {
        **joined,
        "state": "under_way",
        "ended_at": None,
        "took_ms": None,
        "causes": [{**cause, "kind": "silent", "text": silent}, {**cause, "text": HOSTILE}],
        "causes_total": 3,
        "partitions_to_move": 4,
        "partitions_moved": 3,
        "moves": [{**move, "partitions": []}],
        "partitions_paused": 2,
        "paused_ms_max": 900,
        "waiting_for": [
            {"member_id": HOSTILE, "since": joined["began_at"], "what": "to give up 1 partitions"},
            {"member_id": None, "since": joined["began_at"], "what": "the next assignment"},
        ],
        "waiting_for_total": 12,
    }
    unknown = {**joined, "began_at": None, "took_ms": None, "reason": None, "partitions_moved": None}
    items = [running, joined, {**unknown, "causes": [], "causes_total": 0}]
    canned.put("/clusters/prod/rebalances/billing", {"items": items})
    browser.look(width=DESK, dark=False)
    browser.open(f"{canned.url}/#prod/groups/billing")
    table = "#view [aria-label=Rebalances] tbody tr"
    until("its rebalances", lambda: len(browser.texts(table)) == 3)
    lines = browser.texts(f"{table}:first-child td:nth-child(2) li")
    assert lines[:3] == [silent.capitalize()[:1] + silent[1:], HOSTILE, "and 1 more cause"]
    assert lines[3].startswith(f"Waits for member {HOSTILE} to give up 1 partitions, since ")
    assert lines[4].startswith("Waits for the next assignment, since ")
    assert lines[5] == "and for 10 more"
    assert browser.texts(f"{table}:first-child td:last-child li") == [
        "3 of 4 partitions so far",
        "3 partitions from app-2 to app-1\nwithout a member for 46 s at most",
        "2 partitions stood still for 900 ms at most",
    ]
    assert browser.texts(f"{table}:last-child td") == ["Not known", "\N{EN DASH}", "unknown"]
    browser.screenshot("console-rebalances")
    assert browser.complaints() == []
    canned.put("/clusters/prod/rebalances/billing", {"items": []})
    until("none", lambda: "None that was reported" in browser.text("#view .body"))


def test_transactions_that_linger_and_hang_are_found_and_looked_at(
    browser: Browser, canned: CannedController
) -> None:
    from selenium.webdriver.common.keys import Keys

    listed = canned.example("/clusters/prod/transactions")
    listed["items"][0] |= {"lingers": True, "waiting_records": 1_200}
    listed["items"].append(
        {**listed["items"][1], "transactional_id": HOSTILE, "client_id": HOSTILE, "client_host": HOSTILE}
    )
    listed["unanswered"] = [f"desk2: {HOSTILE}"]
    canned.put("/clusters/prod/transactions", listed)
    browser.look(width=DESK, dark=False)
    browser.open(f"{canned.url}/#prod/transactions")
    until("the list", lambda: names(browser) == ["payments-1", "payments-2", HOSTILE])
    assert browser.texts("#view tbody .badge") == ["ongoing", "complete commit", "complete commit"]
    assert "it lingers" in browser.text("#view tbody tr") and "1,200" in browser.text("#view tbody tr")
    (hanging,) = browser.texts("#view [aria-label=Hanging] li")
    assert hanging.startswith("orders-0 hangs from offset 10: no coordinator has the transaction of producer")
    assert hanging.endswith("producer 3000; 90 records wait. End")
    browser.requests()
    press(browser, "#filter-state", "ongoing")
    until("the filter", lambda: any("state=ongoing&sort=-age" in asked for asked in browser.requests()))
    press(browser, "#view tbody a", Keys.ENTER)
    until("the transaction", lambda: browser.text("#view-title") == "payments-1")
    until("its partitions", lambda: len(browser.texts("#view [aria-label=Partitions] tbody tr")) == 1)
    browser.screenshot("console-transaction")
    deed = "/clusters/prod/transactions/payments-1:abort"
    for query in ("", "?dry_run=true"):
        canned.put(f"{deed}{query}", canned.example(deed, "post"), method="POST")
    open_action(browser, f"{canned.url}/#prod/transactions/payments-1", "Abort")
    assert "Abort the transaction, open in 1 partition: readers get 0 records by it." in look(browser)
    assert do_it(browser).startswith("Done.")
    assert browser.complaints() == []


def test_without_a_coordinator_the_view_of_groups_says_why_and_the_page_goes_on(
    browser: Browser, canned: CannedController
) -> None:
    why = {"status": 503, "detail": "no coordinator of 'prod' is admitted and live", "hint": "admit one"}
    canned.put("/clusters/prod/groups", why, status=503)
    browser.look(width=DESK, dark=True)
    browser.open(f"{canned.url}/#prod/groups")
    until("the reason", lambda: "No coordinator of 'prod' is admitted and live." in browser.text("#view"))
    assert "admit one" in browser.text("#view .body")
    assert browser.text("#connection").startswith("Active"), "the controller is well"


def test_every_view_opens_by_its_address_and_fits_a_phone(browser: Browser, canned: CannedController) -> None:
    browser.look(width=PHONE, dark=False)
    operation = canned.example("/operations/op_1")["id"]
    configs = canned.example("/clusters/prod/topics/orders/configs")
    long = {"name": "follower.replication.throttled.replicas", "value": "0:1,0:2,1:1,1:2," * 20}
    in_ms = {"name": "retention.ms", "value": "604800000", "in_words": "7 d"}
    configs["items"] += [{**configs["items"][0], **more} for more in (long, in_ms)]
    canned.put("/clusters/prod/topics/orders/configs", configs)
    moves = canned.example(f"/operations/{operation}/moves")
    moves["items"][0]["topic"] = "payments.europe-west.settlement-instructions.v2.dead-letters" * 2
    canned.put(f"/operations/{operation}/moves", moves)
    for view, seen in {
        "topics": "orders",
        "topics/orders": "604800000 (7 d)",
        "brokers": "store1:9092",
        "brokers/1": "owner: storage",
        "groups": "billing",
        "groups/billing": "250 records",
        "transactions": "payments-1",
        "transactions/payments-1": "orders-0",
        "coordinators": "desk2:9092",
        "access": "SCRAM-SHA-512",
        "access/acls": "each topic that begins with payments",
        "access/quotas": "producer_byte_rate 10,000,000",
        "access/explain?principal=User:billing&resource_name=payments": "a binding denies each user",
        "operations": "Add broker",
        f"operations/{operation}": "Must end by",
        "audit?topic=orders": "broker died",
    }.items():
        browser.open(f"{canned.url}/#prod/{view}")
        until(view, partial(is_in_view, browser, seen))
        wide = browser.driver.execute_script("return document.documentElement.scrollWidth")
        assert wide <= PHONE, f"a phone would scroll sideways: {view}"
        assert browser.cut() == [], view
        browser.screenshot(f"console-{view.split('?')[0].replace('/', '-')[:16]}-phone")
    asked = [request for request in browser.requests() if "/audit?" in request]
    assert any("topic=orders" in request for request in asked), "the address's filter is asked for"
    browser.open(f"{canned.url}/#prod/topics/%E0%A4%A")
    until("a name that can't be decoded", lambda: browser.text("#view-title") == "%E0%A4%A")
