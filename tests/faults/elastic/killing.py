"""Kills the active controller of two whenever an operation gets a step further."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from localcluster.cluster import LocalCluster
from localcluster.rest import Json

PARTS = (50,)
"""Percent of an operation's moves that have ended."""


def milestones(operation: Json) -> list[str]:
    """What an operation has reached, as it shows it: each of its steps that has begun, and half of its
    moves."""
    found = [
        f"{operation['kind']}: {step['name']}"
        for step in operation["steps"]
        if step["state"] not in {"pending", "skipped"}
    ]
    total, done = operation["progress"]["moves_total"], operation["progress"]["moves_done"]
    if total:
        found += [
            f"{operation['kind']}: {percent} % moved" for percent in PARTS if done * 100 >= total * percent
        ]
    return found


@dataclass
class Killer:
    """Give its `watch` to `Stage.follow`.

    The victim is started again at once and is the standby by the next kill; so that a step which is over in a
    moment meets its kill, too, nobody waits for that: both may be down for some seconds.
    """

    cluster: LocalCluster
    kills: list[tuple[float, str]] = field(default_factory=list)
    """When, and at which milestone."""
    _reached: set[str] = field(default_factory=set)

    def watch(self, operation: Json) -> None:
        reached = [name for name in milestones(operation) if name not in self._reached]
        if not reached or operation["state"] in {"succeeded", "failed", "cancelled"}:
            return
        self._reached |= set(reached)
        victim = self.cluster.active_controller()
        self.kills.append((time.monotonic(), reached[-1]))
        self.cluster.kill_controller(victim)
        self.cluster.controllers[victim].process.start()

    def wait_until_mended(self) -> None:
        """Until both controllers serve."""
        for controller in self.cluster.controllers.values():
            controller.process.wait_ready(lambda: controller.readiness() is not None)  # noqa: B023

    def at(self) -> Sequence[str]:
        return [name for _, name in self.kills]
