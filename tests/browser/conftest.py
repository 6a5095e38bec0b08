"""A browser for each test, and one cluster for all of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from localcluster.cluster import LocalCluster
from tests.kit.admin_api.canned import CannedController, canned_controller
from tests.kit.chromium import Browser, chromium, missing


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    with chromium(tmp_path / "profile") as opened:
        yield opened


@pytest.fixture(scope="package")
def shop() -> Iterator[LocalCluster]:
    """Three brokers that hold a topic, and a cluster beside it that is empty. No test breaks them."""
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    with LocalCluster() as cluster:
        cluster.form()
        cluster.create_topic("orders", partitions=12, configs={"min.insync.replicas": "2"})
        cluster.api.post("/clusters", {"name": "staging", "reason": "<b>for</b> the release candidate"})
        yield cluster


@pytest.fixture
def canned() -> Iterator[CannedController]:
    """A healthy cluster of three brokers."""
    with canned_controller() as controller:
        cluster = controller.example("/clusters/prod")
        controller.put("/clusters", {"items": [cluster], "next_page_token": None})
        controller.put("/clusters/prod/alarms", {"items": [], "counts": {}, "next_page_token": None})
        controller.put("/clusters/prod/missing-topics", {"items": [], "next_page_token": None})
        brokers = controller.example("/clusters/prod/brokers")
        brokers["items"] = [{**brokers["items"][0], "broker_id": number} for number in (1, 2, 3)]
        controller.put("/clusters/prod/brokers", brokers)
        yield controller
