"""What the owner of a topic does from the page, on a real controller; and how it looks on a phone."""

from __future__ import annotations

from functools import partial

import pytest

from localcluster.cluster import LocalCluster
from tests.kit.admin_api.canned import CannedController
from tests.kit.chromium import DESK, Browser, until
from tests.kit.console import buttons_named, do_it, fill, look, open_action
from tests.kit.dataplane.clients_in_threads import produce_blocking

pytestmark = pytest.mark.timeout(600)

PHONE = 375


def is_refused_by_the_browser(browser: Browser) -> bool:
    look_at_it = browser.driver.find_element("css selector", "dialog.action button[type=submit]")
    look_at_it.click()
    return bool(
        browser.driver.execute_script("return !document.querySelector('dialog.action form').checkValidity()")
    )


def changed(browser: Browser) -> list[str]:
    return browser.texts("#view [aria-label='Changes of settings'] .difference")


def made(shop: LocalCluster, name: str, **fields: object) -> str:
    """Create a topic, and return its view's address."""
    topic = {"name": name, "partitions": 1, "replication_factor": 3, "wait_ms": 30_000} | fields
    shop.api.post("/clusters/prod/topics", topic)
    return f"{shop.controller_urls[0]}/#prod/topics/{name}"


def deeds(shop: LocalCluster, topic: str) -> list[str]:
    """What was asked for about the topic, newest first; no dry run is in the audit."""
    rows = shop.api.get(f"/audit?cluster=prod&topic={topic}&kind=request&limit=100")["items"]
    return [row["cause"] for row in rows]


def topics_of(shop: LocalCluster) -> set[str]:
    return {item["name"] for item in shop.api.get("/clusters/prod/topics")["items"]}


def test_a_change_of_a_setting_is_seen_and_undone(browser: Browser, shop: LocalCluster) -> None:
    own = made(shop, "parcels", configs={"retention.ms": "604800000"})
    browser.look(width=DESK, dark=False)
    open_action(browser, own, "Change retention.ms")
    fill(browser, "value", "3600000")
    look(browser)
    do_it(browser)
    browser.open(own)
    line = "retention.ms: 604800000 (7 d) → 3600000 (1 h)"
    until("the change", lambda: changed(browser) == [line])
    browser.screenshot("console-setting-changes")
    undo = browser.driver.find_element("css selector", "#view .undoable button")
    assert undo.accessible_name.startswith("Undo the change of retention.ms of topic parcels")
    undo.click()
    until("the form", lambda: browser.text("dialog.action h2") == "Undo the change of retention.ms")
    assert "Make retention.ms 604800000 (7 d), from topic" in look(browser)
    assert do_it(browser).startswith("Done.")
    back = "retention.ms: 3600000 (1 h) → 604800000 (7 d)"
    browser.open(own)
    until("both changes", lambda: changed(browser) == [back, line])

    # The first change is not undone again, and the refusal says by whom the value was changed since.
    browser.driver.find_elements("css selector", "#view .undoable button")[1].click()
    until("the form", lambda: browser.text("dialog.action h2"))
    told = look(browser)
    assert "retention.ms is 604800000, and the change had left it 3600000: anonymous@127.0.0.1" in told
    browser.open(f"{shop.controller_urls[0]}/#prod/changes?name=retention.ms")
    until("those of the cluster", lambda: changed(browser)[:2] == [back, line])
    assert deeds(shop, "parcels") == ["undo_configs", "set_config", "create_topic"]


def test_partitions_are_added_and_records_deleted(browser: Browser, shop: LocalCluster) -> None:
    own = made(shop, "crates")
    produce_blocking(shop.bootstrap_servers, "crates", [b"one", b"two", b"three"])
    browser.look(width=DESK, dark=False)
    open_action(browser, own, "Delete records")
    fill(browser, "offset", "2")
    fill(browser, "confirmation", "crate")
    assert is_refused_by_the_browser(browser), "the name is another one"
    fill(browser, "confirmation", "crates")
    assert "Delete 2 offsets of crates-0; offsets 2 to 3 stay" in look(browser)
    browser.screenshot("console-delete-records")
    assert do_it(browser).startswith("Done."), browser.text("dialog.action .told")
    partition = partial(shop.api.get, "/clusters/prod/topics/crates/partitions/0")
    until("the log's beginning", lambda: partition()["log_start_offset"] == 2)

    open_action(browser, own, "Add partitions")
    assert "keys" in browser.text("dialog.action .quiet")
    fill(browser, "partitions", "3")
    assert "Give crates 2 more partitions, 3 in all: keys move to other partitions" in look(browser)
    assert do_it(browser).startswith("Done.")
    until("three", lambda: shop.api.get("/clusters/prod/topics/crates")["partitions"] == 3)
    assert deeds(shop, "crates") == ["add_partitions", "delete_records", "create_topic"]
    assert browser.complaints() == []


