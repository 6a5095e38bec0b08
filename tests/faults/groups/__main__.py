"""`python -m tests.faults.groups [--size ci|full]`: a consumer group of stock clients through rolling faults.

First a calm: the group's coordinator is killed, then drained, several times, and each time it is measured for
how long no commit of the group was answered, and no heartbeat of a client that tries again at once
(heart.py), and that no member was rebalanced. Then a storm: members, coordinators, brokers and controllers
are killed and stand still. At the end the diaries of all members are judged (judge.py).
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from statistics import median

from localcluster.cluster import LocalCluster
from tests.checker.group_diary import Assigned
from tests.checker.group_judge import MILLISECOND_NS, Judgement, judge
from tests.faults.family import Trial, run_family
from tests.faults.groups.asked import committed_offsets, coordinator_of
from tests.faults.groups.fill import fill_shard
from tests.faults.groups.heart import Heart
from tests.faults.groups.lives import Member
from tests.faults.groups.member import SESSION_MS
from tests.faults.groups.storm import Storm
from tests.faults.groups.writer import Writer

TOPIC, GROUP = "orders", "billing"
RATE = 400.0
MIB = 1024 * 1024
SEED = 1
SETTLED_SECONDS = 5.0
"""Of calm after each fault; a rebalance that it caused would have begun."""
STABLE_SECONDS_MAX = 60.0
CAUGHT_UP_SECONDS_MAX = 90.0


@dataclass(frozen=True, slots=True)
class Size:
    members: int
    partitions: int
    calm_rounds: int
    storm_seconds: float
    shard_mib: int
    """How much the group's shard has, by commits of another group, before the first fault."""


SIZES = {
    "ci": Size(5, 10, 2, 40.0, shard_mib=0),
    "shards": Size(5, 40, 10, 0.0, shard_mib=100),
    "full": Size(20, 40, 10, 720.0, shard_mib=100),
}


class Group:
    """The cluster, the members and the writer, while the story goes on."""

    def __init__(self, cluster: LocalCluster, trial: Trial, size: Size) -> None:
        self.cluster = cluster
        self.trial = trial
        self.size = size
        self.heart = Heart(cluster.bootstrap_servers, GROUP)
        self.members = [
            Member(
                number,
                directory=trial.directory,
                bootstrap=cluster.bootstrap_servers,
                topic=TOPIC,
                group=GROUP,
            )
            for number in range(size.members)
        ]

    # --- what it looks like -------------------------------------------------------------------------------

    def coordinator(self) -> int:
        """Return which coordinator serves the group now."""
        (port, *_) = (broker.port for broker in self.cluster.brokers.values())
        return self.cluster.wait_until(
            "the group's coordinator is known", lambda: coordinator_of(GROUP, port)
        )

    def wait_until_stable(self) -> None:
        """Wait until each member has partitions and commits."""

        def is_stable() -> bool:
            return all(
                any(isinstance(entry, Assigned) for entry in member.entries()) and member.committed_ns()
                for member in self.members
            )

        self.cluster.wait_until("each member commits", is_stable, timeout_seconds=STABLE_SECONDS_MAX)

    def assignments(self) -> int:
        return sum(isinstance(entry, Assigned) for member in self.members for entry in member.entries())

    def longest_gap_ms(self, since_ns: int) -> float:
        """Return for how long no commit of any member was answered, at most."""
        now_ns = time.monotonic_ns()
        answered = sorted(at_ns for member in self.members for at_ns in member.committed_ns())
        times = [since_ns, *(at_ns for at_ns in answered if at_ns > since_ns), now_ns]
        return max(after - before for before, after in pairwise(times)) / MILLISECOND_NS

    # --- the calm -----------------------------------------------------------------------------------------

    def without_coordinator(self, strike: Callable[[int], Callable[[], None]]) -> tuple[float, float, int]:
        """Strike the group's coordinator, which returns how to mend it. Return how long no commit and no
        heartbeat was answered, in ms, and how many assignments there were."""
        victim, before = self.coordinator(), self.assignments()
        since_ns = time.monotonic_ns()
        mend = strike(victim)
        time.sleep(SETTLED_SECONDS)
        stalls_ms = self.longest_gap_ms(since_ns), self.heart.longest_gap_ms(since_ns)
        again = self.assignments() - before
        mend()
        time.sleep(SETTLED_SECONDS)
        return *stalls_ms, again

    def kill(self, victim: int) -> Callable[[], None]:
        process = self.cluster.coordinators[victim].process
        process.kill()
        return process.start

    def drain(self, victim: int) -> Callable[[], None]:
        path = f"/clusters/{self.cluster.name}/coordinators/{victim}"

        def change(is_draining: bool) -> None:
            self.cluster.rest.patch(path, json={"draining": is_draining}).raise_for_status()

        change(True)
        return partial(change, False)

    # --- the end ------------------------------------------------------------------------------------------

    def wait_until_caught_up(self, ends: dict[int, int]) -> None:
        """Wait until the group has committed the end of each partition."""

        def is_done() -> bool:
            for member in self.members:
                member.start_again()
            port = self.cluster.coordinators[self.coordinator()].port
            committed = committed_offsets(GROUP, TOPIC, port)
            return all(committed.get(partition, -1) >= end for partition, end in ends.items())

        self.cluster.wait_until("the group has committed all", is_done, timeout_seconds=CAUGHT_UP_SECONDS_MAX)


