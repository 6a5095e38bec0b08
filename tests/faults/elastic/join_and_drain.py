"""The show: three brokers hold sixty partitions under load, two join, one leaves and is taken offline."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from localcluster.rest import Json
from tests.checker.verdict import Figures, Verdict
from tests.faults.elastic.balance import (
    MIB,
    Load,
    copies,
    could_be_more_even,
    draw,
    least_to_empty,
    least_to_spread,
)
from tests.faults.elastic.complaints import complaints, not_retriable, records_read
from tests.faults.elastic.killing import Killer
from tests.faults.elastic.stage import COPIES, PARTITIONS, Picture, Stage, Tell, stage

FIRST, JOINING, LEAVING = (1, 2, 3), (4, 5), 1
LAST = (2, 3, 4, 5)
QUIET_SECONDS = 3.0
"""Of load before and after each operation."""
EMPTY_SECONDS_MAX = 30.0


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast data may move; None: unthrottled."""

    throttle_bytes_per_s: int | None = None
    max_concurrent_moves: int = 10

    def fields(self) -> Json:
        found: Json = {"max_concurrent_moves": self.max_concurrent_moves}
        if self.throttle_bytes_per_s is not None:
            found["throttle_bytes_per_s"] = self.throttle_bytes_per_s
        return found


@dataclass(frozen=True, slots=True)
class Chapter:
    """One operation: what it took, and what it could have taken.

    planned: bytes that the plan was to copy. unknown_sizes: moves of which the
    plan had to guess them. bound: ours, from the sizes that were reported before the operation was asked for;
    bound_planned: from those right after it was planned, which is later by as much as controllers were dead
    meanwhile. on_disk: of the replicas that came, when all had; clients wrote all the time.
    """

    title: str
    seconds: float
    moves: int
    copies: int
    planned: int
    unknown_sizes: int
    bound: int
    bound_planned: int
    on_disk: int
    before: dict[int, Load]
    after: dict[int, Load]

    def lines(self) -> list[str]:
        return [
            f"{self.title}: {self.moves} partitions, {self.copies} replicas copied in {self.seconds:.1f} s",
            f"  planned {self.planned / MIB:.2f} MiB, least possible {self.bound / MIB:.2f} MiB when asked, "
            f"{self.bound_planned / MIB:.2f} MiB when planned,",
            f"  on disk when done {self.on_disk / MIB:.2f} MiB (clients went on writing)",
            *(f"  {line}" for line in draw(self.before, self.after)),
        ]


@dataclass
class Report:
    """What there is to see of a run."""

    chapters: list[Chapter] = field(default_factory=list)
    kills: Sequence[str] = ()
    figures: Figures = field(default_factory=Figures)
    complaints: dict[str, int] = field(default_factory=dict)
    trouble: list[str] = field(default_factory=list)
    is_bad: bool = True

    def lines(self) -> list[str]:
        told = [line for chapter in self.chapters for line in [*chapter.lines(), ""]]
        if self.kills:
            told += [f"the active controller was killed {len(self.kills)} times, at:"]
            told += [f"  {name}" for name in self.kills] + [""]
        told += [
            f"acknowledged {self.figures.acked}, lost {self.figures.lost}, "
            f"duplicated {self.figures.duplicated}, refused {self.figures.failed}, "
            f"unanswered {self.figures.unknown}, longest stall of a partition "
            f"{self.figures.longest_stall_ms} ms",
            f"clients' complaints, all retriable: {self.complaints or 'none'}",
        ]
        return told + [f"TROUBLE: {line}" for line in self.trouble]


def run(directory: Path, tell: Tell, *, pace: Pace, kills_in: Collection[str] = ()) -> tuple[Report, Verdict]:
    """kills_in: kinds of operations at each of whose steps the active controller is killed. What is wrong is
    in the report's `trouble` and in the verdict.

    Raises:
        ProcessFailed, TimeoutError, RestFailed: it could not go on.
    """
    report = Report()
    with stage(directory, brokers=len(FIRST) + len(JOINING), first=FIRST, tell=tell) as on:
        killer = Killer(on.cluster)
        time.sleep(QUIET_SECONDS)
        report.chapters.append(join(on, pace, killer if "broker_add" in kills_in else None))
        time.sleep(QUIET_SECONDS)
        report.chapters.append(drain(on, pace, killer if "broker_drain" in kills_in else None))
        take_offline(on)
        time.sleep(QUIET_SECONDS)
        if not on.cluster.api.get(f"/audit/verification?cluster={on.cluster.name}")["ok"]:
            on.trouble.append("the audit is not as it was written")
        verdict = on.finish(LAST)
        report.figures = verdict.figures
        report.kills = killer.at()
        logs = {name: process.log_path.read_text("utf-8") for name, process in on.clients.processes.items()}
        report.complaints = complaints(logs.values())
        on.trouble += [f"not retriable: {each}" for each in not_retriable(report.complaints)]
        written = verdict.figures.final_read or 0
        for name, log in logs.items():
            read = records_read(log)
            if read is not None and read < written:
                on.trouble.append(f"{name} read {read} of {written} records")
        report.trouble = on.trouble
        report.is_bad = verdict.is_bad
    return report, verdict


