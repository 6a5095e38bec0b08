"""Faults of broker processes and their disks."""

from __future__ import annotations

from collections.abc import Collection
from random import Random
from typing import TYPE_CHECKING

from tests.simulation.compaction import unlike
from tests.simulation.schedule import Arguments, kind

if TYPE_CHECKING:
    from springtide.contract.partition_state import PartitionKey
    from springtide.wire.record_batch import BatchHeader
    from tests.kit.memory.log import MemoryLog
    from tests.simulation.broker_node import BrokerNode
    from tests.simulation.cluster import Cluster
    from tests.simulation.coordinator_node import CoordinatorNode

#: Restarts: at once, after a while, after the controller's grace.
DOWN_MS = ((20, 200), (200, 2_000), (4_000, 12_000))
#: Pauses: unnoticed, shorter than the lease, longer than the grace.
PAUSED_MS = ((50, 900), (1_000, 5_000), (6_500, 10_000))


def draw_ms(random: Random, ranges: tuple[tuple[int, int], ...]) -> int:
    return random.randint(*random.choice(ranges))


def is_fit(broker: BrokerNode | None) -> bool:
    """Whether it can be struck."""
    return broker is not None and broker.is_up and not broker.is_paused


def any_broker(cluster: Cluster, random: Random) -> BrokerNode | None:
    up = [b for b in cluster.brokers.values() if is_fit(b)]
    return random.choice(up) if up else None


def any_leader(cluster: Cluster, random: Random) -> BrokerNode | None:
    """The leader of some partition, if it can be struck."""
    state = cluster.truth(random.choice(cluster.keys))
    broker = None if state is None else cluster.brokers.get(state.leader)
    return broker if is_fit(broker) else None


def _down(broker: BrokerNode | None, random: Random) -> Arguments | None:
    if broker is None:
        return None
    torn_bytes = random.choice((0, 0, 7, 61, 90))
    return {"broker": broker.broker_id, "for_ms": draw_ms(random, DOWN_MS), "torn_bytes": torn_bytes}


def draw_down(cluster: Cluster, random: Random) -> Arguments | None:
    return _down(any_broker(cluster, random), random)


def draw_leader_down(cluster: Cluster, random: Random) -> Arguments | None:
    """Rather a leader that somebody is about to catch up with: what joins around a failover joins wrongly
    (S5, a new leader's high watermark lags)."""
    leaders = [
        cluster.brokers[state.leader]
        for key in cluster.keys
        if (state := cluster.truth(key)) is not None
        and state.leader in cluster.brokers
        and len(state.isr) < len(state.replicas)
        and is_fit(cluster.brokers[state.leader])
    ]
    if leaders and random.random() < 0.7:
        return _down(random.choice(leaders), random)
    return _down(any_leader(cluster, random), random)


def draw_loss(cluster: Cluster, random: Random) -> Arguments | None:
    broker = any_broker(cluster, random)
    over_budget = cluster.options.over_budget
    if broker is None or not (over_budget or cluster.budget.may_lose(broker)):
        return None
    return {
        "broker": broker.broker_id,
        "for_ms": draw_ms(random, DOWN_MS),
        "salt": random.getrandbits(32),
        "over_budget": over_budget,
    }


def draw_pause(cluster: Cluster, random: Random) -> Arguments | None:
    broker = any_broker(cluster, random)
    return None if broker is None else {"broker": broker.broker_id, "for_ms": draw_ms(random, PAUSED_MS)}


def draw_leader_pause(cluster: Cluster, random: Random) -> Arguments | None:
    broker = any_leader(cluster, random)
    return None if broker is None else {"broker": broker.broker_id, "for_ms": draw_ms(random, PAUSED_MS)}


def draw_stop(cluster: Cluster, random: Random) -> Arguments | None:
    broker = any_broker(cluster, random)
    if broker is None or broker.wants_shutdown:
        return None
    return {"broker": broker.broker_id, "for_ms": random.randint(3_000, 9_000)}


def back_after(cluster: Cluster, broker: BrokerNode, for_ms: int) -> None:
    """Start `broker` again, unless somebody else has."""
    life = broker.life

    def restart() -> None:
        if not broker.is_up and broker.life == life:
            broker.start()

    cluster.ongoing.begin(nodes=(broker.name,), for_ms=for_ms, end=restart)


def back_down_or_not(
    cluster: Cluster, node: BrokerNode | CoordinatorNode, for_ms: int, *, nodes: Collection[str]
) -> None:
    """Start `node` again, killed before that if it still runs, unless somebody else has. nodes: as
    OngoingFaults.begin has them."""
    life = node.life

    def back() -> None:
        if node.life != life:
            return
        if node.is_up:
            node.crash()
        node.start()

    cluster.ongoing.begin(nodes=nodes, for_ms=for_ms, end=back)


