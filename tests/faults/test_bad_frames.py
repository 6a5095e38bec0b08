"""A hundred thousand bad frames on live connections, beside a good client that must not notice.

Random bytes, mutations of every well-formed request, and the classes that break parsers, sent from several
connections at once. Each frame is followed by a small valid request as a probe: either the probe is
answered (the connection survived) or the broker has closed. Neither within the bound is a failure, as are a
dead process, memory that grows with the number of frames, and a good client that loses or waits.
"""

from __future__ import annotations

import asyncio
import random
import struct
import time
from collections import Counter
from dataclasses import dataclass, field

import psutil
import pytest

from localcluster.cluster import LocalCluster
from localcluster.load import ClientLoad, ends_of, read_everything
from localcluster.ports import LOOPBACK
from localcluster.verdict import judge, longest_silence
from tests.faults import frames

SEED = 20131
CONNECTIONS = 16
ANSWER_SECONDS_MAX = 30.0
WAITING_SECONDS = 5.0
"""For a frame that says it goes on: the broker waits for the rest."""
FRAME_BYTES_MAX = 1 << 22
GROWTH_BYTES_MAX = 32 << 20
GROWTH_BYTES_MAX_PER_FRAME = 640
"""RSS may grow by caches and allocator slack; a leak of a kilobyte a frame would pass both together."""

GOOD_RECORDS_PER_SECOND = 200
GOOD_SILENCE_SECONDS_MAX = 10.0
PROBE_ID = 0x5EED5EED


def random_bytes(rng: random.Random, topic: str) -> bytes:
    return frames.frame(rng.randbytes(rng.randrange(0, 200)))


def random_body(rng: random.Random, topic: str) -> bytes:
    api_key = rng.choice([0, 1, 2, 3, 10, 18, 22, 23])
    return frames.frame(frames.request(api_key, rng.randrange(0, 18), rng.randbytes(rng.randrange(0, 120))))


def flipped_bits(rng: random.Random, topic: str) -> bytes:
    payload = bytearray(rng.choice(frames.valid_requests(topic)))
    for _ in range(rng.randrange(1, 6)):
        payload[rng.randrange(len(payload))] ^= 1 << rng.randrange(8)
    return frames.frame(bytes(payload))


def wild_number(rng: random.Random, topic: str) -> bytes:
    payload = bytearray(rng.choice(frames.valid_requests(topic)))
    at = rng.randrange(8, len(payload))
    number = rng.choice([2**31 - 1, -1, -2, -(2**31), 2**24, 0x7FFF7FFF])
    payload[at : at + 4] = struct.pack(">i", number)
    return frames.frame(bytes(payload))


def cut_short(rng: random.Random, topic: str) -> bytes:
    payload = rng.choice(frames.valid_requests(topic))
    return frames.frame(payload[: rng.randrange(len(payload))])


def junk_behind(rng: random.Random, topic: str) -> bytes:
    return frames.frame(rng.choice(frames.valid_requests(topic)) + rng.randbytes(rng.randrange(1, 40)))


def spliced(rng: random.Random, topic: str) -> bytes:
    one, other = rng.sample(frames.valid_requests(topic), 2)
    return frames.frame(one[: rng.randrange(len(one))] + other[rng.randrange(len(other)) :])


def bad_size(rng: random.Random, topic: str) -> bytes:
    return struct.pack(">i", rng.choice([-1, -(2**31), 2**31 - 1, 1 << 30])) + rng.randbytes(20)


def bad_batch(rng: random.Random, topic: str) -> bytes:
    """A valid Produce around a batch that is broken after its CRC was computed, or before."""
    batch = bytearray(frames.Batch().encode())
    if rng.random() < 0.5:
        batch[rng.randrange(len(batch))] ^= 1 << rng.randrange(8)
        return frames.frame(frames.produce(topic, bytes(batch)))
    broken = frames.Batch(
        records=rng.randbytes(rng.randrange(0, 100)),
        count=rng.choice([-1, 0, 1, 2, 2**31 - 1]),
        last_offset_delta=rng.choice([-1, 0, 1, 2**31 - 1]),
        attributes=rng.randrange(-(2**15), 2**15),
        producer_id=rng.choice([-1, 0, 2**62]),
        producer_epoch=rng.choice([-1, 0, 2**15 - 1]),
        base_sequence=rng.choice([-1, 0, 2**31 - 1]),
    )
    return frames.frame(frames.produce(topic, broken.encode()))


KINDS = [
    random_bytes,
    random_body,
    flipped_bits,
    wild_number,
    cut_short,
    junk_behind,
    spliced,
    bad_size,
    bad_batch,
]


def may_wait(raw: bytes) -> bool:
    """A Fetch may legally wait for as long as it asks, and a Produce for its timeout: mutation can make it
    long."""
    return len(raw) >= 6 and struct.unpack_from(">h", raw, 4)[0] in (frames.FETCH, frames.PRODUCE)