def join(on: Stage, pace: Pace, killer: Killer | None) -> Chapter:
    """Two brokers in one call."""
    on.tell(f"adding brokers {JOINING[0]} and {JOINING[1]} (one POST /clusters/{{c}}/brokers)")
    before = on.picture()
    body: Json = {
        "brokers": [
            {"broker_id": broker_id, "endpoint": on.cluster.brokers[broker_id].endpoint}
            for broker_id in JOINING
        ],
        # What is least is a bound for plans that count replicas and nothing else.
        "rebalance": {"mode": "full", "disk_target_permille": None, **pace.fields()},
        "reason": "capacity for Q4",
    }
    began_at = time.monotonic()
    operation = on.ask(f"/clusters/{on.cluster.name}/brokers", body)
    chapter = follow(
        on, "two brokers join", operation, before=before, leaving=(), began_at=began_at, killer=killer
    )
    counts = [load.replicas for load in chapter.after.values()]
    leaders = [load.leaders for load in chapter.after.values()]
    if max(counts) - min(counts) > 1 or max(leaders) - min(leaders) > 1:
        on.trouble.append(f"not even: {counts} replicas, {leaders} leaders")
    return chapter


def drain(on: Stage, pace: Pace, killer: Killer | None) -> Chapter:
    """One broker gives all it has to the others."""
    on.tell(f"draining broker {LEAVING} (POST /clusters/{{c}}/brokers/{LEAVING}:drain)")
    before = on.picture()
    body: Json = {"reason": "old hardware", **pace.fields()}
    began_at = time.monotonic()
    operation = on.ask(f"/clusters/{on.cluster.name}/brokers/{LEAVING}:drain", body)
    chapter = follow(
        on,
        f"broker {LEAVING} leaves",
        operation,
        before=before,
        leaving=(LEAVING,),
        began_at=began_at,
        killer=killer,
    )
    # Only what it held moves: where the others' replicas lie decides how even that can be.
    on.trouble += could_be_more_even(before.assignment, on.picture().assignment, LAST)
    if sum(load.replicas for load in chapter.after.values()) != PARTITIONS * COPIES:
        on.trouble.append(f"some replica is elsewhere: {chapter.after}")
    return chapter


def follow(
    on: Stage,
    title: str,
    operation: Json,
    *,
    before: Picture,
    leaving: Sequence[int],
    began_at: float,
    killer: Killer | None,
) -> Chapter:
    """Waits for the end and compares it with what was planned, and that with the least."""
    holding = sorted({broker_id for replicas in before.assignment.values() for broker_id in replicas})
    pictures: list[Picture] = []

    def watch(operation: Json) -> None:
        if operation["plan_id"] is not None and not pictures:
            pictures.append(on.picture())
        if killer is not None:
            killer.watch(operation)

    done = on.follow(operation["id"], watch)
    seconds = time.monotonic() - began_at
    if killer is not None:
        killer.wait_until_mended()
    on.wait_until_settled()
    after = on.picture()
    plan = on.cluster.api.get(f"/clusters/{on.cluster.name}/plans/{done['plan_id']}")
    moves = on.moves(done["id"])
    if not_moved := [each for each in moves if each["fate"] != "moved"]:
        on.trouble.append(f"{title}: {len(not_moved)} moves did not end as moved: {not_moved[:3]}")
    for move in moves:
        replicas = tuple(move["replicas_after"])
        if tuple(after.assignment[move["partition"]]) != replicas:
            on.trouble.append(f"{title}: partition {move['partition']} is not on {replicas}")
    moved = {move["partition"] for move in moves}
    for partition, held in before.assignment.items():
        if partition not in moved and after.assignment[partition] != held:
            on.trouble.append(f"{title}: partition {partition} moved, which was not planned")
    came = copies(before.assignment, after.assignment)
    stay = [*FIRST, *JOINING] if not leaving else LAST

    def least(sizes: Mapping[int, int]) -> int:
        if leaving:
            return least_to_empty(before.assignment, sizes, leaving)
        return least_to_spread(before.assignment, sizes, stay)

    return Chapter(
        title=title,
        seconds=seconds,
        moves=len(moves),
        copies=len(came),
        planned=plan["totals"]["bytes"],
        unknown_sizes=plan["totals"]["unknown_sizes"],
        bound=least(before.sizes),
        bound_planned=least(pictures[0].sizes),
        on_disk=sum(after.sizes[partition] for partition, _ in came),
        before=before.loads(holding),
        after=after.loads(stay),
    )


def take_offline(on: Stage) -> None:
    """The drained broker's replicas are gone from its disk; its process ends, and it is forgotten."""
    on.cluster.wait_until(
        f"broker {LEAVING} has nothing left on its disk",
        lambda: not on.replicas_on_disk(LEAVING),
        timeout_seconds=EMPTY_SECONDS_MAX,
    )
    on.tell(f"taking broker {LEAVING} offline (SIGTERM, then DELETE /clusters/{{c}}/brokers/{LEAVING})")
    on.cluster.stop_broker(LEAVING)
    path = f"/clusters/{on.cluster.name}/brokers/{LEAVING}"
    on.cluster.wait_until("it is forgotten", lambda: on.cluster.rest.delete(path).is_success)
    # A standby, which may be asked, hears of it a moment later.
    on.cluster.wait_until("nobody knows it any more", lambda: on.cluster.rest.get(path).status_code == 404)
