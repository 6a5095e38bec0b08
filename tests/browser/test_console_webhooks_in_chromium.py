"""Webhooks and silences on the operator's page, of a real cluster."""

from __future__ import annotations

from functools import partial

import pytest

from localcluster.cluster import LocalCluster
from tests.kit.admin_api.canned import CannedController
from tests.kit.chromium import DESK, Browser, until
from tests.kit.console import do_it, fill, look, open_action

pytestmark = pytest.mark.timeout(600)

PHONE = 375
HOSTILE = '<img src="/x" onerror="document.title=1">'


def rows(browser: Browser, label: str) -> list[str]:
    return browser.texts(f"#view [aria-label={label}] tbody tr")


def test_a_webhook_and_a_silence_are_made_and_ended(browser: Browser, shop: LocalCluster) -> None:
    url = f"{shop.controller_urls[0]}/#staging/webhooks"
    browser.look(width=DESK, dark=False)
    open_action(browser, url, "Add a webhook")
    fill(browser, "name", "pager")
    fill(browser, "url", "http://127.0.0.1:1/a-secret-path")
    assert "Tell alarms to 127.0.0.1, as json." in look(browser)
    assert "Its secret is shown this once: whsec_" in do_it(browser)
    open_action(browser, url, "Test pager")
    look(browser)
    assert "It can't be reached (ConnectError)." in do_it(browser)
    open_action(browser, url, "Add a silence")
    fill(browser, "broker_id", "3")
    fill(browser, "reason", HOSTILE)
    assert "Silence alarms until " in look(browser)
    do_it(browser)
    browser.open(url)
    until("the webhook", lambda: rows(browser, "Webhooks"))
    assert "a-secret-path" not in browser.text("body")
    until("the silence", lambda: rows(browser, "Silences"))
    assert HOSTILE in rows(browser, "Silences")[0], "text, and no markup"
    open_action(browser, url, "End All, broker 3")
    look(browser)
    do_it(browser)
    open_action(browser, url, "Delete pager")
    assert "Delete the webhook pager." in look(browser)
    do_it(browser)
    browser.open(url)
    until("neither", lambda: "No alarm is silenced." in browser.text("#view .body"))
    assert rows(browser, "Webhooks") == []
    assert browser.complaints() == []


@pytest.mark.parametrize("width", [DESK, PHONE])
def test_states_and_silenced_alarms_fit(browser: Browser, canned: CannedController, width: int) -> None:
    path = "/clusters/prod"
    webhooks = canned.example(f"{path}/webhooks")
    (pager,) = webhooks["items"]
    failing = {"state": "failing", "last_error": "the receiver answered 500", "waiting": 12, "dropped": 1_234}
    webhooks["items"] = [pager, {**pager, "name": "a_channel_with_a_long_name", "format": "slack", **failing}]
    canned.put(f"{path}/webhooks", webhooks)
    silences = canned.example(f"{path}/silences")
    (one,) = silences["items"]
    canned.put(f"{path}/silences", silences)
    alarms = canned.example(f"{path}/alarms")
    mark = {name: one[name] for name in ("id", "reason", "actor", "until")}
    alarms["items"] = [{**alarm, "silenced": mark} for alarm in alarms["items"]]
    canned.put(f"{path}/alarms", alarms)
    browser.look(width=width, dark=width == PHONE)
    browser.open(f"{canned.url}/#prod/webhooks")
    until("both", lambda: len(rows(browser, "Webhooks")) == 2)
    assert "The receiver answered 500." in rows(browser, "Webhooks")[1]
    assert "its board is replaced" in rows(browser, "Silences")[0]
    until("no wider", partial(is_as_wide, browser, width))
    browser.screenshot(f"console-webhooks-{width}")
    browser.open(f"{canned.url}/#prod")
    until("the mark", lambda: "Silenced until 20" in browser.text("#alarms"))
    browser.screenshot(f"console-silenced-{width}")
    assert browser.complaints() == []


def is_as_wide(browser: Browser, width: int) -> bool:
    return bool(browser.driver.execute_script("return document.documentElement.scrollWidth <= innerWidth"))
