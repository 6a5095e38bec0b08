"""Record batches to Arrow and back, beside other codecs: `python -m bench records [--quick]`.

One thread, no socket and no broker: what a Spark task pays for a fetch it has, or a batch it will send. The
peers are the record parsers and builders of aiokafka (Cython) and of kafka-python (Python), made to end and
begin where ours do, with Arrow arrays of key, value, offset and timestamp; that is what a data source of
theirs would have to do. librdkafka is not here: its codec cannot be had without a broker, so it is compared
where one runs.

Records have keys of nine bytes and values of text that compresses to about a third, their sizes 30 % up and
down, in batches of 16 KiB as producers with Kafka's defaults send them, and of 1 MB as our sink does. The
figure is the median over slices, in million records a second of processor time; sides take turns, so that a
machine that is slow for a while is slow for all.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any, NamedTuple

import pyarrow as pa
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AioBuilder
from aiokafka.record.memory_records import MemoryRecords as AioRecords
from kafka.record.memory_records import MemoryRecords as KafkaPythonRecords

from bench.command import add_quick
from pipeline.records.decode import decode_records
from pipeline.records.encode import BatchOptions, PartitionEncoder
from pipeline.records.headers import computed_crcs, scan_headers
from springtide.wire.compression import Compression

BATCH_BYTES, BATCH_BYTES_SINK = 16 * 1024, 1_000_000
FETCH_BYTES = 4 * 1024 * 1024
FETCH_BYTES_QUICK = 512 * 1024
SLICES, SLICES_QUICK = 9, 3
CODECS = (Compression.NONE, Compression.LZ4, Compression.ZSTD)
CASES = tuple(
    (record_bytes, compression, batch_bytes)
    for record_bytes in (100, 1000)
    for batch_bytes in (BATCH_BYTES, BATCH_BYTES_SINK)
    for compression in CODECS
)
ZSTD_LEVEL = 1
SEED = 5
NOW_MS = 1_700_000_000_000
VALUE_SPREAD = 0.3
VOCABULARY = 4096

OURS, AIOKAFKA, KAFKA_PYTHON = "springtide", "aiokafka", "kafka-python"
COLUMNS = ("key", "value", "offset", "timestamp")
READ, WRITE, SCAN = "read", "write", "scan headers and CRCs"


class Case(NamedTuple):
    """One fetch, both ways: its rows, its bytes, and how it was encoded."""

    record_bytes: int
    options: BatchOptions
    rows: pa.RecordBatch
    fetched: bytes
    payload_bytes: int


class Line(NamedTuple):
    """One line of the table: records a second in millions by side, and our payload in MB/s."""

    what: str
    record_bytes: int
    batch_bytes: int
    codec: str
    rates: dict[str, float]
    megabytes: float


def make_rows(record_bytes: int, *, total_bytes: int) -> pa.RecordBatch:
    """Rows of keys, text and ascending times: the same on every machine."""
    rng = random.Random(SEED)
    letters = b"etaoinshrdlucmfwypvbgkjqxz"
    words = [bytes(rng.choices(letters, k=rng.randint(2, 9))) for _ in range(VOCABULARY)]
    text = b" ".join(rng.choices(words, k=200_000))
    values: list[bytes] = []
    size = 0
    while size < total_bytes:
        length = int(record_bytes * rng.uniform(1 - VALUE_SPREAD, 1 + VALUE_SPREAD))
        start = rng.randrange(len(text) - length)
        values.append(text[start : start + length])
        size += length
    times = pa.array([(NOW_MS + index) * 1000 for index in range(len(values))], pa.int64())
    return pa.RecordBatch.from_pydict(
        {
            "key": pa.array([b"k%08d" % index for index in range(len(values))], pa.binary()),
            "value": pa.array(values, pa.binary()),
            "timestamp": times.cast(pa.timestamp("us", tz="UTC")),
        }
    )


def make_case(
    record_bytes: int, compression: Compression, batch_bytes: int = BATCH_BYTES, *, total_bytes: int
) -> Case:
    rows = make_rows(record_bytes, total_bytes=total_bytes)
    level = ZSTD_LEVEL if compression is Compression.ZSTD else None
    options = BatchOptions(compression, level, batch_bytes_max=batch_bytes)
    fetched = b"".join(encode_ours(rows, options))
    return Case(record_bytes, options, rows, fetched, rows.column("value").nbytes)


def encode_ours(rows: pa.RecordBatch, options: BatchOptions) -> list[bytes]:
    encoder = PartitionEncoder(options=options, timestamp_ms=NOW_MS, producer_id=7, producer_epoch=0)
    batches = [*encoder.add(rows), *encoder.finish()]
    return [batch.first_row.to_bytes(8) + batch.data[8:] for batch in batches]


def encode_aiokafka(rows: pa.RecordBatch, options: BatchOptions) -> list[bytes]:
    keys, values = rows.column("key").to_pylist(), rows.column("value").to_pylist()
    times = [time_us // 1000 for time_us in rows.column("timestamp").cast(pa.int64()).to_pylist()]
    batches: list[bytes] = []
    builder, first = _aiokafka_builder(options, 0), 0
    for index, (key, value, time_ms) in enumerate(zip(keys, values, times, strict=True)):
        if builder.append(index - first, timestamp=time_ms, key=key, value=value, headers=[]) is None:
            batches.append(bytes(builder.build()))
            builder, first = _aiokafka_builder(options, index), index
            builder.append(0, timestamp=time_ms, key=key, value=value, headers=[])
    batches.append(bytes(builder.build()))
    return batches


def decode_ours(data: bytes) -> int:
    return sum(batch.num_rows for batch in decode_records(data, topic="bench", partition=0, columns=COLUMNS))


def decode_peer(records: AioRecords | KafkaPythonRecords) -> int:
    keys, values, offsets, times = [], [], [], []
    while (batch := records.next_batch()) is not None:
        assert batch.validate_crc()
        for record in batch:
            keys.append(record.key)
            values.append(record.value)
            offsets.append(record.offset)
            times.append(record.timestamp)
    return _to_arrow(keys, values, offsets, times)


def scan_ours(data: bytes) -> int:
    headers = scan_headers(data)
    assert (computed_crcs(data, headers) == headers.crc).all()
    return int(headers.record_count.sum())


def measure(sides: dict[str, Callable[[], int]], *, slices: int) -> dict[str, float]:
    """Million records per second of processor time by side: medians. Sides take turns, after one round
    unmeasured."""
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    counts = {name: side() for name, side in sides.items()}
    assert len(set(counts.values())) == 1, f"the sides read different numbers of records: {counts}"
    for _ in range(slices):
        for name, side in sides.items():
            started = time.process_time()
            side()
            seconds[name].append(time.process_time() - started)
    return {name: counts[name] / median(taken) / 1e6 for name, taken in seconds.items()}


def measure_all(*, total_bytes: int, slices: int) -> list[Line]:
    lines: list[Line] = []
    for record_bytes, compression, batch_bytes in CASES:
        case = make_case(record_bytes, compression, batch_bytes, total_bytes=total_bytes)
        for what, sides in sides_of(case).items():
            rates = measure(sides, slices=slices)
            megabytes = rates[OURS] * case.payload_bytes / case.rows.num_rows
            lines.append(Line(what, record_bytes, batch_bytes, compression.name.lower(), rates, megabytes))
    return lines


def sides_of(case: Case) -> dict[str, dict[str, Callable[[], int]]]:
    data, rows, options = case.fetched, case.rows, case.options

    def written(encode: Callable[[pa.RecordBatch, BatchOptions], list[bytes]]) -> Callable[[], int]:
        def write() -> int:
            encode(rows, options)
            return int(rows.num_rows)

        return write

    return {
        READ: {
            OURS: lambda: decode_ours(data),
            AIOKAFKA: lambda: decode_peer(AioRecords(data)),
            KAFKA_PYTHON: lambda: decode_peer(KafkaPythonRecords(data)),
        },
        WRITE: {OURS: written(encode_ours), AIOKAFKA: written(encode_aiokafka)},
        SCAN: {OURS: lambda: scan_ours(data)},
    }


def table(lines: Sequence[Line]) -> str:
    """Markdown, one line each: our rate, our payload, and how many times each peer's that is."""
    rows: list[tuple[str, ...]] = [
        ("", "bytes", "batch", "codec", "Mrec/s", "MB/s", f"x {AIOKAFKA}", f"x {KAFKA_PYTHON}")
    ]
    for line in lines:
        ours = line.rates[OURS]
        ratios = [
            f"{ours / line.rates[peer]:.1f}" if peer in line.rates else ""
            for peer in (AIOKAFKA, KAFKA_PYTHON)
        ]
        sizes = (str(line.record_bytes), str(line.batch_bytes))
        rows.append((line.what, *sizes, line.codec, f"{ours:.2f}", f"{line.megabytes:.0f}", *ratios))
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    shown = [
        "| " + " | ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in rows
    ]
    shown.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(shown)


def add_options(parser: argparse.ArgumentParser) -> None:
    add_quick(parser, "small fetches, few slices")


def run(options: argparse.Namespace) -> int:
    total_bytes, slices = (FETCH_BYTES_QUICK, SLICES_QUICK) if options.quick else (FETCH_BYTES, SLICES)
    sys.stdout.write(table(measure_all(total_bytes=total_bytes, slices=slices)) + "\n")
    return 0


def _aiokafka_builder(options: BatchOptions, first: int) -> Any:
    return AioBuilder(
        magic=2,
        compression_type=int(options.compression),
        is_transactional=0,
        producer_id=7,
        producer_epoch=0,
        base_sequence=first,
        batch_size=options.batch_bytes_max,
    )


def _to_arrow(keys: list[Any], values: list[Any], offsets: list[int], times: list[int]) -> int:
    timestamps = pa.array(times, pa.timestamp("ms", tz="UTC")).cast(pa.timestamp("us", tz="UTC"))
    arrays = [
        pa.array(keys, pa.binary()),
        pa.array(values, pa.binary()),
        pa.array(offsets, pa.int64()),
        timestamps,
    ]
    return int(pa.RecordBatch.from_arrays(arrays, names=list(COLUMNS)).num_rows)
