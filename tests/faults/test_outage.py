"""Brokers without any controller go on as they are: a stock producer notices nothing (battle.py)."""

from __future__ import annotations

import time

import pytest

from localcluster.cluster import LocalCluster
from localcluster.verdict import longest_silence
from tests.faults.battle import battle

CONTROLLER_OUTAGE_SECONDS = 60.0
SILENCE_SECONDS_MAX = 10.0


@pytest.mark.slow
def test_writes_go_on_while_no_controller_is_up_for_a_minute(
    breakable_cluster: LocalCluster,
) -> None:
    cluster = breakable_cluster
    with battle(cluster, partitions=3) as fought:
        down_at = time.monotonic()
        for index in cluster.controllers:
            cluster.kill_controller(index)
        cluster.wait_until(
            "the outage is over",
            lambda: time.monotonic() - down_at >= CONTROLLER_OUTAGE_SECONDS,
            timeout_seconds=CONTROLLER_OUTAGE_SECONDS + 5,
        )
        up_at = time.monotonic()
        silence = longest_silence(fought.load.acknowledged, since=down_at, until=up_at)
        for index in cluster.controllers:
            cluster.start_controller(index)
    assert silence < SILENCE_SECONDS_MAX
