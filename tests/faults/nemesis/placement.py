"""What each side says in the end about every partition: ZooKeeper, REST, and each broker to its clients.

ZooKeeper is read from its own nodes and the brokers over their own protocol: nothing here asks a controller
what somebody else would say.
"""

from __future__ import annotations

from collections.abc import Collection

from kazoo.client import KazooClient

from controller.shell.rows import chunk_path, chunks_of, decode_chunk
from localcluster.cluster import LocalCluster
from localcluster.rest import RestPartition
from springtide.wire.messages import MetadataResponse
from springtide.wire.typed import read_message
from tests.checker.placement import Partition, View, check_placement
from tests.checker.verdict import Anomaly
from tests.faults import frames
from tests.faults.wire import Closed, Wire

ZOOKEEPER_ROOT = "/springtide"
ZOOKEEPER_SECONDS_MAX = 15.0
METADATA_VERSION = 7
"""As in the import above: the first that tells leader epochs."""
CORRELATION_ID_BYTES = 4


class NotTold(RuntimeError):
    """Somebody did not answer."""


def compare_views(
    cluster: LocalCluster, topic: str, *, brokers: Collection[int] | None = None
) -> tuple[Anomaly, ...]:
    """Everything that REST or a broker says otherwise than ZooKeeper. brokers: whom to ask; None: all.

    Raises:
        NotTold: a broker did not answer.
        RestFailed: no controller did.
    """
    rest = cluster.partitions(topic)
    topic_id = str(cluster.api.get(f"/clusters/{cluster.name}/topics/{topic}")["topic_id"])
    views: dict[str, View] = {"rest": {(topic, view.partition): _facts(view) for view in rest}}
    for broker_id, broker in cluster.brokers.items():
        if brokers is not None and broker_id not in brokers:
            continue
        name = f"broker {broker_id}"
        try:
            views[name] = ask_broker(broker.address, broker.port, topic)
        except (OSError, Closed) as error:
            raise NotTold(f"{name} does not tell: {type(error).__name__} {error}") from error
    return check_placement(read_zookeeper(cluster, topic, topic_id, partitions=len(rest)), views)


def _facts(view: RestPartition) -> Partition:
    return {
        "leader": -1 if view.leader is None else view.leader,
        "leader_epoch": view.leader_epoch,
        "replicas": view.replicas,
        "isr": view.isr,
        "elr": view.elr,
    }


def read_zookeeper(cluster: LocalCluster, topic: str, topic_id: str, *, partitions: int) -> View:
    """The rows themselves."""
    client = KazooClient(hosts=cluster.zookeeper.connection_string + ZOOKEEPER_ROOT, read_only=True)
    client.start(timeout=ZOOKEEPER_SECONDS_MAX)
    try:
        found: dict[tuple[str, int], Partition] = {}
        for chunk in chunks_of(partitions):
            path = chunk_path(cluster.name, topic_id, chunk)
            client.sync(path)
            data, _ = client.get(path)
            for row in decode_chunk(data):
                found[topic, row.state.partition] = {
                    "leader": row.state.leader,
                    "leader_epoch": row.state.leader_epoch,
                    "replicas": row.state.replicas,
                    "isr": row.state.isr,
                    "elr": row.state.elr,
                }
        return found
    finally:
        client.stop()
        client.close()


def ask_broker(address: str, port: int, topic: str) -> View:
    """What this one broker tells its clients."""
    with Wire(port, address=address) as wire:
        wire.send(frames.frame(frames.metadata(topic, version=METADATA_VERSION)))
        answer = read_message(MetadataResponse, METADATA_VERSION, wire.receive()[CORRELATION_ID_BYTES:])
    found: dict[tuple[str, int], Partition] = {}
    for told in answer.topics:
        for partition in told.partitions:
            found[topic, partition.partition_index] = {
                "leader": partition.leader_id,
                "leader_epoch": partition.leader_epoch,
                "replicas": tuple(partition.replica_nodes),
                "isr": tuple(partition.isr_nodes),
            }
    return found
