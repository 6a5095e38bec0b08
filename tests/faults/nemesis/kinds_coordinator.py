"""What happens to coordinators, of which there are two: each has half of the transactions and groups."""

from __future__ import annotations

from tests.faults.nemesis.arena import Arena, Ongoing
from tests.faults.nemesis.kinds import Kind, down, paused


def kill_coordinator(arena: Arena) -> Ongoing | None:
    return down(arena, "kill-coordinator", arena.pick(arena.coordinators))


def stop_coordinator(arena: Arena) -> Ongoing | None:
    """SIGTERM: it hands its shards over."""
    return down(arena, "stop-coordinator", arena.pick(arena.coordinators), gently=True)


def pause_coordinator(arena: Arena) -> Ongoing | None:
    """It wakes up as one who believes that it owns its shards, with requests in its sockets."""
    return paused(arena, "pause-coordinator", arena.pick(arena.coordinators))


def isolate_coordinator(arena: Arena) -> Ongoing | None:
    """Cut from everybody: what it decides can't be written, and its markers reach nobody."""
    host = arena.pick(arena.coordinators)
    if host is None:
        return None
    cut = arena.cluster.network.cut(host)
    return Ongoing("isolate-coordinator", (host,), f"isolate-coordinator {host}", cut.heal)


def cut_coordinator_from_brokers(arena: Arena) -> Ongoing | None:
    """Clients and controllers reach it; it reaches some brokers: decisions stand and markers wait."""
    host = arena.pick(arena.coordinators)
    if host is None:
        return None
    brokers = sorted(arena.rng.sample(arena.brokers, 3))
    cut = arena.cluster.network.cut(host, brokers)
    return Ongoing(
        "cut-coordinator-from-brokers",
        (host,),
        f"cut-coordinator-from-brokers {host} from {', '.join(brokers)}",
        cut.heal,
    )


COORDINATOR_KINDS = (
    Kind("kill-coordinator", kill_coordinator, (0.5, 6)),
    Kind("stop-coordinator", stop_coordinator, (1, 5)),
    Kind("pause-coordinator", pause_coordinator, (2, 14)),
    Kind("isolate-coordinator", isolate_coordinator, (3, 12)),
    Kind("cut-coordinator-from-brokers", cut_coordinator_from_brokers, (3, 12)),
)