@dataclass
class Tally:
    outcomes: Counter[str] = field(default_factory=Counter)
    stuck: list[bytes] = field(default_factory=list)


class Attacker:
    """One connection at a time, renewed whenever the broker closes it."""

    def __init__(self, port: int, topic: str, seed: int, tally: Tally) -> None:
        self._port = port
        self._topic = topic
        self._rng = random.Random(seed)
        self._tally = tally
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def run(self, count: int) -> None:
        for _ in range(count):
            raw = self._rng.choice(KINDS)(self._rng, self._topic)
            try:
                async with asyncio.timeout(WAITING_SECONDS if may_wait(raw) else ANSWER_SECONDS_MAX):
                    outcome = await self._send(raw)
            except TimeoutError:
                outcome = "waits"
                if not may_wait(raw):
                    self._tally.stuck.append(raw)
            if outcome != "answered":
                self._hang_up()
            self._tally.outcomes[outcome] += 1
        self._hang_up()

    async def _send(self, raw: bytes) -> str:
        if self._streams is None:
            self._streams = await asyncio.open_connection(LOOPBACK, self._port)
        reader, writer = self._streams
        try:
            writer.write(raw + frames.frame(frames.api_versions(correlation_id=PROBE_ID)))
            await writer.drain()
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                assert 4 <= size <= FRAME_BYTES_MAX, f"an answer of {size} bytes"
                answer = await reader.readexactly(size)
                if answer[:4] == struct.pack(">i", PROBE_ID):
                    return "answered"
        except (ConnectionError, asyncio.IncompleteReadError):
            return "closed"

    def _hang_up(self) -> None:
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None


async def attack(port: int, topic: str, count: int) -> Tally:
    tally = Tally()
    async with asyncio.TaskGroup() as group:
        for index in range(CONNECTIONS):
            group.create_task(Attacker(port, topic, SEED + index, tally).run(count // CONNECTIONS))
    return tally


def rss_bytes(cluster: LocalCluster, broker_id: int) -> int:
    return int(psutil.Process(cluster.brokers[broker_id].process.pid).memory_info().rss)


def run_attack(cluster: LocalCluster, topic: str, good_topic: str, count: int) -> None:
    broker_id = cluster.leader(topic, 0)
    port = cluster.brokers[broker_id].port
    pids = {process.name: process.pid for process in cluster.processes}
    asyncio.run(
        attack(port, topic, max(CONNECTIONS, count // 20))
    )  # Warm: caches and code paths are not a leak.
    before = rss_bytes(cluster, broker_id)

    load = ClientLoad(
        bootstrap_servers=cluster.bootstrap_servers,
        topic=good_topic,
        partitions=3,
        records_per_second=GOOD_RECORDS_PER_SECOND,
    )
    with load:
        cluster.wait_until("the good client writes", lambda: len(ends_of(load.acknowledged)) == 3)
        started_at = time.monotonic()
        tally = asyncio.run(attack(port, topic, count))
        ended_at = time.monotonic()
    growth = rss_bytes(cluster, broker_id) - before
    silence = longest_silence(load.acknowledged, since=started_at, until=ended_at)
    print(
        f"{tally.outcomes.total()} bad frames in {ended_at - started_at:.1f} s: {dict(tally.outcomes)}; "
        f"RSS grew by {growth / 1e6:.1f} MB; the good client waited {silence * 1000:.0f} ms at most"
    )
    cluster.require_alive()
    assert {process.name: process.pid for process in cluster.processes} == pids
    assert tally.stuck == []
    assert growth < GROWTH_BYTES_MAX + count * GROWTH_BYTES_MAX_PER_FRAME
    assert silence < GOOD_SILENCE_SECONDS_MAX
    read = read_everything(
        bootstrap_servers=cluster.bootstrap_servers,
        topic=good_topic,
        partitions=3,
        at_least=ends_of(load.acknowledged),
    )
    verdict = judge(load.acknowledged, read)
    assert verdict.is_clean, verdict.describe()
    assert load.failed == []


@pytest.fixture
def topics(running_cluster: LocalCluster) -> tuple[str, str]:
    """One that is attacked and one that a good client writes to."""
    names = (f"attacked-{time.time_ns()}", f"good-{time.time_ns()}")
    for name, partitions in zip(names, (1, 3), strict=True):
        running_cluster.create_topic(name, partitions=partitions, replication_factor=3)
    return names


@pytest.mark.timeout(300)
def test_a_few_thousand_bad_frames_harm_nobody(
    running_cluster: LocalCluster, topics: tuple[str, str]
) -> None:
    run_attack(running_cluster, *topics, count=2_000)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_hundred_thousand_bad_frames_harm_nobody(
    running_cluster: LocalCluster, topics: tuple[str, str], bad_frames: int
) -> None:
    run_attack(running_cluster, *topics, count=bad_frames)