def _kill(cluster: Cluster, broker_id: int, for_ms: int, torn_bytes: int) -> bool:
    broker = cluster.brokers[broker_id]
    if not broker.is_up:
        return False
    broker.crash(torn_bytes=torn_bytes)
    back_after(cluster, broker, for_ms)
    return True


@kind(draw_down, weight=2)
def kill_broker(cluster: Cluster, *, broker: int, for_ms: int, torn_bytes: int = 0) -> bool:
    """SIGKILL: the disk keeps all that was written, perhaps with a piece of the batch that it died in."""
    return _kill(cluster, broker, for_ms, torn_bytes)


@kind(draw_leader_down)
def kill_leader(cluster: Cluster, *, broker: int, for_ms: int, torn_bytes: int = 0) -> bool:
    return _kill(cluster, broker, for_ms, torn_bytes)


def _draw_two(cluster: Cluster, random: Random) -> Arguments | None:
    up = [b.broker_id for b in cluster.brokers.values() if is_fit(b)]
    if len(up) < 2:
        return None
    return {"brokers": sorted(random.sample(up, 2)), "for_ms": draw_ms(random, DOWN_MS)}


@kind(_draw_two)
def restart_two(cluster: Cluster, *, brokers: list[int], for_ms: int) -> bool:
    """S36 (two expire in one tick): two die in one moment, each perhaps the other's heir, and are back in one
    moment."""
    nodes = [cluster.brokers[n] for n in brokers]
    if not all(node.is_up for node in nodes):
        return False
    for node in nodes:
        _kill(cluster, node.broker_id, for_ms, 0)
    return True


@kind(draw_loss)
def power_cut(cluster: Cluster, *, broker: int, for_ms: int, salt: int, over_budget: bool = False) -> bool:
    """The machine dies; of what was not flushed a prefix chosen by `salt` survives."""
    node = cluster.brokers[broker]
    if not node.is_up or not cluster.budget.spend(node, over_budget=over_budget):
        return False
    node.crash(machine=Random(salt))
    back_after(cluster, node, for_ms)
    return True


def _draw_total_power_loss(cluster: Cluster, random: Random) -> Arguments | None:
    drawn = draw_loss(cluster, random) if cluster.options.over_budget else None
    return None if drawn is None else drawn | {"for_ms": random.randint(20, 4_000)}


@kind(_draw_total_power_loss, family="disk")
def total_power_loss(
    cluster: Cluster, *, broker: int, for_ms: int, salt: int, over_budget: bool = False
) -> bool:
    """All machines of brokers lose power in one moment. What was sealed is elected by itself (3.9, after
    total power loss), and everything else waits for an operator."""
    del broker  # of the arguments that all lossy strikes have
    struck = [node for node in cluster.brokers.values() if node.is_up]
    for node in struck:
        cluster.budget.spend(node, over_budget=over_budget)
        node.crash(machine=Random(salt + node.broker_id))
        back_after(cluster, node, for_ms)
    return bool(struck)


@kind(draw_loss)
def replace_disk(cluster: Cluster, *, broker: int, for_ms: int, salt: int, over_budget: bool = False) -> bool:
    """S1 (the last in-sync replica returns empty): the broker comes back with an empty disk."""
    del salt  # of the arguments that all lossy strikes have
    node = cluster.brokers[broker]
    if not node.is_up or not cluster.budget.spend(node, over_budget=over_budget):
        return False
    node.crash()
    node.replace_disk()
    back_after(cluster, node, for_ms)
    return True


def _draw_old_disk(cluster: Cluster, random: Random) -> Arguments | None:
    drawn = draw_loss(cluster, random)
    if drawn is None:
        return None
    way = random.choice(("reboots", "attached", "in_place"))
    return drawn | {
        "age_ms": random.choice((300, 2_000, 8_000)),
        "reboots": way == "reboots",
        "in_place": way == "in_place",
    }


