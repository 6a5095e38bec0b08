"""Swagger UI in a real browser, on a real controller: an operator's first call, made there."""

from __future__ import annotations

import json

import pytest

from localcluster.cluster import LocalCluster
from tests.kit.chromium import DESK, Browser, elsewhere, until

pytestmark = pytest.mark.timeout(600)

BLOCK = "#operations-Brokers-addBrokers"


def test_brokers_are_added_from_swagger_ui(browser: Browser, shop: LocalCluster) -> None:
    url = shop.controller_urls[0]
    browser.look(width=DESK, dark=False)
    browser.open(f"{url}/docs")
    until("the operation", lambda: browser.text(BLOCK))
    assert {"Clusters", "Brokers", "Topics", "Partitions", "Operations", "Audit"} <= {
        text.split("\n")[0] for text in browser.texts(".opblock-tag")
    }
    assert "Authorize" in browser.text(".auth-wrapper")
    browser.screenshot("docs-light")
    click(browser, f"{BLOCK} .opblock-summary-control")
    until(
        "the body", lambda: browser.driver.find_elements("css selector", f"{BLOCK} textarea.body-param__text")
    )
    assert "dry_run" in browser.texts(f"{BLOCK} .parameter__name")
    body = browser.driver.find_element("css selector", f"{BLOCK} textarea.body-param__text")
    assert json.loads(str(body.get_attribute("value")))["endpoint"] == "store4:9092"
    click(browser, f"{BLOCK} button.execute")
    status = until(
        "the answer", lambda: browser.text(f"{BLOCK} .live-responses-table tbody .response-col_status")
    )
    assert status.split()[0] == "202"
    answer = json.loads(browser.text(f"{BLOCK} .live-responses-table tbody .highlight-code pre"))
    assert (answer["kind"], answer["state"], answer["cluster"]) == ("broker_add", "preflight", "prod")
    assert shop.api.get(f"/operations/{answer['id']}")["spec"]["brokers"][0]["broker_id"] == 4
    browser.screenshot("docs-202-light")
    browser.look(width=DESK, dark=True)
    until("the dark face", lambda: "dark-mode" in str(browser.driver.execute_script(_CLASSES)))
    browser.screenshot("docs-202-dark")
    assert browser.complaints() == []
    assert elsewhere(browser.requests(), url) == []


_CLASSES = "return document.documentElement.className"


def click(browser: Browser, selector: str) -> None:
    """Wherever it is on the page."""
    element = browser.driver.find_element("css selector", selector)
    browser.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
    element.click()
