"""Which faults a seed brings, and when: drawn from the seed in the state that the cluster is in.

Each seed turns a random subset of fault kinds on (swarm testing: a kind that is always on hides what another
would find), with its own pace. What was drawn and applied is kept as values (`strikes`), which a Replayer
plays again.
"""

from __future__ import annotations

from random import Random

# Importing them registers their kinds.
from tests.simulation import (
    kinds_brokers,
    kinds_clocks,
    kinds_controllers,
    kinds_coordinators,
    kinds_creation,
    kinds_disks,
    kinds_hosts,
    kinds_kept,
    kinds_network,
    kinds_operators,
    kinds_pauses,
    kinds_plans,
    kinds_releases,
    kinds_scripts,
    kinds_topics,
    kinds_transactions,
    kinds_workers,
)
from tests.simulation.cluster import Cluster
from tests.simulation.events import keyed_random
from tests.simulation.schedule import KINDS, Kind, Strike, apply

__all__ = [
    "FaultPlanner",
    "kinds_brokers",
    "kinds_clocks",
    "kinds_controllers",
    "kinds_coordinators",
    "kinds_creation",
    "kinds_disks",
    "kinds_hosts",
    "kinds_kept",
    "kinds_network",
    "kinds_operators",
    "kinds_pauses",
    "kinds_plans",
    "kinds_releases",
    "kinds_scripts",
    "kinds_topics",
    "kinds_transactions",
    "kinds_workers",
]


MODULES = (
    kinds_brokers,
    kinds_controllers,
    kinds_network,
    kinds_operators,
    kinds_plans,
    kinds_scripts,
    kinds_disks,
    kinds_pauses,
    kinds_creation,
    kinds_clocks,
    kinds_hosts,
    kinds_coordinators,
    kinds_workers,
    kinds_topics,
    kinds_releases,
    kinds_kept,
    kinds_transactions,
)
_PLACE = {module.__name__: number for number, module in enumerate(MODULES)}

#: Strikes at what a process of another release has not, or has otherwise: it has drivers of its own.
OF_ONE_RELEASE = frozenset({"resume_host"})

#: One strike in so many is followed by another within this time: what is rare alone is found in the moment
#: after something else.
VOLLEY_RATE = 0.3
VOLLEY_MS = 40
#: In a sweep of one family, so many strikes are of that family.
FAMILY_RATE = 0.5


class FaultPlanner:
    """Draws one strike after another until `stop`."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.random: Random = keyed_random(cluster.seed, "faults")
        # Not as they were imported: a seed must be the same run whoever imports what first.
        ordered = sorted(KINDS.values(), key=lambda kind: _PLACE[kind.apply.__module__])
        weighted = [kind for kind in ordered for _ in range(kind.weight)]
        if cluster.options.mixed:
            weighted = [kind for kind in weighted if kind.name not in OF_ONE_RELEASE]
        every = [kind for kind in weighted if not kind.needs]
        share = self.random.choice((0.15, 0.3, 0.5, 0.8))
        self.kinds: list[Kind] = [kind for kind in every if self.random.random() < share] or every[:3]
        self.kinds += [kind for kind in weighted if kind.needs and getattr(cluster.options, kind.needs)]
        family = cluster.options.family
        self.family = [
            kind for kind in ordered if family and kind.family == family for _ in range(kind.weight or 1)
        ]
        assert bool(self.family) == bool(family), f"no kind of fault is of the family {family!r}"
        self.strikes: list[Strike] = []
        self.stopped = False
        self._ends_ms: list[int] = []

    def start(self) -> None:
        options = self.cluster.options
        if self.random.random() < VOLLEY_RATE:
            delay_ms = self.random.random() * VOLLEY_MS
        else:
            delay_ms = options.strike_pace_ms * (0.2 + 1.6 * self.random.random())
        self.cluster.events.at(self.cluster.events.now_ms + 1 + int(delay_ms), self._strike)

    def _strike(self) -> None:
        if self.stopped:
            return
        now_ms = self.cluster.events.now_ms
        self._ends_ms = [end_ms for end_ms in self._ends_ms if end_ms > now_ms]
        if len(self._ends_ms) < self.cluster.options.ongoing_max:
            is_of_family = bool(self.family) and self.random.random() < FAMILY_RATE
            chosen = self.random.choice(self.family if is_of_family else self.kinds)
            arguments = chosen.draw(self.cluster, self.random)
            if arguments is not None:
                strike = Strike(now_ms, chosen.name, arguments)
                if apply(self.cluster, strike):
                    self.strikes.append(strike)
                    self._ends_ms.append(now_ms + arguments.get("for_ms", 0))
        self.start()

    def stop(self) -> None:
        """No strike any more. What has begun goes on until it ends or is healed."""
        self.stopped = True
