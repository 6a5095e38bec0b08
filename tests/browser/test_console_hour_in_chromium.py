"""The last hour on the operator's page, and the heat map: lines, gaps, values that are read, colours."""

from __future__ import annotations

from typing import Any

import pytest

from localcluster.cluster import LocalCluster
from tests.kit.admin_api.canned import CannedController
from tests.kit.chromium import DESK, Browser, until

pytestmark = pytest.mark.timeout(600)

PHONE = 375
BYTES = "#view .graph:first-child"


def lines(browser: Browser, where: str) -> list[str]:
    """The drawings of the lines: a part that begins with M for each stretch without a gap."""
    script = "return [...document.querySelectorAll(arguments[0])].map((path) => path.getAttribute('d'))"
    return list(browser.driver.execute_script(script, f"{where} path.series"))


def press(browser: Browser, *keys: str) -> None:
    browser.driver.find_element("css selector", f"{BYTES} .reader").send_keys(*keys)


def of_broker(canned: CannedController, **series: list[float | None]) -> dict[str, Any]:
    history: dict[str, Any] = canned.example("/clusters/prod/history/brokers/1")
    history["series"] |= series
    return history


def test_a_line_has_a_gap_where_nothing_was_reported(browser: Browser, canned: CannedController) -> None:
    browser.look(width=DESK, dark=False)
    browser.open(f"{canned.url}/#prod/brokers/1")
    until("the graphs", lambda: len(browser.texts("#view .graph")) == 4)
    assert browser.texts("#view .graph figcaption b") == ["Bytes", "Requests", "Connections", "Disk"]
    came, went = lines(browser, BYTES)
    assert came.count("M") == went.count("M") == 2, "before and after the gap"
    assert came.count("L") == 10 - 1 - 2, "ten samples, of which one is not known"
    browser.driver.find_element("css selector", "#view .graph:nth-child(3) summary").click()
    assert browser.texts("#view .graph:nth-child(3) td.number") == ["13", "13", "14"]
    browser.screenshot("console-hour-broker")
    assert browser.complaints() == []


def test_a_value_is_read_with_the_keyboard_and_stays_while_the_page_is_drawn_again(
    browser: Browser, canned: CannedController
) -> None:
    from selenium.webdriver.common.keys import Keys

    seen: list[float | None] = [*(1_024 * number for number in range(1, 6)), None, None, None, None, 3_072]
    canned.put("/clusters/prod/history/brokers/1", of_broker(canned, bytes_in_per_s=seen))
    browser.look(width=PHONE, dark=True)
    browser.open(f"{canned.url}/#prod/brokers/1")
    until("the newest", lambda: browser.text(f"{BYTES} .reading").startswith("Now: in 3.0 KiB/s, out"))
    press(browser, Keys.ARROW_LEFT)
    assert "in not known, out 0 B/s" in browser.text(f"{BYTES} .reading")
    press(browser, Keys.HOME, Keys.ARROW_RIGHT)
    assert "in 2.0 KiB/s" in browser.text(f"{BYTES} .reading")
    reader = browser.driver.find_element("css selector", f"{BYTES} .reader")
    assert reader.get_attribute("aria-valuetext") == browser.text(f"{BYTES} .reading")
    assert browser.driver.execute_script("return document.documentElement.scrollWidth") <= PHONE
    canned.put("/clusters/prod/history/brokers/1", of_broker(canned, bytes_in_per_s=[7_168, *seen[1:]]))
    until("it is drawn again", lambda: "7.0 KiB" in browser.driver.page_source)
    assert "in 2.0 KiB/s" in browser.text(f"{BYTES} .reading")
    press(browser, Keys.ARROW_LEFT)
    assert "in 7.0 KiB/s" in browser.text(f"{BYTES} .reading"), "the focus stayed, too"
    press(browser, Keys.ESCAPE)
    assert browser.text(f"{BYTES} .reading").startswith("Now: in 3.0 KiB/s")
    browser.screenshot("console-hour-phone")
    assert browser.complaints() == []


