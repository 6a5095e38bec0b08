"""One run: build, load, break, heal, read everything back, compare, and say what came of it."""

from __future__ import annotations

import random
import shutil
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
from confluent_kafka import Producer

from localcluster.processes import ProcessFailed
from localcluster.rest import RestFailed, RestPartition
from tests.checker.check import check
from tests.checker.from_clients import Recorder, ends_of, read_finally
from tests.checker.from_transactions import open_partitions
from tests.checker.history import Function, History, Key, Operation, Outcome, write_history
from tests.checker.options import CheckOptions
from tests.checker.verdict import Verdict
from tests.faults.hosts.cluster import HostCluster
from tests.faults.jepsen2013.schedule import UNSAFE_CONFIGS
from tests.faults.nemesis.arena import COPIES, Arena, is_whole
from tests.faults.nemesis.disks import dump_replicas
from tests.faults.nemesis.figures import (
    Acknowledged,
    Course,
    recoveries,
    render_faults,
    to_part,
    transactions_of,
)
from tests.faults.nemesis.kinds import Kind
from tests.faults.nemesis.load import CLIENTS, VERSION_2, Client, Load, transactional_clients
from tests.faults.nemesis.placement import NotTold, compare_views
from tests.faults.nemesis.schedule import Nemesis, Tell
from tests.proof.part import Part

BROKERS, CONTROLLERS, ZOOKEEPERS = 5, 2, 3
TOPIC, PARTITIONS = "ledger", 6
TOPIC_CONFIG = {"min.insync.replicas": "2"}
BROKER_CONFIG = {
    "replica.lag.time.max.ms": "5000",
    "log.segment.bytes": str(512 * 1024),  # Rolls, and with them snapshots and syncs, every few seconds.
    "log.flush.offset.checkpoint.interval.ms": "10000",
}
WARM_UP_SECONDS = 3.0
FIRST_TRANSACTION_SECONDS_MAX = 60.0
WHOLE_SECONDS_MAX = 240.0
"""Where the machine is busy with other things, brokers are fenced for silence that is not theirs."""
STEADY_SECONDS = 3.0
CATCH_UP_SECONDS = 3.0
FINAL_READ_SECONDS_MAX = 120.0
VIEWS_AGREE_SECONDS_MAX = 20.0
NO_TRANSACTION_OPEN_SECONDS_MAX = 60.0
"""After the last client ended; what was given up has its timeout left, and the coordinator's scan."""
HISTORY_FILE = "history.jsonl"


@dataclass(frozen=True, slots=True)
class Workload:
    """What clients do, on which cluster. part: what its figures are called. is_unclean: the topic prefers
    availability to its records."""

    part: str
    clients: Sequence[Client]
    coordinators: int = 0
    options: CheckOptions = field(default_factory=CheckOptions)
    is_unclean: bool = False


RECORDS = Workload("tier-c", CLIENTS)


def transactions(kafka_home: Path | None, *, unclean: bool) -> Workload:
    return Workload(
        "tier-c-unclean" if unclean else "tier-c-transactions",
        transactional_clients(kafka_home),
        coordinators=2,
        # librdkafka speaks no other version than the first.
        options=CheckOptions(version_1=True, version_2=(VERSION_2,)),
        is_unclean=unclean,
    )


@dataclass(slots=True)
class Outcomes:
    """What is known of a run so far: filled step by step, so that a failure can tell what came before it."""

    workload: Workload
    failures: list[str] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    course: Course = field(default_factory=lambda: Course(0, 0, 0.0))
    settled_seconds: float | None = None
    """From the last client's end until no transaction was open."""
    unclean: dict[int, int] = field(default_factory=dict)
    """By partition, how many leaders were elected uncleanly, as the audit has it."""
    ended_by_hand: int = 0
    """Transactions that hung in a partition because an election had cut their markers."""


