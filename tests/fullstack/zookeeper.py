"""ZooKeeper for a cluster of machines: the server in memory, and what may be wrong with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from controller.shell.leadership import ACTIVE_PATH
from controller.shell.meta import Node
from controller.shell.rows import HeadRow, head_path
from tests.fullstack.world import WALL_START_MS
from tests.kit.memory.zookeeper import LostAnswer, MemoryMeta, MemoryZooKeeper

if TYPE_CHECKING:
    from tests.fullstack.cluster import Cluster
    from tests.fullstack.controller_node import ControllerNode


@dataclass(frozen=True, slots=True)
class Copy:
    """What the servers held once, but for the sessions."""

    nodes: dict[str, Node]
    zxid: int


def head_in(nodes: dict[str, Node], cluster: str) -> HeadRow | None:
    """The cluster's last write; None: it has not been formed."""
    node = nodes.get(head_path(cluster))
    return None if node is None else msgspec.json.decode(node.data, type=HeadRow)


class ZooKeeperHost:
    """Faults by the names that the schedules of tests/simulation use."""

    def __init__(self, cluster: Cluster) -> None:
        self.server = MemoryZooKeeper(wall_ms=lambda: WALL_START_MS + cluster.world.now_ms)
        self._cluster = cluster
        self._random = cluster.world.random("zookeeper")
        self._outages = 0
        self._rates: list[float] = []
        self.backup: Copy | None = None
        self._put_back: Copy | None = None
        self.times_back = 0

    def copy(self) -> Copy:
        """What a backup would hold."""
        nodes = {path: node for path, node in self.server.nodes.items() if not node.owner}
        return Copy(nodes, self.server.zxid)

    def put_back(self, copy: Copy) -> None:
        """Everything since is gone, and so are all sessions. It must be down."""
        assert self.is_out
        self.server.restore(copy.nodes, copy.zxid)
        self._put_back = copy
        self.times_back += 1

    def head(self) -> HeadRow | None:
        return head_in(self.server.nodes, self._cluster.name)

    @property
    def is_back(self) -> bool:
        """Whether it was put back to an earlier state, and nobody has recovered what it lost: a recovery
        begins the head's terms anew."""
        if self._put_back is not None:
            before, now = head_in(self._put_back.nodes, self._cluster.name), self.head()
            assert before is not None
            assert now is not None
            if now.terms[:1] != before.terms[:1]:
                self._put_back = None
        return self._put_back is not None

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