def story(trial: Trial, size: Size) -> None:
    with LocalCluster(
        trial.directory, brokers=3, controllers=2, coordinators=3, on_progress=trial.tell
    ) as cluster:
        cluster.form()
        cluster.create_topic(TOPIC, partitions=size.partitions, replication_factor=3)
        group = Group(cluster, trial, size)
        writer = Writer(cluster.bootstrap_servers, TOPIC, size.partitions, rate=RATE)
        if size.shard_mib:
            port = cluster.coordinators[group.coordinator()].port
            requests = fill_shard(port, GROUP, TOPIC, size.partitions, size.shard_mib * MIB)
            trial.tell(f"{requests * size.partitions} commits are in the group's shard")
        try:
            writer.start()
            for member in group.members:
                member.start()
            group.wait_until_stable()
            group.heart.start()
            time.sleep(SETTLED_SECONDS)
            _calm(group, "killed", group.kill)
            _calm(group, "drained", group.drain)
            group.heart.stop()
            storm = Storm(cluster, group.members, trial.tell, random.Random(SEED))
            storm.run(size.storm_seconds)
            trial.faults.update(storm.faults)
            trial.must("every record that was sent was answered", writer.stop() == 0)
            group.wait_until_caught_up({n: max(offsets) + 1 for n, offsets in writer.acknowledged.items()})
            for member in group.members:
                member.process.begin_stop()
            stuck = [member.name for member in group.members if not member.stop()]
            trial.must(f"every member ended when it was asked to ({len(stuck)} did not: {stuck})", not stuck)
        finally:
            group.heart.stop()
            writer.stop()
            for member in group.members:
                member.process.kill()
        trial.tell("judging the diaries")
        lives = [life for member in group.members for life in member.lives(storm.coordinators_stood)]
        judgement = judge(lives, writer.acknowledged, session_ms=SESSION_MS)
        _tell(trial, judgement, sum(map(len, writer.acknowledged.values())))


def _calm(group: Group, what: str, strike: Callable[[int], Callable[[], None]]) -> None:
    trial = group.trial
    stalls: list[float] = []
    beats: list[float] = []
    assigned = 0
    for _ in range(group.size.calm_rounds):
        stall_ms, beat_ms, again = group.without_coordinator(strike)
        trial.faults[f"coordinator {what} in the calm"] += 1
        trial.tell(
            f"coordinator {what}: no commit for {stall_ms:.0f} ms, no heartbeat for {beat_ms:.0f} ms, "
            f"{again} assignments"
        )
        stalls.append(stall_ms)
        beats.append(beat_ms)
        assigned += again
    trial.figures[f"coordinator {what}, no heartbeat for, median ms"] = round(median(beats))
    trial.figures[f"coordinator {what}, no commit for, median ms"] = round(median(stalls))
    trial.figures[f"coordinator {what}, no commit for, longest ms"] = round(max(stalls))
    trial.must(f"a {what} coordinator costs the group no rebalance ({assigned} assignments)", assigned == 0)


def _tell(trial: Trial, found: Judgement, acknowledged: int) -> None:
    trial.lost = found.lost
    trial.inconsistent = found.moved_back + found.two_owners
    trial.failures += found.failures
    trial.figures.update(
        {
            "records acknowledged": acknowledged,
            "records delivered": found.delivered,
            "records delivered twice or more": found.duplicates,
            "commits answered": len(found.commit_ms),
            "commits refused or unanswered": found.refused,
            "committed offsets moved back": found.moved_back,
            "partitions with two owners": found.two_owners,
            "assignments": found.assignments,
            **_spread("commit", found.commit_ms),
            **_spread("rebalance of a member", found.rebalance_ms),
        }
    )


def _spread(what: str, values: Sequence[float]) -> dict[str, int]:
    if not values:
        return {}
    ordered = sorted(values)
    return {
        f"{what}, median ms": round(median(ordered)),
        f"{what}, p99 ms": round(ordered[int(0.99 * (len(ordered) - 1))]),
        f"{what}, longest ms": round(ordered[-1]),
    }


if __name__ == "__main__":
    sys.exit(run_family("groups", story, SIZES))
