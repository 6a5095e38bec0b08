"""Sessions of consumers that name topics (before Fetch 13), as kafka-python and older clients have them.

IK#762: there such a session was answered with ids.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from tests.kit.dataplane.clients_in_threads import produce
from tests.kit.dataplane.cluster_in_process import ClusterInProcess, cluster_in_process
from tests.kit.dataplane.raw import Raw, connected


async def fetch(
    raw: Raw, session_id: int, epoch: int, *topics: str, offset: int = 0, wait_ms: int = 0
) -> Any:
    """Return the answer to a fetch of the topics' first partitions."""
    partition = {
        "partition": 0,
        "current_leader_epoch": -1,
        "fetch_offset": offset,
        "last_fetched_epoch": -1,
        "partition_max_bytes": 1 << 20,
    }
    fields: dict[str, object] = {
        "replica_id": -1,
        "max_wait_ms": wait_ms,
        "session_id": session_id,
        "session_epoch": epoch,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "topics": [{"topic": name, "partitions": [partition]} for name in topics],
    }
    return await raw.ask(ApiKey.FETCH, 12, fields)


def told(answer: Any) -> dict[str, tuple[int, bool]]:
    """Return the error of each topic, and whether there were records."""
    return {
        topic.topic: (topic.partitions[0].error_code, bool(topic.partitions[0].records))
        for topic in answer.responses
    }


async def fill(cluster: ClusterInProcess, name: str) -> None:
    cluster.controller.create_topic(name, ((1,),))
    await produce(cluster.bootstrap(), name, [b"x"])


def test_a_session_goes_on_to_what_its_names_stand_for(tmp_path: Path) -> None:
    """A topic that was created, or deleted and made anew, since the client named it: the client, which has
    nothing new to ask, would hear no more of it."""

    async def run() -> None:
        async with cluster_in_process(tmp_path) as cluster:
            await cluster.form(1)
            await fill(cluster, "old")
            async with connected(cluster.brokers[1].port) as raw:
                begun = await fetch(raw, 0, 0, "old", "new")
                assert told(begun) == {
                    "old": (ErrorCode.NONE, True),
                    "new": (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, False),
                }
                await fill(cluster, "new")
                ended = await fetch(raw, begun.session_id, 1)
                assert ended.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
                again = await fetch(raw, 0, 0, "old", "new")
                assert told(again) == {"old": (ErrorCode.NONE, True), "new": (ErrorCode.NONE, True)}
                cluster.controller.delete_topic("old")
                view = cluster.brokers[1].broker.view
                await cluster.controller.wait_for(lambda: view.topic_by_name("old") is None, "it is gone")
                ended = await fetch(raw, again.session_id, 1)
                assert ended.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
                last = await fetch(raw, 0, 0, "old", "new")
                assert told(last)["old"] == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, False)
                assert told(await fetch(raw, last.session_id, 1))["new"] == (ErrorCode.NONE, True)

    trio.run(run)


@pytest.mark.parametrize("has_session", [False, True])
def test_what_waits_at_the_end_of_a_topic_is_told_by_its_name_that_it_is_deleted(
    tmp_path: Path, *, has_session: bool
) -> None:
    """It was told of an unknown topic id, of a topic without a name (found by kafka-go's own tests)."""

    async def run() -> None:
        async with cluster_in_process(tmp_path) as cluster:
            await cluster.form(1)
            await fill(cluster, "old")
            async with connected(cluster.brokers[1].port) as raw, trio.open_nursery() as nursery:
                session = 0, -1
                if has_session:  # whose first answer is not waited for
                    session = (await fetch(raw, 0, 0, "old", offset=1)).session_id, 1

                @nursery.start_soon
                async def wait() -> None:
                    answer = await fetch(raw, *session, "old", offset=1, wait_ms=30_000)
                    assert told(answer) == {"old": (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, False)}

                await trio.sleep(0.2)
                cluster.controller.delete_topic("old")

    trio.run(run)
