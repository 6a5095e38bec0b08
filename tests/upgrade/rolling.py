"""What a rolling upgrade of everything costs stock clients: the longest stall while each process is rolled.

    python -m tests.upgrade.rolling

Clients at their defaults, of confluent-kafka and aiokafka a producer (acks=all) and a consumer in a group
each, and one idempotent producer, work while seven processes of the last release are replaced by those of
this one, one by one. Beside it, on the same machine and in the same minutes: how long they stall when nothing
happens, and when only leaders move (a broker is demoted). Figures: build/upgrade-stalls.json.

A producer without idempotence sends a record again whose answer a leader's move took away, and then it may be
there twice, with Apache Kafka too. So doubled records are counted for each thing that happened.

Exit status: 0 no client met an error, no record is lost, none of the idempotent producer is doubled; else 1.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import msgspec

from localcluster.__main__ import Narrator
from localcluster.cluster import CANNOT_RUN
from localcluster.load import read_everything
from tests.proof.table import rows_as_table, shown
from tests.upgrade.last_release import LastReleaseUnavailable, python
from tests.upgrade.mixed_cluster import MixedCluster
from tests.upgrade.paths import PROCESSES, Release
from tests.upgrade.stopwatch import (
    AiokafkaConsumer,
    AiokafkaProducer,
    ConfluentConsumer,
    ConfluentProducer,
    IdempotentProducer,
    Stopwatch,
)

REPORT = Path("build/upgrade-stalls.json")
TOPIC, PARTITIONS = "orders", 6
CALM_SECONDS = 5.0
KINDS: Mapping[str, Callable[[str, str, str, int], Stopwatch]] = {
    "confluent-kafka producer": ConfluentProducer,
    "the same, idempotent": IdempotentProducer,
    "confluent-kafka consumer": ConfluentConsumer,
    "aiokafka producer": AiokafkaProducer,
    "aiokafka consumer": AiokafkaConsumer,
}
IDEMPOTENT = "the same, idempotent"


class Row(msgspec.Struct, frozen=True):
    """stalls_ms: the longest stall of each client, in the order of KINDS. doubled: records that are there
    twice, answered in this time."""

    what: str
    stalls_ms: tuple[int, ...]
    doubled: int


class Report(msgspec.Struct, frozen=True):
    """errors: of all clients, in their own words. doubled: records that are there twice; of an idempotent
    producer none may be. read_again: records that a consumer was given twice."""

    rows: tuple[Row, ...]
    acknowledged: int
    lost: int
    doubled: int
    doubled_of_idempotent: int
    read_again: int
    errors: tuple[str, ...]

    @property
    def is_ok(self) -> bool:
        return not (self.lost or self.doubled_of_idempotent or self.read_again or self.errors)


def measure(last: Path, directory: Path, tell: Callable[[str], None]) -> Report:
    windows: list[tuple[str, float, float]] = []
    with MixedCluster(directory, last, tell=tell) as cluster, ExitStack() as stack:
        cluster.form()
        cluster.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=3)
        clients = {
            name: stack.enter_context(
                kind(name.replace(" ", "-"), cluster.bootstrap_servers, TOPIC, PARTITIONS)
            )
            for name, kind in KINDS.items()
        }
        cluster.wait_until(
            "each client works", lambda: all(len(one.times) == PARTITIONS for one in clients.values())
        )
        time.sleep(CALM_SECONDS)

        def lead_as_preferred() -> bool:
            return all(view.leader == view.replicas[0] for view in cluster.partitions(TOPIC))

        def watch(what: str, happen: Callable[[], None], *, is_demoted: bool = False) -> None:
            """Measure from before it happens until all is as it was before, leaders included."""
            tell(what)
            since = time.monotonic()
            happen()
            cluster.wait_until_whole(TOPIC)
            if not is_demoted and not lead_as_preferred():
                path = f"/clusters/{cluster.name}/partitions:elect-preferred"
                cluster.api.wait_for_operation(cluster.api.post(path, {"reason": "measured"}))
                cluster.wait_until("preferred leaders lead", lead_as_preferred)
            time.sleep(CALM_SECONDS)
            windows.append((what, since, time.monotonic()))

        def lead_elsewhere(verb: str) -> None:
            path = f"/clusters/{cluster.name}/brokers/1:{verb}"
            cluster.api.wait_for_operation(cluster.api.post(path, {"reason": "measured"}))

        watch("nothing happens", lambda: time.sleep(CALM_SECONDS))
        watch("leaders move (a broker is demoted)", lambda: lead_elsewhere("demote"), is_demoted=True)
        watch("leaders move (it returns)", lambda: lead_elsewhere("return"))
        for process in PROCESSES:
            watch(f"{process} is rolled", partial(cluster.roll, process, Release.THIS))
        for name, one in clients.items():
            if "consumer" not in name:
                one.stop()
        tell("reading everything back")
        read = read_everything(
            bootstrap_servers=cluster.bootstrap_servers, topic=TOPIC, partitions=PARTITIONS
        )
    return judge(windows, clients, Counter(record.value for record in read))


def judge(
    windows: Sequence[tuple[str, float, float]], clients: Mapping[str, Stopwatch], read: Counter[bytes]
) -> Report:
    """windows: what happened, from when to when. read: how often each value is there."""
    answered = {value: at for one in clients.values() for value, at in one.answered.items()}
    doubled = [value for value, count in read.items() if count > 1]
    rows = [
        Row(
            what,
            tuple(one.longest_stall_ms(since, until) for one in clients.values()),
            sum(since <= answered.get(value, since) < until for value in doubled),
        )
        for what, since, until in windows
    ]
    return Report(
        rows=tuple(rows),
        acknowledged=len(answered),
        lost=len(answered.keys() - read.keys()),
        doubled=len(doubled),
        doubled_of_idempotent=sum(value in clients[IDEMPOTENT].answered for value in doubled),
        read_again=sum(one.read_again for one in clients.values()),
        errors=tuple(f"{name}: {error}" for name, one in clients.items() for error in one.errors),
    )


def render(report: Report) -> str:
    rows = [(row.what, *map(shown, row.stalls_ms), shown(row.doubled)) for row in report.rows]
    counted = (
        f"{shown(report.acknowledged)} records acknowledged, {report.lost} lost, {report.doubled} doubled"
        f" ({report.doubled_of_idempotent} of the idempotent producer), {report.read_again} read again,"
        f" {len(report.errors)} errors of clients."
    )
    table = rows_as_table(("longest stall, ms", *KINDS, "doubled"), rows)
    return "\n\n".join([table, counted, *report.errors])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.upgrade.rolling",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--report", type=Path, default=REPORT)
    options = parser.parse_args(arguments)
    try:
        last = python()
        report = measure(last, Path(tempfile.mkdtemp(prefix="springtide-rolling-")), Narrator())
    except (LastReleaseUnavailable, *CANNOT_RUN) as reason:
        print(f"nothing was measured: {reason}", file=sys.stderr)
        return 1
    options.report.parent.mkdir(exist_ok=True)
    options.report.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n")
    print(f"\n{render(report)}\n\n{options.report}")
    return 0 if report.is_ok else 1


if __name__ == "__main__":
    sys.exit(main())