def test_a_topic_is_copied_guarded_and_deleted(browser: Browser, shop: LocalCluster) -> None:
    own = made(shop, "boxes", configs={"retention.ms": "604800000", "segment.ms": "3600000"})
    browser.look(width=DESK, dark=False)
    open_action(browser, own, "Copy settings")
    fill(browser, "name", "letters")
    fill(browser, "configs.segment.ms", "")
    browser.driver.find_element("id", "action-deletion.protected").click()
    assert "Create letters with 1 partition of 3 replicas" in look(browser)
    browser.screenshot("console-copy-settings")
    assert do_it(browser).startswith("Done.")
    letters = shop.api.get("/clusters/prod/topics/letters")
    assert letters["configs"] == {"deletion.protected": "true", "retention.ms": "604800000"}
    browser.open(f"{shop.controller_urls[0]}/#prod/topics")
    until("the lock", lambda: browser.texts("#view tbody tr:has(svg.lock) th a") == ["letters"])
    browser.screenshot("console-guarded-topics")

    # The guarded one is refused in words; the other one is gone.
    for name, told in (
        ("letters", "Topic 'letters' has deletion.protected=true"),
        ("boxes", "Delete topic boxes; 3 brokers delete their replicas"),
    ):
        open_action(browser, f"{shop.controller_urls[0]}/#prod/topics/{name}", "Delete topic")
        assert "What is lost: 1 partition with" in browser.text("dialog.action .quiet")
        until("the groups", lambda: "group" in browser.text("dialog.action .learnt").lower())
        fill(browser, "confirmation", name)
        assert told in look(browser)
        browser.screenshot(f"console-delete-{name}")
    assert do_it(browser).startswith("Done.")
    until("the other one only", lambda: topics_of(shop) & {"boxes", "letters"} == {"letters"})
    shop.api.put("/clusters/prod/topics/letters/configs/deletion.protected", {"value": "false"})
    shop.delete_topic("letters")
    assert deeds(shop, "boxes") == ["delete_topic", "create_topic"]


@pytest.mark.parametrize("dark", [False, True])
def test_what_an_owner_does_fits_a_phone(browser: Browser, canned: CannedController, dark: bool) -> None:
    topic = canned.example("/clusters/prod/topics/orders")
    canned.put("/clusters/prod/topics/orders", {**topic, "configs": {"deletion.protected": "true"}})
    (item,) = canned.example("/clusters/prod/config-changes")["items"]
    long = {"name": "message.timestamp.after.max.ms", "before": None, "after": "9223372036854775807"}
    short = {"name": "retention.ms", "before": "604800000", "after": None}
    changes = {"items": [{**item, "entity": "topic", "topic": "orders", "changes": [long, short]}]}
    canned.put("/clusters/prod/config-changes", {**changes, "next_page_token": None})
    operation = canned.example("/operations/op_1")["id"]
    browser.look(width=PHONE, dark=dark)
    shade = "dark" if dark else "light"
    for view, button in [
        ("topics/orders", "Delete topic"),
        ("topics/orders", "Delete records"),
        ("topics/orders", "Copy settings"),
        ("topics/orders", "Add partitions"),
        (f"operations/{operation}", "Throttle"),
    ]:
        open_action(browser, f"{canned.url}/#prod/{view}", button)
        wide = browser.driver.execute_script("return document.documentElement.scrollWidth")
        assert wide <= PHONE, f"a phone would scroll sideways: {button}"
        if button in ("Delete topic", "Delete records"):
            browser.screenshot(f"console-{button.lower().replace(' ', '-')}-phone-{shade}")
    for view in ("topics/orders", "changes", "audit"):
        browser.open(f"{canned.url}/#prod/{view}")
        until("the view", lambda: browser.texts("#view .body *"))
        wide = browser.driver.execute_script("return document.documentElement.scrollWidth")
        assert wide <= PHONE, f"a phone would scroll sideways: {view}"
        if view != "audit":
            expected = [
                "message.timestamp.after.max.ms: not set → 9223372036854775807",
                "retention.ms: 604800000 (7 d) → not set",
            ]
            until("the changes", lambda: changed(browser))
            assert changed(browser)[0].split("\n") == expected
            browser.screenshot(f"console-{view.replace('/', '-')}-changes-phone-{shade}")
    assert buttons_named(browser, "Move leaders back") == []
    assert browser.complaints() == []


def test_the_rate_of_a_running_operation_is_changed_where_it_is_seen(
    browser: Browser, canned: CannedController
) -> None:
    operation = canned.example("/operations/op_1")
    own = f"/operations/{operation['id']}"
    browser.look(width=DESK, dark=False)
    open_action(browser, f"{canned.url}/#prod{own}", "Throttle")
    assert "also to what is on its way" in browser.text("dialog.action .quiet")
    throttled = {**operation["progress"], "throttle_bytes_per_s": 1_048_576}
    canned.put(own, {**operation, "progress": throttled}, method="PATCH")
    fill(browser, "throttle_bytes_per_s", "1048576")
    assert "at 1.0 MiB/s for each broker" in look(browser)
    browser.screenshot("console-throttle")
    assert do_it(browser).startswith("Done.")
    fast = {"throttle_bytes_per_s": 1_048_576}
    assert canned.changes == [
        ("PATCH", f"{own}?dry_run=true", fast),
        ("PATCH", own, fast),
    ]
    canned.changes.clear()
    open_action(browser, f"{canned.url}/#prod{own}", "Throttle")
    fill(browser, "throttle_bytes_per_s", "")
    look(browser)
    assert canned.changes == [("PATCH", f"{own}?dry_run=true", {"throttle_bytes_per_s": None})]


def test_a_topic_that_was_deleted_by_mistake_is_restored(browser: Browser, shop: LocalCluster) -> None:
    own = made(shop, "invoices", configs={"deleted.topic.retention.ms": "3600000"})
    browser.look(width=DESK, dark=False)
    open_action(browser, own, "Delete topic")
    fill(browser, "confirmation", "invoices")
    assert "until then it can be restored" in look(browser)
    do_it(browser)
    until("it is deleted", lambda: "invoices" not in topics_of(shop))
    topics = f"{shop.controller_urls[0]}/#prod/topics"
    open_action(browser, topics, "Restore a deleted topic")
    assert "Restore topic invoices with 1 partition" in look(browser)
    assert do_it(browser).startswith("Done.")
    until("it is back", lambda: "invoices" in topics_of(shop))
    assert deeds(shop, "invoices")[0] == "restore_topic"
