"""Logs with everything in them that a reader may meet, and a broker that serves them.

Real brokers of ours write no transactions and compact nothing, so control batches, aborted transactions and
gaps can only come from here: a broker of a few lines, with real sockets and the protocol's own bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipeline.client.messages import SPOKEN
from springtide.wire.apis import APIS, ApiKey
from springtide.wire.compression import Compression
from springtide.wire.errors import ErrorCode
from springtide.wire.records import NewRecord, encode_batch
from tests.kit.pipeline.brokers import Fields, Says, ScriptedBroker

FIRST_MS = 1_700_000_000_007
STEP_MS = 10
CODECS = tuple(Compression)
COMMIT_MARKER = NewRecord(b"\x00\x00\x00\x01", b"\x00\x00\x00\x00\x00\x00", FIRST_MS)
LEADER_EPOCH = 4
VERSIONS: Fields = {
    "api_keys": [
        {"api_key": int(api), "min_version": APIS[api].version_min, "max_version": version}
        for api, version in SPOKEN.items()
    ]
}
"""What a client of ours speaks, and older: the JVM's takes the highest that both know."""
Where = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Truth:
    """One record, and whether its transaction was aborted."""

    offset: int
    record: NewRecord
    is_aborted: bool = False


@dataclass(slots=True)
class Log:
    """One partition: record batches with the offset after each, and what a reader may see of them."""

    batches: list[tuple[int, bytes]] = field(default_factory=list)
    truth: list[Truth] = field(default_factory=list)
    aborted: list[Fields] = field(default_factory=list)
    start: int = 0

    @property
    def end(self) -> int:
        return self.batches[-1][0] if self.batches else 0

    def append(
        self, records: Sequence[NewRecord], *, skip: int = 0, producer_id: int = -1, is_aborted: bool = False
    ) -> None:
        """A batch, `skip` offsets after the last: compaction took those between. With a producer id it is
        part of a transaction."""
        first = self.end + skip
        data = encode_batch(
            records,
            base_offset=first,
            leader_epoch=LEADER_EPOCH,
            compression=CODECS[len(self.batches) % len(CODECS)],
            producer_id=producer_id,
            producer_epoch=-1 if producer_id < 0 else 0,
            base_sequence=-1 if producer_id < 0 else 0,
            is_transactional=producer_id >= 0,
        )
        if is_aborted:
            self.aborted.append({"producer_id": producer_id, "first_offset": first})
        self.batches.append((first + len(records), data))
        self.truth += [Truth(first + n, record, is_aborted) for n, record in enumerate(records)]

    def end_transaction(self, producer_id: int, *, is_aborted: bool = False) -> None:
        """The marker, one offset that is no row."""
        marker = (
            COMMIT_MARKER if not is_aborted else NewRecord(b"\x00\x00\x00\x00", COMMIT_MARKER.value, FIRST_MS)
        )
        data = encode_batch(
            [marker],
            base_offset=self.end,
            leader_epoch=LEADER_EPOCH,
            producer_id=producer_id,
            producer_epoch=0,
            is_transactional=True,
            is_control=True,
        )
        self.batches.append((self.end + 1, data))

    def retain_from(self, start: int) -> None:
        """Retention: what lies before is gone."""
        self.start = start
        self.truth = [one for one in self.truth if one.offset >= start]


def varied(number: int, name: str) -> NewRecord:
    """Keys, values and headers of every kind: there, empty, null, twice."""
    return NewRecord(
        key=(None, b"", b"k%d" % (number % 3))[number % 3],
        value=None if number % 4 == 3 else b"" if number % 7 == 6 else f"{name} {number}".encode(),
        timestamp=FIRST_MS + STEP_MS * number,
        headers=(
            (),
            (("trace", b"%d" % number),),
            (("a", None), ("a", b""), ("é", b"\xff\x00")),
        )[number % 5 % 3],
    )


