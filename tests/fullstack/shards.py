"""The coordinators of a run, the operator who looks after them, and what their logs must say at the end.

Faults of coordinators are those of tests/simulation (kinds_coordinators): this class has the names that they
ask for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataplane.storage.dump import dump_segment
from dataplane.storage.log_settings import PartitionId
from dataplane.storage.partition_file import partition_directory
from springtide.contract.partition_state import PartitionKey, PartitionState, Shard
from springtide.node.sharding import GROUPS_TOPIC
from springtide.wire.record_batch import ATTRIBUTE_CONTROL
from tests.fullstack.broker_node import DATA_DIR, BrokerNode
from tests.fullstack.coordinator_node import CoordinatorNode
from tests.fullstack.maintainer_rest import TRIES_FEW, Desk
from tests.fullstack.options import SHARDS_SIMULATED

if TYPE_CHECKING:
    from tests.fullstack.cluster import Cluster

FIRST_COORDINATOR_ID = 1_001
LOOK_MS = (500, 1_500)


class Shards:
    """wanted: (draining, demoted) of coordinators that are to be so now. unwanted: ids of those to be
    removed."""

    def __init__(self, cluster: Cluster) -> None:
        ids = range(FIRST_COORDINATOR_ID, FIRST_COORDINATOR_ID + cluster.options.coordinators)
        self.nodes = [CoordinatorNode(cluster, coordinator_id) for coordinator_id in ids]
        self.wanted: dict[int, tuple[bool, bool]] = {}
        self.unwanted: set[int] = set()
        self._cluster = cluster
        self._desk = Desk(cluster, name="registrar")

    def start(self) -> None:
        for node in self.nodes:
            node.start()
        self._cluster.spawn(self._run)

    # The operator

    def look_after(self) -> None:
        """Nothing: the operator looks again soon."""

    async def _run(self) -> None:
        path = f"{self._desk.root}/coordinators"
        while True:
            found = await self._desk.ask("GET", path, tries=TRIES_FEW)
            for row in () if found is None else found["items"]:
                await self._look_at(path, row)
            await self._desk.pause(*LOOK_MS)

    async def _look_at(self, path: str, row: dict[str, object]) -> None:
        """Have a coordinator that waits admitted, and another as it is wanted to be."""
        coordinator_id = row["coordinator_id"]
        assert isinstance(coordinator_id, int)
        draining, demoted = self.wanted.get(coordinator_id, (False, False))
        if coordinator_id in self.unwanted:
            await self._desk.ask("DELETE", f"{path}/{coordinator_id}", tries=1)
        elif row["state"] == "waiting":
            await self._desk.ask("POST", path, {"coordinator_ids": [coordinator_id]}, tries=TRIES_FEW)
        elif (row["draining"], row["demoted"]) != (draining, demoted):
            body = {"draining": draining, "demoted": demoted}
            await self._desk.ask("PATCH", f"{path}/{coordinator_id}", body, tries=TRIES_FEW)

    # What there is

    def states(self) -> dict[PartitionKey, PartitionState]:
        """Return the shards' partitions; none while no controller is active."""
        published = self._cluster.published()
        found = {} if published is None else published.image.partitions
        return {key: state for key, state in sorted(found.items()) if state.topic == GROUPS_TOPIC}

    @property
    def shard(self) -> Shard | None:
        return next((state.shard for state in self.states().values()), None)

    def missing(self) -> str | None:
        """Return what the shards lack to be whole: each has an owner and a standby that are alive."""
        states = self.states()
        if len(states) != SHARDS_SIMULATED:
            return f"the topic {GROUPS_TOPIC}"
        alive = {node.coordinator_id for node in self.nodes if node.is_up}
        for (_, partition), state in states.items():
            if state.shard is None or not {state.shard.owner, state.shard.standby} <= alive:
                return f"an owner and a standby of shard {partition}: {state.shard}"
        return None

    # At the end

    def check_writers(self) -> list[str]:
        """Return what is wrong in the logs on the brokers' disks (I27, one writer per opening), a line each.
        The brokers are down."""
        cluster = self._cluster
        keys = [key for key in cluster.keys if key not in cluster.data_keys]
        return [
            wrong for node in cluster.brokers.values() for key in keys for wrong in self._check_log(node, key)
        ]

    def _check_log(self, node: BrokerNode, key: PartitionKey) -> list[str]:
        disk = node.host.memory
        directory = f"{DATA_DIR}/{partition_directory(PartitionId(key[0], GROUPS_TOPIC, key[1]))}"
        if not disk.exists(directory):
            return []
        names = [name for name in disk.listdir(directory) if name.endswith(".log")]
        entries = [
            entry
            for name in names
            for entry in dump_segment(disk.open(f"{directory}/{name}"), with_records=False)
        ]
        for entry in entries:
            if "batch" not in entry:
                return [f"{node.name}: shard {key[1]}: {entry}"]
        headers = [entry["batch"] for entry in entries]
        written = [header for header in headers if not header["attributes"] & ATTRIBUTE_CONTROL]
        is_compacted = len(written) < len(headers)  # by rounds, after which sequences have gaps
        writer, next_sequence = (-1, -1), 0
        for header in written:
            found = header["producer_id"], header["producer_epoch"]
            sequence, expected = header["base_sequence"], 0 if found > writer else next_sequence
            if found < writer or sequence < expected or (sequence > expected and not is_compacted):
                return [f"I27: shard {key[1]} on {node.name}: {header} after {writer}, {next_sequence}"]
            writer, next_sequence = found, sequence + header["last_offset_delta"] + 1
        return []
