"""What happens on the network: cuts in both directions, in one, of one port; resets; loss; splits."""

from __future__ import annotations

from tests.faults.hosts.network import Cut, Direction
from tests.faults.nemesis.arena import Arena, Ongoing, number_of
from tests.faults.nemesis.kinds import Kind

LOSS_PERCENT = (5, 15, 30)


def _held(cut: Cut, kind: str, note: str, *victims: str) -> Ongoing:
    return Ongoing(kind, victims, f"{kind} {note}", cut.heal)


def isolate_broker(arena: Arena) -> Ongoing | None:
    """Cut from everybody, clients included."""
    host = arena.pick_leader() or arena.pick(arena.brokers)
    if host is None:
        return None
    return _held(arena.cluster.network.cut(host), "isolate-broker", host, host)


def cut_replication(arena: Arena) -> Ongoing | None:
    """Nobody replicates from the leader any more; clients and controllers still reach it (as in 2013)."""
    host = arena.pick_leader()
    if host is None:
        return None
    cut = arena.cluster.network.cut(
        host,
        [broker for broker in arena.brokers if broker != host],
        direction=Direction.IN,
        port=arena.cluster.brokers[number_of(host)].port,
    )
    return _held(cut, "cut-replication", f"from {host}", host)


def deafen_broker(arena: Arena) -> Ongoing | None:
    """It hears no other broker and no controller; they hear it, and clients notice nothing."""
    host = arena.pick(arena.brokers)
    if host is None:
        return None
    cut = arena.cluster.network.cut(host, arena.others(host), direction=Direction.IN)
    return _held(cut, "deafen-broker", host, host)


def mute_broker(arena: Arena) -> Ongoing | None:
    """Others do not hear it; it hears them."""
    host = arena.pick(arena.brokers)
    if host is None:
        return None
    cut = arena.cluster.network.cut(host, arena.others(host), direction=Direction.OUT)
    return _held(cut, "mute-broker", host, host)


def cut_from_controllers(arena: Arena) -> Ongoing | None:
    """It replicates and serves, and its lease ends."""
    host = arena.pick_leader() or arena.pick(arena.brokers)
    if host is None:
        return None
    return _held(arena.cluster.network.cut(host, arena.controllers), "cut-from-controllers", host, host)


def split_brokers(arena: Arena) -> Ongoing | None:
    """Two brokers on one side; the other three, controllers and ZooKeeper on the other. Clients see both."""
    pair = arena.rng.sample(arena.brokers, 2)
    if not arena.may_harm(*pair):
        return None
    cut = arena.cluster.network.split(pair, arena.others(*pair))
    return _held(cut, "split-brokers", f"{pair[0]}, {pair[1]} from the rest", *pair)


def reset_connections(arena: Arena) -> Ongoing | None:
    """Every connection of a broker breaks and none can be made, as behind a firewall that was restarted."""
    host = arena.pick(arena.brokers)
    if host is None:
        return None
    return _held(arena.cluster.network.reset(host), "reset-connections", host, host)


def lose_packets(arena: Arena) -> Ongoing | None:
    host = arena.pick(arena.brokers)
    if host is None:
        return None
    percent = arena.rng.choice(LOSS_PERCENT)
    cut = arena.cluster.network.lose(host, percent=percent)
    return _held(cut, "lose-packets", f"{host} {percent} %", host)


def cut_controller_from_zookeeper(arena: Arena) -> Ongoing | None:
    """A controller that brokers still reach, and that can write nothing."""
    host = arena.pick(arena.controllers)
    if host is None:
        return None
    cut = arena.cluster.network.cut(host, arena.zookeepers)
    return _held(cut, "cut-controller-from-zookeeper", host, host)


def isolate_zookeeper(arena: Arena) -> Ongoing | None:
    host = arena.pick(arena.zookeepers)
    if host is None:
        return None
    return _held(arena.cluster.network.cut(host), "isolate-zookeeper", host, host)


NETWORK_KINDS = (
    Kind("isolate-broker", isolate_broker, (3, 12)),
    Kind("cut-replication", cut_replication, (4, 10)),
    Kind("deafen-broker", deafen_broker, (3, 10)),
    Kind("mute-broker", mute_broker, (3, 10)),
    Kind("cut-from-controllers", cut_from_controllers, (4, 12)),
    Kind("split-brokers", split_brokers, (4, 12)),
    Kind("reset-connections", reset_connections, (1, 4)),
    Kind("lose-packets", lose_packets, (3, 10)),
    Kind("cut-controller-from-zookeeper", cut_controller_from_zookeeper, (5, 12)),
    Kind("isolate-zookeeper", isolate_zookeeper, (2, 8)),
)
