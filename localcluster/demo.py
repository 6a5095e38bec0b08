"""`make demo`: a cluster is born, a leader and a coordinator are killed under load, and nothing is lost.

Everything here is what an operator and a user could do: REST calls to the controller, SIGKILL to a broker and
to a consumer group's coordinator, a stock Kafka client on both ends. The figures go to the terminal and to a
JSON file; the exit status says whether the promise held.
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
from localcluster.group import ReadingGroup
from localcluster.load import ClientLoad, ends_of, read_everything
from localcluster.verdict import (
    AcknowledgedWrite,
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
GROUP = "shop"
MEMBERS = 2

QUIET_SECONDS = 3.0
"""Writes and commits before each kill, and again after every partition has taken a new one."""

BEFORE_KILL_SECONDS = 0.5
"""A stall is looked for from this long before the kill."""
RECOVERY_SECONDS_MAX = 60.0
SHOWN_BEFORE_SECONDS = 1.5
SHOWN_AFTER_SECONDS = 2.5


@dataclass(frozen=True, slots=True)
class GroupReport:
    """A consumer group's view of the demo, whose coordinator was killed after the leader."""

    verdict: WriteVerdict
    """Of the acknowledged writes: which the group never saw, and which it saw more than once."""
    killed_coordinator: int
    stall_ms: int
    """The longest time in which any partition's offset was not committed, from just before the kill on."""
    leader_stall_ms: int
    """The same, from just before the leader's kill to the coordinator's."""
    next_commit_ms: dict[int, int]
    """The time of each partition from the SIGKILL to the coordinator to the first commit asked for since."""

    def document(self) -> dict[str, Any]:
        return {
            "read": self.verdict.read,
            "lost": len(self.verdict.lost),
            "seen_twice": len(self.verdict.duplicated),
            "stall_ms": self.stall_ms,
            "leader_stall_ms": self.leader_stall_ms,
            "next_commit_ms": _by_name(self.next_commit_ms),
            "killed_coordinator": self.killed_coordinator,
            "members": MEMBERS,
        }