@kind(_draw_old_disk, family="disk")
def old_disk(
    cluster: Cluster,
    *,
    broker: int,
    age_ms: int,
    for_ms: int,
    salt: int,
    over_budget: bool = False,
    reboots: bool = True,
    in_place: bool = False,
) -> bool:
    """The machine dies `age_ms` from now, and comes back with the copy of its disk that is made now; without
    `reboots` only the process dies, and the copy is attached to the machine that runs on (S42, a volume from
    a snapshot); with `in_place` it is copied over the files that are there, and boot, mount and inodes are
    the same (`cp -a backup/. data/`)."""
    del salt
    node = cluster.brokers[broker]
    if not node.is_up:
        return False
    copy = node.copy_disk()

    def restore() -> None:
        if node.is_up and cluster.budget.spend(node, over_budget=over_budget):
            node.crash()
            node.restore_disk(copy, reboots=reboots, in_place=in_place)
            back_after(cluster, node, for_ms)

    cluster.ongoing.later(age_ms, restore)
    return True


def _old_end(cluster: Cluster, key: PartitionKey) -> int:
    """Up to where every replica has stored that it is committed: what each scrubs, whenever it starts."""
    state = cluster.truth(key)
    replicas = () if state is None else state.replicas
    return min((cluster.brokers[b].disk.high_watermarks.get(key, 0) for b in replicas), default=0)


def _committed(cluster: Cluster, key: PartitionKey, log: MemoryLog) -> list[BatchHeader]:
    """Return the committed batches of a log; none of a fork: its rot before it is compared is a gap (G5)."""
    ghost = cluster.oracle.ghosts[key]
    headers = log.headers(0, ghost.end_offset)
    first = ghost.from_offset(headers[0].base_offset) if headers else 0
    _, forked = unlike(ghost.headers, first, headers, compacted_to=log.rounds.compacted_to)
    return headers if forked is None else []


def _draw_rot(cluster: Cluster, random: Random) -> Arguments | None:
    """Whole committed batches, of which others with a seat have a copy. An unreadable header that no scrub
    looks at ends the log, as it should."""
    broker = any_broker(cluster, random)
    if broker is None or cluster.options.over_budget or not cluster.budget.may_lose(broker):
        return None
    key = random.choice(cluster.keys)
    log = broker.disk.logs.get(key)
    headers = [] if log is None else _committed(cluster, key, log)
    if not headers:
        return None
    header, is_cached = random.choice(headers), random.random() < 0.5
    is_scrubbed = header.next_offset <= _old_end(cluster, key)
    return {
        "broker": broker.broker_id,
        "topic_id": key[0],
        "partition": key[1],
        "base_offset": header.base_offset,
        "is_cached": is_cached,
        "is_header": is_scrubbed and not is_cached and random.random() < 0.5,
    }


@kind(_draw_rot, weight=2, family="rot")
def rot(
    cluster: Cluster,
    *,
    broker: int,
    topic_id: str,
    partition: int,
    base_offset: int,
    is_cached: bool,
    is_header: bool = False,
) -> bool:
    """A bit of a stored batch flips. is_cached: memory still has the right one, until the process starts anew
    (5.7, scrubbing). is_header: whoever reads finds no batch there."""
    node, key = cluster.brokers[broker], (topic_id, partition)
    log = node.disk.logs.get(key)
    bases = [] if log is None else [header.base_offset for header in _committed(cluster, key, log)]
    if log is None or base_offset not in bases or log.at_rest or not cluster.budget.may_lose(node):
        return False
    log.rot(base_offset, is_cached=is_cached, is_header=is_header)
    cluster.events.note(f"{node.name} {topic_id[:4]}-{partition} rots at {base_offset}")
    return True


def _draw_broker_for(cluster: Cluster, random: Random) -> Arguments | None:
    broker = any_broker(cluster, random)
    return None if broker is None else {"broker": broker.broker_id, "for_ms": random.randint(500, 8_000)}


@kind(_draw_broker_for)
def hang_fsync(cluster: Cluster, *, broker: int, for_ms: int) -> bool:
    """S29 (an fsync hangs): nothing more gets to the platter; writes go on into the page cache."""
    disk = cluster.brokers[broker].disk
    if disk.hung:
        return False
    disk.hung = True
    cluster.events.note(f"broker-{broker}'s fsync hangs")

    def end() -> None:
        (disk if cluster.mixed is None else cluster.mixed.disk_now(disk)).hung = False

    cluster.ongoing.begin(nodes=(f"broker-{broker}",), for_ms=for_ms, end=end)
    return True