class World:
    """Topics by name, each a list of logs; `server` serves them while it is entered."""

    def __init__(self) -> None:
        self.topics: dict[str, list[Log]] = {}
        self.on_fetch: Callable[[], None] = lambda: None
        """Called before each Fetch is answered: what happens in the middle of a read."""
        self.server = ScriptedBroker(
            {
                ApiKey.API_VERSIONS: lambda _: VERSIONS,
                ApiKey.METADATA: self._metadata,
                ApiKey.LIST_OFFSETS: self._list_offsets,
                ApiKey.FETCH: self._fetch,
                ApiKey.OFFSET_FOR_LEADER_EPOCH: self._epoch_ends,
            }
        )

    @property
    def bootstrap(self) -> str:
        host, port = self.server.address
        return f"{host}:{port}"

    def log(self, where: Where) -> Log:
        topic, partition = where
        return self.topics[topic][partition]

    @property
    def partitions(self) -> list[Where]:
        return [(topic, number) for topic, logs in self.topics.items() for number in range(len(logs))]

    # The broker.

    def _metadata(self, message: Any) -> Says:
        asked = sorted(self.topics) if message.topics is None else [one.name for one in message.topics]
        host, port = self.server.address
        return {
            "brokers": [{"node_id": 1, "host": host, "port": port, "rack": None}],
            "cluster_id": "c",
            "topics": [self._topic(topic) for topic in asked],
        }

    def _topic(self, topic: str) -> Fields:
        if topic not in self.topics:
            return {"name": topic, "error_code": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        rows = [
            {
                "partition_index": number,
                "leader_id": 1,
                "leader_epoch": LEADER_EPOCH,
                "replica_nodes": (1,),
                "isr_nodes": (1,),
            }
            for number in range(len(self.topics[topic]))
        ]
        return {"name": topic, "partitions": rows}

    def _list_offsets(self, message: Any) -> Says:
        def row(where: Where, one: Any) -> Fields:
            log = self.log(where)
            match one.timestamp:
                case -2:
                    offset = log.start
                case -1:
                    offset = log.end
                case wanted:
                    late = (each.offset for each in log.truth if each.record.timestamp >= wanted)
                    offset = next(late, -1)
            return {"partition_index": where[1], "offset": offset, "leader_epoch": LEADER_EPOCH}

        return {"topics": _each(message.topics, "name", "partition_index", row)}

    def _epoch_ends(self, message: Any) -> Says:
        def row(where: Where, one: Any) -> Fields:
            return {"partition": where[1], "leader_epoch": LEADER_EPOCH, "end_offset": self.log(where).end}

        return {"topics": _each(message.topics, "topic", "partition", row)}

    def _fetch(self, message: Any) -> Says:
        self.on_fetch()

        def row(where: Where, one: Any) -> Fields:
            log = self.log(where)
            is_there = log.start <= one.fetch_offset <= log.end
            held = [data for end, data in log.batches if end > one.fetch_offset]
            return {
                "partition_index": where[1],
                "error_code": ErrorCode.NONE if is_there else ErrorCode.OFFSET_OUT_OF_RANGE,
                "preferred_read_replica": -1,
                "high_watermark": log.end,
                "last_stable_offset": log.end,
                "log_start_offset": log.start,
                "aborted_transactions": log.aborted or None,
                "records": b"".join(held[:2]) if is_there else None,
            }

        return {"responses": _each(message.topics, "topic", "partition", row)}


def _each(topics: Iterable[Any], name: str, index: str, row: Callable[[Where, Any], Fields]) -> list[Fields]:
    return [
        {
            name: getattr(topic, name),
            "partitions": [row((getattr(topic, name), getattr(one, index)), one) for one in topic.partitions],
        }
        for topic in topics
    ]


def make_world() -> World:
    """`orders-a`: three partitions, one empty. `orders-b`: gaps, an aborted transaction, markers, one of them
    last. `trades`: its first records are gone."""
    world = World()
    first, second, empty = Log(), Log(), Log()
    for begin in range(0, 30, 10):
        first.append([varied(n, "a0") for n in range(begin, begin + 10)])
    for begin in range(0, 20, 5):
        second.append([varied(n, "a1") for n in range(begin, begin + 5)])
    world.topics["orders-a"] = [first, second, empty]

    gaps = Log()
    gaps.append([varied(n, "b0") for n in range(4)])
    gaps.append([varied(n, "b0") for n in range(4, 8)], skip=3)
    gaps.append([varied(n, "b0 aborted") for n in range(8, 11)], producer_id=70, is_aborted=True)
    gaps.append([varied(n, "b0 committed") for n in range(11, 13)], producer_id=71)
    gaps.end_transaction(70, is_aborted=True)
    gaps.append([varied(n, "b0") for n in range(13, 17)], skip=5)
    gaps.end_transaction(71)
    world.topics["orders-b"] = [gaps]

    retained = Log()
    for begin in range(0, 24, 6):
        retained.append([varied(n, "t0") for n in range(begin, begin + 6)])
    retained.retain_from(9)
    world.topics["trades"] = [retained]
    return world
