"""Strikes of the families of faults that the usual strikes lack (tests/simulation/schedule.FAMILIES): clocks,
metadata that goes back, long pauses, and many partitions created at once.

A seed draws its strikes of one of these families. What the two simulations can share is taken from there.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Protocol, TypeVar

from dataplane.shell.data_directory import read_seen
from springtide.contract.partition_state import NO_LEADER
from tests.fullstack.broker_node import DATA_DIR
from tests.fullstack.maintainer_rest import TRIES_FEW, Desk
from tests.fullstack.zookeeper import head_in
from tests.simulation import kinds_clocks, kinds_pauses
from tests.simulation.kinds_brokers import any_leader, kill_broker
from tests.simulation.kinds_controllers import ZOOKEEPER, expire_session, kill_controller
from tests.simulation.schedule import KINDS as SHARED
from tests.simulation.schedule import Arguments, Kind

if TYPE_CHECKING:
    from tests.fullstack.cluster import Cluster


Apply = TypeVar("Apply", bound=Callable[..., bool])


class _Register(Protocol):
    def __call__(
        self, draw: Callable[..., Arguments | None], *, weight: int = 1, family: str = ""
    ) -> Callable[[Apply], Apply]: ...


def register_in(kinds: dict[str, Kind]) -> _Register:
    """Return the decorator that registers `apply(cluster, **args)` there, under its name."""

    def own(
        draw: Callable[..., Arguments | None], *, weight: int = 1, family: str = ""
    ) -> Callable[[Apply], Apply]:
        def add(apply: Apply) -> Apply:
            kinds[apply.__name__] = Kind(apply.__name__, draw, apply, weight, family=family)
            return apply

        return add

    return own


KINDS = {name: kind for name, kind in SHARED.items() if kind.apply.__module__ == kinds_clocks.__name__}
_own = register_in(KINDS)

# Pauses


def _draw_standstill(cluster: Cluster, random: Random) -> Arguments | None:
    return kinds_pauses.draw_standstill(cluster, random, kinds_pauses.STANDSTILL_MS)  # type: ignore[arg-type]


@_own(_draw_standstill, family="pauses")
def stand_still(cluster: Cluster, *, nodes: list[str], for_ms: int) -> bool:
    return kinds_pauses.stand_still(cluster, nodes=nodes, for_ms=for_ms)


LATE_MS = ((500, 4_000), (4_000, 20_000))


def _draw_suspension(cluster: Cluster, random: Random) -> Arguments | None:
    """late: a leader, a follower, the active controller, ZooKeeper, or nobody."""
    if cluster.suspended_ms:
        return None
    leader = any_leader(cluster, random)  # type: ignore[arg-type]
    active = cluster.active_controller()
    late = {
        "leader": leader and leader.name,
        "follower": random.choice([b.name for b in cluster.brokers.values() if b is not leader]),
        "controller": active and active.name,
        "zookeeper": ZOOKEEPER,
        "nobody": None,
    }[random.choice(("leader", "follower", "controller", "zookeeper", "nobody"))]
    return {
        "for_ms": random.choice((random.randint(60_000, 600_000), random.randint(600_000, 3_600_000))),
        "late": late,
        "late_ms": random.randint(*random.choice(LATE_MS)),
    }


@_own(_draw_suspension, family="pauses")
def suspend_all(cluster: Cluster, *, for_ms: int, late: str | None, late_ms: int) -> bool:
    """All machines, clients and ZooKeeper stand still for up to an hour, and one of them for a little longer:
    a pause of an hour that costs no more to simulate than the moments around it. What was wrong ends before;
    once in a run."""
    if cluster.suspended_ms:
        return False
    cluster.ongoing.end_all()
    for node in cluster.nodes:
        node.start()
    cluster.suspend(for_ms)
    names = [*cluster.node_names, ZOOKEEPER]
    stand_still(cluster, nodes=[name for name in names if name != late], for_ms=for_ms)
    if late is not None:
        stand_still(cluster, nodes=[late], for_ms=for_ms + late_ms)
    clients = cluster.clients.life
    clients.pause()
    cluster.ongoing.begin(nodes=(), for_ms=for_ms, end=clients.resume)
    return True


# Metadata goes back

OUTAGE_MS = (200, 3_000)


def _draw_backup(cluster: Cluster, random: Random) -> Arguments | None:
    return {} if cluster.zookeeper.backup is None else None


@_own(_draw_backup, family="metadata")
def back_up_zookeeper(cluster: Cluster) -> bool:
    """What it holds now is kept."""
    cluster.zookeeper.backup = cluster.zookeeper.copy()
    return True


def _is_witnessed(cluster: Cluster) -> bool:
    """Whether every member has stored that there is more than the backup holds: what is decided without them
    is another history (section 11, limits)."""
    zookeeper, backup = cluster.zookeeper, cluster.zookeeper.backup
    head = None if backup is None else head_in(backup.nodes, cluster.name)
    if head is None or not head.terms or zookeeper.times_back or cluster.budget.unknown:
        return False
    members = [node for node in cluster.brokers.values() if cluster.registered_epoch(node.broker_id) >= 0]
    told = [read_seen(node.host.memory, DATA_DIR).records for node in members]
    return min(told) > head.records


def _draw_restore(cluster: Cluster, random: Random) -> Arguments | None:
    return {"for_ms": random.randint(*OUTAGE_MS)} if _is_witnessed(cluster) else None


@_own(_draw_restore, weight=2, family="metadata")
def zookeeper_goes_back(cluster: Cluster, *, for_ms: int) -> bool:
    """ZooKeeper goes down for `for_ms` and comes back with its backup (S45, ZooKeeper is restored). An
    operator recovers the metadata as soon as that is known. Once in a run."""
    zookeeper = cluster.zookeeper
    if not _is_witnessed(cluster):
        return False
    assert zookeeper.backup is not None
    zookeeper.go_down()
    zookeeper.put_back(zookeeper.backup)
    cluster.world.note("ZooKeeper is put back")
    cluster.ongoing.begin(nodes=(), for_ms=for_ms, end=zookeeper.come_back)
    cluster.spawn(_recover, cluster)
    return True


async def _recover(cluster: Cluster) -> None:
    """Again and again: it is refused while nobody knows of it, and while a broker has not told."""
    desk = Desk(cluster, name="recoverer")
    while cluster.zookeeper.is_back:
        await desk.pause(1_000, 1_000)
        body = {"reason": "restored from a backup"}
        told = await desk.ask("POST", f"{desk.root}:recover-metadata", body, tries=TRIES_FEW)
        cluster.world.note(f"recovery: {told}")
        for one in told["undecided"] if told else ():
            cluster.spawn(_choose, cluster, one["topic_id"], one["partition"])


async def _choose(cluster: Cluster, topic_id: str, partition: int) -> None:
    """No rule proves which replica holds everything, so the operator chooses as docs/backup.md says: when
    every replica has told of its log, the one that loses least. Nothing may be lost by it."""
    desk = Desk(cluster, name=f"chooser-{topic_id}-{partition}")
    while True:
        await desk.pause(1_000, 1_000)
        topics = await desk.ask("GET", f"{desk.root}/topics", tries=TRIES_FEW)
        name = (
            next((t["name"] for t in topics["items"] if t["topic_id"] == topic_id), None) if topics else None
        )
        if name is None:
            continue
        path = f"{desk.root}/topics/{name}/partitions/{partition}"
        preview = await desk.ask("GET", f"{path}/loss-preview", tries=TRIES_FEW)
        if preview is None or preview["unheard"] or preview["least"] is None:
            state = await desk.ask("GET", path, tries=TRIES_FEW)
            if state is not None and state["leader"] is not None:
                return
            continue
        body = {
            "election": "unclean",
            "broker_id": preview["least"],
            "partition_epoch": preview["partition_epoch"],
            "reason": "the recovery left it undecided",
        }
        told = await desk.ask("POST", f"{path}:elect-leader", body, tries=TRIES_FEW)
        cluster.world.note(f"operator chooses {preview['least']}: {told}")


# Many partitions

SIZES = (12, 12, 60, 300)
SIZES_WITH_PLANS = (12,)
"""Where brokers are drained meanwhile, each of these is moved on its own."""
MOVED_MAX = 12


def _struck(random: Random) -> Arguments:
    """Who is struck, and when: while the request is on its way, is being written, or is carried out."""
    return {
        "then": random.choice((None, "controller", "session", "leader")),
        "after_ms": random.choice((0, 2, 10, 40, 200, 1_200)),
        "for_ms": random.randint(100, 4_000),
    }


def _strike_after(cluster: Cluster, then: str | None, after_ms: int, for_ms: int) -> None:
    def strike() -> None:
        active = cluster.active_controller()
        led = [state.leader for state in cluster.crowd.states() if state.leader != NO_LEADER]
        if then == "session":
            expire_session(cluster)
        elif then == "controller" and active is not None:
            kill_controller(cluster, controller=active.name, for_ms=for_ms)
        elif then == "leader" and led:
            kill_broker(cluster, broker=led[0], for_ms=for_ms)

    if then is not None:
        cluster.ongoing.later(after_ms, strike)


def _draw_creation(cluster: Cluster, random: Random) -> Arguments | None:
    sizes = SIZES_WITH_PLANS if cluster.options.maintains else SIZES
    return {"partitions": random.choice(sizes), **_struck(random)}


@_own(_draw_creation, family="creation")
def create_many(cluster: Cluster, *, partitions: int, then: str | None, after_ms: int, for_ms: int) -> bool:
    """And then, perhaps, the active controller dies or loses its session, or a leader of theirs dies."""
    if cluster.crowd.states() or cluster.crowd.waiting:
        return False
    cluster.crowd.create(partitions)
    _strike_after(cluster, then, after_ms, for_ms)
    return True


def _draw_deletion(cluster: Cluster, random: Random) -> Arguments | None:
    return _struck(random) if cluster.crowd.states() else None


@_own(_draw_deletion, family="creation")
def delete_many(cluster: Cluster, *, then: str | None, after_ms: int, for_ms: int) -> bool:
    if not cluster.crowd.states():
        return False
    cluster.crowd.delete()
    _strike_after(cluster, then, after_ms, for_ms)
    return True


def _draw_moves(cluster: Cluster, random: Random) -> Arguments | None:
    states = cluster.crowd.states()
    if not states:
        return None
    brokers, count = sorted(cluster.brokers), cluster.options.replication_factor
    chosen = random.sample(states, min(len(states), MOVED_MAX))
    moves = [[state.partition, random.sample(brokers, count)] for state in chosen]
    return {"moves": moves, **_struck(random)}


@_own(_draw_moves, family="creation")
def move_many(
    cluster: Cluster, *, moves: list[tuple[int, list[int]]], then: str | None, after_ms: int, for_ms: int
) -> bool:
    """Other replicas for some of them, whether or not their logs have been made."""
    if not cluster.crowd.states():
        return False
    for partition, replicas in moves:
        cluster.crowd.move(partition, replicas)
    _strike_after(cluster, then, after_ms, for_ms)
    return True