@kind(draw_loss)
def fail_disk(cluster: Cluster, *, broker: int, for_ms: int, salt: int, over_budget: bool = False) -> bool:
    """S28 (EIO or full disk): every write fails; after `for_ms` the disk works again and the process is
    started anew. It costs the seats: after a failed write nobody knows what the disk holds."""
    del salt
    node = cluster.brokers[broker]
    disk = node.disk
    if not node.is_up or disk.failing is not None or not cluster.budget.spend(node, over_budget=over_budget):
        return False
    disk.fail("input/output error")
    cluster.events.note(f"{node.name}'s disk fails")

    def end() -> None:
        now = disk if cluster.mixed is None else cluster.mixed.disk_now(disk)
        now.fail(None)
        if node.is_up and node.disk is now:
            node.crash()
            node.start()

    cluster.ongoing.begin(nodes=(node.name,), for_ms=for_ms, end=end)
    return True


def _draw_rate(cluster: Cluster, random: Random) -> Arguments | None:
    broker = random.choice(list(cluster.brokers.values()))
    return {
        "broker": broker.broker_id,
        "rate": random.choice((0.95, 0.98, 1.02, 1.05)),
        "for_ms": random.randint(2_000, 20_000),
    }


@kind(_draw_rate)
def drift_clock(cluster: Cluster, *, broker: int, rate: float, for_ms: int) -> bool:
    """S35 (clocks drift, processes pause): a monotonic clock that runs up to 5 % fast or slow."""
    clock = cluster.brokers[broker].clock
    if clock.rate != 1.0:
        return False
    clock.run_at(rate)
    cluster.ongoing.begin(nodes=(f"broker-{broker}",), for_ms=for_ms, end=lambda: clock.run_at(1.0))
    return True


def _draw_jump(cluster: Cluster, random: Random) -> Arguments | None:
    broker = random.choice(list(cluster.brokers.values()))
    return {
        "broker": broker.broker_id,
        "wall_ms": random.choice((-3_600_000, -60_000, -1_500, 1_500, 60_000, 3_600_000)),
        "mono_ms": random.choice((0, 0, 0, 1_000, 10_000)),
    }


@kind(_draw_jump)
def jump_clock(cluster: Cluster, *, broker: int, wall_ms: int, mono_ms: int) -> bool:
    """S35: the wall clock is set; or both clocks go forward at once, as after a suspended machine."""
    clock = cluster.brokers[broker].clock
    clock.wall_offset_ms += wall_ms
    clock.jump_forward(mono_ms)
    cluster.events.note(f"broker-{broker}'s clock jumps by {wall_ms} ms, its monotonic one by {mono_ms} ms")
    return True


def _draw_slow_polls(cluster: Cluster, random: Random) -> Arguments | None:
    drawn = _draw_broker_for(cluster, random)
    return None if drawn is None else drawn | {"delay_ms": random.choice((100, 400, 1_500))}


@kind(_draw_slow_polls, weight=2)
def slow_polls(cluster: Cluster, *, broker: int, delay_ms: int, for_ms: int) -> bool:
    """It hears of changes late, and then of several in one (S7, an epoch in between was missed; S10, a
    follower misses an epoch): its heartbeats are in time."""
    node = cluster.brokers[broker]
    delays = node.poll_delays_ms
    delays.append(delay_ms)
    cluster.ongoing.begin(nodes=(node.name,), for_ms=for_ms, end=lambda: delays.remove(delay_ms))
    return True


@kind(draw_stop)
def stop_broker(cluster: Cluster, *, broker: int, for_ms: int) -> bool:
    """SIGTERM: a controlled shutdown; back `for_ms` later, killed if it has not stopped by then (S27, a
    successor dies at the hand-over)."""
    node = cluster.brokers[broker]
    if not node.is_up or node.wants_shutdown:
        return False
    node.wants_shutdown = True
    cluster.events.note(f"{node.name} is asked to stop")
    back_down_or_not(cluster, node, for_ms, nodes=(node.name,))
    return True


def _pause(cluster: Cluster, broker_id: int, for_ms: int) -> bool:
    broker = cluster.brokers[broker_id]
    if not is_fit(broker):
        return False
    broker.pause()
    cluster.events.note(f"{broker.name} is paused")
    life = broker.life

    def resume() -> None:
        if broker.is_up and broker.is_paused and broker.life == life:
            cluster.events.note(f"{broker.name} goes on")
            broker.resume()

    cluster.ongoing.begin(nodes=(broker.name,), for_ms=for_ms, end=resume)
    return True


@kind(draw_pause, family="pauses")
def pause_broker(cluster: Cluster, *, broker: int, for_ms: int) -> bool:
    """SIGSTOP: deliveries and timers wait, the world goes on (S35)."""
    return _pause(cluster, broker, for_ms)


@kind(draw_leader_pause, family="pauses")
def pause_leader(cluster: Cluster, *, broker: int, for_ms: int) -> bool:
    return _pause(cluster, broker, for_ms)
