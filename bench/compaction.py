"""Compaction beside Apache Kafka: `python -m bench compaction [--kafka-home DIR] [--records N] [--keys N]`.

A topic of one partition and three replicas is filled with N records of random keys, and becomes compacted
only then, so that all of it is compacted at once. It is done when no replica gets smaller any more. Meanwhile
another topic on the same brokers is written to, one record after the other with acks=all. Both sides look for
something to compact once a second.
"""

from __future__ import annotations

import argparse
import random
import statistics
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from bench.cases import CASES
from bench.command import Narrator, add_kafka_home, add_output
from bench.figures import BYTES_PER_MB, Figures, figures_of
from bench.kafka import Kafka
from bench.load_spec import LoadSpec, run_load
from bench.machine import keep, machine_facts
from bench.processor_time import children_of, cpu_seconds, forget_peak_rss, peak_rss_mb
from bench.report import side_by_side
from bench.run import warm_up
from bench.sides import KEEP_ALL, Side, Springtide
from pipeline.client.client import describe_log_dirs
from pipeline.client.config import ClientConfig, parse_bootstrap

TOPIC = "state"
LOAD = next(case for case in CASES if case.name == "produce-all-100b-1x1")
RECORDS, KEYS = 10_000_000, 100_000
VALUE_BYTES = 100
SEGMENT_BYTES = 8 * 1024 * 1024
CONFIGS = {"segment.bytes": str(SEGMENT_BYTES), "segment.ms": "10000", "min.cleanable.dirty.ratio": "0.01"}
OFTEN = {"log.cleaner.backoff.ms": "1000"}
LOAD_SECONDS = 4.0
POLL_SECONDS, STEADY_SECONDS, SECONDS_MAX = 0.5, 10.0, 3 * 3600.0
SLACK = 1.5
"""Segments that begin after the last round, and headers, are left beside the newest records."""
EXIT_FAILED = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """What was measured on one side. Less is better. Disk: of the largest replica; processor time: of all
    three brokers, for compaction and the load together."""

    seconds: float
    peak_mb: float
    cpu_s: float
    before_mb: float
    after_mb: float
    idle_p50_ms: float
    idle_p99_ms: float
    p50_ms: float
    p99_ms: float


UNITS: Final = {
    "seconds": "all replicas are compacted after, s",
    "peak_mb": "memory of the largest broker at most, MB",
    "cpu_s": "processor time of the brokers, s",
    "before_mb": "a replica before, MB",
    "after_mb": "a replica after, MB",
    "idle_p50_ms": "a produce before takes, p50 ms",
    "idle_p99_ms": "a produce before takes, p99 ms",
    "p50_ms": "a produce meanwhile takes, p50 ms",
    "p99_ms": "a produce meanwhile takes, p99 ms",
}


def measure(side: Side, records: int, keys: int, tell: Narrator) -> Compacted:
    """Raise LoadFailed, TimeoutError."""
    warm_up([LOAD], side, tell)
    side.create_topic(LOAD.name, partitions=1, retention_bytes=KEEP_ALL)
    side.create_topic(TOPIC, partitions=1, retention_bytes=KEEP_ALL, configs=CONFIGS)
    tell(f"{side.name}: {records:,} records of {keys:,} keys")
    _fill(side, records, keys)
    before = max(_sizes(side))
    idle = _load(side)
    forget_peak_rss(side.broker_pids)
    loads: list[Figures] = []
    is_over = threading.Event()

    def run_loads() -> None:
        while not is_over.is_set():
            loads.append(_load(side))

    loading = threading.Thread(target=run_loads)
    cpu_s = cpu_seconds(side.broker_pids)
    loading.start()
    try:
        began = time.monotonic()
        _alter(side, "compact")
        bytes_max = int(SLACK * before * keys / records) + 3 * SEGMENT_BYTES
        steady, peak_mb = _wait_steady(side, bytes_max)
        seconds = steady - began
        tell(f"{side.name}: compacted after {seconds:.1f} s")
    finally:
        is_over.set()
        loading.join()
    return Compacted(
        seconds=seconds,
        peak_mb=peak_mb,
        cpu_s=cpu_seconds(side.broker_pids) - cpu_s,
        before_mb=before / BYTES_PER_MB,
        after_mb=max(_sizes(side)) / BYTES_PER_MB,
        idle_p50_ms=idle.p50_ms or 0.0,
        idle_p99_ms=idle.p99_ms or 0.0,
        p50_ms=statistics.median(one.p50_ms or 0.0 for one in loads),
        p99_ms=statistics.median(one.p99_ms or 0.0 for one in loads),
    )


