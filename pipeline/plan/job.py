"""`pipeline plan`: collects load history, and has the controller plan from it."""

from __future__ import annotations

import argparse
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Final

from pipeline.clock import wall_ms
from pipeline.errors import JobError
from pipeline.jobs.job import JobExit, JobOutcome
from pipeline.plan import words
from pipeline.plan.collecting import Collector, Schedule, ask_metrics
from pipeline.plan.controller import ClusterReader, ask_disks, free_bytes
from pipeline.plan.documents import BrokerItem, PlanItem
from pipeline.plan.eta import Eta, calibrate, estimate, work_of
from pipeline.plan.history import LoadHistory
from pipeline.plan.report import HistoryRead, Proposal, lines_of, result_of
from pipeline.plan.request import WEIGHTS_DEFAULT, Goal, PartitionRates, plan_body
from springtide.cli.call import UsageError

if TYPE_CHECKING:
    from pipeline.jobs.context import Context

#: The controller's limit for one plan.
MOVES_MAX: Final = 10_000
CONCURRENT_MOVES: Final = 50
STATISTICS: Final = ("avg", "p95", "max")

DESCRIPTION: Final = """\
Proposes moves that even out what brokers carry, from history rather than from a moment.

First collect: --collect writes down sizes, offsets and lags of every partition again and again, as Parquet
files under HISTORY. Then plan: rates are taken from windows of that history and sent to the controller, which
searches for moves that bring the highest broker to --target times the mean with as few copied bytes as
possible.

Loads: disk, bytes_in (of all replicas), leader_bytes_in, bytes_out (to followers and, with --broker-metrics
while collecting, to consumers). Replicas never come closer together on hosts and in racks; cordoned,
draining, fenced and full brokers get nothing; replication factors stay; a partition that is not wholly in
sync, or already moves, stays where it is.

Without --apply nothing is changed: the controller shows the plan and forgets it. With --apply it keeps the
plan; `springtide plans execute` carries it out.\
"""
EXAMPLES: Final = (
    "pipeline plan /var/lib/load --cluster prod --collect --every 1m --broker-metrics 1=store1:9192",
    "pipeline plan /var/lib/load --cluster prod",
    "pipeline plan s3://ops/load --cluster prod --last 14d --statistic max --bytes-max 500G --apply",
    "pipeline plan /var/lib/load --cluster prod --loads disk --target 1.05 --output json",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("history", metavar="HISTORY", help="folder or URL that load history is kept under")
    collect = parser.add_argument_group("collecting")
    collect.add_argument("--collect", action="store_true", help="write down the load instead of planning")
    collect.add_argument(
        "--every", type=words.span, default=30.0, metavar="SPAN", help="between two samples (30s)"
    )
    collect.add_argument(
        "--for", dest="collect_s", type=words.span, metavar="SPAN", help="how long (default: until Ctrl-C)"
    )
    collect.add_argument(
        "--broker-metrics",
        type=words.address,
        action="append",
        default=[],
        metavar="BROKER=ADDRESS",
        help="a broker's --metrics-listen address, to count what consumers read, or the URL of its page "
        "(https://HOST:PORT/metrics, with --ca-file, --cert-file and --key-file); repeatable",
    )
    history = parser.add_argument_group("what counts")
    history.add_argument("--last", type=words.span, default=7 * 86_400.0, metavar="SPAN", help="of it (7d)")
    history.add_argument(
        "--window", type=words.span, default=3600.0, metavar="SPAN", help="that a rate is a mean of (1h)"
    )
    history.add_argument(
        "--gap",
        type=words.span,
        default=600.0,
        metavar="SPAN",
        help="samples that lie farther apart tell nothing of what was between them (10m)",
    )
    history.add_argument(
        "--statistic", choices=STATISTICS, default="p95", help="over a partition's windows (%(default)s)"
    )
    goal = parser.add_argument_group("goals and limits")
    goal.add_argument(
        "--loads",
        type=words.weights,
        default=WEIGHTS_DEFAULT,
        metavar="NAME,...",
        help=f"that are to be even ({','.join(WEIGHTS_DEFAULT)}; also replicas, leaders)",
    )
    goal.add_argument(
        "--target", type=words.target, default=1_100, metavar="RATIO", help="highest over mean (1.1)"
    )
    goal.add_argument("--bytes-max", type=words.size, metavar="BYTES", help="copied in all, such as 500G")
    goal.add_argument(
        "--moves-max",
        type=int,
        default=MOVES_MAX,
        metavar="N",
        help="partitions that may change (%(default)s)",
    )
    goal.add_argument(
        "--disk-reserve",
        type=words.share,
        default=0.2,
        metavar="PART",
        help="part of a broker's free bytes that moves leave free (%(default)s)",
    )
    goal.add_argument(
        "--ignore-disk", action="store_true", help="go on where brokers do not tell how much is free"
    )
    carry = parser.add_argument_group("what becomes of it")
    carry.add_argument("--apply", action="store_true", help="leave the plan at the controller")
    carry.add_argument("--dry-run", action="store_true", help="write nothing: neither history nor a plan")
    carry.add_argument("--reason", help="kept with the plan and in the audit")
    carry.add_argument(
        "--expires-in", type=words.span, metavar="SPAN", help="how long it may be executed (the API's: 1d)"
    )
    carry.add_argument(
        "--throttle", type=words.size, metavar="BYTES", help="a second and broker, for the estimate of time"
    )
    carry.add_argument(
        "--max-concurrent-moves",
        type=int,
        default=CONCURRENT_MOVES,
        metavar="N",
        help="for the estimate of time (%(default)s)",
    )


def run(options: argparse.Namespace, context: Context) -> JobOutcome:
    return _collect(options, context) if options.collect else _plan(options, context)


def _collect(options: argparse.Namespace, context: Context) -> JobOutcome:
    if options.apply:
        raise UsageError("--collect and --apply are two things: collect first")
    samples = None if options.collect_s is None else 1 + int(options.collect_s / options.every)
    if options.dry_run:
        samples = 1
    cluster, history = context.cluster, LoadHistory(options.history)
    with context.controllers() as controllers, _terminated_is_interrupted():
        collector = Collector(
            cluster,
            ClusterReader(controllers, cluster),
            None if options.dry_run else history,
            metrics=dict(options.broker_metrics),
            ask_metrics=partial(ask_metrics, verify=context.verify),
            now_ms=wall_ms,
            sleep_ms=lambda ms: time.sleep(ms / 1000),
            note=context.note,
            on_sample=lambda taken, partitions: context.progress(
                taken, samples or 0, f"samples, {partitions} partitions"
            ),
        )
        collected = collector.run(Schedule(every_ms=int(options.every * 1000), samples=samples))
    lines = [f"{collected.samples} samples of {collected.partitions} partitions in {history.url}"]
    if collected.missed:
        lines.append(f"{collected.missed} could not be taken")
    if options.dry_run:
        lines.append("dry run: nothing was written")
    return JobOutcome(JobExit.DONE, {"history": history.url, **collected._asdict()}, tuple(lines))


@contextmanager
def _terminated_is_interrupted() -> Iterator[None]:
    """Let SIGTERM end a collection as Ctrl-C does, so samples in memory are written."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _plan(options: argparse.Namespace, context: Context) -> JobOutcome:
    if not 1 <= options.moves_max <= MOVES_MAX:
        raise UsageError(f"--moves-max must be from 1 to {MOVES_MAX}: what one plan takes")
    if options.max_concurrent_moves < 1:
        raise UsageError("--max-concurrent-moves must be at least 1")
    goal = Goal(
        weights=options.loads,
        target_permille=options.target,
        bytes_max=options.bytes_max,
        moves_max=options.moves_max,
        disk_reserve=options.disk_reserve,
    )
    history, rates = _read_history(options, context)
    is_kept = options.apply and not options.dry_run
    ask = partial(ask_disks, security=context.security)
    with context.controllers() as controllers:
        reader = ClusterReader(controllers, context.cluster)
        brokers, partitions = reader.brokers(), reader.partitions()
        free = {} if options.ignore_disk else free_bytes(brokers, ask)
        unknown = _unknown_disks(brokers, free, is_ignored=options.ignore_disk)
        body = plan_body(
            goal,
            partitions,
            rates,
            free,
            reason=options.reason,
            expires_in_s=None if options.expires_in is None else int(options.expires_in),
        )
        pins = [p.partition_epoch for p in sorted(partitions, key=lambda p: (p.topic_id, p.partition))]
        plan = reader.make_plan(body, pins=pins, keep=is_kept)
        proposal = Proposal(
            cluster=context.cluster,
            history=history,
            goal=goal,
            plan=plan,
            eta=_eta(options, reader, plan),
            without_history=sum((p.topic_id, p.partition) not in rates for p in partitions),
            unknown_disks=unknown,
            body=body,
            is_kept=is_kept,
        )
    return JobOutcome(JobExit.DONE, result_of(proposal), lines_of(proposal))


def _unknown_disks(brokers: Sequence[BrokerItem], free: Mapping[int, int], *, is_ignored: bool) -> list[int]:
    unknown = sorted(b.broker_id for b in brokers if b.receives and b.broker_id not in free)
    if unknown and not is_ignored:
        raise JobError(
            f"brokers {', '.join(map(str, unknown))} do not tell how much of their disks is free",
            "They are asked at the addresses that the controller has of them (DescribeLogDirs). With "
            "--ignore-disk the plan is made without knowing whether replicas fit.",
        )
    return unknown


def _eta(options: argparse.Namespace, reader: ClusterReader, plan: PlanItem) -> Eta | None:
    if not plan.moves:
        return None
    speed = calibrate(reader.past_operations())
    if speed is None:
        return None
    work = work_of(plan.moves, concurrent=options.max_concurrent_moves, throttle=options.throttle)
    return estimate(speed, work)


def _read_history(
    options: argparse.Namespace, context: Context
) -> tuple[HistoryRead, dict[tuple[str, int], PartitionRates]]:
    history = LoadHistory(options.history)
    if not history.has("partitions"):
        raise JobError(
            f"there is no history in {history.url}",
            f"Collect some first: pipeline plan {options.history} --collect --for 1d",
        )
    from pipeline.plan.spark_history import read_loads  # noqa: PLC0415 - collecting needs no Spark

    found = read_loads(
        context.spark,
        history,
        cluster=context.cluster,
        last_s=options.last,
        window_s=int(max(options.window, 1)),
        gap_s_max=options.gap,
        statistic=options.statistic,
    )
    if not found[1]:
        raise JobError(
            f"the history in {history.url} has no two samples of {context.cluster!r} to compare",
            "Collect for longer, or let --last and --gap reach farther.",
        )
    return found
