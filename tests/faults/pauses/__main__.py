"""`python -m tests.faults.pauses [--size ci|full]`: real processes stand still (SIGSTOP) for minutes.

Leader, follower, the active controller and ZooKeeper in turn, on loopback. What is asked of a stopped leader
lies in its sockets; when it goes on, nothing that was asked a lease time after the next leader began may be
answered as if it still led (2.9, leases; S52, a node stands still). At the end every acknowledged record is
counted by the log's end. The race that no lease closes, a pause between the check and the write to the
socket, is not tried.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from localcluster.cluster import LocalCluster
from localcluster.processes import SupervisedProcess
from tests.faults import frames
from tests.faults.family import Trial, run_family
from tests.faults.wire import Closed, Wire

TOPIC = "asked"
LEASE_S = 5.0
#: Who stands still, and for how long: the leader for 18 s as in issue 13; in full size for minutes, too.
SIZES: dict[str, tuple[tuple[str, float], ...]] = {
    "ci": (("leader", 18.0), ("follower", 8.0)),
    "full": (
        *(("leader", 18.0), ("leader", 51.0), ("leader", 120.0)),
        *(("follower", 40.0), ("controller", 40.0), ("zookeeper", 20.0)),
    ),
}
ASKED: dict[str, tuple[int, Callable[[], bytes]]] = {
    "ListOffsets": (frames.LIST_OFFSETS, lambda: frames.list_offsets(TOPIC)),
    "DescribeProducers": (frames.DESCRIBE_PRODUCERS, lambda: frames.describe_producers(TOPIC)),
    "Produce acks=1": (frames.PRODUCE, lambda: frames.produce(TOPIC, frames.Batch().encode(), acks=1)),
    "Fetch": (frames.FETCH, lambda: frames.fetch(TOPIC)),
    "OffsetForLeaderEpoch": (
        frames.OFFSET_FOR_LEADER_EPOCH,
        lambda: frames.offset_for_leader_epoch(TOPIC),
    ),
}


def error_in(api_key: int, answer: bytes) -> int:
    if api_key != frames.DESCRIBE_PRODUCERS:
        return frames.only_partition_error(api_key, answer)
    at = 4 + 1 + 4 + 1 + (1 + len(TOPIC)) + 1 + 4  # flexible: tagged fields, compact lengths
    return int.from_bytes(answer[at : at + 2], "big", signed=True)


class Standstills:
    def __init__(self, cluster: LocalCluster, trial: Trial) -> None:
        self.cluster = cluster
        self.trial = trial
        self.tell = trial.tell
        self.acked = 0
        self.asked = 0

    def write(self, count: int = 5, *, within_s: float = 30.0) -> None:
        """So many records with acks=all, one by one, at whoever leads; what is refused is sent again."""
        ends_at = time.monotonic() + within_s
        while count and time.monotonic() < ends_at:
            try:
                with Wire(self.cluster.brokers[self.cluster.leader(TOPIC, 0)].port) as wire:
                    wire.send(frames.frame(frames.produce(TOPIC, frames.Batch().encode())))
                    error = frames.only_partition_error(frames.PRODUCE, wire.receive())
            except (Closed, OSError):
                error = -1
            if error == 0:
                count -= 1
                self.acked += 1
            else:
                time.sleep(0.2)
        if count:
            self.trial.failures.append(f"{count} records could not be written within {within_s:g} s")

    def stand_still(self, who: str, seconds: float) -> None:
        self.write()
        leader = self.cluster.leader(TOPIC, 0)
        if who == "leader":
            self._ask_a_sleeping_leader(leader, seconds)
        else:
            process = self._process_of(who, leader)
            process.pause()
            self.tell(f"{who} ({process.name}) stands still for {seconds:g} s")
            time.sleep(seconds)
            process.resume()
        self.write()
        self.cluster.wait_until_in_sync(TOPIC)

    def _process_of(self, who: str, leader: int) -> SupervisedProcess:
        if who == "controller":
            return self.cluster.controllers[self.cluster.active_controller()].process
        if who == "zookeeper":
            return next(p for p in self.cluster.processes if "zookeeper" in p.name)
        return self.cluster.brokers[leader % len(self.cluster.brokers) + 1].process

    def _ask_a_sleeping_leader(self, leader: int, seconds: float) -> None:
        broker = self.cluster.brokers[leader]
        woken_at = time.monotonic() + seconds
        broker.process.pause()
        try:
            self.tell(f"leader {leader} stands still for {seconds:g} s")
            self.cluster.wait_until(
                "another leads", lambda: self.cluster.partition(TOPIC, 0).leader not in (None, 0, -1, leader)
            )
            self.tell(f"broker {self.cluster.leader(TOPIC, 0)} leads")
            self.write()
            time.sleep(LEASE_S + 1)
            wires = {}
            for name, (_, build) in ASKED.items():
                wires[name] = Wire(broker.port)
                wires[name].send(frames.frame(build()))
            self.asked += len(wires)
            time.sleep(max(0.0, woken_at - time.monotonic()))
        finally:
            broker.process.resume()
        for name, wire in wires.items():
            with wire:
                try:
                    error = error_in(ASKED[name][0], wire.receive())
                except (Closed, TimeoutError):
                    error = -1
            self.tell(f"  {name}: {'error ' + str(error) if error else 'ANSWERED'}")
            if not error:
                self.trial.failures.append(
                    f"{name} was answered by the old leader {leader} after {seconds:g} s"
                )

    def count(self) -> None:
        """Everything acknowledged is within the committed end."""
        end = self.cluster.wait_until("the leader tells the committed end", self._committed_end)
        self.tell(f"{self.acked} records acknowledged, the log ends at {end}")
        if end < self.acked:
            self.trial.failures.append(f"{self.acked - end} acknowledged records are gone")

    def _committed_end(self) -> int | None:
        """None: this broker does not lead any more, the preferred one does."""
        with Wire(self.cluster.brokers[self.cluster.leader(TOPIC, 0)].port) as wire:
            wire.send(frames.frame(frames.list_offsets(TOPIC)))
            answer = wire.receive()
        if frames.only_partition_error(frames.LIST_OFFSETS, answer):
            return None
        return int.from_bytes(answer[-12:-4], "big", signed=True)  # ..., offset, leader epoch


def story(trial: Trial, standstills: tuple[tuple[str, float], ...]) -> None:
    with LocalCluster(trial.directory, brokers=3, controllers=2) as cluster:
        cluster.form()
        cluster.create_topic(TOPIC, partitions=1, replication_factor=3)
        run = Standstills(cluster, trial)
        for who, seconds in standstills:
            trial.faults[f"{who} stands still"] += 1
            run.stand_still(who, seconds)
        run.count()
    trial.figures |= {"records acknowledged": run.acked, "asked of a sleeping leader": run.asked}


if __name__ == "__main__":
    sys.exit(run_family("pauses", story, SIZES))
