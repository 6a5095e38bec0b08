from __future__ import annotations

import pytest

from controller.database.tables import audit
from tests.kit.admin_api.rest import Rest, controller, pointers, problem
from tests.kit.memory.zookeeper import MemoryZooKeeper

pytestmark = pytest.mark.anyio


async def alter(rest: Rest, seq: int) -> None:
    statement = audit.update().where(audit.c.cluster == "prod", audit.c.seq == seq).values(actor="mallory")
    await rest.store.write(lambda connection: connection.execute(statement))


async def test_the_history_of_a_cluster_is_verified_as_one_chain(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        await rest.create_topic()
        newest = (await rest.recorded(cluster="prod"))[0]
        response = await rest.client.get("/audit/verification?cluster=prod")
        assert response.status_code == 200
        found = response.json()
        assert (found["ok"], found["mismatch"], found["next_from_seq"]) == (True, None, None)
        assert (found["first_seq"], found["last_seq"]) == (1, newest["seq"])
        assert found["rows"] == newest["seq"]
        assert found["outcomes"] >= 1
        assert found["chain_position"] == found["rows"] + found["outcomes"]
        part = (await rest.client.get("/audit/verification?cluster=prod&from_seq=2&to_seq=3")).json()
        assert (part["ok"], part["first_seq"], part["last_seq"]) == (True, 2, 3)
        row = (await rest.recorded(cluster="prod"))[-3]
        assert (row["seq"], row["hash"]) == (3, part["hash"])


async def test_verification_names_the_first_row_that_does_not_fit(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        await rest.create_topic()
        rows = {row["seq"]: row["id"] for row in await rest.recorded(cluster="prod")}
        await alter(rest, 4)
        found = (await rest.client.get("/audit/verification?cluster=prod")).json()
        assert (found["ok"], found["last_seq"]) == (False, 3)
        mismatch = found["mismatch"]
        assert (mismatch["code"], mismatch["seq"], mismatch["audit_id"]) == ("altered", 4, rows[4])
        before = (await rest.client.get("/audit/verification?cluster=prod&to_seq=3")).json()
        assert before["ok"] is True
        after = (await rest.client.get("/audit/verification?cluster=prod&from_seq=5")).json()
        assert after["ok"] is True


async def test_verification_says_what_it_can_not_do(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        unknown = await rest.client.get("/audit/verification?cluster=nowhere")
        assert problem(unknown) == (404, "cluster_not_found")
        unnamed = await rest.client.get("/audit/verification")
        assert (problem(unnamed), pointers(unnamed)) == ((422, "invalid_request"), ["cluster"])
        backwards = await rest.client.get("/audit/verification?cluster=prod&from_seq=5&to_seq=4")
        assert (problem(backwards), pointers(backwards)) == ((422, "invalid_request"), ["to_seq"])
        rest.sql.down = True
        down = await rest.client.get("/audit/verification?cluster=prod")
        assert problem(down) == (503, "audit_unavailable")
