"""The README's commands, typed as they stand: a group's consumer, and the four calls: create a cluster, a
topic, add brokers, take one offline."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest

from tests.kit.walks import Place, blocks, needs, typed, up

pytestmark = [pytest.mark.timeout(300), needs("curl", "kcat")]

HEADING = "## The four calls"
WALK_SECONDS_MAX = 180.0


def test_a_consumer_with_a_group_reads_what_was_written(tmp_path: Path) -> None:
    _, of_group = blocks("README.md", "## Two commands")
    with up('make up UP_ARGS="--brokers 3"', tmp_path) as (place, _):
        # It ends after the 100 records that are written before, and would wait for more.
        ends = 'kcat() { command kcat -c 100 "$@"; }'
        done = typed(place.here(of_group), before=ends, seconds_max=WALK_SECONDS_MAX)
    assert done.returncode == 0, done.stderr
    assert sorted(map(int, done.stdout.split())) == [*range(1, 101)]


def test_the_four_calls_work_as_they_are_written(tmp_path: Path) -> None:
    first, *walk = blocks("README.md", HEADING)
    with up(first, tmp_path) as (place, log):
        four_calls(place, place.here("\n".join(walk)))
    assert "broker 1 was stopped" in log.read_text()


def four_calls(place: Place, script: str) -> None:
    done = typed(
        script,
        before='curl() { command curl -sS --fail-with-body "$@"; echo; }',
        seconds_max=WALK_SECONDS_MAX,
    )
    told = done.stdout + done.stderr
    assert done.returncode == 0, told
    # The last line counts what a consumer reads after everything.
    written = int(re.findall(r"^seq (\d+)", script, re.MULTILINE)[0])
    assert done.stdout.split()[-1] == str(written), told

    with httpx.Client(base_url=place.url) as api:
        items = api.get("/clusters/prod/brokers").json()["items"]
        assert {broker["broker_id"]: broker["state"] for broker in items} == dict.fromkeys(
            (2, 3, 4), "active"
        )
        (topic,) = api.get("/clusters/prod/topics").json()["items"]
        assert (topic["state"], topic["under_replicated_partitions"]) == ("online", 0)
        replicas = [broker["replicas"] for broker in items]
        assert sum(replicas) == topic["partitions"] * topic["replication_factor"]
        assert max(replicas) - min(replicas) <= 1
        leaders = [broker["leaders"] for broker in items]
        assert max(leaders) - min(leaders) <= 1
        operations = api.get("/operations").json()["items"]
        assert {operation["state"] for operation in operations} == {"succeeded"}
        assert [operation["kind"] for operation in operations] == ["broker_drain", "broker_add", "broker_add"]
        assert api.get("/audit/verification?cluster=prod").json()["ok"] is True
