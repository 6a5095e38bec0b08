"""Records on the operator's page: a look is asked for once, a row opens, and what is in it is text."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.admin_api.canned import CannedController
from tests.kit.chromium import DESK, Browser, until

pytestmark = pytest.mark.timeout(600)

PHONE = 375
RECORDS = "/clusters/prod/topics/orders/records"
HOSTILE = '<img src="/x" onerror="document.title=1">'
BIG = "12345678901234567890"


def looks(browser: Browser) -> list[str]:
    """Return the queries that were asked since the last time."""
    return [url.partition("?")[2] for url in browser.requests() if RECORDS in url]


def fill(browser: Browser, name: str, text: str) -> None:
    place = browser.driver.find_element("id", f"look-{name}")
    if place.tag_name == "select":
        place.find_element("css selector", f"option[value='{text}']").click()
    else:
        place.clear()
        place.send_keys(text)


def cell(encoding: str, data: str, **fields: Any) -> dict[str, Any]:
    return {"encoding": encoding, "data": data, "size_bytes": len(data), "truncated": False, **fields}


def hostile(canned: CannedController) -> None:
    answer = canned.example(RECORDS)
    first = answer["items"][0]
    document = f'{{"id":{BIG},"id":1,"deep":[[],{{}},{{"a":"{{[,:\\"]"}}]}}'
    answer["items"] = [
        {**first, "offset": 9, "key": cell("text", HOSTILE), "value": cell("json", document)},
        {**first, "offset": 8, "key": None, "value": cell("hex", "00ff3c62", truncated=True, size_bytes=999)},
        {**first, "offset": 7, "timestamp": None, "timestamp_ms": -1, "value": cell("text", "x" * 5_000)},
    ]
    answer["items"][0]["headers"] = [{"name": HOSTILE, "value": cell("text", HOSTILE)}]
    answer["unread"] = [{"partition": 0, "offset": 3, "why": HOSTILE}]
    canned.put(RECORDS, answer)


def test_a_look_is_asked_for_once_and_its_rows_open_with_the_keyboard(
    browser: Browser, canned: CannedController
) -> None:
    from selenium.webdriver.common.keys import Keys

    hostile(canned)
    browser.look(width=DESK, dark=False)
    browser.open(f"{canned.url}/#prod/topics/orders")
    until("the way there", lambda: browser.texts("#view .tools a") == ["Records"])
    browser.driver.find_element("css selector", "#view .tools a").send_keys(Keys.ENTER)
    until("the view", lambda: "each look is in the audit" in browser.text("#view .body"))
    assert looks(browser) == []
    browser.driver.find_element("id", "look-key").send_keys("a&b", Keys.ENTER)
    until("the records", lambda: len(browser.texts("#view .records > li")) == 3)
    assert looks(browser) == ["limit=50&key=a%26b&format=auto&start=newest"]
    assert browser.driver.execute_script("return location.hash") == (
        "#prod/records/orders?from=newest&key=a%26b&format=auto"
    )
    assert browser.texts("#view .blocked li") == [f"Partition 0 from offset 3 on: {HOSTILE}"]

    summary = browser.driver.find_element("css selector", "#view .records summary")
    summary.send_keys(Keys.ENTER)
    until("the record", lambda: browser.text("#view .records pre"))
    shown = browser.texts("#view .records details[open] pre")
    assert shown[0] == HOSTILE
    assert shown[1].splitlines() == [
        "{",
        f'  "id": {BIG},',
        '  "id": 1,',
        '  "deep": [',
        "    [],",
        "    {},",
        "    {",
        '      "a": "{[,:\\"]"',
        "    }",
        "  ]",
        "}",
    ]
    assert shown[2] == HOSTILE
    assert browser.driver.title.startswith("Records of orders")
    browser.driver.execute_script("document.querySelectorAll('.records summary')[1].click()")
    dumped = "00000000  00 ff 3c 62"
    until("the bytes", lambda: dumped in browser.text("#view .records li:nth-child(2) pre"))
    assert "hex, 999 B, cut" in browser.text("#view .records li:nth-child(2)")
    assert "..<b" in browser.text("#view .records li:nth-child(2) pre")
    assert "no time" in browser.text("#view .records li:nth-child(3)")
    browser.screenshot("console-records")

    answer = canned.example("/clusters/prod")
    canned.put("/clusters", {"items": [answer, {**answer, "name": "later"}], "next_page_token": None})
    until("another round", lambda: len(browser.texts("#clusters a")) == 2)
    assert looks(browser) == [], "rounds of the page are no looks"
    assert len(browser.texts("#view .records details[open]")) == 2
    button = browser.driver.find_element("css selector", "#view .body > button")
    assert button.text == "What came since"
    button.send_keys(Keys.ENTER)
    until("another look", lambda: looks(browser) == ["limit=50&key=a%26b&format=auto&position=0-1043"])
    assert browser.complaints() == []


def test_an_address_is_a_look_a_refusal_is_told_and_a_phone_is_wide_enough(
    browser: Browser, canned: CannedController
) -> None:
    hostile(canned)
    browser.look(width=PHONE, dark=True)
    browser.open(f"{canned.url}/#prod/records/orders?partition=2&from=offset&at=7&ignore_case=true")
    until("the records", lambda: len(browser.texts("#view .records > li")) == 3)
    assert looks(browser) == ["limit=50&ignore_case=true&partition=2&offset=7"]
    assert browser.driver.find_element("id", "look-at").get_property("value") == "7"
    for summary in browser.driver.find_elements("css selector", "#view .records summary"):
        browser.driver.execute_script("arguments[0].click()", summary)
    until("all of them", lambda: len(browser.texts("#view .records details[open]")) == 3)
    wide = browser.driver.execute_script("return document.documentElement.scrollWidth")
    assert wide <= PHONE
    browser.screenshot("console-records-phone")

    refused = {"title": "forbidden", "detail": f"this needs read on topic {HOSTILE}", "code": "forbidden"}
    canned.put(RECORDS, {**refused, "status": 403, "hint": "ask an admin"}, status=403)
    fill(browser, "from", "newest")
    assert not browser.driver.find_element("id", "look-at").is_displayed()
    browser.driver.find_element("css selector", "#view form button").click()
    until("the refusal", lambda: f"This needs read on topic {HOSTILE}." in browser.text("#view .body"))
    assert "ask an admin" in browser.text("#view .body")
    assert looks(browser) == ["limit=50&ignore_case=true&format=auto&partition=2&start=newest"]
