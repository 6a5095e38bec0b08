"""The release, what is in the way of the next level, and finalizing it, on the operator's page."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tests.kit.admin_api.canned import CannedController
from tests.kit.chromium import DESK, Browser, until
from tests.kit.console import do_it, look, open_action

pytestmark = pytest.mark.timeout(600)

PHONE = 375
PATH = "/clusters/prod/upgrade"
BLOCKER = {
    "kind": "broker",
    "name": "broker 2",
    "reason": "runs release 0.1, which has level 0 only: start it with release 0.2",
}


def on_the_way(canned: CannedController, *blockers: dict[str, str]) -> None:
    """A cluster of 0.1 whose processes are being restarted with 0.2."""
    status: dict[str, Any] = canned.example(PATH)
    (controller,) = [one for one in status["processes"] if one["kind"] == "controller"]
    broker = {"kind": "broker", "version": "0.2.0", "lowest_level": 0, "highest_level": 1}
    status |= {"level": 0, "release": "0.1", "target_level": 1, "target_release": "0.2"}
    status |= {"can_finalize": not blockers, "blockers": list(blockers)}
    status["processes"] = [
        controller,
        {**broker, "id": "1", "name": "broker 1", "is_running": True, "is_active": True},
        {**broker, "id": "2", "name": "broker 2", "is_running": False, "is_active": False}
        | {"version": "", "lowest_level": None, "highest_level": None},
    ]
    canned.put(PATH, status)


def figure(browser: Browser) -> str:
    return next((text for text in browser.texts("#overview .figures div") if "Release" in text), "")


@pytest.mark.parametrize("width", [DESK, PHONE])
def test_what_is_in_the_way_is_shown_with_each_process(
    browser: Browser, canned: CannedController, width: int
) -> None:
    on_the_way(canned, BLOCKER)
    browser.look(width=width, dark=width == PHONE)
    browser.open(f"{canned.url}/#prod")
    until("the figure", lambda: "on the way to 0.2: 1 thing in the way" in figure(browser))
    browser.open(f"{canned.url}/#prod/upgrade")
    until("the blocker", lambda: browser.texts("#view [aria-label='In the way'] li"))
    assert browser.texts("#view [aria-label='In the way'] li") == [f"Broker 2 {BLOCKER['reason']}"]
    rows = browser.texts("#view [aria-label=Processes] tbody tr")
    assert len(rows) == 3
    assert "not running" in rows[2]
    assert "not told" in rows[2]
    until("no wider", partial(is_as_wide, browser, width))
    browser.screenshot(f"console-upgrade-{width}")
    assert browser.complaints() == []


def test_it_is_finalized_after_a_look_at_what_it_would_do(browser: Browser, canned: CannedController) -> None:
    on_the_way(canned)
    done = {"level_before": 0, "level": 1, "release": "0.2", "dry_run": True}
    canned.put("/clusters/prod:finalize-upgrade?dry_run=true", done, method="POST")
    canned.put("/clusters/prod:finalize-upgrade", done | {"dry_run": False}, method="POST")
    browser.look(width=DESK, dark=False)
    browser.open(f"{canned.url}/#prod")
    until("the figure", lambda: "0.2 waits to be finalized" in figure(browser))
    open_action(browser, f"{canned.url}/#prod/upgrade", "Finalize the upgrade")
    assert "No process can go back to the release before" in browser.text("dialog")
    assert "Raise the level from 0 to 1, of release 0.2, for good." in look(browser)
    assert "Done." in do_it(browser)
    assert browser.complaints() == []


def is_as_wide(browser: Browser, width: int) -> bool:
    return bool(browser.driver.execute_script("return document.documentElement.scrollWidth <= innerWidth"))
