"""Each load of the benchmark against real brokers, for errors only, never for times."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import trio

from bench.asking import isr_sizes, wait_until_served
from bench.case import Case
from bench.cases import CASES
from bench.figures import Measurement
from bench.load_spec import LoadSpec, run_fill, run_load
from tests.kit.dataplane.cluster_in_process import cluster_in_process

BY_NAME = {case.name: case for case in CASES}
FILL_BYTES, SECONDS = 1_000_000, 0.3
PLACES = ((1, 2, 3), (2, 3, 1), (3, 1, 2))
MEASURED = (
    replace(BY_NAME["idle-1000-connections"], connections=20),
    replace(BY_NAME["produce-all-100b-1000-slow"], connections=20, pause_s=0.1),
    replace(BY_NAME["produce-all-100b-50x1-2000p"], partitions=20),
    *(BY_NAME[f"produce-all-66k-4x4-{what}"] for what in ("zstd", "lz4", "readers-behind")),
    *(BY_NAME[name] for name in ("produce-1-100b-1x16", "tail-66k-1x8", "fetch-backlog-4x1")),
    *(BY_NAME[name] for name in ("client-produce-all-100b", "client-consume-100b")),
)


def test_no_load_meets_an_answer_that_is_not_due(tmp_path: Path) -> None:
    """A load fails at the first refusal and at the first answer that is lost, doubled or about something
    else."""

    async def measure_all() -> None:
        async with cluster_in_process(tmp_path) as cluster:
            await cluster.form(1, 2, 3)
            for case in MEASURED:
                for topic in (case.name, f"{case.name}-full"):
                    placed = tuple(PLACES[number % 3] for number in range(case.partitions))
                    cluster.controller.create_topic(topic, placed)
                measured = await trio.to_thread.run_sync(measure, case, cluster.bootstrap())
                assert measured.elapsed_s >= SECONDS

    trio.run(measure_all)


def measure(case: Case, bootstrap: str) -> Measurement:
    spec = LoadSpec(
        case=case,
        topic=case.name,
        bootstrap_servers=bootstrap,
        broker_pids=(os.getpid(),),
        warmup_s=0.1,
        duration_s=SECONDS,
        backlog_topic=f"{case.name}-full" if case.readers else None,
    )
    for topic in (case.name, f"{case.name}-full"):
        wait_until_served(bootstrap, topic)
        assert set(isr_sizes(bootstrap, topic)) == {3}
        if case.kind.reads_backlog or topic == spec.backlog_topic:
            run_fill(replace(spec, topic=topic), fill_bytes=FILL_BYTES)
    return run_load(spec)
