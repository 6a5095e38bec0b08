"""Which faults a seed brings, and when: drawn from the seed in the state that the cluster is in.

Each seed turns a random subset of fault kinds on (swarm testing: a kind that is always on hides what another
would find), with its own pace. What was drawn and applied is kept as values (`strikes`), which a Replayer
plays again.
"""

from __future__ import annotations

from random import Random

# Importing them registers their kinds.
from tests.simulation import kinds_brokers, kinds_controllers, kinds_network
from tests.simulation.cluster import Cluster
from tests.simulation.events import keyed_random
from tests.simulation.schedule import KINDS, Kind, Strike, apply

__all__ = ["FaultPlanner", "kinds_brokers", "kinds_controllers", "kinds_network"]


class FaultPlanner:
    """Draws one strike after another until `stop`."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.random: Random = keyed_random(cluster.seed, "faults")
        every = [kind for kind in KINDS.values() for _ in range(kind.weight)]
        self.kinds: list[Kind] = [kind for kind in every if self.random.random() < 0.5] or every[:3]
        self.pace_ms = self.random.choice([300, 800, 2_000])
        self.strikes: list[Strike] = []
        self.stopped = False

    def start(self) -> None:
        delay_ms = self.pace_ms * (0.2 + 1.6 * self.random.random())
        self.cluster.events.at(self.cluster.events.now_ms + 1 + int(delay_ms), self._strike)

    def _strike(self) -> None:
        if self.stopped:
            return
        chosen = self.random.choice(self.kinds)
        arguments = chosen.draw(self.cluster, self.random)
        if arguments is not None:
            strike = Strike(self.cluster.events.now_ms, chosen.name, arguments)
            if apply(self.cluster, strike):
                self.strikes.append(strike)
        self.start()

    def stop(self) -> None:
        """No strike any more. What has begun goes on until it ends or is healed."""
        self.stopped = True
