"""Lists on the operator's page: sorted, searched and paged by the address, with favourites first."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tests.kit.admin_api.canned import CannedController, page_of
from tests.kit.chromium import DESK, Browser, until

pytestmark = pytest.mark.timeout(600)

PHONE = 375
WIDE = 1_440
KIB = 1_024
NONE = "\N{EN DASH}"
#: All that the page loads before its first view of topics, uncompressed.
WEIGHT_MAX = 400 * KIB


def topics(canned: CannedController, count: int) -> list[dict[str, Any]]:
    """Topics of which each is larger and less busy than the one before."""
    (orders,) = canned.example("/clusters/prod/topics")["items"]
    made = [
        {**orders, "name": f"shop.events-{number:04}", "groups": number % 5}
        | {"size_bytes": number * 2**20, "bytes_in_per_s": (count - number) * 100, "bytes_out_per_s": 7}
        for number in range(count)
    ]
    canned.put("/clusters/prod/topics", lambda asked: page_of(made, asked))
    return made


def groups(canned: CannedController, count: int) -> None:
    (billing, *_) = canned.example("/clusters/prod/groups")["items"]
    made = [
        {**billing, "group_id": f"app-{number:04}", "lag": number * 10, "lag_ms": number * 1_000}
        | {"until_gone_ms": 240_000 if number == count - 1 else None}
        for number in range(count)
    ]
    made[0] |= {"lag": None, "lag_ms": None, "lag_age_ms": None, "members_total": None}
    canned.put("/clusters/prod/groups", lambda asked: page_of(made, asked, name="group_id"))


def names(browser: Browser) -> list[str]:
    return browser.texts("#view tbody th a")


def address(browser: Browser) -> str:
    return str(browser.driver.execute_script("return location.hash"))


def click(browser: Browser, selector: str) -> None:
    until(selector, lambda: browser.driver.find_elements("css selector", selector))[0].click()


def heading(browser: Browser, text: str) -> None:
    browser.driver.find_element("xpath", f"//thead//a[.='{text}']").click()


def fits(browser: Browser) -> bool:
    return bool(browser.driver.execute_script("return document.documentElement.scrollWidth <= innerWidth"))


def test_a_heading_sorts_the_pages_follow_and_the_address_shows_the_same_again(
    browser: Browser, canned: CannedController
) -> None:
    topics(canned, 250)
    browser.look(width=DESK, dark=False)
    browser.open(f"{canned.url}/#prod/topics")
    until("the first page", lambda: len(names(browser)) == 100 and names(browser)[:1] == ["shop.events-0000"])
    heading(browser, "Data")
    until("the largest first", lambda: names(browser)[:1] == ["shop.events-0249"])
    assert address(browser) == "#prod/topics?sort=-size"
    assert browser.texts("th[aria-sort=descending]") == ["Data"]
    click(browser, "#view .pages a")
    until("the second page", lambda: names(browser)[:1] == ["shop.events-0149"])
    link = address(browser)
    assert link == "#prod/topics?sort=-size&page=100"
    browser.open(f"{canned.url}/{link}")
    until("the same by its address", lambda: names(browser)[:1] == ["shop.events-0149"])
    heading(browser, "Data")
    until("the smallest first, from the first page on", lambda: names(browser)[:1] == ["shop.events-0000"])
    assert address(browser) == "#prod/topics?sort=size"
    browser.driver.back()
    until("the page before", lambda: names(browser)[:1] == ["shop.events-0149"])
    browser.requests()
    browser.driver.find_element("css selector", "#search").send_keys("0007")
    until("what is searched", lambda: names(browser) == ["shop.events-0007"])
    assert address(browser) == "#prod/topics?sort=-size&q=0007", "the order stays, the page does not"
    browser.driver.find_element("css selector", "#search").send_keys("x")
    until("nothing", lambda: "None is like this." in browser.text("#view .body"))
    assert all("limit=100" in one for one in browser.requests() if "/topics?" in one), "never all rows"
    assert browser.complaints() == []


def test_favourites_come_first_and_stay_in_this_browser(browser: Browser, canned: CannedController) -> None:
    topics(canned, 250)
    groups(canned, 3)
    browser.look(width=DESK, dark=False)
    browser.open(f"{canned.url}/#prod/topics?q=events-02")
    click(browser, "[aria-label='Favourite: shop.events-0240']")
    until("it comes first", lambda: names(browser)[:2] == ["shop.events-0240", "shop.events-0200"])
    browser.open(f"{canned.url}/#prod/topics")
    until(
        "also where its page is another",
        lambda: names(browser)[:2] == ["shop.events-0240", "shop.events-0000"],
    )
    assert names(browser).count("shop.events-0240") == 1
    pressed = "#view button.star[aria-pressed=true]"
    assert len(browser.texts(pressed)) == 1
    click(browser, pressed)
    until("it is one no more", lambda: names(browser)[:1] == ["shop.events-0000"])
    browser.open(f"{canned.url}/#prod/groups")
    click(browser, "[aria-label='Favourite: app-0000']")
    until("of groups too", lambda: names(browser) == ["app-0000", "app-0002", "app-0001"])
    browser.driver.execute_script("localStorage.setItem('springtide.favourites', '[1, {\"prod\"')")
    browser.driver.refresh()
    until("what is no list is none", lambda: names(browser) == ["app-0002", "app-0001", "app-0000"])
    assert browser.complaints() == []


def test_groups_begin_with_the_farthest_behind_and_say_when_the_lag_is_gone(
    browser: Browser, canned: CannedController
) -> None:
    groups(canned, 30)
    browser.look(width=WIDE, dark=False)
    browser.open(f"{canned.url}/#prod/groups")
    until("the farthest behind", lambda: names(browser)[:1] == ["app-0029"])
    cells = browser.texts("#view tbody tr:first-child td")
    assert cells[1:5] == ["1", "290", "29 s", "4 min"]
    assert names(browser)[-1] == "app-0000", "what is not known comes last"
    assert browser.texts("#view tbody tr:last-child td")[1:5] == [NONE, "unknown", "unknown", NONE]


@pytest.mark.parametrize("count", [3, 300])
def test_lists_fit_a_desk_and_a_phone_by_day_and_night(
    browser: Browser, canned: CannedController, count: int
) -> None:
    topics(canned, count)
    groups(canned, count)
    brokers = canned.answers["GET /clusters/prod/brokers"][1]
    for number, broker in enumerate(brokers["items"]):
        total = 2**40
        broker |= {"disk_total_bytes": total, "disk_free_bytes": total * number // 9}
        broker |= {"bytes_in_per_s": 52_000 * number, "bytes_out_per_s": 104_000}
    for width in (WIDE, PHONE):
        for dark in (False, True):
            browser.look(width=width, dark=dark)
            for view in ("topics", "groups", "brokers", "topics/orders"):
                browser.open(f"{canned.url}/#prod/{view}")
                until(view, lambda: browser.texts("#view tbody tr"))
                assert fits(browser), f"{view} would scroll sideways at {width}"
                shown = f"{view.replace('/', '-')}-{count}-{width}-{'dark' if dark else 'light'}"
                browser.screenshot(f"console-list-{shown}")
    # On a phone there are no headings: a field sorts.
    browser.open(f"{canned.url}/#prod/topics")
    until("the list", lambda: names(browser))
    choice = browser.driver.find_element("css selector", "#sort")
    assert choice.is_displayed()
    choice.send_keys("Data")
    last = f"shop.events-{count - 1:04}"
    until("the largest first", lambda: names(browser)[:1] == [last])
    assert address(browser) == "#prod/topics?sort=-size"


def test_a_topic_names_the_groups_that_read_it(browser: Browser, canned: CannedController) -> None:
    topic = canned.example("/clusters/prod/topics/orders")
    reader = {"group_id": "<b>search</b>", "members_total": 2, "lag": 9_000, "lag_ms": 90_000}
    late = {**reader, "lag_age_ms": 1_000, "until_gone_ms": 240_000}
    old = {**reader, "group_id": "mail", "lag_age_ms": 60_000, "until_gone_ms": None}
    canned.put("/clusters/prod/topics/orders", {**topic, "groups": 2, "readers": [late, old]})
    browser.look(width=DESK, dark=False)
    browser.open(f"{canned.url}/#prod/topics/orders")
    rows = "[aria-label='Groups that read it'] tbody tr"
    until("its readers", lambda: len(browser.texts(rows)) == 2)
    assert browser.texts(f"{rows}:first-child > *") == ["<b>search</b>", "2", "9,000", "1 min 30 s", "4 min"]
    assert "1 min ago" in browser.texts(f"{rows}:last-child td")[1], "an old figure says so"
    click(browser, f"{rows}:first-child a")
    until("the group", lambda: browser.text("#view-title") == "<b>search</b>")
    canned.put("/clusters/prod/topics/orders", {**topic, "groups": None, "readers": []})
    browser.open(f"{canned.url}/#prod/topics/orders")
    until("a standby", lambda: "only the active controller hears of groups" in browser.text("#view .body"))


def test_the_first_view_of_a_thousand_topics_is_light(browser: Browser, canned: CannedController) -> None:
    """Weight is held; the time is printed, because it is the machine's."""
    topics(canned, 1_000)
    browser.look(width=DESK, dark=False)
    browser.driver.get("about:blank")
    began = time.monotonic()
    browser.open(f"{canned.url}/#prod/topics?sort=-bytes_in")
    until("the busiest", lambda: names(browser)[:1] == ["shop.events-0000"])
    seconds = time.monotonic() - began
    entries = browser.driver.execute_script(
        "return performance.getEntries().filter((one) => one.decodedBodySize !== undefined)"
        ".map((one) => [one.name, one.decodedBodySize])"
    )
    sizes = {name.removeprefix(canned.url).split("?")[0]: size for name, size in entries}
    weight = sum(size for _, size in entries)
    scripts = sum(size for name, size in sizes.items() if name.startswith("/console/"))
    print(json.dumps({"seconds": round(seconds, 2), "bytes": weight, "of the page itself": scripts}))
    assert sizes["/clusters/prod/topics"] < 100 * KIB, "a page of rows, not all"
    assert weight < WEIGHT_MAX
    assert len(names(browser)) == 100
