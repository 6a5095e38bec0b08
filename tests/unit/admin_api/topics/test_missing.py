"""What REST tells of topics that clients ask for and that are not there."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from admin_api.http.models import timestamp
from admin_api.topics.missing import OLD_MS
from springtide.contract.missing_topics import OTHERS, MissingTopic
from tests.kit.admin_api.rest import Rest, controller
from tests.kit.memory.zookeeper import MemoryZooKeeper

pytestmark = pytest.mark.anyio

URL = "/clusters/prod/missing-topics"


async def listed(rest: Rest) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = (await rest.client.get(URL)).json()["items"]
    return items


async def test_what_brokers_tell_is_one_list_until_it_is_mended(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await rest.form()
        now_ms = rest.clock.now_wall_ms()
        lines = MissingTopic(
            topic="lines",
            asked=40,
            since_ms=now_ms - 60_000,
            last_ms=now_ms - 1_000,
            client_id="rsyslog",
            software="librdkafka 2.6.1",
        )
        brokers[0].missing_topics = (lines, msgspec.structs.replace(lines, topic=OTHERS, client_id=""))
        later = msgspec.structs.replace(lines, asked=2, since_ms=now_ms - 90_000, last_ms=now_ms)
        brokers[1].missing_topics = (later,)
        for broker in brokers:
            await broker.heartbeat()
        others, found = await listed(rest)
        assert (others["topic"], others["nodes"]) == (OTHERS, [1])
        assert found == {
            "topic": "lines",
            "asked": 42,
            "since": timestamp(now_ms - 90_000),
            "last_asked": timestamp(now_ms),
            "clients": [{"client_id": "rsyslog", "software": "librdkafka 2.6.1"}],
            "nodes": [1, 2],
        }
        await rest.post("/topics", {"name": "lines", "partitions": 1})
        assert [each["topic"] for each in await listed(rest)] == [OTHERS]
        brokers[0].missing_topics = ()
        await brokers[0].heartbeat()
        assert await listed(rest) == []


async def test_the_word_of_a_broker_that_is_gone_ages_and_that_of_a_stranger_is_not_taken(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        broker, *_ = await rest.form()
        now_ms = rest.clock.now_wall_ms()
        told = MissingTopic(
            topic="lines", asked=3, since_ms=now_ms, last_ms=now_ms, client_id="", software="unknown"
        )
        broker.missing_topics = (
            told,
            msgspec.structs.replace(told, topic="old", last_ms=now_ms - OLD_MS - 1),
        )
        await broker.heartbeat()
        assert [each["topic"] for each in await listed(rest)] == ["lines"]
        broker.missing_topics = ()
        broker.broker_epoch -= 1
        await broker.heartbeat()
        assert [each["topic"] for each in await listed(rest)] == ["lines"], "an earlier process said so"