def test_a_value_is_read_with_the_pointer(browser: Browser, canned: CannedController) -> None:
    from selenium.webdriver import ActionChains

    browser.look(width=DESK, dark=False)
    browser.open(f"{canned.url}/#prod/topics/orders")
    until("the graphs", lambda: len(browser.texts("#view .graph")) == 2)
    reader = browser.driver.find_element("css selector", f"{BYTES} .reader")
    now = browser.text(f"{BYTES} .reading")
    ActionChains(browser.driver).move_to_element_with_offset(reader, 60, 0).perform()
    until("another time", lambda: not browser.text(f"{BYTES} .reading").startswith("Now"))
    assert len(browser.driver.find_elements("css selector", f"{BYTES} .marker circle")) == 2
    ActionChains(browser.driver).move_to_element(
        browser.driver.find_element("css selector", "#view-title")
    ).perform()
    until("the newest again", lambda: browser.text(f"{BYTES} .reading") == now)


def test_where_nothing_is_kept_the_page_says_why_and_goes_on(
    browser: Browser, canned: CannedController
) -> None:
    problem = {
        "title": "no",
        "detail": "no coordinator has told of it",
        "code": "group_not_found",
        "status": 404,
    }
    canned.put("/clusters/prod/history/groups/billing", problem, status=404)
    empty = canned.example("/clusters/prod/history")
    empty |= {"timestamps": [], "series": {name: [] for name in empty["series"]}}
    canned.put("/clusters/prod/history", empty)
    browser.look(width=DESK, dark=False)
    browser.open(f"{canned.url}/#prod/groups/billing")
    until("why", lambda: "No coordinator has told of it." in browser.text("#view .body"))
    assert "Members" in browser.texts("#view h2")
    browser.open(f"{canned.url}/#prod")
    until("when", lambda: "half a minute" in browser.text("#hour .body"))


def test_the_heat_map_is_of_what_is_chosen(browser: Browser, canned: CannedController) -> None:
    from selenium.webdriver.common.keys import Keys

    rows = [("large", [10, 4, 0]), ("<b>small</b>", [1, None, 0])]
    items = [{"topic": topic, "values": values, "unknown_partitions": 2} for topic, values in rows]
    heat = {"items": items, "next_page_token": None, "measure": "bytes", "brokers": [1, 2, 3]}
    canned.put("/clusters/prod/heat-map", heat)
    browser.look(width=PHONE, dark=False)
    browser.open(f"{canned.url}/#prod/heat")
    until("the map", lambda: len(browser.texts("#view tbody tr")) == 2)
    assert "All topics. The strongest colour is 10 B. The size of 4 partitions is unknown." in browser.text(
        "#view .body"
    )
    cells = browser.driver.find_elements("css selector", "#view tbody td")
    assert [(cell.text, str(cell.get_attribute("class"))) for cell in cells] == [
        ("10 B", "number heat-5"),
        ("4 B", "number heat-2"),
        ("", "number heat-0"),
        ("1 B", "number heat-1"),
        ("unknown", "number heat-unknown"),
        ("", "number heat-0"),
    ]
    assert browser.texts("#view tfoot td") == ["11 B", "4 B", "0 B"]
    assert browser.driver.execute_script("return document.documentElement.scrollWidth") <= PHONE
    canned.put("/clusters/prod/heat-map", {**heat, "measure": "leaders"})
    browser.requests()
    browser.driver.find_element("id", "measure").send_keys("Leaders", Keys.ENTER)
    until("the other measure", lambda: "The strongest colour is 10." in browser.text("#view .body"))
    assert any("heat-map?measure=leaders&limit=50" in url for url in browser.requests())
    assert browser.complaints() == []


def test_a_real_cluster_shows_its_lines_and_where_its_partitions_are(
    browser: Browser, shop: LocalCluster
) -> None:
    browser.look(width=DESK, dark=False)
    browser.open(f"{shop.controller_urls[0]}/#prod/heat?measure=replicas")
    until("the map", lambda: "orders" in browser.texts("#view tbody th"))
    row = next(row for row in browser.texts("#view tbody tr") if row.startswith("orders"))
    assert sum(int(value) for value in row.split()[1:]) == 12 * 3
    browser.open(f"{shop.controller_urls[0]}/#prod")
    until("two samples", lambda: any("L" in line for line in lines(browser, "#hour")), seconds=240)
    requests = browser.text("#hour .graph:nth-child(2) .reading")
    assert requests.startswith("Now: ") and requests != "Now: 0/s", "followers fetch, and are counted"
    assert "Now: under-replicated 0, without a leader 0" in browser.texts("#hour .reading")
    browser.screenshot("console-hour-real")
    assert browser.complaints() == []
