"""`make demo`: a cluster is born, its leader is killed under load, and nothing acknowledged is lost.

Everything here is what an operator and a user could do: REST calls to the controller, SIGKILL to a broker,
a stock Kafka client on both ends. The figures go to the terminal and to a JSON file; the exit status says
whether the promise held.
"""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from localcluster.cluster import LocalCluster
from localcluster.load import ClientLoad, ends_of, read_everything
from localcluster.verdict import (
    Mark,
    WriteVerdict,
    judge,
    longest_silence,
    render_timeline,
    seconds_to_next_write,
)

TOPIC = "orders"
PARTITIONS = 3
REPLICATION_FACTOR = 3
RECORDS_PER_SECOND = 2000

QUIET_SECONDS = 3.0
"""Writes before the kill, and again after every partition has acknowledged a new write."""

RECOVERY_SECONDS_MAX = 60.0
SHOWN_BEFORE_SECONDS = 1.5
SHOWN_AFTER_SECONDS = 2.5


@dataclass(frozen=True, slots=True)
class DemoReport:
    """The results of the demo."""

    verdict: WriteVerdict
    given_up: int
    """Records on which the client gave up; it reported them, so they are not lost silently."""
    stall_ms: int
    """The longest time that any partition acknowledged nothing, from just before the kill to the end."""
    next_write_ms: dict[int, int]
    """The time of each partition from the SIGKILL to the first acknowledgement of a record produced since."""
    killed_broker: int
    back_in_sync_ms: int
    """From the killed broker's restart until every ISR was full again."""
    swagger_url: str
    timeline: str

    @property
    def has_passed(self) -> bool:
        return self.verdict.is_clean and self.given_up == 0

    def document(self) -> dict[str, Any]:
        return {
            "acked": self.verdict.acknowledged,
            "read": self.verdict.read,
            "lost": len(self.verdict.lost),
            "duplicated": len(self.verdict.duplicated),
            "misplaced": len(self.verdict.misplaced),
            "given_up": self.given_up,
            "stall_ms": self.stall_ms,
            "next_write_ms": {str(partition): waited for partition, waited in self.next_write_ms.items()},
            "back_in_sync_ms": self.back_in_sync_ms,
            "killed_broker": self.killed_broker,
            "topic": TOPIC,
            "partitions": PARTITIONS,
            "replication_factor": REPLICATION_FACTOR,
            "records_per_second": RECORDS_PER_SECOND,
            "finished_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "python": platform.python_version(),
            "machine": platform.machine(),
        }


def run_demo(cluster: LocalCluster, tell: Callable[[str], None]) -> DemoReport:
    """Form the cluster, break it under load, mend it, and read everything back. `cluster` has been
    started."""
    swagger_url = f"{cluster.controller_urls[0]}/docs"
    cluster.form()
    tell(f"creating topic '{TOPIC}' (POST /topics): {PARTITIONS} partitions, {REPLICATION_FACTOR} replicas")
    cluster.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=REPLICATION_FACTOR)
    tell(f"Swagger UI while this runs: {swagger_url}")

    tell(f"producing {RECORDS_PER_SECOND} records/s with confluent-kafka, acks=all, enable.idempotence=true")
    load = ClientLoad(
        bootstrap_servers=cluster.bootstrap_servers,
        topic=TOPIC,
        partitions=PARTITIONS,
        records_per_second=RECORDS_PER_SECOND,
    )
    with load:
        cluster.wait_until(
            "every partition takes writes", lambda: len(ends_of(load.acknowledged)) == PARTITIONS
        )
        started_at = time.monotonic()
        _let_pass(cluster, QUIET_SECONDS)
        victim = cluster.leader(TOPIC, 0)
        killed_at = time.monotonic()
        cluster.kill_broker(victim)
        tell(f"SIGKILL to broker {victim}, leader of {TOPIC}-0, after {len(load.acknowledged)} writes")
        next_write = cluster.wait_until(
            "every partition acknowledges writes again",
            lambda: _complete(seconds_to_next_write(list(load.acknowledged), after=killed_at)),
            timeout_seconds=RECOVERY_SECONDS_MAX,
        )
        tell(f"writes go on; leader of {TOPIC}-0 is now broker {cluster.leader(TOPIC, 0)}")
        _let_pass(cluster, QUIET_SECONDS)
        stopped_at = time.monotonic()
    acknowledged = load.acknowledged

    tell("reading everything back with a fresh consumer, by assignment, while the broker is still dead")
    read = read_everything(
        bootstrap_servers=cluster.bootstrap_servers,
        topic=TOPIC,
        partitions=PARTITIONS,
        at_least=ends_of(acknowledged),
    )
    verdict = judge(acknowledged, read)

    tell(f"restarting broker {victim}")
    restarted_at = time.monotonic()
    cluster.start_broker(victim)
    cluster.wait_until_in_sync(TOPIC)
    back_in_sync_ms = round((time.monotonic() - restarted_at) * 1000)
    tell(f"every ISR is full again after {back_in_sync_ms} ms")

    recovered_at = killed_at + max(next_write.values())
    return DemoReport(
        verdict=verdict,
        given_up=len(load.failed),
        stall_ms=round(
            longest_silence(acknowledged, since=max(started_at, killed_at - 0.5), until=stopped_at) * 1000
        ),
        next_write_ms={partition: round(waited * 1000) for partition, waited in sorted(next_write.items())},
        killed_broker=victim,
        back_in_sync_ms=back_in_sync_ms,
        swagger_url=swagger_url,
        timeline=render_timeline(
            (write.acknowledged_at for write in acknowledged),
            since=max(started_at, killed_at - SHOWN_BEFORE_SECONDS),
            until=min(stopped_at, recovered_at + SHOWN_AFTER_SECONDS),
            marks=[Mark(killed_at, f"SIGKILL to broker {victim}")],
        ),
    )


def _complete(next_write: dict[int, float]) -> dict[int, float] | None:
    return next_write if len(next_write) == PARTITIONS else None


def _let_pass(cluster: LocalCluster, seconds: float) -> None:
    """Let the load run, and notice at once when a process dies that should not."""
    until = time.monotonic() + seconds
    cluster.wait_until("time has passed", lambda: time.monotonic() >= until, timeout_seconds=seconds + 1)


def print_report(report: DemoReport, tell: Callable[[str], None]) -> None:
    verdict = report.verdict
    per_partition = ", ".join(
        f"{TOPIC}-{number} {waited} ms" for number, waited in report.next_write_ms.items()
    )
    tell("")
    tell("acknowledged writes over time:")
    tell(report.timeline)
    tell("")
    tell(f"  acknowledged  {verdict.acknowledged}")
    tell(f"  read          {verdict.read}")
    tell(f"  lost          {len(verdict.lost)}")
    tell(f"  duplicated    {len(verdict.duplicated)}")
    tell(f"  longest stall {report.stall_ms} ms (SIGKILL to next acknowledged write: {per_partition})")
    if not verdict.is_clean:
        tell(verdict.describe())
    if report.given_up:
        tell(f"  the client gave up on {report.given_up} records")
    tell("")
    tell(f"Swagger UI: {report.swagger_url} (gone in a moment; `make up` leaves a cluster running)")


def write_report(report: DemoReport, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report.document(), indent=2) + "\n", encoding="utf-8")
