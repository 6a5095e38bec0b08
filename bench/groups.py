"""Groups beside Apache Kafka: `python -m bench groups [--kafka-home DIR] [--quick]`.

Three brokers on each side, and on ours three coordinators beside them, whose processor time and memory count
as the brokers' do. One group of a thousand members of the classic protocol, a connection each: how long until
all have an assignment (Kafka's initial delay of three seconds is in it), how long a rebalance takes when one
more comes, and how many commits a second the members get, each of one partition and one after the other. Then
ten thousand groups of one member each that do nothing but send heartbeats.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import count
from typing import Final

from bench.asking import first_address
from bench.command import Narrator, add_kafka_home, add_output, add_quick
from bench.figures import latency_percentiles_ms
from bench.group_load import Address, Member, Wire, find_coordinators
from bench.kafka import Kafka
from bench.machine import keep, machine_facts
from bench.processor_time import cpu_seconds, largest_rss_bytes
from bench.report import side_by_side
from bench.sides import KEEP_ALL, Side, Springtide
from springtide.wire.errors import ErrorCode

TOPIC, PARTITIONS = "orders", 100
BEAT_SECONDS, IDLE_BEAT_SECONDS = 1.0, 3.0
IDLE_CONNECTIONS = 20
JOINING_MAX = 1_000
MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Size:
    members: int
    commit_seconds: float
    groups: int
    idle_seconds: float


SIZES = {False: Size(1_000, 10.0, 10_000, 20.0), True: Size(50, 2.0, 200, 4.0)}


@dataclass(slots=True)
class Figures:
    """What was measured on one side. Less is better but for commits_per_second."""

    join_s: float = 0.0
    rebalance_s: float = 0.0
    commits_per_second: float = 0.0
    commit_p50_ms: float | None = None
    commit_p99_ms: float | None = None
    commit_cpu_us: float = 0.0
    idle_cpu_percent: float = 0.0
    idle_mib: float = 0.0


UNITS: Final = {
    "join_s": "all members have an assignment after, s",
    "rebalance_s": "and one more, s",
    "commits_per_second": "commits a second",
    "commit_p50_ms": "a commit takes, p50 ms",
    "commit_p99_ms": "a commit takes, p99 ms",
    "commit_cpu_us": "processor time of a commit, µs",
    "idle_cpu_percent": "idle groups, processor time, % of a core",
    "idle_mib": "idle groups, memory of the largest process, MiB more",
}
MORE_IS_BETTER: Final = frozenset({"commits_per_second"})


async def measure(side: Side, size: Size, tell: Narrator) -> Figures:
    """Run the load against a side. Raise BadAnswer."""
    bootstrap = first_address(side.bootstrap_servers)
    figures = Figures()
    await _one_large_group(bootstrap, side.broker_pids, size, figures, tell)
    await _many_small_groups(bootstrap, side.broker_pids, size, figures, tell)
    return figures


async def _one_large_group(
    bootstrap: Address, pids: Sequence[int], size: Size, figures: Figures, tell: Narrator
) -> None:
    group = "large"
    coordinator = (await find_coordinators(bootstrap, [group]))[group]
    members = [Member(group, await Wire.open(coordinator)) for _ in range(size.members)]
    tell(f"{size.members} members join")
    began = time.monotonic()
    await asyncio.gather(*(member.join() for member in members))
    await _settle(members)
    figures.join_s = time.monotonic() - began
    tell(f"joined after {figures.join_s:.1f} s; one more")
    another = Member(group, await Wire.open(coordinator))
    began = time.monotonic()
    await asyncio.gather(another.join(), *(_beat_until_rebalanced(member) for member in members))
    members.append(another)
    await _settle(members)
    figures.rebalance_s = time.monotonic() - began
    tell(f"rebalanced after {figures.rebalance_s:.1f} s; commits")
    took: list[float] = []
    cpu_s, began = cpu_seconds(pids), time.monotonic()
    ends_at = began + size.commit_seconds
    await asyncio.gather(
        *(_commit_until(member, number % PARTITIONS, ends_at, took) for number, member in enumerate(members))
    )
    elapsed = time.monotonic() - began
    figures.commits_per_second = len(took) / elapsed
    figures.commit_p50_ms, figures.commit_p99_ms = latency_percentiles_ms(took)
    figures.commit_cpu_us = (cpu_seconds(pids) - cpu_s) / len(took) * 1e6
    for member in members:
        await member.wire.close()


async def _settle(members: Sequence[Member]) -> None:
    """Join again, all that were overtaken by a later generation, until none is."""
    while True:
        errors = await asyncio.gather(*(member.beat() for member in members))
        overtaken = [member for member, error in zip(members, errors, strict=True) if error != ErrorCode.NONE]
        if not overtaken:
            return
        await asyncio.gather(*(member.join() for member in overtaken))


async def _beat_until_rebalanced(member: Member) -> None:
    while True:
        if await member.beat() == ErrorCode.REBALANCE_IN_PROGRESS:
            return await member.join()
        await asyncio.sleep(BEAT_SECONDS)


async def _commit_until(member: Member, partition: int, ends_at: float, took: list[float]) -> None:
    for offset in count():
        began = time.monotonic()
        if began >= ends_at:
            return
        await member.commit(TOPIC, partition, offset)
        took.append(time.monotonic() - began)


async def _many_small_groups(
    bootstrap: Address, pids: Sequence[int], size: Size, figures: Figures, tell: Narrator
) -> None:
    groups = [f"small-{number}" for number in range(size.groups)]
    coordinators = await find_coordinators(bootstrap, groups)
    wires = {
        address: [await Wire.open(address) for _ in range(IDLE_CONNECTIONS)]
        for address in set(coordinators.values())
    }
    before = largest_rss_bytes(pids)
    tell(f"{size.groups} groups of one member")
    members = []
    for number in range(0, len(groups), JOINING_MAX):
        joining = groups[number : number + JOINING_MAX]
        members += await asyncio.gather(*(_joined_alone(group, coordinators[group]) for group in joining))
    for number, member in enumerate(members):
        member.wire = wires[coordinators[member.group]][number % IDLE_CONNECTIONS]
    tell("all have joined; heartbeats")
    cpu_s, began = cpu_seconds(pids), time.monotonic()
    ends_at = began + size.idle_seconds
    await asyncio.gather(
        *(_beat_until(member, number / len(members), ends_at) for number, member in enumerate(members))
    )
    figures.idle_cpu_percent = (cpu_seconds(pids) - cpu_s) / (time.monotonic() - began) * 100
    figures.idle_mib = (largest_rss_bytes(pids) - before) / MIB
    for each in wires.values():
        for wire in each:
            await wire.close()


async def _joined_alone(group: str, coordinator: Address) -> Member:
    """Return a member that has joined over a connection of its own: Kafka answers nothing else on one on
    which a member waits for its group."""
    member = Member(group, await Wire.open(coordinator))
    await member.join()
    await member.wire.close()
    return member


async def _beat_until(member: Member, phase: float, ends_at: float) -> None:
    """Beat at its own time within the interval: phase is a part of it."""
    await asyncio.sleep(phase * IDLE_BEAT_SECONDS)
    while time.monotonic() < ends_at:
        await member.beat()
        await asyncio.sleep(IDLE_BEAT_SECONDS)


def add_options(parser: argparse.ArgumentParser) -> None:
    add_quick(parser, "few members: only to see that it runs")
    add_kafka_home(parser)
    add_output(parser, "groups-bench")


def run(options: argparse.Namespace) -> int:
    tell = Narrator()
    found: dict[str, Figures] = {}
    sides: list[Side] = [Springtide(tell, coordinators=3)]
    if options.kafka_home is not None:
        sides.append(Kafka(options.kafka_home, tell))
    for side in sides:
        with side:
            side.create_topic(TOPIC, partitions=PARTITIONS, retention_bytes=KEEP_ALL)
            found[side.name] = asyncio.run(measure(side, SIZES[options.quick], tell))
    figures = {name: asdict(one) for name, one in found.items()}
    print(side_by_side(figures, UNITS, more_is_better=MORE_IS_BETTER))
    keep(options.output, {"machine": machine_facts(), "quick": options.quick, **figures})
    return 0
