"""A broker with logs to land, a disk whose process can be killed at any operation, and what must come out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow.parquet as pq

from pipeline.client.client import Client
from pipeline.client.config import ClientConfig
from pipeline.client.values import TopicPartition
from pipeline.files import SharedDisk
from pipeline.land.cluster import LandCluster
from pipeline.land.documents import LandPlan, TableSettings
from pipeline.land.lander import Lander
from pipeline.land.planning import PlanSettings
from pipeline.land.reading import dataset, landed
from pipeline.land.table import LandTable
from pipeline.land.task import LandReport, land_ranges, task_settings
from pipeline.source.options import parse_options
from springtide.wire.apis import ApiKey
from springtide.wire.compression import Compression
from springtide.wire.errors import ErrorCode
from springtide.wire.records import NewRecord, encode_batch
from tests.kit.pipeline.brokers import Says, ScriptedBroker

HOUR_MS = 3_600_000
NOON_MS = 1_700_049_600_000
"""2023-11-15 12:00 UTC."""
Row = tuple[str, int, int, bytes, bytes | None, int]
"""topic, partition, offset, key, value, timestamp in ms."""


class Logs:
    """Topics on one broker. A record's key and value say where it stands."""

    def __init__(self, broker: ScriptedBroker) -> None:
        self.broker = broker
        self.batches: dict[TopicPartition, list[tuple[int, int, bytes]]] = {}
        self.rows: dict[TopicPartition, list[Row]] = {}
        self.begins: dict[TopicPartition, int] = {}
        self.ids: dict[str, UUID] = {}
        self.leader_epoch = 3
        self.epoch_ends: dict[TopicPartition, int] = {}
        broker.handlers.update(
            {
                ApiKey.METADATA: self._metadata,
                ApiKey.LIST_OFFSETS: self._list_offsets,
                ApiKey.FETCH: self._fetch,
                ApiKey.OFFSET_FOR_LEADER_EPOCH: self._epoch_ends,
            }
        )

    @property
    def config(self) -> ClientConfig:
        return ClientConfig(
            bootstrap=(self.broker.address,),
            fetch_max_wait_ms=10,
            retry_budget_ms=300,
            retry_backoff_ms=5,
            unknown_topic_budget_ms=300,
        )

    def make(self, topic: str, partitions: int, topic_id: int = 1) -> None:
        self.ids[topic] = UUID(int=topic_id)
        for number in range(partitions):
            self.batches.setdefault(TopicPartition(topic, number), [])
            self.rows.setdefault(TopicPartition(topic, number), [])

    def write(
        self,
        topic: str,
        partition: int,
        timestamps: Sequence[int],
        *,
        compression: Compression = Compression.NONE,
        gap: int = 0,
    ) -> None:
        """One batch of records, `gap` offsets after the last."""
        where = TopicPartition(topic, partition)
        first = self.end(where) + gap
        rows: list[Row] = [
            (
                topic,
                partition,
                first + n,
                b"k%d" % (n % 3),
                None if n % 5 == 4 else b"%s %d %d" % (topic.encode(), partition, first + n),
                timestamp,
            )
            for n, timestamp in enumerate(timestamps)
        ]
        records = [NewRecord(row[3], row[4], row[5], headers=(("n", b"%d" % row[2]),)) for row in rows]
        data = encode_batch(records, base_offset=first, compression=compression)
        self.batches[where].append((first, first + len(rows), data))
        self.rows[where] += rows

    def end(self, where: TopicPartition) -> int:
        return self.batches[where][-1][1] if self.batches[where] else 0

    def all_rows(self) -> list[Row]:
        return sorted(row for rows in self.rows.values() for row in rows)

    # --- answers --------------------------------------------------------------------------------------

    def _metadata(self, message: Any) -> Says:
        asked = None if message.topics is None else [one.name for one in message.topics]
        broker = {"node_id": 1, "host": self.broker.address[0], "port": self.broker.address[1], "rack": None}
        topics = [
            {
                "name": topic,
                "topic_id": topic_id,
                "partitions": [
                    {
                        "partition_index": where.partition,
                        "leader_id": 1,
                        "leader_epoch": self.leader_epoch,
                        "replica_nodes": (1,),
                        "isr_nodes": (1,),
                    }
                    for where in self.batches
                    if where.topic == topic
                ],
            }
            for topic, topic_id in self.ids.items()
            if asked is None or topic in asked
        ]
        missing = [
            {"name": topic, "error_code": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
            for topic in asked or ()
            if topic not in self.ids
        ]
        return {"brokers": [broker], "cluster_id": "c", "topics": [*topics, *missing]}

    def _each(self, topics: Iterable[Any], name: str, row: Callable[[TopicPartition, Any], Any]) -> list[Any]:
        return [
            {
                name: getattr(topic, name),
                "partitions": [
                    row(TopicPartition(getattr(topic, name), _index(one)), one) for one in topic.partitions
                ],
            }
            for topic in topics
        ]

    def _list_offsets(self, message: Any) -> Says:
        def row(where: TopicPartition, one: Any) -> Any:
            match one.timestamp:
                case -2:
                    offset = self.begins.get(where, 0)
                case -1:
                    offset = self.end(where)
                case wanted:
                    offset = next((each[2] for each in self.rows[where] if each[5] >= wanted), -1)
            return {"partition_index": where.partition, "offset": offset, "leader_epoch": self.leader_epoch}

        return {"topics": self._each(message.topics, "name", row)}

    def _epoch_ends(self, message: Any) -> Says:
        def row(where: TopicPartition, one: Any) -> Any:
            return {
                "partition": where.partition,
                "leader_epoch": one.leader_epoch,
                "end_offset": self.epoch_ends.get(where, self.end(where)),
            }

        return {"topics": self._each(message.topics, "topic", row)}

    def _fetch(self, message: Any) -> Says:
        rows: list[Any] = []
        names = {topic_id: name for name, topic_id in self.ids.items()}
        for topic in message.topics:
            by_id = getattr(topic, "topic_id", None)
            who = {"topic": topic.topic} if by_id is None else {"topic_id": by_id}
            name = topic.topic if by_id is None else names.get(by_id)
            partitions: list[Any] = []
            for one in topic.partitions:
                if name is None:
                    gone = {"partition_index": one.partition, "error_code": ErrorCode.UNKNOWN_TOPIC_ID}
                    partitions.append(gone)
                    continue
                where = TopicPartition(name, one.partition)
                held = [data for _, end, data in self.batches[where] if end > one.fetch_offset]
                is_there = self.begins.get(where, 0) <= one.fetch_offset <= self.end(where)
                partitions.append(
                    {
                        "partition_index": one.partition,
                        "error_code": ErrorCode.NONE if is_there else ErrorCode.OFFSET_OUT_OF_RANGE,
                        "preferred_read_replica": -1,
                        "high_watermark": self.end(where),
                        "aborted_transactions": None,
                        "records": b"".join(held[:3]) if is_there else None,
                    }
                )
            rows.append({**who, "partitions": partitions})
        return {"responses": rows}


def _index(one: Any) -> int:
    return int(one.partition_index if hasattr(one, "partition_index") else one.partition)


class Killed(BaseException):
    """SIGKILL within a test's own process: no code runs after it to clean up, see MortalDisk."""


class MortalDisk(SharedDisk):
    """Operations work until `operations` of them are done; then this one and all later ones raise Killed,
    those in `finally` blocks too, as if no process was there any more. Nothing is synced: processes die here,
    not machines."""

    def __init__(self, operations: int | None = None) -> None:
        self.left = operations
        self.done = 0

    def _live(self) -> None:
        if self.left is not None and self.done >= self.left:
            raise Killed
        self.done += 1

    def write_new(self, path: Path, content: bytes) -> None:
        if self.left is not None and self.done == self.left:
            path.write_bytes(content[: len(content) // 2])  # it dies in the middle of this
        self._live()
        with path.open("xb") as file:
            file.write(content)

    def sync(self, path: Path) -> None:
        self._live()

    def link(self, source: Path, target: Path) -> None:
        self._live()
        super().link(source, target)

    def unlink(self, path: Path) -> None:
        self._live()
        super().unlink(path)

    def make_directory(self, path: Path) -> None:
        self._live()
        super().make_directory(path)

    def remove_tree(self, directory: Path) -> None:
        self._live()
        super().remove_tree(directory)


class Landing:
    """`pipeline land` without its command line, its tasks done here and now."""

    def __init__(
        self,
        logs: Logs,
        root: Path,
        *,
        topics: str = "orders",
        disk: SharedDisk | None = None,
        **settings: Any,
    ) -> None:
        self.logs = logs
        self.disk = disk or MortalDisk()
        self.table = LandTable(root, self.disk)
        self.partition_by = settings.pop("partition_by", ("topic", "date", "hour"))
        given = {"kafka.bootstrap.servers": "h:1", "subscribe": topics, **settings.pop("options", {})}
        self.options = parse_options(given, is_streaming=False)
        self.is_endless = settings.pop("is_endless", False)
        self.before_tasks: Callable[[], None] = lambda: None
        values: dict[str, Any] = {"records_per_task": 40, "records_per_batch": None, **settings}
        self.settings = PlanSettings(**values)
        self.lander = Lander(self.table, self._cluster(), self._run, self.settings, lambda: NOON_MS)

    def _cluster(self) -> LandCluster:
        return LandCluster(self.options, Client(self.logs.config), is_endless=self.is_endless)

    def _run(self, plan: LandPlan) -> list[LandReport]:
        self.before_tasks()
        settings = self.table.settings()
        assert settings is not None
        how = task_settings(
            plan, settings, root=self.table.root, client=self.logs.config, allow_loss=self.settings.allow_loss
        )
        return [report for task in plan.tasks for report in land_ranges(how, task, self.disk)]

    def run(self) -> int:
        """Run batches until nothing is left; return how many there were."""
        self.table.open(TableSettings("c", self.partition_by))
        batches = 0
        while (landed_now := self.lander.land_next()) is not None:
            batches += 1
            if not landed_now.is_more_due:
                break
        return batches


def rows_by_manifest(root: Path) -> list[Row]:
    table = dataset(root).to_table()
    return sorted(
        (row["topic"], row["partition"], row["offset"], row["key"], row["value"], _ms(row["timestamp"]))
        for row in table.to_pylist()
    )


def _ms(timestamp: datetime) -> int:
    return round(timestamp.timestamp() * 1000)


def data_files(root: Path) -> list[str]:
    """Every data file that a plain reader of the folder finds."""
    return sorted(
        str(path.relative_to(root))
        for path in root.rglob("*.parquet")
        if not any(part.startswith(("_", ".")) for part in path.relative_to(root).parts)
    )


def offsets_in(path: Path) -> list[int]:
    found: list[int] = pq.read_table(path, columns=["offset"], partitioning=None)["offset"].to_pylist()
    return found


def check_exactly_once(root: Path, logs: Logs) -> None:
    """Check by manifest and by a plain listing: every record once, and no file that does not count."""
    assert rows_by_manifest(root) == logs.all_rows()
    table = landed(root)
    assert sorted(file.path for file in table.files) == data_files(root)
    for file in table.files:
        metadata = pq.read_metadata(root / file.path)
        assert (metadata.num_rows, (root / file.path).stat().st_size) == (file.records, file.bytes)
    for where, state in table.partitions.items():
        assert (state.next_offset, state.records) == (logs.end(where), len(logs.rows[where]))
