"""Debian's Chromium without a screen, driven over WebDriver.

It can reach this machine only: all that a page, or the browser itself, asks of another host fails, and is in
`requests` for a test to see. Nothing is downloaded: browser and driver are Debian's packages, named by path.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from localcluster.ports import PortReservation

BROWSER = "/usr/bin/chromium"
DRIVER = "/usr/bin/chromedriver"
SCREENSHOTS = Path(__file__).parents[2] / "build" / "browser"
WIDTH, HEIGHT = 1_380, 900
SECONDS_MAX = 120
ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--lang=en",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
)


def missing() -> str | None:
    """Return what is not installed, or None if nothing is missing. Continuous integration insists."""
    names = [path for path in (BROWSER, DRIVER) if shutil.which(path) is None]
    if not names:
        return None
    reason = f"{' and '.join(names)} not installed (Debian: apt-get install chromium chromium-driver)"
    assert not os.environ.get("CI_REQUIRED"), f"{reason}, and CI must not skip it"
    return reason


class Browser:
    """One window. `driver` is selenium's; the rest is what these tests ask again and again."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver
        self._width = WIDTH

    def open(self, url: str) -> None:
        """Open a page. Requests of the page before, which are answered late, do not count as its own."""
        self.driver.get("about:blank")
        self.requests()
        self.driver.get(url)

    def look(self, *, width: int, dark: bool) -> None:
        """Another screen, or another taste."""
        self._width = width
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        self._resize(HEIGHT)

    def _resize(self, height: int) -> None:
        metrics = {
            "width": self._width,
            "height": height,
            "deviceScaleFactor": 1,
            "mobile": self._width < 600,
        }
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def screenshot(self, name: str) -> Path:
        """The whole page, as tall as it is, for people to look at after the run."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        path = SCREENSHOTS / f"{name}.png"
        self._resize(int(self.driver.execute_script("return document.documentElement.scrollHeight")))
        path.write_bytes(self.driver.get_screenshot_as_png())
        self._resize(HEIGHT)
        return path

    def requests(self) -> list[str]:
        """Addresses of everything asked since the last call."""
        entries = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        return [
            entry["params"]["request"]["url"]
            for entry in entries
            if entry["method"] == "Network.requestWillBeSent"
        ]

    def complaints(self) -> list[str]:
        """Return the errors in the browser's console since the last call: of scripts, and of the policy."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]

    def cut(self) -> list[str]:
        """Return the beginnings of texts that the window cuts, or that stand beyond its right edge."""
        return list(self.driver.execute_script(_CUT))

    def text(self, selector: str) -> str:
        return str(self.driver.execute_script(_TEXT, selector))

    def texts(self, selector: str) -> list[str]:
        return list(self.driver.execute_script(_TEXTS, selector))


_CUT = """
const seen = (one) => one.getBoundingClientRect().width > 1 && !one.closest('svg, .unseen');
const hides = (one) => ['hidden', 'clip'].includes(getComputedStyle(one).overflowX);
const isCut = (one) => hides(one) && one.scrollWidth > one.clientWidth + 1;
const isBeyond = (one) => one.getBoundingClientRect().right > innerWidth + 1;
const wrong = (one) => seen(one) && (isCut(one) || isBeyond(one));
const found = [...document.querySelectorAll('body *')].filter(wrong);
return found.map((one) => one.innerText.slice(0, 80));
"""
_TEXT = "const found = document.querySelector(arguments[0]); return found ? found.innerText : '';"
_TEXTS = "return [...document.querySelectorAll(arguments[0])].map((found) => found.innerText);"


def elsewhere(requests: list[str], url: str) -> list[str]:
    """Return the requests to other servers than the one at this URL. What a page carries within itself is not
    asked for, and the empty first page of a window is the browser's own."""
    own = ("data:", "blob:", "about:", "chrome:", "chrome-untrusted:")
    return [asked for asked in requests if not asked.startswith((f"{url}/", *own))]


@contextmanager
def chromium(profile: Path) -> Iterator[Browser]:
    """Start a browser. profile: an empty folder. Skip the test where there is no browser."""
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for argument in (*ARGUMENTS, f"--user-data-dir={profile}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    with PortReservation() as ports:  # until the driver has it
        driver = webdriver.Chrome(options=options, service=Service(DRIVER, port=ports.reserve_free()))
    # A machine that tests many things at once gives a page its seconds late.
    driver.set_script_timeout(SECONDS_MAX)
    driver.set_page_load_timeout(SECONDS_MAX)
    try:
        yield Browser(driver)
    finally:
        driver.quit()


T = TypeVar("T")
DESK = 1_380


def until(what: str, look: Callable[[], T], *, seconds: float = 120) -> T:
    """Waits for something that a person would see."""
    deadline = time.monotonic() + seconds
    while not (seen := look()):
        assert time.monotonic() < deadline, f"{what}: not seen in {seconds:g} s; last: {seen!r}"
        time.sleep(0.1)
    return seen
