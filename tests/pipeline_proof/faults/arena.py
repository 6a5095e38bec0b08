"""The brokers of some runs behind their gates, and the records that every run copies."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa

from localcluster.cluster import LocalCluster
from localcluster.ports import LOOPBACK, PortReservation
from localcluster.processes import ProcessCommand, ProcessPlace
from pipeline.client.client import Client
from pipeline.client.config import ClientConfig, parse_bootstrap
from pipeline.client.values import EARLIEST, LATEST, PartitionRange, TopicPartition
from pipeline.records.decode import decode_records
from pipeline.records.encode import BatchOptions, PartitionEncoder
from tests.pipeline_proof.faults.gate import Gate
from tests.pipeline_proof.faults.storm import Storm
from tests.pipeline_proof.faults.verdict import Record

BROKERS = 3
SOURCE_PARTITIONS = 4
SINK_PARTITIONS = 3
RECORDS_EACH = 2_000
KEYS_EACH = 16
PADDING = "." * 80
SOURCE = "orders"


@dataclass(frozen=True, slots=True)
class GatedPlace(ProcessPlace):
    """A broker on this machine that tells everybody to come through its gate."""

    gate_port: int = 0

    def run(self, command: ProcessCommand) -> ProcessCommand:
        return ProcessCommand(
            arguments=[*command.arguments, "--advertise", f"{LOOPBACK}:{self.gate_port}"],
            working_directory=command.working_directory,
            environment=command.environment,
        )


class Arena:
    """A cluster that is formed and has the source topic, and its gates."""

    def __init__(self, cluster: LocalCluster, gates: Mapping[int, Gate], storm: Storm) -> None:
        self.cluster = cluster
        self.gates = gates
        self.storm = storm

    @property
    def bootstrap(self) -> str:
        return ",".join(gate.endpoint for gate in self.gates.values())

    def client(self) -> Client:
        return Client(ClientConfig(bootstrap=parse_bootstrap(self.bootstrap)))

    def read(self, topic: str) -> list[list[Record]]:
        """Every record of a topic of ours, by partition, in the order of its log."""
        where = [TopicPartition(topic, partition) for partition in range(SINK_PARTITIONS)]
        found: list[list[Record]] = [[] for _ in where]
        with self.client() as client:
            starts = client.list_offsets(dict.fromkeys(where, EARLIEST))
            ends = client.list_offsets(dict.fromkeys(where, LATEST))
            ranges = [
                PartitionRange(*each, starts[each].offset, ends[each].offset)
                for each in where
                if starts[each].offset < ends[each].offset
            ]
            with client.fetch(ranges) as stream:
                for fetched in stream:
                    number = fetched.where.partition
                    rows = decode_records(fetched.records, topic=topic, partition=number, columns=["value"])
                    for batch in rows:
                        found[number] += map(record_of, batch.column("value").to_pylist())
        return found


def record_of(value: bytes) -> Record:
    """`partition:index:padding`, as `fill` writes it. Raises ValueError."""
    source, index, _ = value.split(b":", 2)
    return int(source), int(index)


def fill(client: Client, topic: str) -> None:
    """Records that say where they stand; their keys spread a partition's records over those of the copy."""
    for partition in range(SOURCE_PARTITIONS):
        indexes = range(RECORDS_EACH)
        rows = pa.record_batch(
            {
                "key": [f"{partition}/{index % KEYS_EACH}".encode() for index in indexes],
                "value": [f"{partition}:{index}:{PADDING}".encode() for index in indexes],
            }
        )
        encoder = PartitionEncoder(
            options=BatchOptions(batch_bytes_max=16_384), timestamp_ms=time.time_ns() // 1_000_000
        )
        for batch in [*encoder.add(rows), *encoder.finish()]:
            client.produce({TopicPartition(topic, partition): batch.data})


@contextlib.contextmanager
def open_arena(directory: Path, *, broker_config: Mapping[str, str]) -> Iterator[Arena]:
    """Brokers with gates, and the source topic filled."""
    storm = Storm()
    with contextlib.ExitStack() as stack:
        ports = stack.enter_context(PortReservation())
        reserved = {broker_id: ports.reserve_free() for broker_id in range(1, BROKERS + 1)}

        def place_of(host: str) -> ProcessPlace:
            kind, _, number = host.partition("-")
            return GatedPlace(gate_port=reserved[int(number)]) if kind == "broker" else ProcessPlace()

        cluster = LocalCluster(
            directory, brokers=BROKERS, broker_config=dict(broker_config), place_of=place_of
        )

        def target(broker_id: int) -> tuple[str, int]:
            return LOOPBACK, cluster.brokers[broker_id].port

        gates = {}
        for broker_id, port in reserved.items():
            gates[broker_id] = Gate(broker_id, port, partial(target, broker_id), storm)
            stack.callback(gates[broker_id].close)
        stack.enter_context(cluster)
        endpoints = {broker_id: gate.endpoint for broker_id, gate in gates.items()}
        cluster.api.add_brokers(cluster.name, endpoints)
        cluster.create_topic(SOURCE, partitions=SOURCE_PARTITIONS, replication_factor=BROKERS)
        arena = Arena(cluster, gates, storm)
        with arena.client() as client:
            fill(client, SOURCE)
        yield arena
