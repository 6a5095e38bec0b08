"""The operator's page in a real browser, on a real controller."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from localcluster.cluster import LocalCluster
from localcluster.ports import PortReservation
from localcluster.processes import ProcessCommand, SupervisedProcess
from tests.kit.chromium import DESK, Browser, elsewhere, until
from tests.kit.secret_file import write_secret

pytestmark = pytest.mark.timeout(600)

PHONE = 390

NAME_OF_ACTIVE = "{ const e = document.activeElement; return e.ariaLabel || e.innerText || e.value; }"
"""In one step: the page may draw an element anew between two."""


def has_headline(browser: Browser, text: str) -> Callable[[], bool]:
    return lambda: text in browser.text("#verdict")


def test_a_healthy_cluster_at_a_glance(browser: Browser, shop: LocalCluster) -> None:
    url = shop.controller_urls[0]
    browser.look(width=DESK, dark=False)
    browser.open(f"{url}/")
    until("the headline", has_headline(browser, "All is well."))
    assert "All 12 partitions have a leader and every replica in sync." in browser.text("#overview")
    assert [text.split("\n")[0] for text in browser.texts("#brokers tbody th")] == ["1", "2", "3"]
    assert browser.texts("#brokers tbody .badge") == ["active"] * 3
    leaders = [int(text) for text in browser.texts("#brokers tbody td:nth-child(3)")]
    replicas = [int(text) for text in browser.texts("#brokers tbody td:nth-child(4)")]
    assert (sum(leaders), sum(replicas)) == (12, 36)
    assert "None needs attention" in browser.text("#partitions")
    assert "Add brokers 1, 2, 3" in browser.text("#operations .finished")
    assert browser.texts("#clusters a[aria-current=page]") == ["prod\n(ok)"]
    assert browser.driver.title == "prod: All is well · Springtide"
    until("a line of follower lag for each broker", lambda: len(browser.texts("#lag path.series")) == 3)
    browser.screenshot("console-light")
    browser.look(width=DESK, dark=True)
    browser.screenshot("console-dark")
    browser.look(width=PHONE, dark=False)
    wide = browser.driver.execute_script("return document.documentElement.scrollWidth")
    assert wide <= PHONE, "a phone would scroll sideways"
    browser.screenshot("console-phone")
    assert browser.complaints() == []
    assert elsewhere(browser.requests(), url) == []


def test_what_people_wrote_is_text_and_never_markup(browser: Browser, shop: LocalCluster) -> None:
    reason = '<img src="/x" onerror="document.title=1"><script>document.title = 2</script>'
    body = {"name": "invoices", "partitions": 1, "replication_factor": 1, "reason": reason}
    shop.api.post("/clusters/prod/topics?dry_run=true", body)
    shop.api.post("/clusters/prod/topics", body)
    url = shop.controller_urls[0]
    browser.open(f"{url}/#prod")
    until("the reason", lambda: reason in browser.text("#audit"))
    assert (
        browser.driver.execute_script("return document.querySelectorAll('#audit img, #audit script').length")
        == 0
    )
    assert "prod" in browser.driver.title
    assert f"{url}/x" not in browser.requests()
    assert browser.complaints() == []


def test_a_keyboard_reaches_everything_and_another_cluster_is_a_link_away(
    browser: Browser, shop: LocalCluster
) -> None:
    from selenium.webdriver.common.keys import Keys

    browser.open(f"{shop.controller_urls[0]}/")
    until("the headline", has_headline(browser, "All is well."))
    body = browser.driver.find_element("tag name", "body")
    names = []
    for _ in range(40):
        body.send_keys(Keys.TAB)
        names.append(browser.driver.execute_script(NAME_OF_ACTIVE))
    assert names[:5] == ["Skip to the cluster", "Springtide", "prod\n(ok)", "staging\n(ok)", "API"]
    assert {"Brokers", "ms"} <= set(names), "the table that may scroll, and the choice of measure"
    browser.driver.find_element("css selector", "#clusters a[href='#staging']").send_keys(Keys.ENTER)
    until("the other cluster", has_headline(browser, "No brokers yet."))
    assert "POST /clusters/staging/brokers" in browser.text("#overview")
    assert "<b>for</b> the release candidate" in browser.text("#audit")


def test_a_standby_asks_for_a_token_and_says_how_old_its_copy_is(
    browser: Browser, shop: LocalCluster, tmp_path: Path
) -> None:
    tokens = tmp_path / "tokens"
    write_secret(tokens, "grafana viewer a-token-that-only-looks-0123456789\n")
    with PortReservation() as ports:
        port = ports.reserve_free()
        standby = SupervisedProcess(
            name="a standby that takes tokens",
            command=ProcessCommand(
                arguments=[
                    *(sys.executable, "-m", "controller", "serve", "--observer"),
                    *("--listen", f"127.0.0.1:{port}", "--advertise", f"http://127.0.0.1:{port}"),
                    *("--zookeeper", shop.zookeeper.connection_string),
                    *("--database-url", f"sqlite:///{shop.directory / 'audit.db'}"),
                    *("--tokens-file", str(tokens)),
                ],
                working_directory=tmp_path,
            ),
            log_path=tmp_path / "standby.log",
        )
        standby.start()
        try:
            url = f"http://127.0.0.1:{port}"
            until("the standby", lambda: is_ready(url))
            # Until it has read its copy, it sends readers on to the active one.
            token = {"authorization": "Bearer a-token-that-only-looks-0123456789"}
            until("its copy", lambda: httpx.get(f"{url}/clusters", headers=token).is_success)
            browser.open(f"{url}/")
            until("the question", browser.driver.find_element("id", "sign-in").is_displayed)
            assert not browser.driver.find_element("id", "cluster").is_displayed()
            field = browser.driver.find_element("id", "token")
            field.send_keys("not-a-token-of-anybody\n")
            until("the refusal", lambda: "not valid here" in browser.text("#notices"))
            field.send_keys("a-token-that-only-looks-0123456789\n")
            until("the headline", has_headline(browser, "Nothing wrong that a standby can see."))
            assert not browser.driver.find_element("id", "sign-in").is_displayed()
            connection = browser.text("#connection")
            assert connection.startswith("Standby, ")
            assert connection.endswith("old. To the active one")
            assert "Only the active controller knows." in browser.text("#alarms")
            assert "a standby does not hear of it" in browser.text("#lag")
            browser.screenshot("console-standby")
            assert elsewhere(browser.requests(), url) == []
        finally:
            standby.stop()


def is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", timeout=2).is_success
    except httpx.TransportError:
        return False


def test_an_audit_that_cannot_be_written_is_said_with_its_cause(browser: Browser, shop: LocalCluster) -> None:
    browser.look(width=PHONE, dark=False)
    browser.open(f"{shop.controller_urls[0]}/")
    until("the headline", has_headline(browser, "All is well."))
    with closing(sqlite3.connect(shop.directory / "audit.db", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        until("the cause", lambda: "can't be written: database is locked" in browser.text("#connection"))
        wide = browser.driver.execute_script("return document.documentElement.scrollWidth")
        assert wide <= PHONE, "a phone would scroll sideways"
    until("its end", lambda: browser.text("#connection").startswith("Active"))


def test_trouble_comes_first_with_its_reason_and_silence_is_shown_as_such(browser: Browser) -> None:
    with LocalCluster(brokers=3) as cluster:
        cluster.form()
        cluster.create_topic("orders", partitions=6, configs={"min.insync.replicas": "2"})
        cluster.create_topic("single", partitions=3, replication_factor=1)
        cluster.kill_broker(3)
        browser.look(width=DESK, dark=False)
        browser.open(f"{cluster.controller_urls[0]}/")
        until("the headline", has_headline(browser, "1 partition has no leader."))

        def both() -> list[list[str]] | None:
            """The controller moves partitions in batches, and each part of the page has its own answer,
            of a moment before or after another's."""
            rows = [text.split() for text in browser.texts("#partitions tbody tr")]
            is_whole = len(rows) > 1 and rows[1][:3] == ["6", "partitions", "under-replicated"]
            return rows[:2] if is_whole and "broker 3 is down" in " ".join(rows[1]) else None

        rows = until("both causes", both)
        assert rows is not None
        assert rows[0][1] == "leaderless"
        assert "holds every acknowledged record but is down" in " ".join(rows[0])
        until("what follows", lambda: "leaderless: 1" in browser.text("#alarms li"))
        assert "broker 3" in browser.text("#alarms li"), "one alarm for one fault"
        badges = ["active", "active", "fenced"]
        until("the broker that is down", lambda: browser.texts("#brokers tbody .badge") == badges)
        until("the audit's row", lambda: "broker died" in browser.text("#audit"))
        assert browser.driver.title.startswith("! prod")
        cluster.api.post(
            "/clusters/prod/brokers",
            {"broker_id": 4, "endpoint": "store4:9092", "reason": "in place of broker 3"},
        )
        until("the operation", lambda: "Add broker 4" in browser.text("#operations .running"))
        assert "in place of broker 3" in browser.text("#operations .running")
        until("its hold-up", lambda: "has not registered yet" in browser.text("#operations .blocked"))
        browser.screenshot("console-trouble-light")
        browser.look(width=DESK, dark=True)
        browser.screenshot("console-trouble-dark")
        browser.look(width=PHONE, dark=True)
        browser.screenshot("console-trouble-phone")
        assert browser.complaints() == []

        cluster.kill_controller(1)
        until("the silence", lambda: "The controller does not answer." in browser.text("#notices"))
        assert "What is shown is of " in browser.text("#notices")
        assert "1 partition has no leader." in browser.text("#verdict"), "what was known stays"
        browser.look(width=DESK, dark=False)
        browser.screenshot("console-unreachable")
        cluster.start_controller(1)
        until("the answer", lambda: browser.text("#notices") == "")
        cluster.start_broker(3)
        until("the headline", has_headline(browser, "All is well."))
