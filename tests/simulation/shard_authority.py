"""What stands in for the controller's part in a shard: who owns it, and which writer is named next.

It answers while a controller leads and ZooKeeper can be written to. Its row is in ZooKeeper and goes back
with it; once the metadata is recovered, it names no writer again that a coordinator has found in the log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from controller.contract.partition_state import WRITER_IDS, WriterId
from tests.simulation.zookeeper import Znode

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster

AUTHORITY = "authority"


class Beat(NamedTuple):
    """found: the number of a writer in the log that is above the one that was named; 0: none."""

    name: str
    is_level: bool
    found: int


class NameWriter(NamedTuple):
    name: str


class ShardRow(NamedTuple):
    """named: how many writers were."""

    owner: str = ""
    named: int = 0


class Role(NamedTuple):
    is_owner: bool
    named: int


class ShardAuthority:
    PATH = "shard"

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.heard: dict[str, tuple[float, bool]] = {}

    @property
    def row(self) -> ShardRow:
        node = self.cluster.zookeeper.nodes.get(self.PATH)
        return ShardRow() if node is None else node.value

    def _write(self, row: ShardRow) -> None:
        self.cluster.zookeeper.nodes[self.PATH] = Znode(row, 0)

    def give(self, name: str) -> None:
        self._write(self.row._replace(owner=name))
        self.cluster.events.note(f"the shard is given to {name}")

    def on_request(self, source: str, request: Any, answer: Callable[[Any], None]) -> None:
        cluster = self.cluster
        if cluster.active_controller() is None or not cluster.zookeeper.available:
            return
        match request:
            case Beat():
                self._hear(request)
                answer(Role(self.row.owner == request.name, self.row.named))
            case NameWriter(name=name) if self.row.owner == name:
                self._write(self.row._replace(named=self.row.named + 1))
                answer(WriterId(WRITER_IDS.start + self.row.named))

    def _hear(self, beat: Beat) -> None:
        cluster, now_ms = self.cluster, self.cluster.events.now_ms
        if beat.found > self.row.named and not cluster.zookeeper.is_back:
            self._write(self.row._replace(named=beat.found))  # the operator's recovery
        self.heard[beat.name] = (now_ms, beat.is_level)
        grace_ms = cluster.options.grace_ms
        since_ms, _ = self.heard.get(self.row.owner, (-(2**40), False))
        if now_ms - since_ms > grace_ms:
            level = [
                name
                for name, (at_ms, is_level) in self.heard.items()
                if is_level and now_ms - at_ms <= grace_ms
            ]
            self.give(level[0] if level else beat.name)
