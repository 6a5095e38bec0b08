"""What brokers and coordinators say of the group, over a connection of its own each time.

Not by librdkafka's admin client: one that was made and dropped for each question ended the whole story once,
by a segmentation fault in its main thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import trio

from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from tests.kit.dataplane.raw import connected


def coordinator_of(group: str, port: int) -> int | None:
    """Return the id of the group's coordinator, as the broker at the port has it; None: it does not know."""
    answer = _ask(port, ApiKey.FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": [group]})
    if answer is None or answer.coordinators[0].error_code != ErrorCode.NONE:
        return None
    return int(answer.coordinators[0].node_id)


def committed_offsets(group: str, topic: str, port: int) -> Mapping[int, int]:
    """Return what the group has committed, by partition, as the coordinator at the port has it; empty: it
    does not serve the group."""
    answer = _ask(port, ApiKey.OFFSET_FETCH, 8, {"groups": [{"group_id": group, "topics": None}]})
    if answer is None or answer.groups[0].error_code != ErrorCode.NONE:
        return {}
    return {
        each.partition_index: each.committed_offset
        for found in answer.groups[0].topics
        if found.name == topic
        for each in found.partitions
    }


def _ask(port: int, api: ApiKey, version: int, fields: dict[str, object]) -> Any:
    """Return the answer, or None if there is none."""

    async def ask() -> Any:
        async with connected(port) as raw:
            return await raw.ask(api, version, fields)

    try:
        return trio.run(ask)
    except (OSError, EOFError, trio.TooSlowError, trio.BrokenResourceError):
        return None
