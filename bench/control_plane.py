"""What questions about a large cluster cost the controller: `python -m bench control_plane`.

One cluster in memory, without sockets and other processes: 200 brokers on as many hosts in 10 racks, 100,000
partitions of three replicas, placed by the controller's own rule. Each row is the median of a few rounds in
milliseconds of one processor; the last line is what the process held at most. The controller answers such
questions between two heartbeats, so a row is also how long every broker waits. Plans are the exception: they
are made from a snapshot, beside the controller's work, and only taking that holds it up.
"""

from __future__ import annotations

import argparse
import gc
import resource
import sys
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Final, NamedTuple

import msgspec

from bench.command import add_output
from bench.machine import keep, machine_facts
from bench.written_rows import REPLICATION_FACTOR, healthy
from controller.core.image import ClusterImage
from controller.core.placement import PlacementBroker, place_replicas
from controller.core.planning.goals import Drain, Goal, Rebalance, RebalanceMode
from controller.core.planning.plan import content_hash
from controller.core.planning.planner import make_plan
from controller.core.planning.snapshot import BrokerSnapshot, Snapshot, take_snapshot
from controller.core.records import (
    BrokerRegistration,
    Cause,
    Change,
    MemberRecord,
    PartitionRecord,
    TopicRecord,
)
from controller.core.resilience import lose, losses_by_group
from springtide.contract.epochs import BrokerEpoch
from springtide.contract.partition_state import TopicState

BROKERS: Final = 200
RACKS: Final = 10
TOPICS: Final = 1_000
PARTITIONS: Final = 100_000
ROUNDS: Final = 5


class Case(NamedTuple):
    """run: answers, and says how many items its answer has."""

    name: str
    run: Callable[[], int]


class Row(NamedTuple):
    name: str
    milliseconds: float
    items: int