def run(
    *, seed: int, seconds: float, kinds: Sequence[Kind], workload: Workload, directory: Path, tell: Tell
) -> tuple[Part, Verdict]:
    """Runs, and leaves histories and logs in `directory`.

    Raises:
        ProcessFailed, TimeoutError, RestFailed: the cluster did not start. Whatever happens after that is in
            the part's failures.
    """
    began_at = time.monotonic()
    recorder = Recorder()
    outcomes = Outcomes(workload)
    cluster = HostCluster(
        directory,
        brokers=BROKERS,
        controllers=CONTROLLERS,
        zookeepers=ZOOKEEPERS,
        coordinators=workload.coordinators,
        broker_config=BROKER_CONFIG,
        clock_faults=any(kind.name == "jump-clock" for kind in kinds),
        on_progress=tell,
    )
    with cluster:
        cluster.form()
        configs = dict(UNSAFE_CONFIGS) if workload.is_unclean else TOPIC_CONFIG
        cluster.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=COPIES, configs=configs)
        load = Load(
            directory=directory,
            bootstrap_servers=cluster.bootstrap_servers,
            topic=TOPIC,
            partitions=PARTITIONS,
            clients=workload.clients,
        )
        arena = Arena(cluster, TOPIC, random.Random(seed), recorder)
        nemesis = Nemesis(arena, kinds, tell, check=lambda: require_running(load))
        if workload.coordinators:
            begin_transactions(cluster)
        load.start()
        try:
            try:
                time.sleep(WARM_UP_SECONDS)
                nemesis.run(seconds)
            except (ProcessFailed, TimeoutError, RestFailed) as failure:
                outcomes.failures.append(f"while faults struck: {failure}")
                mend(arena, tell)
            finish(cluster, load, recorder, outcomes, tell)
        finally:
            load.kill()
            arena.close()
    return judge(
        seed=seed,
        seconds=seconds,
        began_at=began_at,
        nemesis=nemesis,
        recorder=recorder,
        outcomes=outcomes,
        directory=directory,
        tell=tell,
    )


def begin_transactions(cluster: HostCluster) -> None:
    """Have the topic of transactions made and opened: a short run on a busy machine would else strike nothing
    but that. Raise KafkaException."""
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "first", "log_level": 0}
    Producer(settings).init_transactions(FIRST_TRANSACTION_SECONDS_MAX)


def require_running(load: Load) -> None:
    """A client that gives up for good is a finding: nothing here is beyond what a client bears."""
    if ended := load.ended():
        raise ProcessFailed("; ".join(ended))


def mend(arena: Arena, tell: Tell) -> None:
    """After a run that went wrong: heals what can be healed, so that everything can still be read."""
    arena.cluster.network.heal_all()
    for fault in list(arena.ongoing):
        try:
            fault.heal()
        except (ProcessFailed, TimeoutError, RestFailed, OSError) as error:
            tell(f"could not heal {fault.note}: {error}")
        arena.remove(fault)


def finish(cluster: HostCluster, load: Load, recorder: Recorder, outcomes: Outcomes, tell: Tell) -> None:
    """After the last heal: waits until all is whole, reads everything, and stops the brokers."""
    keys: list[Key] = [(TOPIC, partition) for partition in range(PARTITIONS)]
    healed_at = time.monotonic()
    tell("everything is healed; waiting until every replica is in sync")
    try:
        views = wait_until_whole(cluster)
        whole_seconds = time.monotonic() - STEADY_SECONDS - healed_at
        outcomes.course = Course(
            elections=sum(view.leader_epoch for view in views),
            metadata_changes=sum(int(view.document.get("partition_epoch", 0)) for view in views),
            whole_seconds=whole_seconds,
        )
        tell(f"in sync after {whole_seconds:.1f} s")
    except (ProcessFailed, TimeoutError) as failure:
        outcomes.failures.append(f"after the last heal: {failure}")
    outcomes.failures += load.stop(producers=True)
    time.sleep(CATCH_UP_SECONDS)  # The readers', to the end of what is there.
    outcomes.failures += load.stop(producers=False)
    outcomes.operations = load.operations()
    if outcomes.workload.is_unclean:
        rows = cluster.audit(cause="unclean_leader_elected", topic=TOPIC)
        outcomes.unclean = dict(Counter(row["partition"] for row in rows))
        tell(f"unclean elections by partition: {outcomes.unclean}")
    if outcomes.workload.coordinators:
        settle(cluster, keys, outcomes, tell)
    tell("reading everything back")
    unfinished = read_finally(
        recorder,
        config={"bootstrap.servers": cluster.bootstrap_servers},
        keys=keys,
        timeout_seconds=FINAL_READ_SECONDS_MAX,
        at_least=ends_of(History.of(outcomes.operations)),
    )
    outcomes.failures += [f"the final read did not reach the end of {key[0]}-{key[1]}" for key in unfinished]
    outcomes.failures += compare_until_equal(cluster)
    tell("stopping the brokers and reading their disks")
    for broker in cluster.brokers.values():
        broker.process.begin_stop()
    for broker in cluster.brokers.values():
        broker.process.stop()
    directories = {number: broker.data_directory for number, broker in cluster.brokers.items()}
    try:
        for dump in dump_replicas(directories, TOPIC, now_ns=recorder.clock_ns()):
            recorder.add(dump)
    except (OSError, ValueError) as error:  # ValueError: a description that is none.
        outcomes.failures.append(f"a replica's disk can't be read: {error}")


