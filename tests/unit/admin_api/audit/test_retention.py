"""What REST says of rows that retention has removed: what is gone, by whom, and what can't be told now."""

from __future__ import annotations

import pytest

from admin_api.http.models import timestamp
from controller.audit.retention import DAY_MS, remove_old_rows
from tests.kit.admin_api.reassignments import formed, put, report, settled
from tests.kit.admin_api.rest import Rest, controller, problem
from tests.kit.memory.zookeeper import MemoryZooKeeper

pytestmark = pytest.mark.anyio


async def remove(rest: Rest) -> int:
    """As forty days later. Returns when."""
    await rest.outbox.flush()
    now_ms = rest.clock.now_wall_ms() + 40 * DAY_MS
    assert await remove_old_rows(rest.store, "prod", days=30, now_ms=now_ms) == 1
    assert await remove_old_rows(rest.store, "prod", days=30, now_ms=now_ms) == 0
    return now_ms


async def test_a_verification_begins_after_what_was_removed_and_says_what_that_was(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        await rest.create_topic()
        before = await rest.recorded(cluster="prod")
        whole = (await rest.client.get("/audit/verification?cluster=prod")).json()
        assert whole["removed"] is None
        at_ms = await remove(rest)
        found = (await rest.client.get("/audit/verification?cluster=prod")).json()
        assert (found["ok"], found["rows"], found["outcomes"]) == (True, 1, 1)
        removed = found["removed"]
        assert (removed["last_seq"], removed["hash"]) == (whole["last_seq"], whole["hash"])
        assert (removed["chain_position"], removed["outcomes"]) == (
            whole["chain_position"],
            whole["outcomes"],
        )
        assert removed["rows"] + removed["kept_rows"] == whole["rows"]
        assert (removed["at"], removed["by"], removed["finished"]) == (timestamp(at_ms), "controller", True)
        row = (await rest.client.get(removed["audit"])).json()
        assert (row["kind"], row["cause"], row["actor"]) == ("request", "remove_audit_rows", "controller")
        assert (row["outcome"]["outcome"], row["reason"]) == ("succeeded", "rows are kept for 30 days")
        assert row["after"]["removed_rows"] == removed["rows"]
        left = await rest.recorded(cluster="prod")
        assert {item["id"] for item in left[1:]} < {item["id"] for item in before}
        (gone, *_) = [item for item in before if item["kind"] == "request"]
        assert problem(await rest.client.get(f"/audit/{gone['id']}")) == (404, "audit_row_not_found")


async def test_the_placement_is_told_since_the_anchor_and_refused_before(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        await rest.create_topic()
        begun_ms = rest.clock.now_wall_ms()
        await rest.clock.sleep_ms(1_000)
        await rest.create_topic("logs")
        await rest.outbox.flush()
        path = "/clusters/prod/assignment"
        early = {"as_of": timestamp(begun_ms)}
        assert (await rest.client.get(path, params=early)).status_code == 200
        await rest.clock.sleep_ms(1_000)
        late = {"as_of": timestamp(rest.clock.now_wall_ms())}
        whole = (await rest.client.get(path, params=late)).json()
        assert len(whole["items"]) == 6
        await remove(rest)
        assert problem(await rest.client.get(path, params=early)) == (404, "before_the_audit")
        assert (await rest.client.get(path, params=late)).json() == whole


async def test_a_receipt_over_rows_that_are_gone_vouches_for_nothing(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest)
        await rest.clock.sleep_ms(500)
        path = (await put(rest, 4, 2, 3)).headers["location"]
        await report(rest, brokers, 1, 2, 3, 4)
        await settled(rest, path)
        await rest.outbox.flush()
        kept = (await rest.client.get(f"{path}/receipt")).json()
        assert (kept["verdict"], kept["evidence"]["removed_before"]) == ("kept", None)
        await remove(rest)
        found = (await rest.client.get(f"{path}/receipt")).json()
        assert (found["verdict"], found["evidence"]["covered"]) == ("not_proven", False)
        removed = (await rest.client.get("/audit/verification?cluster=prod")).json()["removed"]
        assert found["evidence"]["removed_before"] == removed["before"]
