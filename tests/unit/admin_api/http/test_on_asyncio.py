from __future__ import annotations

import pytest

from tests.kit.admin_api.rest import controller
from tests.kit.memory.zookeeper import MemoryZooKeeper


@pytest.fixture
def anyio_backend() -> str:
    """What uvicorn runs on; every other test here runs on trio."""
    return "asyncio"


@pytest.mark.anyio
async def test_the_same_application_serves_on_asyncio(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper, run_outbox=True) as rest:
        await rest.form()
        created = await rest.create_topic()
        shown = await rest.client.get("/clusters/prod/topics/orders")
        assert shown.json() == created | {"readers": []}
        deleted = await rest.client.delete("/clusters/prod/topics/orders")
        assert deleted.status_code == 202
        rows = await rest.recorded(topic="orders", kind="change")
        assert [row["cause"] for row in rows if row["entity"] == "topic"] == [
            "topic_deletion_started",
            "topic_created",
        ]