def _fill(side: Side, records: int, keys: int) -> None:
    rng = random.Random(1)
    producer = Producer(
        {"bootstrap.servers": side.bootstrap_servers, "acks": "all", "linger.ms": 20, "log_level": 0}
    )
    for _ in range(records):
        key = b"key %d" % rng.randrange(keys)
        while True:
            try:
                producer.produce(TOPIC, rng.randbytes(VALUE_BYTES), key, partition=0)
                break
            except BufferError:
                producer.poll(1.0)
    if producer.flush(SECONDS_MAX):
        raise TimeoutError(f"{side.name} did not take the records")


def _alter(side: Side, policy: str) -> None:
    change = ConfigEntry("cleanup.policy", policy, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, TOPIC, incremental_configs=[change])
    with AdminClient({"bootstrap.servers": side.bootstrap_servers, "log_level": 0}) as admin:
        admin.incremental_alter_configs([resource])[resource].result(60.0)


def _load(side: Side) -> Figures:
    spec = LoadSpec(
        case=LOAD,
        topic=LOAD.name,
        bootstrap_servers=side.bootstrap_servers,
        broker_pids=side.broker_pids,
        warmup_s=0.5,
        duration_s=LOAD_SECONDS,
    )
    return figures_of(run_load(spec))


def _sizes(side: Side) -> list[int]:
    addresses = parse_bootstrap(side.bootstrap_servers)
    config = ClientConfig(bootstrap=addresses)
    return [
        one.size_bytes
        for address in addresses
        for directory in describe_log_dirs(address, config)
        for one in directory.replicas
        if one.topic == TOPIC
    ]


def _wait_steady(side: Side, bytes_max: int) -> tuple[float, float]:
    """Return the time at which a replica got smaller for the last time, when all are below `bytes_max`, and
    the memory of the largest broker with its children at most, in MiB."""
    changed = began = time.monotonic()
    last: list[int] = []
    peak_mb = 0.0
    while time.monotonic() < began + SECONDS_MAX:
        sizes = _sizes(side)
        peak_mb = max(peak_mb, *map(_peak_mb, side.broker_pids))
        now = time.monotonic()
        if sizes != last:
            changed, last = now, sizes
        elif max(sizes) < bytes_max and now > changed + STEADY_SECONDS:
            return changed, peak_mb
        time.sleep(POLL_SECONDS)
    raise TimeoutError(f"{side.name} is not compacted: replicas of {last} bytes")


def _peak_mb(pid: int) -> float:
    peak_mb = peak_rss_mb(pid)
    with suppress(OSError, AssertionError):  # a child has ended meanwhile
        peak_mb += sum(map(peak_rss_mb, children_of(pid)))
    return peak_mb


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--records", type=int, default=RECORDS, help="as many (%(default)s)")
    parser.add_argument("--keys", type=int, default=KEYS, help="of so many keys (%(default)s)")
    add_kafka_home(parser)
    add_output(parser, "compaction-bench")


def run(options: argparse.Namespace) -> int:
    tell = Narrator()
    found: dict[str, dict[str, float]] = {}
    sides: list[Side] = [Springtide(tell, broker_config=OFTEN)]
    if options.kafka_home is not None:
        sides.append(Kafka(options.kafka_home, tell, broker_config=OFTEN))
    for side in sides:
        with side:
            found[side.name] = asdict(measure(side, options.records, options.keys, tell))
    print(side_by_side(found, UNITS))
    asked = {"records": options.records, "keys": options.keys}
    keep(options.output, {"machine": machine_facts(), **asked, **found})
    return 0
