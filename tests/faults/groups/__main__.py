"""`python -m tests.faults.groups [--size ci|mixed|full]`: groups of stock clients through rolling faults.

Two groups of one shard read the same topic: one speaks the classic protocol, in the other half of the members
speak `consumer` (KIP-848), among them Java's client where $KAFKA_HOME or `make kafka-tools` has it.

First a calm: the groups' coordinator is killed, then drained, several times, and each time it is measured for
how long no commit of a group was answered, and no heartbeat of a client that tries again at once
(heart.py), and that no member was rebalanced. Then a storm: members, coordinators, brokers and controllers
are killed and stand still. At the end the diaries of all members are judged (judge.py), group by group.
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
from tests.faults.groups.fill import fill_shard, neighbour_of
from tests.faults.groups.heart import Heart
from tests.faults.groups.lives import ALL_CLASSIC, MIXED, Kind, Member
from tests.faults.groups.member import HEARTBEAT_MS, SESSION_MS
from tests.faults.groups.storm import Storm
from tests.faults.groups.writer import Writer
from tests.interop.clients import kafka_home

TOPIC, GROUP = "orders", "billing"
MIXED_GROUP = neighbour_of(GROUP, "shipping")
COORDINATOR_CONFIG = {
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS),
}
RATE = 400.0
MIB = 1024 * 1024
SEED = 1
SETTLED_SECONDS = 5.0
"""Of calm after each fault; a rebalance that it caused would have begun."""
STABLE_SECONDS_MAX = 60.0
CAUGHT_UP_SECONDS_MAX = 90.0


@dataclass(frozen=True, slots=True)
class Size:
    """members: of the classic group. mixed: of the other one."""

    members: int
    mixed: int
    partitions: int
    calm_rounds: int
    storm_seconds: float
    shard_mib: int
    """How much the group's shard has, by commits of another group, before the first fault."""


SIZES = {
    "ci": Size(5, 5, 10, 2, 40.0, shard_mib=0),
    "mixed": Size(0, 6, 10, 2, 180.0, shard_mib=0),
    "shards": Size(5, 0, 40, 10, 0.0, shard_mib=100),
    "full": Size(20, 20, 40, 10, 720.0, shard_mib=100),
}


class Groups:
    """The cluster and the members, while the story goes on."""

    def __init__(self, cluster: LocalCluster, trial: Trial, size: Size) -> None:
        self.cluster = cluster
        self.trial = trial
        self.size = size
        self.heart = Heart(cluster.bootstrap_servers, GROUP)

        def members(group: str, count: int, kinds: Sequence[Kind]) -> list[Member]:
            return [
                Member(
                    number,
                    directory=trial.directory,
                    bootstrap=cluster.bootstrap_servers,
                    topic=TOPIC,
                    group=group,
                    kinds=kinds,
                    kafka_home=kafka_home(),
                )
                for number in range(count)
            ]

        self.by_group = {
            GROUP: members(GROUP, size.members, ALL_CLASSIC),
            MIXED_GROUP: members(MIXED_GROUP, size.mixed, MIXED),
        }

    @property
    def members(self) -> list[Member]:
        return [member for members in self.by_group.values() for member in members]

    # --- what it looks like -------------------------------------------------------------------------------

    def coordinator(self) -> int:
        """Return which coordinator serves the groups now."""
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
        """Return for how long no commit of any member of a group was answered, at most."""
        return max(_longest_gap_ms(members, since_ns) for members in self.by_group.values() if members)

    # --- the calm -----------------------------------------------------------------------------------------

    def without_coordinator(self, strike: Callable[[int], Callable[[], None]]) -> tuple[float, float, int]:
        """Strike the groups' coordinator, which returns how to mend it. Return how long no commit and no
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
        """Wait until each group has committed the end of each partition."""

        def is_done() -> bool:
            for member in self.members:
                member.start_again()
            port = self.cluster.coordinators[self.coordinator()].port
            of_groups = [committed_offsets(each, TOPIC, port) for each, has in self.by_group.items() if has]
            return all(
                committed.get(partition, -1) >= end
                for committed in of_groups
                for partition, end in ends.items()
            )

        self.cluster.wait_until(
            "the groups have committed all", is_done, timeout_seconds=CAUGHT_UP_SECONDS_MAX
        )


def _longest_gap_ms(members: Sequence[Member], since_ns: int) -> float:
    now_ns = time.monotonic_ns()
    answered = sorted(at_ns for member in members for at_ns in member.committed_ns())
    times = [since_ns, *(at_ns for at_ns in answered if at_ns > since_ns), now_ns]
    return max(after - before for before, after in pairwise(times)) / MILLISECOND_NS


def story(trial: Trial, size: Size) -> None:
    with LocalCluster(
        trial.directory,
        brokers=3,
        controllers=2,
        coordinators=3,
        coordinator_config=COORDINATOR_CONFIG,
        on_progress=trial.tell,
    ) as cluster:
        cluster.form()
        cluster.create_topic(TOPIC, partitions=size.partitions, replication_factor=3)
        group = Groups(cluster, trial, size)
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
        trial.figures["records acknowledged"] = sum(map(len, writer.acknowledged.values()))
        for name, kind in ((GROUP, ""), (MIXED_GROUP, "mixed: ")):
            lives = [life for each in group.by_group[name] for life in each.lives(storm.coordinators_stood)]
            if lives:
                _tell(trial, kind, judge(lives, writer.acknowledged, session_ms=SESSION_MS))


def _calm(group: Groups, what: str, strike: Callable[[int], Callable[[], None]]) -> None:
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


def _tell(trial: Trial, kind: str, found: Judgement) -> None:
    trial.lost += found.lost
    trial.inconsistent += found.moved_back + found.two_owners
    trial.failures += [f"{kind}{failure}" for failure in found.failures]
    figures = (
        {
            "records delivered": found.delivered,
            "records delivered twice or more": found.duplicates,
            "commits answered": len(found.commit_ms),
            "commits refused or unanswered": found.refused,
            "committed offsets moved back": found.moved_back,
            "partitions with two owners": found.two_owners,
            "assignments": found.assignments,
        }
        | _spread("commit", found.commit_ms)
        | _spread("rebalance of a member", found.rebalance_ms)
    )
    trial.figures.update({f"{kind}{name}": figure for name, figure in figures.items()})


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
