"""Members of groups as a raw load: a thousand of them in one process, one connection each or shared."""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Self

from bench.protocol import BadAnswer, decode_answer, encode_question
from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode

SESSION_MS, REBALANCE_MS = 300_000, 60_000
"""The first of ten thousand members waits for the last before it sends heartbeats."""
AGAIN_SECONDS = 0.05
TRIES_MAX = 600
_SIZE = struct.Struct(">i")
_LOADING = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
}

Address = tuple[str, int]


class Wire:
    """One connection; questions may be asked while others wait, answers come in their order."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._waiting: deque[tuple[ApiKey, asyncio.Future[Any]]] = deque()
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def open(cls, address: Address) -> Self:
        return cls(*await asyncio.open_connection(*address))

    async def ask(self, api: ApiKey, fields: Mapping[str, object]) -> Any:
        """Return the answer. Raise BadAnswer, also if the connection has ended before."""
        if self._reading.done():
            raise BadAnswer("the connection has ended")
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append((api, answer))
        self._writer.write(encode_question(api, fields))
        return await answer

    async def _read(self) -> None:
        try:
            while True:
                (size,) = _SIZE.unpack(await self._reader.readexactly(_SIZE.size))
                frame = memoryview(await self._reader.readexactly(size))
                api, answer = self._waiting.popleft()
                answer.set_result(decode_answer(api, frame))
        except (OSError, asyncio.IncompleteReadError, BadAnswer) as error:
            for _, answer in self._waiting:
                answer.set_exception(BadAnswer(f"the connection ended: {error!r}"))

    async def close(self) -> None:
        self._reading.cancel()
        self._writer.close()


class Member:
    """A member of a group of the classic protocol, whose assignments are empty."""

    def __init__(self, group: str, wire: Wire) -> None:
        self.group, self.wire = group, wire
        self.member_id = ""
        self.generation = -1

    async def join(self) -> None:
        """Join, and sync, until it is a member of a generation that is assigned."""
        for _ in range(TRIES_MAX):
            joined = await self.wire.ask(
                ApiKey.JOIN_GROUP,
                {
                    "group_id": self.group,
                    "session_timeout_ms": SESSION_MS,
                    "rebalance_timeout_ms": REBALANCE_MS,
                    "member_id": self.member_id,
                    "protocol_type": "consumer",
                    "protocols": [{"name": "range", "metadata": b""}],
                },
            )
            self.member_id = joined.member_id or self.member_id
            if joined.error_code == ErrorCode.NONE:
                self.generation = joined.generation_id
                synced = await self._sync([each.member_id for each in joined.members])
                if synced == ErrorCode.NONE:
                    return
            elif joined.error_code in _LOADING:
                await asyncio.sleep(AGAIN_SECONDS)
            elif joined.error_code not in (ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.REBALANCE_IN_PROGRESS):
                raise BadAnswer(f"JoinGroup was answered with {joined.error_code}")
        raise BadAnswer(f"{self.group} did not come to rest")

    async def _sync(self, members: Sequence[str]) -> int:
        synced = await self.wire.ask(
            ApiKey.SYNC_GROUP,
            {
                **self._named(),
                "protocol_type": "consumer",
                "protocol_name": "range",
                "assignments": [{"member_id": each, "assignment": b""} for each in members],
            },
        )
        return int(synced.error_code)

    async def beat(self) -> int:
        return int((await self.wire.ask(ApiKey.HEARTBEAT, self._named())).error_code)

    async def commit(self, topic: str, partition: int, offset: int) -> None:
        answer = await self.wire.ask(
            ApiKey.OFFSET_COMMIT,
            {
                "group_id": self.group,
                "generation_id_or_member_epoch": self.generation,
                "member_id": self.member_id,
                "topics": [
                    {
                        "name": topic,
                        "partitions": [
                            {
                                "partition_index": partition,
                                "committed_offset": offset,
                                "committed_leader_epoch": -1,
                                "committed_metadata": "",
                            }
                        ],
                    }
                ],
            },
        )
        error = answer.topics[0].partitions[0].error_code
        if error != ErrorCode.NONE:
            raise BadAnswer(f"OffsetCommit was answered with {error}")

    def _named(self) -> dict[str, object]:
        return {"group_id": self.group, "generation_id": self.generation, "member_id": self.member_id}


async def find_coordinators(bootstrap: Address, groups: Sequence[str]) -> dict[str, Address]:
    """Return where each group's coordinator listens; wait until all have one."""
    wire = await Wire.open(bootstrap)
    found: dict[str, Address] = {}
    for _ in range(TRIES_MAX):
        asked = [group for group in groups if group not in found]
        if not asked:
            await wire.close()
            return found
        answer = await wire.ask(ApiKey.FIND_COORDINATOR, {"key_type": 0, "coordinator_keys": asked})
        for each in answer.coordinators:
            if each.error_code == ErrorCode.NONE:
                found[each.key] = (each.host, each.port)
        await asyncio.sleep(AGAIN_SECONDS)
    raise BadAnswer("not every group has a coordinator")