def settle(cluster: HostCluster, keys: Sequence[Key], outcomes: Outcomes, tell: Tell) -> None:
    """Wait until no transaction is open: only then does a reader reach the end of what was committed."""
    since = time.monotonic()
    while stuck := open_partitions(cluster.bootstrap_servers, keys):
        if outcomes.unclean:
            outcomes.ended_by_hand += end_hanging(cluster)
        if time.monotonic() - since > NO_TRANSACTION_OPEN_SECONDS_MAX:
            outcomes.failures.append(f"a transaction is open for ever: {', '.join(stuck)}")
            return
        time.sleep(0.5)
    outcomes.settled_seconds = time.monotonic() - since
    tell(f"no transaction is open after {outcomes.settled_seconds:.1f} s")


def end_hanging(cluster: HostCluster) -> int:
    """Do what an operator does about transactions that the alarm calls hanging; return how many."""
    ended = 0
    for hanging in cluster.api.get(f"/clusters/{cluster.name}/transactions")["hanging"]:
        path = f"/clusters/{cluster.name}/topics/{hanging['topic']}/partitions/{hanging['partition']}"
        body = {"producer_id": hanging["producer_id"], "reason": "an unclean election cut its marker"}
        with suppress(RestFailed):  # The alarm is a heartbeat old, and the leader may hold it open no more.
            cluster.api.post(f"{path}:end-transaction", body, timeout_seconds=0)
            ended += 1
    return ended


def wait_until_whole(cluster: HostCluster) -> list[RestPartition]:
    """Every broker is active and every replica in sync, and stays so: right after a heal the controllers may
    not yet have heard of what is broken."""
    since = time.monotonic()

    def whole() -> list[RestPartition] | None:
        nonlocal since
        brokers = cluster.api.get(f"/clusters/{cluster.name}/brokers")["items"]
        views = cluster.partitions(TOPIC)
        if not (is_whole(views) and all(broker["state"] == "active" for broker in brokers)):
            since = time.monotonic()
        return views if time.monotonic() - since >= STEADY_SECONDS else None

    return cluster.wait_until("the cluster is whole", whole, timeout_seconds=WHOLE_SECONDS_MAX)


def compare_until_equal(cluster: HostCluster) -> list[str]:
    """What REST and the brokers still say otherwise than ZooKeeper when they had time to hear of it."""
    deadline = time.monotonic() + VIEWS_AGREE_SECONDS_MAX
    while True:
        try:
            differences = [anomaly.explanation for anomaly in compare_views(cluster, TOPIC)]
        except (RestFailed, NotTold) as error:
            differences = [f"the views could not be compared: {error}"]
        if not differences or time.monotonic() > deadline:
            return differences
        time.sleep(0.5)


def judge(
    *,
    seed: int,
    seconds: float,
    began_at: float,
    nemesis: Nemesis,
    recorder: Recorder,
    outcomes: Outcomes,
    directory: Path,
    tell: Tell,
) -> tuple[Part, Verdict]:
    """Merges the histories by time and checks them."""
    for fault in nemesis.done:
        recorder.add(
            Operation(
                process="nemesis",
                f=Function.FAULT,
                type=Outcome.INFO,
                t_invoke_ns=fault.struck_ns,
                t_return_ns=fault.healed_ns,
                note=fault.note,
            )
        )
    merged = sorted(
        [*outcomes.operations, *recorder.history().operations], key=lambda operation: operation.t_return_ns
    )
    with (directory / HISTORY_FILE).open("wb") as stream:
        write_history(stream, merged)
    tell(f"checking {len(merged)} operations")
    options = replace(
        outcomes.workload.options, unclean=frozenset((TOPIC, partition) for partition in outcomes.unclean)
    )
    verdict = check(History.of(merged), options)
    keys = [(TOPIC, partition) for partition in range(PARTITIONS)]
    part = to_part(
        seed=seed,
        seconds=time.monotonic() - began_at,
        minutes=seconds / 60,
        faults=nemesis.done,
        verdict=verdict,
        course=outcomes.course,
        recovered=recoveries(nemesis.done, Acknowledged(merged, keys)),
        failures=outcomes.failures,
    )
    part = msgspec.structs.replace(part, name=outcomes.workload.part)
    if outcomes.workload.coordinators:
        part.figures.update(transactions_of(merged, version_2=VERSION_2))
        if not part.figures["transactions committed"]:
            part.failures.append("no transaction was committed, so nothing was tried")
    if outcomes.workload.is_unclean:
        part.figures["unclean elections"] = sum(outcomes.unclean.values())
        part.figures["transactions that hung"] = outcomes.ended_by_hand
        part.figures["acknowledged, cut and set aside"] = verdict.figures.unpromised_lost
        if not verdict.figures.unpromised_lost:
            part.failures.append("no election cut what was acknowledged, so nothing was tried")
    if outcomes.settled_seconds is not None:
        part.figures["no transaction open after the end s"] = round(outcomes.settled_seconds, 1)
    if not part.is_ok:
        first_ns = min((operation.t_invoke_ns for operation in merged), default=0)
        for line in render_faults(nemesis.done, started_ns=first_ns):
            tell(line)
    return part, verdict


def remove(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)