@dataclass(frozen=True, slots=True)
class DemoReport:
    verdict: WriteVerdict
    group: GroupReport
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
        return self.verdict.is_clean and self.given_up == 0 and not self.group.verdict.lost

    def document(self) -> dict[str, Any]:
        return {
            "acked": self.verdict.acknowledged,
            "read": self.verdict.read,
            "lost": len(self.verdict.lost),
            "duplicated": len(self.verdict.duplicated),
            "misplaced": len(self.verdict.misplaced),
            "given_up": self.given_up,
            "stall_ms": self.stall_ms,
            "next_write_ms": _by_name(self.next_write_ms),
            "back_in_sync_ms": self.back_in_sync_ms,
            "killed_broker": self.killed_broker,
            "group": self.group.document(),
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
    cluster.make_topics_on_first_use()
    tell(f"creating topic '{TOPIC}' (POST /topics): {PARTITIONS} partitions, {REPLICATION_FACTOR} replicas")
    cluster.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=REPLICATION_FACTOR)
    tell(f"Swagger UI while this runs: {swagger_url}")

    tell(f"producing {RECORDS_PER_SECOND} records/s with confluent-kafka, acks=all, enable.idempotence=true")
    tell(f"consuming with {MEMBERS} members of the group '{GROUP}', which commit what they have read")
    load = ClientLoad(
        bootstrap_servers=cluster.bootstrap_servers,
        topic=TOPIC,
        partitions=PARTITIONS,
        records_per_second=RECORDS_PER_SECOND,
    )
    readers = ReadingGroup(
        bootstrap_servers=cluster.bootstrap_servers, topic=TOPIC, group=GROUP, members=MEMBERS
    )
    with readers:
        with load:
            cluster.wait_until(
                "every partition takes writes and commits",
                lambda: len(ends_of(load.acknowledged)) == len(ends_of(readers.commits)) == PARTITIONS,
            )
            started_at = time.monotonic()
            _let_pass(cluster, QUIET_SECONDS)
            victim = cluster.leader(TOPIC, 0)
            killed_at = time.monotonic()
            cluster.kill_broker(victim)
            tell(f"SIGKILL to broker {victim}, leader of {TOPIC}-0, after {len(load.acknowledged)} writes")
            next_write = _next_on_all(cluster, "acknowledges writes", load.acknowledged, after=killed_at)
            tell(f"writes continue; leader of {TOPIC}-0 is now broker {cluster.leader(TOPIC, 0)}")
            _next_on_all(cluster, "takes commits", readers.commits, after=killed_at)
            _let_pass(cluster, QUIET_SECONDS)
            coordinator = readers.coordinator()
            coordinator_killed_at = time.monotonic()
            cluster.kill_coordinator(coordinator)
            tell(f"SIGKILL to coordinator {coordinator} of '{GROUP}', after {len(readers.commits)} commits")
            next_commit = _next_on_all(cluster, "takes commits", readers.commits, after=coordinator_killed_at)
            tell(f"commits continue; coordinator of '{GROUP}' is now {readers.coordinator()}")
            _let_pass(cluster, QUIET_SECONDS)
            stopped_at = time.monotonic()
        ends = ends_of(load.acknowledged)
        cluster.wait_until("the group has committed all", lambda: readers.has_read(ends))
    acknowledged = load.acknowledged

    tell("reading everything back with a fresh consumer, by assignment, while the broker is still dead")
    read = read_everything(
        bootstrap_servers=cluster.bootstrap_servers,
        topic=TOPIC,
        partitions=PARTITIONS,
        at_least=ends,
    )
    verdict = judge(acknowledged, read)

    tell(f"restarting coordinator {coordinator} and broker {victim}")
    cluster.start_coordinator(coordinator)
    restarted_at = time.monotonic()
    cluster.start_broker(victim)
    cluster.wait_until_in_sync(TOPIC)
    back_in_sync_ms = round((time.monotonic() - restarted_at) * 1000)
    tell(f"every ISR is full again after {back_in_sync_ms} ms")

    recovered_at = killed_at + max(next_write.values())
    return DemoReport(
        verdict=verdict,
        given_up=len(load.failed),
        group=GroupReport(
            verdict=judge(acknowledged, readers.records),
            killed_coordinator=coordinator,
            stall_ms=_stall_ms(readers.commits, killed_at=coordinator_killed_at, until=stopped_at),
            leader_stall_ms=_stall_ms(readers.commits, killed_at=killed_at, until=coordinator_killed_at),
            next_commit_ms=_in_ms(next_commit),
        ),
        stall_ms=_stall_ms(acknowledged, killed_at=killed_at, until=stopped_at),
        next_write_ms=_in_ms(next_write),
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


def _next_on_all(
    cluster: LocalCluster, what: str, writes: list[AcknowledgedWrite], *, after: float
) -> dict[int, float]:
    """Wait until each partition has a new one; return the seconds that it took, by partition."""

    def complete() -> dict[int, float] | None:
        found = seconds_to_next_write(list(writes), after=after)
        return found if len(found) == PARTITIONS else None

    return cluster.wait_until(f"every partition {what} again", complete, timeout_seconds=RECOVERY_SECONDS_MAX)


def _stall_ms(writes: list[AcknowledgedWrite], *, killed_at: float, until: float) -> int:
    return round(longest_silence(writes, since=killed_at - BEFORE_KILL_SECONDS, until=until) * 1000)


def _in_ms(waited: dict[int, float]) -> dict[int, int]:
    return {partition: round(seconds * 1000) for partition, seconds in sorted(waited.items())}


def _by_name(waited: dict[int, int]) -> dict[str, int]:
    return {str(partition): waited_ms for partition, waited_ms in waited.items()}


def _shown(waited: dict[int, int]) -> str:
    return ", ".join(f"{TOPIC}-{partition} {waited_ms} ms" for partition, waited_ms in waited.items())


def _let_pass(cluster: LocalCluster, seconds: float) -> None:
    """Let the load run, and notice at once when a process dies that should not."""
    until = time.monotonic() + seconds
    cluster.wait_until("time has passed", lambda: time.monotonic() >= until, timeout_seconds=seconds + 1)


def print_report(report: DemoReport, tell: Callable[[str], None]) -> None:
    verdict = report.verdict
    group = report.group
    tell("")
    tell("acknowledged writes over time:")
    tell(report.timeline)
    tell("")
    tell(f"  acknowledged  {verdict.acknowledged}")
    tell(f"  read          {verdict.read}")
    tell(f"  lost          {len(verdict.lost)}")
    tell(f"  duplicated    {len(verdict.duplicated)}")
    tell(
        f"  longest stall {report.stall_ms} ms "
        f"(SIGKILL to next acknowledged write: {_shown(report.next_write_ms)})"
    )
    tell("")
    tell(f"the group '{GROUP}', whose coordinator was killed, too:")
    tell(f"  read          {group.verdict.read}")
    tell(f"  lost          {len(group.verdict.lost)}")
    tell(f"  seen twice    {len(group.verdict.duplicated)}")
    tell(f"  longest stall {group.stall_ms} ms (SIGKILL to next commit: {_shown(group.next_commit_ms)})")
    tell(f"                {group.leader_stall_ms} ms when the leader died")
    if not verdict.is_clean:
        tell(verdict.describe())
    if group.verdict.lost:
        tell(f"the group: {group.verdict.describe()}")
    if report.given_up:
        tell(f"  the client gave up on {report.given_up} records")
    tell("")
    tell(f"Swagger UI: {report.swagger_url} (gone in a moment; `make up` leaves a cluster running)")


def write_report(report: DemoReport, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report.document(), indent=2) + "\n", encoding="utf-8")
