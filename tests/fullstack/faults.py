"""Faults: the schedules of tests/simulation strike here, too, and some that only whole processes can have.

Strikes of both kinds are the same values. The kinds that the two simulations share are taken from there as
they are, for this cluster answers to the same names; those below need real files, real connections or real
requests.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from dataplane.storage.segment import log_path
from tests.fullstack import families, topics_made_again
from tests.fullstack.families import register_in
from tests.simulation import faults as shared
from tests.simulation.kinds_brokers import DOWN_MS, any_broker, draw_ms
from tests.simulation.schedule import KINDS, Arguments, Kind, Strike

if TYPE_CHECKING:
    from tests.fullstack.cluster import Cluster

FAMILY_PACE_MS = 2_000
MADE_AGAIN = 0.2
"""Share of the seeds in which topics are made again; what draws it draws nothing else, so that the others are
what they were before."""
MOMENT_PACE_MS = 400
"""Of a family that mostly has to wait for a moment at which it may strike."""
assert shared.MODULES  # imported for its kinds
SHARED = {
    name: KINDS[name]
    for name in (
        "kill_broker",
        "kill_leader",
        "power_cut",
        "replace_disk",
        "reattach_disk",
        "old_disk",
        "stop_broker",
        "pause_broker",
        "pause_leader",
        "cut_both_ways",
        "cut_one_way",
        "isolate_from_controllers",
        "isolate_from_brokers",
        "bad_network",
        "kill_controller",
        "pause_controller",
        "expire_session",
        "lose_zookeeper_answers",
        "zookeeper_outage",
    )
}
OF_COORDINATORS = {name: kind for name, kind in KINDS.items() if kind.needs == "coordinators"}
COORDINATORS_PACE_MS = (1_000, 1_500, 3_000)
OWN: dict[str, Kind] = {}
_own = register_in(OWN)


def _draw_pair(cluster: Cluster, random: Random) -> Arguments | None:
    one, other = random.sample([*cluster.node_names, cluster.clients.machine.name], 2)
    return {"one": one, "other": other}


@_own(_draw_pair)
def reset_connections(cluster: Cluster, *, one: str, other: str) -> bool:
    """A middlebox forgets all connections of two machines."""
    count = cluster.network.reset_between(one, other)
    cluster.world.note(f"{count} connections of {one} and {other} are reset")
    return count > 0


def _draw_isolated_client(cluster: Cluster, random: Random) -> Arguments | None:
    broker = any_broker(cluster, random)  # type: ignore[arg-type]
    if broker is None:
        return None
    ways = random.choice(["both", "to", "from"])
    return {"broker": broker.broker_id, "ways": ways, "for_ms": random.randint(200, 6_000)}


@_own(_draw_isolated_client)
def isolate_from_clients(cluster: Cluster, *, broker: int, ways: str, for_ms: int) -> bool:
    name, clients = cluster.brokers[broker].name, cluster.clients.machine.name
    pairs = [(name, clients)] if ways != "from" else []
    pairs += [(clients, name)] if ways != "to" else []
    for source, target in pairs:
        cluster.network.cut(source, target)
    cluster.world.note(f"cut {pairs}")

    def mend() -> None:
        for source, target in pairs:
            cluster.network.mend(source, target)

    cluster.ongoing.begin(nodes=(name,), for_ms=for_ms, end=mend)
    return True


def _draw_kill_writing(cluster: Cluster, random: Random) -> Arguments | None:
    broker = any_broker(cluster, random)  # type: ignore[arg-type]
    if broker is None:
        return None
    return {
        "broker": broker.broker_id,
        "changes": random.randint(0, 40),
        "is_next_life": random.random() < 0.5,
        "for_ms": draw_ms(random, DOWN_MS),
    }


@_own(_draw_kill_writing)
def kill_while_writing(
    cluster: Cluster, *, broker: int, changes: int, is_next_life: bool, for_ms: int
) -> bool:
    """The process dies in the middle of a disk operation: of this life, or, after a kill, of the recovery
    that follows. What supervises it starts it again."""
    node = cluster.brokers[broker]
    if not node.is_up or node.disk is None:
        return False
    if is_next_life:
        node.kill_at = changes
        node.crash()
    else:
        node.disk.kill_at = changes

    def back() -> None:
        if node.disk is not None:
            node.disk.kill_at = None
        if not node.is_up:
            node.start()

    cluster.ongoing.begin(nodes=(node.name,), for_ms=for_ms, end=back)
    return True


def _draw_disk(cluster: Cluster, random: Random) -> Arguments | None:
    broker = any_broker(cluster, random)  # type: ignore[arg-type]
    if broker is None or not cluster.budget.may_lose(broker):
        return None
    return {
        "broker": broker.broker_id,
        "bytes_left": random.choice([0, 100, 5_000]),
        "for_ms": random.randint(500, 8_000),
    }


@_own(_draw_disk)
def disk_full(
    cluster: Cluster, *, broker: int, bytes_left: int, for_ms: int, over_budget: bool = False
) -> bool:
    """Appends fail, some after a few bytes; later there is room, and the process is started anew. What a
    failed disk holds is not believed any more, so this costs as much as losing it."""
    node = cluster.brokers[broker]
    if not node.is_up or not cluster.budget.spend(node, over_budget=over_budget):  # type: ignore[arg-type]
        return False
    memory = node.host.memory
    memory.free_bytes_left = bytes_left
    cluster.world.note(f"the disk of {node.name} is full")

    def mend() -> None:
        memory.free_bytes_left = None
        node.crash()
        node.start()

    cluster.ongoing.begin(nodes=(node.name,), for_ms=for_ms, end=mend)
    return True


def _draw_slow(cluster: Cluster, random: Random) -> Arguments | None:
    broker = any_broker(cluster, random)  # type: ignore[arg-type]
    if broker is None:
        return None
    return {
        "broker": broker.broker_id,
        "times": random.choice([10, 100, 1_000]),
        "for_ms": random.randint(500, 6_000),
    }


@_own(_draw_slow)
def slow_disk(cluster: Cluster, *, broker: int, times: int, for_ms: int) -> bool:
    host = cluster.brokers[broker].host
    host.slowness *= times
    cluster.world.note(f"the disk of broker-{broker} is {times} times as slow")

    def mend() -> None:
        host.slowness /= times

    cluster.ongoing.begin(nodes=(f"broker-{broker}",), for_ms=for_ms, end=mend)
    return True


def _draw_fsync(cluster: Cluster, random: Random) -> Arguments | None:
    broker = any_broker(cluster, random)  # type: ignore[arg-type]
    if broker is None or not cluster.budget.may_lose(broker):
        return None
    return {"broker": broker.broker_id, "for_ms": random.randint(500, 8_000)}


@_own(_draw_fsync)
def fsync_error(cluster: Cluster, *, broker: int, for_ms: int, over_budget: bool = False) -> bool:
    """The next fsync fails, and the kernel drops what it could not write. The machine gets a new disk: this
    one has lost bytes, and only it knows which."""
    node = cluster.brokers[broker]
    if not node.is_up or not cluster.budget.spend(node, over_budget=over_budget):  # type: ignore[arg-type]
        return False
    node.host.memory.fail_next("fsync", OSError(errno.EIO, "input/output error"))
    cluster.world.note(f"an fsync of {node.name} will fail")
    cluster.budget.expect(broker)

    def replace() -> None:
        cluster.budget.comes(broker)
        node.crash()
        node.replace_disk()
        node.start()

    cluster.ongoing.begin(nodes=(node.name,), for_ms=for_ms, end=replace)
    return True


def _draw_rot(cluster: Cluster, random: Random) -> Arguments | None:
    broker = any_broker(cluster, random)  # type: ignore[arg-type]
    node = None if broker is None else cluster.brokers[broker.broker_id]
    if node is None or node.broker is None or not cluster.budget.may_lose(broker):  # type: ignore[arg-type]
        return None
    memory = node.host.memory
    closed = [
        (log_path(hosted.log.directory, segment.base_offset), segment.size_bytes)
        for hosted in node.broker.table
        for segment in hosted.log.segments[:-1]
        if segment.next_offset <= hosted.replica.high_watermark and hosted.key in cluster.keys
    ]
    clean = [(path, size) for path, size in closed if memory.is_clean(path)]
    if not clean:
        return None
    path, size_bytes = random.choice(clean)
    return {
        "broker": node.broker_id,
        "path": path,
        "position": random.randrange(size_bytes),
        "bit": random.randrange(8),
        "is_cached": random.random() < 0.5,
    }


@_own(_draw_rot, weight=2, family="rot")
def rot_at_rest(
    cluster: Cluster, *, broker: int, path: str, position: int, bit: int, is_cached: bool
) -> bool:
    """A bit of a closed segment flips on the platter (5.7, scrubbing). is_cached: the page cache has the
    right one."""
    node = cluster.brokers[broker]
    memory = node.host.memory
    if not memory.exists(path) or node.is_rotten or not cluster.budget.may_lose(node):  # type: ignore[arg-type]
        return False
    if position >= len(memory.content(path)):
        return False
    memory.rot_bit(path, position, bit=bit)
    if not is_cached:
        memory.open(path).forget(1, position)
    return True


# Disks below their reserve

SHORT_SHARE = 0.2
"""Share of the seeds in which disks get short; what draws it draws nothing else, as for MADE_AGAIN."""
SHORT_PACE_MS = 2_500
OF_DISKS: dict[str, Kind] = {}


def _draw_short(cluster: Cluster, random: Random) -> Arguments | None:
    for_ms = random.randint(500, 8_000)
    return {"brokers": random.sample(sorted(cluster.brokers), random.choice([1, 1, 2])), "for_ms": for_ms}


@register_in(OF_DISKS)(_draw_short)
def disk_short(cluster: Cluster, *, brokers: list[int], for_ms: int) -> bool:
    """Disks say that less is free than the reserve, and then that there is room (4.11, a disk that fills up).
    Nothing is lost by it, so it costs no budget."""
    struck = [cluster.brokers[broker] for broker in brokers]
    for node in struck:
        node.host.memory.told_free_bytes = 0
        cluster.world.note(f"the disk of {node.name} is below its reserve")

    def make_room() -> None:
        for node in struck:
            node.host.memory.told_free_bytes = None

    cluster.ongoing.begin(nodes=tuple(node.name for node in struck), for_ms=for_ms, end=make_room)
    return True


ALL = {**SHARED, **OF_COORDINATORS, **OWN, **OF_DISKS, **families.KINDS, **topics_made_again.KINDS}


def apply(cluster: Cluster, strike: Strike) -> bool:
    """Strike now. False: in this state it makes no sense, and nothing happened. Kinds that only the other
    simulation has are skipped, too."""
    kind = ALL.get(strike.kind)
    return kind is not None and kind.apply(cluster, **strike.args)


class FaultPlanner:
    """Draws one strike after another of these kinds, at this pace, until `stop`."""

    def __init__(self, cluster: Cluster, random: Random, kinds: Sequence[Kind], pace_ms: int) -> None:
        self._cluster = cluster
        self._random = random
        self.kinds = kinds
        self.pace_ms = pace_ms
        self.strikes: list[Strike] = []
        self._is_stopped = False

    def start(self) -> None:
        delay_ms = self.pace_ms * (0.2 + 1.6 * self._random.random())
        self._cluster.world.after_ms(delay_ms, self._strike)

    def stop(self) -> None:
        self._is_stopped = True

    def _strike(self) -> None:
        if self._is_stopped:
            return
        if self._cluster.is_suspended:
            self.start()
            return
        chosen = self._random.choice(self.kinds)
        arguments = chosen.draw(self._cluster, self._random)  # type: ignore[arg-type]
        if arguments is not None:
            strike = Strike(self._cluster.world.now_ms, chosen.name, arguments)
            if apply(self._cluster, strike):
                self.strikes.append(strike)
                self._cluster.world.note(f"strike {strike}")
        self.start()


def planners_of(cluster: Cluster) -> list[FaultPlanner]:
    """One draws a random subset of the kinds at the seed's pace, another now and then of one of the families,
    so that these cost every seed a little and none much; a third, where there are coordinators, strikes them;
    a fourth, in some seeds, makes topics again; a fifth, in some, takes disks below their reserve.
    Where topics are deleted meanwhile, ZooKeeper does not go back: what was deleted would be back, and wait
    for an operator (section 11, limits)."""
    random = cluster.world.random("faults")
    every = [kind for _, kind in sorted((SHARED | OWN).items()) for _ in range(kind.weight)]
    kinds = [kind for kind in every if random.random() < 0.5] or every[:3]
    usual = FaultPlanner(cluster, random, kinds, random.choice([400, 1_000, 2_500]))
    random = cluster.world.random("families")
    others = {"metadata"} if cluster.options.churn else set()
    chosen = random.choice(sorted({kind.family for kind in families.KINDS.values()} - others))
    ours = [kind for _, kind in sorted(families.KINDS.items()) if kind.family == chosen]
    of_family = [kind for kind in ours for _ in range(kind.weight)]
    pace_ms = MOMENT_PACE_MS if chosen == "metadata" else FAMILY_PACE_MS
    planners = [usual, FaultPlanner(cluster, random, of_family, pace_ms)]
    if cluster.shards is not None:
        random = cluster.world.random("faults of coordinators")
        weighted = [kind for _, kind in sorted(OF_COORDINATORS.items()) for _ in range(kind.weight)]
        planners.append(FaultPlanner(cluster, random, weighted, random.choice(COORDINATORS_PACE_MS)))
    random = cluster.world.random("topics made again")
    if chosen != "metadata" and random.random() < MADE_AGAIN:
        planners.append(FaultPlanner(cluster, random, list(topics_made_again.KINDS.values()), FAMILY_PACE_MS))
    random = cluster.world.random("short disks")
    if random.random() < SHORT_SHARE:
        planners.append(FaultPlanner(cluster, random, list(OF_DISKS.values()), SHORT_PACE_MS))
    return planners


class Replayer:
    """Plays a given schedule."""

    def __init__(self, cluster: Cluster, strikes: tuple[Strike, ...]) -> None:
        self._cluster = cluster
        self._given = sorted(strikes, key=lambda strike: strike.at_ms)
        self.strikes: list[Strike] = []
        self._is_stopped = False

    def start(self) -> None:
        for strike in self._given:
            self._cluster.world.at(strike.at_ms, partial(self._strike, strike))

    def stop(self) -> None:
        self._is_stopped = True

    def _strike(self, strike: Strike) -> None:
        if not self._is_stopped and apply(self._cluster, strike):
            self.strikes.append(strike)
            self._cluster.world.note(f"strike {strike}")
