"""An operator's walk: from the first page to what is wrong, in at most three clicks each, all counted."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Producer, TopicPartition

from localcluster.cluster import LocalCluster
from tests.kit.admin_api.canned import CannedController
from tests.kit.chromium import DESK, Browser, missing, until
from tests.kit.librdkafka import consumer, write

pytestmark = pytest.mark.timeout(900)

CLICKS_MAX = 3
QUIET_TOPICS = 12
RECORDS = 3_000
HOT, SLOW = "quiet-08-not", "app-07-slow"


class Walk:
    """Begins on the first page. What is clicked on has to be there, and in the state that is waited for."""

    def __init__(self, browser: Browser, url: str) -> None:
        self._browser = browser
        self.clicks = 0
        browser.look(width=DESK, dark=False)
        browser.open(f"{url}/#prod")
        until("the first page", lambda: browser.text("#verdict"))

    def click(self, xpath: str) -> None:
        found = until(xpath, lambda: self._browser.driver.find_elements("xpath", xpath))
        self.clicks += 1
        found[0].click()

    def arrived(self, what: str, title: str, *texts: str) -> None:
        def is_here() -> bool:
            shown = self._browser.text("#view .body")
            return self._browser.text("#view-title") == title and all(text in shown for text in texts)

        until(what, is_here)
        print(f"{what}: {self.clicks} clicks")
        assert self.clicks <= CLICKS_MAX


@pytest.fixture(scope="module")
def busy() -> Iterator[LocalCluster]:
    """Topics and groups of which one of each is to be found: a topic that is written to all the time, and a
    group that has read hardly anything."""
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    with LocalCluster(coordinators=1) as cluster:
        cluster.form()
        cluster.admit_coordinators()
        for number in range(QUIET_TOPICS):
            cluster.create_topic(f"quiet-{number:02}", partitions=1)
        cluster.create_topic(HOT, partitions=1)
        write(cluster, HOT, range(RECORDS))
        for number in range(QUIET_TOPICS):
            commit(cluster, f"app-{number:02}", RECORDS - number)
        commit(cluster, SLOW, 1)
        with written(cluster, HOT):
            yield cluster


def commit(cluster: LocalCluster, group: str, offset: int) -> None:
    with consumer(cluster, group) as member:
        member.commit(offsets=[TopicPartition(HOT, 0, offset)], asynchronous=False)


@contextmanager
def written(cluster: LocalCluster, topic: str) -> Iterator[None]:
    """Write to a topic for as long as the block runs."""
    ended = threading.Event()
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})

    def run() -> None:
        while not ended.wait(0.05):
            producer.produce(topic, value=b"x" * 10_000)
            producer.poll(0)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        producer.purge()


def test_the_slow_group_is_found(browser: Browser, busy: LocalCluster) -> None:
    walk = Walk(browser, busy.controller_urls[0])
    walk.click("//nav[@id='views']//a[.='Groups']")
    walk.click(f"//section//tbody/tr[1]/th/a[.='{SLOW}']")
    walk.arrived("the slow group", SLOW, "Records behind", HOT)
    browser.screenshot("walk-slow-group")
    assert browser.complaints() == []


def test_the_hot_topic_is_found_with_its_readers(browser: Browser, busy: LocalCluster) -> None:
    walk = Walk(browser, busy.controller_urls[0])
    walk.click("//nav[@id='views']//a[.='Topics']")
    walk.click("//thead//a[.='In']")
    walk.click(f"//section//tbody/tr[1]/th/a[.='{HOT}']")
    walk.arrived("the hot topic", HOT, "Groups that read it", SLOW)
    rows = browser.texts("[aria-label='Groups that read it'] tbody tr")
    assert len(rows) == QUIET_TOPICS + 1
    assert rows[0].startswith(SLOW), "the farthest behind first"
    browser.screenshot("walk-hot-topic")


def test_the_stopped_broker_is_found(browser: Browser, busy: LocalCluster) -> None:
    busy.kill_broker(3)
    try:
        walk = Walk(browser, busy.controller_urls[0])
        walk.click("//section[@id='alarms']//a[.='broker 3']")
        walk.arrived("the stopped broker", "Broker 3", "fenced")
    finally:
        busy.start_broker(3)


def test_the_full_disk_is_found(browser: Browser, canned: CannedController) -> None:
    """By its alarm; a disk can't be filled here, so a controller says that one is."""
    (alarm,) = canned.example("/clusters/prod/alarms")["items"]
    full = {**alarm, "code": "disk_full", "broker_id": 2, "detail": "broker 2 has 3 % of its disk free"}
    canned.put(
        "/clusters/prod/alarms", {"items": [full], "counts": {"disk_full": 1}, "next_page_token": None}
    )
    broker = canned.example("/clusters/prod/brokers/1")
    disk = {"broker_id": 2, "disk_free_bytes": 30 * 2**30, "disk_total_bytes": 2**40}
    canned.put("/clusters/prod/brokers/2", {**broker, **disk})
    walk = Walk(browser, canned.url)
    walk.click("//section[@id='alarms']//a[.='broker 2']")
    walk.arrived("the full disk", "Broker 2", "30.0 GiB of 1.0 TiB")
    other = Walk(browser, canned.url)
    other.click("//nav[@id='views']//a[.='Brokers']")
    other.click("//thead//a[.='Disk used']")
    until("the order", lambda: any("sort=-disk_used" in one for one in browser.requests()))
    assert other.clicks <= CLICKS_MAX
