"""What a person does in a form of the operator's page: fill it in, look at what it would do, and agree."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.kit.chromium import Browser, until


def open_action(browser: Browser, url: str, name: str) -> None:
    """Open a view by its address and press the button of this name, with the keyboard."""
    from selenium.webdriver.common.keys import Keys

    browser.open(url)
    buttons = until(name, partial(buttons_named, browser, name))
    buttons[0].send_keys(Keys.ENTER)
    until("the form", lambda: browser.text("dialog.action h2"))


def buttons_named(browser: Browser, name: str) -> list[Any]:
    buttons = browser.driver.find_elements("css selector", "#view button")
    return [button for button in buttons if button.accessible_name == name]


def fill(browser: Browser, field: str, text: str) -> None:
    place = browser.driver.find_element("id", f"action-{field}")
    place.clear()
    place.send_keys(text)


def look(browser: Browser) -> str:
    """Ask what it would do, with Enter; return what the page says."""
    browser.driver.find_element("css selector", "dialog.action button[type=submit]").click()
    return until("an answer", lambda: browser.text("dialog.action .told"))


def do_it(browser: Browser) -> str:
    """Agree with Enter: the button has the focus once the dry run is shown."""
    from selenium.webdriver.common.keys import Keys

    until("the offer", lambda: browser.driver.switch_to.active_element.text == "Do it")
    browser.driver.switch_to.active_element.send_keys(Keys.ENTER)
    return until("the end", lambda: browser.text("dialog.action .done, dialog.action .refused"))
