"""What happens to a cluster before or while a case is measured: a broker dies, or is away and comes back.

It is always the same broker, the last: loads ask the first one for leaders. Both sides are asked for in-sync
sets over the Kafka protocol, so that no side's own tools take part in a measurement.
"""

from __future__ import annotations

import time

from bench.asking import isr_sizes
from bench.case import Case
from bench.figures import Measurement
from bench.load_spec import LoadFailed, LoadSpec, run_fill
from bench.processor_time import measure_between, take_reading
from bench.secured import client_context
from bench.sides import BROKERS, Side

AWAY = BROKERS
"""The broker's number among those of a side, from 1."""
WAIT_SECONDS_MAX = 120.0
POLL_SECONDS = 0.01


def begin(case: Case, side: Side) -> None:
    """Kill the broker, for a case that wants it dead, and wait until the others go on without it."""
    if case.is_broker_dead:
        side.broker_process(AWAY).kill()
        wait_for_isr(side, case.name, BROKERS - 1)


def end(case: Case, side: Side) -> None:
    if case.is_broker_dead:
        side.broker_process(AWAY).start()
        wait_for_isr(side, case.name, BROKERS)


def measure_catch_up(spec: LoadSpec, side: Side, *, fill_bytes: int) -> Measurement:
    """Pause the broker until it is out of the in-sync set, write, and measure from its resumption until it is
    back in the set."""
    process = side.broker_process(AWAY)
    process.pause()
    try:
        wait_for_isr(side, spec.topic, BROKERS - 1)
        run_fill(spec, fill_bytes=fill_bytes)
        before = take_reading(time.perf_counter(), spec.broker_pids)
    finally:
        process.resume()
    wait_for_isr(side, spec.topic, BROKERS)
    after = take_reading(time.perf_counter(), spec.broker_pids)
    records = max(1, fill_bytes // spec.case.record_bytes)
    return measure_between(
        before,
        after,
        broker_pids=spec.broker_pids,
        operations=records,
        records=records,
        moved_bytes=fill_bytes,
        latencies_s=[],
    )


def wait_for_isr(side: Side, topic: str, size: int) -> None:
    """Return when every partition has a leader and an in-sync set of that size. Raise LoadFailed."""
    tls = client_context(side.ca_file, side.cert_file)
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while True:
        sizes = isr_sizes(side.bootstrap_servers, topic, tls)
        if sizes and all(one == size for one in sizes):
            return
        if time.monotonic() > deadline:
            raise LoadFailed(f"{side.name}: after {WAIT_SECONDS_MAX:g} s {topic} has not {size} in sync")
        time.sleep(POLL_SECONDS)
