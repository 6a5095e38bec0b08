"""Follow one request through the product: which files it enters, and by how many calls of functions.

The whole cluster runs in one thread and in virtual time (tests/fullstack): a walk is the same in every run.
What else a cluster does meanwhile (heartbeats, long polls) would count, too. So each walk is taken several
times, and the one with the fewest calls counts. Files of tests are not counted, nor libraries.
"""

from __future__ import annotations

import dis
import json
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import trio

from springtide.wire.apis import ApiKey
from springtide.wire.records import NewRecord, encode_batch
from tests.fullstack.clock import NS_PER_MS
from tests.fullstack.cluster import Cluster
from tests.fullstack.groups import Road
from tests.fullstack.kafka import KafkaConnection
from tests.fullstack.options import Options
from tests.fullstack.run import Result, run_story

ROOT = Path.cwd()
OURS = tuple(
    f"{ROOT / package}/" for package in ("admin_api", "controller", "coordinator", "dataplane", "springtide")
)
#: Called by trio's scheduler for each of its steps, in the name of every process.
SCHEDULERS = "/springtide/node/stall_watch.py"
SEEDS = (1, 2, 3)
TIMES = 12
SHRINKS = 3
SHRINK_BEFORE_MS, SHRINK_AFTER_MS = 4, 3
"""The virtual time around the controller's decision that a shrink counts: the leader proposes before, and
applies after."""
GROUP = "walkers"


@dataclass(slots=True)
class Walk:
    """The product's functions that were called, in their order, and when."""

    calls: list[tuple[int, CodeType]] = field(default_factory=list)

    def between(self, since_ns: int, until_ns: int) -> Walk:
        return Walk([call for call in self.calls if since_ns <= call[0] <= until_ns])

    def figures(self) -> dict[str, int]:
        """Return how many files and calls there are, and how often a call changes the file."""
        files = [code.co_filename for _, code in self.calls]
        changes = sum(one != other for one, other in pairwise(files))
        return {"files": len(set(files)), "calls": len(files), "changes of file": changes}


class Tracer:
    """Notes calls while it is on. A coroutine counts once, however often it is resumed."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._walk = Walk()
        #: Of each code the last instruction at which a call can begin; -1: it is not the product's.
        self._beginnings: dict[CodeType, int] = {}

    def start(self) -> None:
        self._walk = Walk()
        sys.setprofile(self._on_event)

    def stop(self) -> Walk:
        sys.setprofile(None)
        return self._walk

    def _on_event(self, frame: FrameType, event: str, _argument: object) -> None:
        if event != "call":
            return
        code = frame.f_code
        beginning = self._beginnings.get(code)
        if beginning is None:
            beginning = self._beginnings[code] = _beginning(code)
        if frame.f_lasti <= beginning:
            self._walk.calls.append((self._now_ns(), code))


def _beginning(code: CodeType) -> int:
    """Return where a call of the product's code begins: later instructions resume a coroutine. -1: not the
    product's."""
    if (
        not code.co_filename.startswith(OURS)
        or code.co_filename.endswith(SCHEDULERS)
        or code.co_name[0] == "<"
    ):
        return -1
    return next(one.offset for one in dis.get_instructions(code) if one.opname == "RESUME")


