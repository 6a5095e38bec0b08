"""ZooKeeper for a cluster of machines: the server in memory, and what may be wrong with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.shell.leadership import ACTIVE_PATH
from tests.simulation.memory_zookeeper import LostAnswer, MemoryMeta, MemoryZooKeeper

if TYPE_CHECKING:
    from tests.fullstack.cluster import Cluster
    from tests.fullstack.controller_node import ControllerNode


class ZooKeeperHost:
    """Faults by the names that the schedules of tests/simulation use."""

    def __init__(self, cluster: Cluster) -> None:
        self.server = MemoryZooKeeper()
        self._cluster = cluster
        self._random = cluster.world.random("zookeeper")
        self._outages = 0
        self._rates: list[float] = []

    @property
    def is_back(self) -> bool:
        """Whether it was put back to an earlier state, which only the cores' simulation does to it."""
        return False

    @property
    def is_out(self) -> bool:
        return self._outages > 0

    @property
    def leader(self) -> str | None:
        """The controller whose claim stands."""
        holder = self._holder()
        return None if holder is None else holder.name

    def _holder(self) -> ControllerNode | None:
        node = self.server.nodes.get(ACTIVE_PATH)
        if node is None:
            return None
        for controller in self._cluster.controllers:
            if controller.meta is not None and controller.meta.session.session_id == node.owner:
                return controller
        return None

    def expire(self, name: str) -> None:
        for controller in self._cluster.controllers:
            if controller.name == name:
                controller.expire_session()

    def go_down(self) -> None:
        """Every connection breaks; sessions are not counted down while nobody counts."""
        self._outages += 1
        for controller in self._cluster.controllers:
            controller.disconnect()

    def come_back(self) -> None:
        self._outages -= 1
        if not self.is_out:
            for controller in self._cluster.controllers:
                controller.reconnect()

    def lose_answers(self, rate: float) -> None:
        self._rates.append(rate)

    def answer_again(self, rate: float) -> None:
        self._rates.remove(rate)

    def lose_answer_by_chance(self, meta: MemoryMeta) -> None:
        """Called before each write: its answer may be lost, and the write with it or not."""
        if self._rates and self._random.random() < max(self._rates):
            meta.faults.append(LostAnswer(is_applied=self._random.random() < 0.5))
