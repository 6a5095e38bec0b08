"""Commits of another group in the same shard: a coordinator that takes the shard over has much to read."""

from __future__ import annotations

from itertools import count

import trio

from controller.core.shards import SHARDS
from springtide.node.sharding import shard_of
from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from tests.kit.coordinator.commits import commit_fields
from tests.kit.dataplane.raw import connected, request

COMMIT, COMMIT_VERSION = ApiKey.OFFSET_COMMIT, 7
IN_FLIGHT = 16
RECORD_BYTES = 60
"""What a commit of one partition takes in the shard's log, with its part of the batch's header (measured)."""


def neighbour_of(group: str, name: str = "neighbour") -> str:
    """Return the id of another group that is in the same shard: the name, and a number."""
    names = (f"{name}-{number}" for number in count())
    return next(name for name in names if shard_of(name, SHARDS) == shard_of(group, SHARDS))


def fill_shard(port: int, group: str, topic: str, partitions: int, size_bytes: int) -> int:
    """Commit for a neighbour of the group until the shard has grown by about so much; return how many
    requests that took."""
    requests = size_bytes // (RECORD_BYTES * partitions)
    trio.run(_commit_often, port, neighbour_of(group), topic, partitions, requests)
    return requests


async def _commit_often(port: int, group: str, topic: str, partitions: int, requests: int) -> None:
    fields = commit_fields(group, topic, dict.fromkeys(range(partitions), 1))
    async with connected(port) as wire:
        taken = await wire.ask(COMMIT, COMMIT_VERSION, fields)
        assert {each.error_code for each in taken.topics[0].partitions} == {ErrorCode.NONE}
        again = request(COMMIT, COMMIT_VERSION, fields)
        await wire.send(again)
        like_this = await wire.frame()
        for number in range(requests + IN_FLIGHT):
            if number < requests:
                await wire.send(again)
            if number >= IN_FLIGHT:
                assert await wire.frame() == like_this