class Story:
    """A story for tests/fullstack that takes all walks in one cluster."""

    def __init__(self) -> None:
        self.walks: dict[str, list[Walk]] = {}

    async def __call__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._tracer = Tracer(lambda: cluster.world.now_ns)
        await cluster.form()
        await trio.sleep(3)  # the coordinators' topic is made by itself
        for topic, replicas in (("alone", 1), (cluster.topic, 3)):
            await cluster.operator.create_topic(topic, partitions=1, replication_factor=replicas, configs={})
        await self._produce("Produce, one replica", "alone")
        await self._produce("Produce, acks=all, three brokers", cluster.topic)
        await self._commit()
        await self._shrink()
        await self._post()

    async def _take(self, name: str, step: Callable[[], Awaitable[Any]]) -> Any:
        await trio.sleep(0.07)
        self._tracer.start()
        try:
            return await step()
        finally:
            self._note(name, self._tracer.stop())

    def _note(self, name: str, walk: Walk) -> None:
        self.walks.setdefault(name, []).append(walk)

    async def _produce(self, name: str, topic: str) -> None:
        connection = await self._connect(topic)
        for _ in range(TIMES):
            await self._take(name, partial(self._send, connection, topic))
        connection.close()

    async def _connect(self, topic: str) -> KafkaConnection:
        host = self._cluster.clients
        leader = self._cluster.brokers[self._state(topic).leader].machine.address
        return await KafkaConnection.open(host.life, host.net, (leader, host.bootstrap[0][1]), "walker")

    async def _send(self, connection: KafkaConnection, topic: str, acks: int = -1) -> None:
        records = encode_batch([NewRecord(None, b"a record", self._cluster.clients.life.clock.wall_ms())])
        partition = {"index": 0, "records": records}
        topics = ({"name": topic, "partition_data": (partition,)},)
        asked = {"transactional_id": None, "acks": acks, "timeout_ms": 5_000, "topic_data": topics}
        answer = await connection.call(ApiKey.PRODUCE, asked)
        assert answer.responses[0].partition_responses[0].error_code == 0, answer

    async def _commit(self) -> None:
        road = Road(self._cluster, "walker")
        await road.connection(GROUP)
        for offset in range(TIMES):
            partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
            asked = {
                "group_id": GROUP,
                "generation_id_or_member_epoch": -1,
                "member_id": "",
                "topics": ({"name": self._cluster.topic, "partitions": (partition,)},),
            }
            answer = await self._take("OffsetCommit", partial(road.call, GROUP, ApiKey.OFFSET_COMMIT, asked))
            assert answer.topics[0].partitions[0].error_code == 0, answer
        road.forget()

    async def _shrink(self) -> None:
        """Cut one follower, which lacks a record, off from its leader, but not from the controller, until it
        has left the ISR."""
        cluster, topic = self._cluster, self._cluster.topic
        for _ in range(SHRINKS):
            await cluster.until(lambda: len(self._state(topic).isr) == 3, ms=20_000, what="the ISR is whole")
            await trio.sleep(1)
            leader = self._state(topic).leader
            names = [cluster.brokers[one].name for one in self._state(topic).isr if one != leader]
            ends = cluster.brokers[leader].name, names[0]
            for one, other in (ends, ends[::-1]):
                cluster.network.cut(one, other)
            connection = await self._connect(topic)
            await self._send(connection, topic, acks=1)
            connection.close()
            self._tracer.start()
            try:
                while len(self._state(topic).isr) == 3:  # noqa: ASYNC110 - the whole run has a limit
                    await trio.sleep(0.0005)
                decided_ns = cluster.world.now_ns
                await trio.sleep(SHRINK_AFTER_MS / 1_000)
            finally:
                walk = self._tracer.stop()
            until_ns = decided_ns + SHRINK_AFTER_MS * NS_PER_MS
            self._note("ISR shrink", walk.between(decided_ns - SHRINK_BEFORE_MS * NS_PER_MS, until_ns))
            cluster.network.mend_all()

    async def _post(self) -> None:
        spare, port = self._cluster.spare, self._cluster.clients.bootstrap[0][1]
        assert spare is not None
        await self._cluster.until(
            lambda: spare.broker is not None and spare.broker_epoch >= 0,
            ms=20_000,
            what="the spare one registered",
        )
        body = {
            "brokers": [{"broker_id": spare.broker_id, "endpoint": f"{spare.machine.address}:{port}"}],
            "reason": "a walk",
        }
        ask = partial(
            self._cluster.operator.ask, "POST", f"/clusters/{self._cluster.name}/brokers", body, tries=1
        )
        await self._take("POST of brokers", ask)

    def _state(self, topic: str) -> Any:
        published = self._cluster.published()
        assert published is not None
        return next(one for one in published.image.partitions.values() if one.topic == topic)


def take_walks(seeds: Sequence[int] = SEEDS) -> dict[str, dict[str, int]]:
    """Return the figures of each walk's shortest. A story's first makes what others find: it counts alone."""
    found: dict[str, list[Walk]] = {}
    for seed in seeds:
        story = Story()
        result = run_story(Result(seed=seed, options=Options(coordinators=2, spare=True)), story, draw=False)
        assert not result.failures, result.report()
        for name, walks in story.walks.items():
            found.setdefault(name, []).extend(walks[1:] or walks)
    return {name: min(walks, key=lambda walk: len(walk.calls)).figures() for name, walks in found.items()}


if __name__ == "__main__":
    print(json.dumps(take_walks(), indent=2))
