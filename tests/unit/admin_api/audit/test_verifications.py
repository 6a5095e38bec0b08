"""Verifications of replicas are kept as they are told, listed newest first, and checked for nonsense."""

from __future__ import annotations

from typing import Any

import pytest

from controller.database import verification_rows
from tests.kit.admin_api.rest import TOKENS, Rest, ask, controller, pointers, problem
from tests.kit.memory.zookeeper import MemoryZooKeeper

pytestmark = pytest.mark.anyio

ADDRESS = "/clusters/prod/verifications"
FINDING = {
    "kind": "crc_mismatch",
    "topic": "orders",
    "partition": 0,
    "broker_id": 3,
    "first_offset": 40,
    "last_offset": 59,
    "batches": 1,
    "detail": "stored CRC 1c6e0d58",
}
GAP = {"kind": "offset_gap", "topic": "orders", "partition": 1, "first_offset": 7, "last_offset": 7}
PARTITION = {"topic": "orders", "partition": 0, "first_offset": 0, "next_offset": 100, "records": 100}
SOUND: dict[str, Any] = {
    "began_at_ms": 1_000,
    "ended_at_ms": 2_000,
    "topics": 1,
    "partitions_total": 2,
    "batches": 10,
    "records": 200,
    "bytes": 2**40,
    "compared_bytes": 3 * 2**40,
    "findings_total": 0,
}
DAMAGED = SOUND | {
    "findings_total": 5,
    "findings": [FINDING, GAP],
    "partitions": [PARTITION | {"findings": 1}],
    "reason": "nightly",
}


async def told(rest: Rest, body: dict[str, Any], **headers: str) -> dict[str, Any]:
    response = await rest.client.post(ADDRESS, json=body, headers=headers)
    assert response.status_code == 201, response.text
    shown: dict[str, Any] = response.json()
    assert response.headers["location"] == f"{ADDRESS}/{shown['id']}"
    return shown


async def test_what_was_found_is_kept_and_shown(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form(3)
        kept = await told(rest, DAMAGED)
        assert (kept["verdict"], kept["findings_total"], kept["findings_kept"]) == ("damaged", 5, 2)
        assert (kept["bytes"], kept["compared_bytes"]) == (2**40, 3 * 2**40)
        assert kept["partitions"] == [PARTITION | {"findings": 1}]
        assert (await rest.client.get(f"{ADDRESS}/{kept['id']}")).json() == kept
        found = (await rest.client.get(f"{ADDRESS}/{kept['id']}/findings")).json()
        assert found["items"] == [
            FINDING | {"position": 0},
            GAP | {"position": 1, "broker_id": None, "batches": 0, "detail": ""},
        ]
        (row,) = await rest.recorded(kind="request", cause="record_verification")
        assert (row["outcome"]["outcome"], row["reason"]) == ("succeeded", "nightly")
        assert "findings" not in row["after"], "they have a table of their own"


async def test_they_are_listed_newest_first_in_pages(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form(3)
        ids = []
        for number in range(5):
            ids.append((await told(rest, SOUND | {"records": number}))["id"])
            await rest.clock.sleep_ms(10)
        seen, token = [], ""
        while token is not None:
            page = (await rest.client.get(f"{ADDRESS}?limit=2{token and '&page_token=' + token}")).json()
            assert all("partitions" not in one for one in page["items"])
            seen += [one["id"] for one in page["items"]]
            token = page["next_page_token"]
        assert seen == ids[::-1]
        kept = await told(rest, SOUND | {"findings_total": 3, "findings": [FINDING, GAP, FINDING]})
        first = (await rest.client.get(f"{ADDRESS}/{kept['id']}/findings?limit=2")).json()
        token = first["next_page_token"]
        rest_of_it = await rest.client.get(f"{ADDRESS}/{kept['id']}/findings?limit=2&page_token={token}")
        assert [one["position"] for one in first["items"] + rest_of_it.json()["items"]] == [0, 1, 2]
        assert problem(await rest.client.get(f"{ADDRESS}?page_token={token}"))[1] == "invalid_request"


async def test_told_twice_under_one_key_it_is_kept_once(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form(3)
        key = {"Idempotency-Key": "k-1"}
        assert await told(rest, DAMAGED, **key) == await told(rest, DAMAGED, **key)
        assert len((await rest.client.get(ADDRESS)).json()["items"]) == 1


async def test_a_dry_run_keeps_nothing(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form(3)
        tried = await rest.client.post(f"{ADDRESS}?dry_run=true", json=DAMAGED)
        assert (tried.status_code, tried.json()["verdict"]) == (200, "damaged")
        assert (await rest.client.get(ADDRESS)).json()["items"] == []


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"ended_at_ms": 999}, "/ended_at_ms"),
        ({"findings_total": 1}, "/findings_total"),
        ({"partitions_total": 0}, "/partitions_total"),
        ({"findings": [FINDING | {"last_offset": 39}]}, "/findings/0/last_offset"),
        ({"partitions": [PARTITION | {"first_offset": 101}]}, "/partitions/0/next_offset"),
        ({"findings": [FINDING | {"kind": "Not a word"}]}, "/findings/0/kind"),
        ({"findings": [FINDING | {"topic": "a/b"}]}, "/findings/0/topic"),
        ({"records": -1}, "/records"),
        ({"records": 2**63}, "/records"),
        ({"began_at_ms": "yesterday"}, "/began_at_ms"),
        ({"more": 1}, "/more"),
    ],
)
async def test_nonsense_is_refused_with_its_place(
    zookeeper: MemoryZooKeeper, change: dict[str, Any], pointer: str
) -> None:
    async with controller(zookeeper) as rest:
        await rest.form(3)
        refused = await rest.client.post(ADDRESS, json=DAMAGED | change)
        assert problem(refused) == (422, "invalid_request")
        assert pointer in pointers(refused)
        assert (await rest.client.get(ADDRESS)).json()["items"] == []


async def test_what_is_not_there_is_said(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form(3)
        nobody = f"{ADDRESS}/ver_nobody"
        assert problem(await rest.client.get(nobody)) == (404, "verification_not_found")
        assert problem(await rest.client.get(f"{nobody}/findings")) == (404, "verification_not_found")
        elsewhere = "/clusters/other/verifications"
        assert problem(await rest.client.get(elsewhere)) == (404, "cluster_not_found")
        assert problem(await rest.client.post(elsewhere, json=SOUND)) == (404, "cluster_not_found")


async def test_the_oldest_go_when_new_ones_come(
    zookeeper: MemoryZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verification_rows, "VERIFICATIONS_MAX", 3)
    async with controller(zookeeper) as rest:
        await rest.form(3)
        ids = []
        for _ in range(5):
            ids.append((await told(rest, DAMAGED))["id"])
            await rest.clock.sleep_ms(10)
        kept = [one["id"] for one in (await rest.client.get(ADDRESS)).json()["items"]]
        assert kept == ids[:1:-1]
        assert problem(await rest.client.get(f"{ADDRESS}/{ids[0]}/findings"))[1] == "verification_not_found"


async def test_who_may_only_look_can_not_tell(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper, tokens=TOKENS) as rest:
        assert (await ask(rest, "POST", "/clusters", "admin", json={"name": "prod"})).status_code == 201
        assert problem(await ask(rest, "POST", ADDRESS, "viewer", json=SOUND)) == (403, "forbidden")
        assert (await ask(rest, "POST", ADDRESS, "operator", json=SOUND)).status_code == 201
        assert (await ask(rest, "GET", ADDRESS, "viewer")).status_code == 200
