"""After the faults: everything is mended, settles, and is read, dumped and compared."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import trio

from dataplane.core.leader import Leader
from dataplane.storage.divergent import list_copies
from dataplane.storage.dump import dump_segment
from dataplane.storage.log_dir import DIVERGENT
from dataplane.storage.log_settings import PartitionId
from dataplane.storage.partition_file import PARTITION_FILE, partition_directory
from springtide.contract.partition_state import NO_LEADER, PartitionKey, PartitionState
from tests.checker.history import Batch, Function, Item, Key, Operation, Outcome
from tests.checker.placement import Partition, check_placement
from tests.checker.values import decode_value
from tests.checker.verdict import Anomaly
from tests.fullstack.broker_node import DATA_DIR, BrokerNode
from tests.fullstack.cluster import Cluster
from tests.fullstack.consumer import Consumer
from tests.fullstack.failure import Failure
from tests.kit.dataplane.divergent_copies import read_copy

SETTLE_MS_MAX = 60_000
FINAL_READ_MS_MAX = 30_000
AGREE_MS_MAX = 15_000
FACTS = ("leader", "leader_epoch", "partition_epoch", "isr", "elr", "replicas")


def mend_everything(cluster: Cluster) -> None:
    """Every fault ends; what is down comes back."""
    cluster.ongoing.end_all()
    cluster.network.mend_all()
    for controller in cluster.controllers:
        controller.resume()
        controller.start()
        controller.reconnect()
    for coordinator in cluster.coordinators:
        coordinator.resume()
        coordinator.start()
    for broker in cluster.brokers.values():
        broker.resume()
        broker.host.slowness = 1.0
        broker.kill_at = None
        if broker.disk is not None:
            broker.disk.kill_at = None
        has_failed = broker.broker is not None and broker.broker.directory.failure is not None
        if has_failed or broker.wants_shutdown:
            broker.crash()
        broker.start()
    cluster.world.note("everything is mended")


def missing(cluster: Cluster) -> str | None:
    """What the cluster lacks to be whole; None when it is."""
    published = cluster.published()
    if published is None:
        return "an active controller"
    for key, state in sorted(published.image.partitions.items()):
        topic = published.image.topics.get(key[0])
        if topic is None or topic.deleting:
            continue
        if state.leader == NO_LEADER:
            return f"a leader of {state.topic}-{state.partition}: isr {state.isr} elr {state.elr}"
        if state.is_reassigning:
            return f"the end of the move of {state.topic}-{state.partition}: {state}"
        if set(state.isr) != set(state.replicas):
            return f"the whole isr of {state.topic}-{state.partition}: {state.isr} of {state.replicas}"
        leader = cluster.brokers[state.leader].broker
        hosted = None if leader is None else leader.table.get(*key)
        if hosted is None or not isinstance(hosted.replica.role, Leader):
            return f"broker {state.leader} to lead {state.topic}-{state.partition}"
        if hosted.replica.high_watermark != hosted.log.log_end_offset:
            return f"the high watermark of {state.topic}-{state.partition}"
    rotten = [node.name for node in cluster.brokers.values() if node.is_rotten]
    if rotten:
        return f"{rotten[0]}'s bytes to be mended"
    for node in cluster.brokers.values():
        for hosted in () if node.broker is None else node.broker.table:
            known = published.image.partitions.get(hosted.key)
            if known is not None and node.broker_id not in known.replicas:
                return f"{node.name} without {known.topic}-{known.partition}, which was moved away"
    return None if cluster.shards is None else cluster.shards.missing()


async def settle(cluster: Cluster) -> int:
    """Milliseconds until the cluster was whole. Raises Failure."""
    began_ms = cluster.world.now_ms
    while (lacking := missing(cluster)) is not None:
        if cluster.world.now_ms - began_ms > SETTLE_MS_MAX:
            raise Failure(f"L2: {SETTLE_MS_MAX} ms after the faults ended it lacks {lacking}")
        await trio.sleep(0.02)
    return cluster.world.now_ms - began_ms


async def read_finally(cluster: Cluster, ends: dict[Key, int]) -> None:
    """A fresh consumer of each partition, from its beginning to its end. Raises Failure."""
    readers = [
        Consumer(
            cluster.clients,
            name=f"final-{topic}-{partition}",
            topic=topic,
            partition=partition,
            final=True,
            until=end,
        )
        for (topic, partition), end in sorted(ends.items())
    ]
    with trio.move_on_after(FINAL_READ_MS_MAX / 1000):
        async with trio.open_nursery() as nursery:
            for reader in readers:
                nursery.start_soon(reader.run)
    late = [reader.name for reader in readers if not reader.is_done]
    if late:
        cluster.world.note(f"the final read did not reach the end: {late}")


# REST = ZooKeeper = brokers = audit


async def agree(cluster: Cluster) -> tuple[Anomaly, ...]:
    """Compares what each side says, until they agree or for as long as they may take to. Raises Failure when
    no controller is active at the end: a role may still be lost to what was mended a moment ago."""
    due_ms = cluster.world.now_ms + AGREE_MS_MAX
    while True:
        anomalies = await _compare(cluster)
        is_late = cluster.world.now_ms > due_ms
        if anomalies is None and is_late:
            raise Failure("no controller was active when REST, ZooKeeper, brokers and audit were compared")
        if anomalies is not None and (not anomalies or is_late):
            return anomalies
        await trio.sleep(0.25)


async def check_audit_chain(cluster: Cluster) -> None:
    """Whoever wrote the history, and whatever befell them, it is one chain. Raises Failure."""
    found = await cluster.operator.verification()
    if not found["ok"] or not found["rows"]:
        raise Failure(f"the audit's chain of hashes does not hold: {found}")


async def _compare(cluster: Cluster) -> tuple[Anomaly, ...] | None:
    """None: there is no active controller to compare the others with."""
    rest = {
        (cluster.topic, item["partition"]): {
            **{fact: item[fact] for fact in FACTS},
            "leader": NO_LEADER if item["leader"] is None else item["leader"],
        }
        for item in await cluster.operator.partitions(cluster.topic)
    }
    latest: dict[Key, Partition | None] = {}
    for row in await cluster.operator.audit():
        if row["entity"] == "partition" and row["topic"] == cluster.topic and row["kind"] == "change":
            after = row["after"]  # None: it is gone
            facts = None if after is None else {fact: after[fact] for fact in FACTS}
            latest.setdefault((cluster.topic, row["partition"]), facts)
    audit = {key: facts for key, facts in latest.items() if facts is not None}
    truth = {(cluster.topic, key[1]): _facts(cluster.truth(key)) for key in cluster.data_keys}
    if not all(truth.values()):
        return None
    views: dict[str, Any] = {"rest": rest, "audit": audit}
    anomalies = list(check_placement(truth, views))
    for broker in cluster.brokers.values():
        mine = {
            key: facts
            for key, facts in truth.items()
            if broker.broker_id in facts["replicas"]  # type: ignore[operator]
        }
        anomalies += check_placement(mine, {broker.name: _broker_view(cluster, broker)})
    return tuple(anomalies)


def _broker_view(cluster: Cluster, node: BrokerNode) -> dict[Key, Partition]:
    view: dict[Key, Partition] = {}
    if node.broker is not None:
        for hosted in node.broker.table:
            state = hosted.replica.state
            if hosted.topic == cluster.topic and state is not None:
                view[(hosted.topic, hosted.partition)] = _facts(state)
    return view


def _facts(state: PartitionState | None) -> Partition:
    return {} if state is None else {fact: getattr(state, fact) for fact in FACTS}


# Dumps


def high_watermarks(cluster: Cluster) -> dict[tuple[int, PartitionKey], int]:
    """As each broker has them, before everything is stopped."""
    return {
        (node.broker_id, hosted.key): hosted.replica.high_watermark
        for node in cluster.brokers.values()
        if node.broker is not None
        for hosted in node.broker.table
    }


def dump_replicas(cluster: Cluster, watermarks: dict[tuple[int, PartitionKey], int]) -> list[str]:
    """Writes every replica of the lasting topic into the history, from its disk, and compares their bytes.
    The brokers must be down. What differs, a line each."""
    digests: dict[PartitionKey, dict[str, int]] = {}
    for node in cluster.brokers.values():
        for key in cluster.data_keys:
            watermark = watermarks.get((node.broker_id, key))
            if watermark is not None:
                digest = _dump(cluster, node, key, watermark)
                digests.setdefault(key, {})[digest] = node.broker_id
    shared = min(watermarks.values(), default=0)
    return [
        f"replicas of {key[0]}-{key[1]} differ in their bytes below the high watermark (at least {shared})"
        for key, found in digests.items()
        if len(found) > 1
    ]


def _dump(cluster: Cluster, node: BrokerNode, key: PartitionKey, watermark: int) -> str:
    """Digest of the bytes below the high watermark."""
    disk = node.host.memory
    directory = f"{DATA_DIR}/{partition_directory(PartitionId(key[0], cluster.topic, key[1]))}"
    assert disk.exists(f"{directory}/{PARTITION_FILE}"), directory
    digest = hashlib.blake2b(digest_size=16)
    items: list[Item] = []
    batches: list[Batch] = []
    for name in disk.listdir(directory):
        if not name.endswith(".log"):
            continue
        file = disk.open(f"{directory}/{name}")
        for entry in dump_segment(file, with_records=True):
            if "batch" not in entry:
                raise Failure(f"{node.name}: {name} of {key}: {entry}")
            header = entry["batch"]
            if header["last_offset"] < watermark:
                digest.update(file.pread(header["size_bytes"], header["position"]))
            batches.append(
                Batch(
                    base_offset=header["base_offset"],
                    record_count=header["record_count"],
                    leader_epoch=header["leader_epoch"],
                    producer_id=header["producer_id"],
                    producer_epoch=header["producer_epoch"],
                    base_sequence=header["base_sequence"],
                )
            )
            items += [(record["offset"], decode_value(bytes(record["value"]))) for record in entry["records"]]
    _record_dump(
        cluster,
        f"{node.name}-disk",
        key[1],
        items,
        batches=tuple(batches),
        high_watermark=watermark,
        log_start_offset=0,
    )
    return digest.hexdigest()


def dump_asides(cluster: Cluster) -> None:
    """Writes into the history what replicas of the lasting topic cut off and put aside first."""
    for node in cluster.brokers.values():
        for found in list_copies(node.host.memory, f"{DATA_DIR}/{DIVERGENT}"):
            span = found.range
            if span.topic == cluster.topic:
                _record_dump(
                    cluster,
                    f"{node.name} divergent {span.first_offset}-{span.next_offset}",
                    span.partition,
                    (
                        (record.offset, decode_value(bytes(record.value or b"")))
                        for record in read_copy(node.host.memory, found)
                    ),
                )


def _record_dump(
    cluster: Cluster,
    process: str,
    partition: int,
    items: Iterable[Item],
    *,
    batches: tuple[Batch, ...] = (),
    high_watermark: int | None = None,
    log_start_offset: int | None = None,
) -> None:
    """Of the lasting topic; see Operation for what a dump without a high watermark is good for."""
    now_ns = cluster.world.now_ns
    cluster.clients.record(
        Operation(
            process=process,
            f=Function.DUMP,
            type=Outcome.OK,
            t_invoke_ns=now_ns,
            t_return_ns=now_ns,
            key=(cluster.topic, partition),
            items=tuple(items),
            batches=batches,
            high_watermark=high_watermark,
            log_start_offset=log_start_offset,
        )
    )