def build_image(*, brokers: int, partitions: int) -> ClusterImage:
    """Return a healthy cluster: all brokers are there and in sync. brokers: a multiple of RACKS."""
    image = ClusterImage()
    change = Change(cause=Cause.TOPIC_CREATED, at_ms=0)
    places = [PlacementBroker(broker_id=b, host=f"store{b}", rack=f"r{b % RACKS}") for b in range(brokers)]
    for place in places:
        registration = BrokerRegistration(
            broker_id=place.broker_id,
            broker_epoch=BrokerEpoch(place.broker_id + 1),
            incarnation_id=f"incarnation-{place.broker_id}",
            host=place.host,
            port=9092,
            rack=place.rack,
            admitted=True,
            fenced=False,
        )
        image.replay(MemberRecord(registration=registration, change=change))
    # Turning one topic's placement around the ring of racks keeps its replicas as far apart as they are.
    pattern = place_replicas(places, partitions=partitions // TOPICS, replication_factor=REPLICATION_FACTOR)
    for number in range(TOPICS):
        turned = [tuple((b + number) % brokers for b in replicas) for replicas in pattern]
        _add_topic(image, number, turned, change)
    return image


def _add_topic(image: ClusterImage, number: int, placed: Sequence[tuple[int, ...]], change: Change) -> None:
    topic_id, topic = f"topic-id-{number:013d}", f"topic-{number:04d}"
    for partition, replicas in enumerate(placed):
        state = healthy(topic_id, topic, partition, replicas)
        image.replay(PartitionRecord(state=state, change=change))
    announced = TopicState(
        topic_id=topic_id, topic=topic, partitions=len(placed), replication_factor=REPLICATION_FACTOR
    )
    image.replay(TopicRecord(state=announced, change=change))


def wound(image: ClusterImage, broker_id: int) -> None:
    """Takes a broker's seats away and leaves it so: partitions that have lost one replica are the ones that
    the next loss hurts."""
    change = Change(cause=Cause.BROKER_DIED, at_ms=0)
    fenced = msgspec.structs.replace(image.brokers[broker_id], fenced=True)
    image.replay(MemberRecord(registration=fenced, change=change))
    for loss in lose(image, (broker_id,)):
        image.replay(PartitionRecord(state=loss.after, change=change))


def cases(image: ClusterImage) -> list[Case]:
    """Questions about `image`, cheap ones first."""
    by_broker = {b: f"broker:{b}" for b in image.brokers}
    by_rack = {b: f"rack:{broker.rack}" for b, broker in image.brokers.items()}
    of_rack = [b for b, rack in by_rack.items() if rack == "rack:r1"]
    return [
        Case("lose a broker", lambda: len(lose(image, (1,)))),
        Case("lose a rack", lambda: len(lose(image, of_rack))),
        Case("lose every broker", lambda: len(lose(image, tuple(image.brokers)))),
        Case("the worst of all brokers", lambda: len(losses_by_group(image, by_broker))),
        Case("the worst of all racks", lambda: len(losses_by_group(image, by_rack))),
    ]


def plan_cases(image: ClusterImage) -> list[Case]:
    """Plans for `image` and how many moves they have: one broker in ten joins, one leaves, a rack leaves."""
    known = take_snapshot(image, {})
    sized = msgspec.structs.replace(
        known,
        partitions=tuple(
            msgspec.structs.replace(p, size_bytes=number * 7_919 % 1_000_003 + 1)
            for number, p in enumerate(known.partitions)
        ),
    )
    count = len(known.brokers)
    joining = tuple(
        BrokerSnapshot(broker_id=count + n, host=f"store{count + n}", rack=f"r{n % RACKS}")
        for n in range(count // 10)
    )
    larger = msgspec.structs.replace(sized, brokers=sized.brokers + joining)
    new_only = Rebalance(
        mode=RebalanceMode.NEW_ONLY, new_broker_ids=tuple(broker.broker_id for broker in joining)
    )

    def moves(snapshot: Snapshot, goal: Goal) -> int:
        plan = make_plan(snapshot, goal)
        content_hash(plan)
        return len(plan.moves)

    return [
        Case("the snapshot itself", lambda: len(take_snapshot(image, {}).partitions)),
        Case("nothing to do", lambda: moves(sized, Rebalance())),
        Case("one broker in ten joins, all brokers trade", lambda: moves(larger, Rebalance())),
        Case("one broker in ten joins, only they receive", lambda: moves(larger, new_only)),
        Case("one broker is drained", lambda: moves(sized, Drain(broker_ids=(1,)))),
        Case("a rack is drained", lambda: moves(sized, Drain(broker_ids=tuple(range(1, count, RACKS))))),
    ]


def measure(case: Case, *, rounds: int) -> Row:
    took: list[float] = []
    items = 0
    for _ in range(rounds):
        gc.collect()
        started_at = time.process_time()
        items = case.run()
        took.append((time.process_time() - started_at) * 1_000)
    return Row(case.name, median(took), items)


def table(title: str, rows: Sequence[Row]) -> list[str]:
    lines = [title, f"  {'question':<44} {'milliseconds':>13} {'items':>9}"]
    return lines + [f"  {row.name:<44} {row.milliseconds:>13,.1f} {row.items:>9,}" for row in rows]


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--brokers", type=int, default=BROKERS)
    parser.add_argument("--partitions", type=int, default=PARTITIONS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    add_output(parser, "control-plane")


def run(options: argparse.Namespace) -> int:
    image = build_image(brokers=options.brokers, partitions=options.partitions)
    size = f"{len(image.brokers):,} brokers, {len(image.partitions):,} partitions"
    lines = table(f"{size}, all in sync", [measure(case, rounds=options.rounds) for case in cases(image)])
    plans = [measure(case, rounds=1) for case in plan_cases(image)]
    lines += table(f"{size}, plans", plans)
    wound(image, 0)
    lines += table(
        f"{size}, one broker down", [measure(case, rounds=options.rounds) for case in cases(image)]
    )
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    sys.stdout.write("\n".join([*lines, f"at most {peak_mib:,.0f} MiB"]) + "\n")
    keep(options.output, {"machine": machine_facts(), "plans": [row._asdict() for row in plans]})
    return 0
