"""What a load process is told and how it is started: JSON on its standard input, a measurement on its output.

A load is a process of its own so that its processor time can be told from the brokers', and so that nothing
of the orchestration (progress, JVMs, threads) takes part in a measurement.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from bench.case import Case, Kind, Setup
from bench.figures import Measurement
from springtide.wire.compression import Compression

START_AND_DRAIN_SECONDS_MAX = 60.0
"""Beside its time a load may take so long to start, to find leaders and to wait for its last answers."""
BENCH_RAW = "raw_load"
BENCH_CLIENT = "client_load"
_PROJECT = Path(__file__).parent.parent
"""Where these modules are found: the benchmark is no part of the installed distribution."""


class LoadFailed(RuntimeError):
    """A load ended without a measurement; the message has its last words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSpec:
    """One run of one case against one side."""

    case: Case
    topic: str
    bootstrap_servers: str
    broker_pids: tuple[int, ...]
    warmup_s: float
    duration_s: float
    fill_bytes: int = 0
    """Above 0: write so many bytes to the topic and measure nothing."""
    ca_file: str | None = None
    """The CA of brokers that speak TLS; None: in the clear."""
    cert_file: str | None = None
    """The client's key and certificate; None: it shows none."""
    backlog_topic: str | None = None
    """The topic that the case's readers read."""


def spec_from_json(document: dict[str, Any]) -> LoadSpec:
    case = dict(document["case"])
    return LoadSpec(
        **{
            **document,
            "case": Case(
                **{
                    **case,
                    "kind": Kind(case["kind"]),
                    "setup": Setup(case["setup"]),
                    "compression": Compression(case["compression"]),
                }
            ),
            "broker_pids": tuple(document["broker_pids"]),
        }
    )


def run_load(spec: LoadSpec) -> Measurement:
    """Runs the load of the spec's case in a process of its own and waits for it.

    Raises LoadFailed.
    """
    return _run(BENCH_CLIENT if spec.case.kind.is_client else BENCH_RAW, spec)


def run_fill(spec: LoadSpec, *, fill_bytes: int) -> None:
    """Writes the backlog that a reading case reads. Raises LoadFailed."""
    _run(BENCH_RAW, replace(spec, fill_bytes=fill_bytes))


def _run(load: str, spec: LoadSpec) -> Measurement:
    timeout_s = spec.warmup_s + spec.duration_s + START_AND_DRAIN_SECONDS_MAX
    try:
        ended = subprocess.run(
            [sys.executable, "-m", "bench", load],
            cwd=_PROJECT,
            input=json.dumps(asdict(spec)),
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise LoadFailed(f"{spec.case.name} did not end within {timeout_s:g} s") from error
    if ended.returncode != 0:
        last_words = "\n".join(ended.stderr.strip().splitlines()[-5:])
        raise LoadFailed(f"{spec.case.name} on {spec.bootstrap_servers} failed:\n{last_words}")
    return Measurement(**json.loads(ended.stdout))


def serve_spec(
    run: Callable[[LoadSpec], Measurement], *, expected_failures: Sequence[type[Exception]]
) -> None:
    """The main function of a load process. A failure that it expects is one line; any other, a traceback."""
    spec = spec_from_json(json.load(sys.stdin))
    gc.disable()  # A pause of the load would be a latency of the broker. A run makes no cycles to speak of.
    try:
        measured = run(spec)
    except tuple(expected_failures) as failure:
        sys.exit(f"{type(failure).__name__}: {failure}")
    json.dump(asdict(measured), sys.stdout)
