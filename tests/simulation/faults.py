"""Which faults a seed brings, and when: drawn from the seed, kept within what the promise covers.

Each seed turns a random subset of fault kinds on (swarm testing: a kind that is always on hides what another
would find), with its own rate. Lossy faults, a machine that loses its unflushed bytes or its whole disk,
strike a broker only while every partition that counts on it has another in-sync or eligible replica which has
lost nothing: beyond that the promise allows nothing but to stop, which another scenario tests.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.simulation.broker_node import BrokerNode
from tests.simulation.cluster import Cluster
from tests.simulation.events import keyed_random
from tests.simulation.network import NetworkOptions


class FaultPlanner:
    """Draws one fault after another until `stop`, then `heal` ends them all."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.events = cluster.events
        self.random: Random = keyed_random(cluster.seed, "faults")
        kinds: list[Callable[[], bool]] = [
            self.kill_broker,
            self.kill_broker,
            self.kill_leader,
            self.power_cut,
            self.replace_disk,
            self.pause_broker,
            self.pause_leader,
            self.stop_broker,
            self.cut_both_ways,
            self.cut_one_way,
            self.isolate_from_controllers,
            self.isolate_from_brokers,
            self.bad_network,
            self.kill_controller,
            self.pause_controller,
            self.expire_session,
            self.lose_zookeeper_answers,
            self.zookeeper_outage,
        ]
        self.kinds = [kind for kind in kinds if self.random.random() < 0.5] or kinds[:3]
        self.pace_ms = self.random.choice([300, 800, 2_000])
        self.counts: dict[str, int] = {}
        self.stopped = False
        #: Brokers that lost bytes and have not been given a new broker epoch since: epoch at the loss.
        self.lossy: dict[int, int] = {}

    @property
    def names(self) -> list[str]:
        return sorted({kind.__name__ for kind in self.kinds})

    def start(self) -> None:
        self._again()

    def _again(self) -> None:
        if not self.stopped:
            self.events.after(self.pace_ms * (0.2 + 1.6 * self.random.random()), self._strike)

    def _strike(self) -> None:
        if self.stopped:
            return
        kind = self.random.choice(self.kinds)
        if kind():
            self.counts[kind.__name__] = self.counts.get(kind.__name__, 0) + 1
        self._again()

    def heal(self) -> None:
        """End every fault; what is down comes back."""
        self.stopped = True
        cluster = self.cluster
        cluster.network.heal()
        cluster.zookeeper.available = True
        cluster.zookeeper.options.lost_answer_rate = 0.0
        for controller in cluster.controllers:
            if controller.is_paused:
                controller.resume()
            if not controller.is_up:
                controller.start()
        for broker in cluster.brokers.values():
            if broker.is_paused:
                broker.resume()
            if broker.wants_shutdown and broker.is_up:
                broker.crash(machine=False)
            if not broker.is_up:
                broker.start()
        self.events.note("all healed")

    # --- helpers ----------------------------------------------------------------------------------------

    def _broker(self) -> BrokerNode | None:
        up = [b for b in self.cluster.brokers.values() if b.is_up and not b.is_paused]
        return self.random.choice(up) if up else None

    def _leader(self) -> BrokerNode | None:
        state = self.cluster.truth(self.random.choice(self.cluster.keys))
        if state is None or state.leader not in self.cluster.brokers:
            return None
        broker = self.cluster.brokers[state.leader]
        return broker if broker.is_up and not broker.is_paused else None

    def _later(self, low_ms: float, high_ms: float, call: Callable[[], None]) -> None:
        def run() -> None:
            if not self.stopped:
                call()

        self.events.after(low_ms + (high_ms - low_ms) * self.random.random(), run)

    def _restart_later(self, broker: BrokerNode) -> None:
        low, high = self.random.choice([(20, 200), (200, 2_000), (4_000, 12_000)])

        def restart() -> None:
            if not broker.is_up:
                broker.start()

        self._later(low, high, restart)

    def _may_lose(self, broker: BrokerNode) -> bool:
        """Whether every partition that counts on this broker has another whole replica to count on, and no
        more than min.insync.replicas - 1 brokers have lost bytes that the controller does not know of yet."""
        cluster = self.cluster
        lossy = {b for b, epoch in self.lossy.items() if cluster.registered_epoch(b) <= epoch}
        if len(lossy | {broker.broker_id}) >= cluster.options.min_insync_replicas:
            return False
        for key in cluster.keys:
            state = cluster.truth(key)
            if state is None:
                return False
            seats = {*state.isr, *state.elr}
            if broker.broker_id in seats and not seats - lossy - {broker.broker_id}:
                return False
        return True

    # --- processes and disks ----------------------------------------------------------------------------

    def _kill(self, broker: BrokerNode | None) -> bool:
        if broker is None:
            return False
        broker.crash(machine=False)
        self._restart_later(broker)
        return True

    def kill_broker(self) -> bool:
        return self._kill(self._broker())

    def kill_leader(self) -> bool:
        return self._kill(self._leader())

    def power_cut(self) -> bool:
        broker = self._broker()
        if broker is None or not self._may_lose(broker):
            return False
        self.lossy[broker.broker_id] = self.cluster.registered_epoch(broker.broker_id)
        broker.crash(machine=True)
        self._restart_later(broker)
        return True

    def replace_disk(self) -> bool:
        broker = self._broker()
        if broker is None or not self._may_lose(broker):
            return False
        self.lossy[broker.broker_id] = self.cluster.registered_epoch(broker.broker_id)
        broker.crash(machine=False)
        broker.replace_disk()
        self._restart_later(broker)
        return True

    def stop_broker(self) -> bool:
        """SIGTERM: a controlled shutdown; back a while after it has stopped, or killed if it never does."""
        broker = self._broker()
        if broker is None or broker.wants_shutdown:
            return False
        broker.wants_shutdown = True
        self.events.note(f"{broker.name} is asked to stop")

        def back() -> None:
            if broker.is_up and broker.wants_shutdown:
                broker.crash(machine=False)
            if not broker.is_up:
                broker.start()

        self._later(3_000, 9_000, back)
        return True

    def _pause(self, broker: BrokerNode | None) -> bool:
        if broker is None:
            return False
        broker.pause()
        self.events.note(f"{broker.name} is paused")
        low, high = self.random.choice([(50, 900), (1_000, 5_000), (6_500, 10_000)])

        def resume() -> None:
            if broker.is_up and broker.is_paused:
                self.events.note(f"{broker.name} goes on")
                broker.resume()

        self._later(low, high, resume)
        return True

    def pause_broker(self) -> bool:
        return self._pause(self._broker())

    def pause_leader(self) -> bool:
        return self._pause(self._leader())

    # --- network ----------------------------------------------------------------------------------------

    def _cut(self, pairs: list[tuple[str, str]]) -> bool:
        for source, target in pairs:
            self.cluster.network.cut(source, target)
        self.events.note(f"cut {pairs}")

        def heal() -> None:
            self.cluster.network.cuts.difference_update(pairs)

        low, high = self.random.choice([(100, 1_000), (2_000, 5_000), (7_000, 12_000)])
        self._later(low, high, heal)
        return True

    def _names(self) -> tuple[list[str], list[str]]:
        return [b.name for b in self.cluster.brokers.values()], [c.name for c in self.cluster.controllers]

    def cut_both_ways(self) -> bool:
        brokers, controllers = self._names()
        one, other = self.random.sample(brokers + controllers, 2)
        return self._cut([(one, other), (other, one)])

    def cut_one_way(self) -> bool:
        brokers, controllers = self._names()
        one, other = self.random.sample(brokers + controllers, 2)
        return self._cut([(one, other)])

    def isolate_from_controllers(self) -> bool:
        """S13, S15: the leader is cut off from the controllers only, perhaps one way."""
        leader = self._leader()
        if leader is None:
            return False
        _, controllers = self._names()
        ways = self.random.choice([0, 1, 2])
        pairs = [(leader.name, c) for c in controllers] if ways != 1 else []
        pairs += [(c, leader.name) for c in controllers] if ways != 0 else []
        return self._cut(pairs)

    def isolate_from_brokers(self) -> bool:
        """S14 and 2013: the leader is cut off from its followers, but not from the controllers."""
        leader = self._leader()
        if leader is None:
            return False
        others = [b for b in self._names()[0] if b != leader.name]
        return self._cut([(o, leader.name) for o in others] + [(leader.name, o) for o in others])

    def bad_network(self) -> bool:
        self.cluster.network.options = NetworkOptions(
            delay_ms=(0.05, self.random.choice([2.0, 20.0, 80.0])),
            slow_rate=self.random.choice([0.0, 0.05]),
            loss_rate=self.random.choice([0.0, 0.05, 0.2]),
            duplicate_rate=self.random.choice([0.0, 0.1]),
        )

        def calm() -> None:
            self.cluster.network.options = NetworkOptions()

        self._later(1_000, 6_000, calm)
        return True

    # --- controllers and ZooKeeper ----------------------------------------------------------------------

    def kill_controller(self) -> bool:
        up = [c for c in self.cluster.controllers if c.is_up]
        if not up:
            return False
        controller = self.random.choice(up)
        controller.crash()
        self.events.note(f"{controller.name} is killed")

        def restart() -> None:
            if not controller.is_up:
                controller.start()

        self._later(100, 9_000, restart)
        return True

    def pause_controller(self) -> bool:
        up = [c for c in self.cluster.controllers if c.is_up and not c.is_paused]
        if not up:
            return False
        controller = self.random.choice(up)
        controller.pause()
        self.events.note(f"{controller.name} is paused")

        def resume() -> None:
            if controller.is_up and controller.is_paused:
                self.events.note(f"{controller.name} goes on")
                controller.resume()

        self._later(100, 9_000, resume)
        return True

    def expire_session(self) -> bool:
        leader = self.cluster.zookeeper.leader
        if leader is None:
            return False
        self.cluster.zookeeper.expire(leader)
        self.events.note(f"session {leader} expires")
        return True

    def lose_zookeeper_answers(self) -> bool:
        self.cluster.zookeeper.options.lost_answer_rate = 0.3

        def calm() -> None:
            self.cluster.zookeeper.options.lost_answer_rate = 0.0

        self._later(500, 4_000, calm)
        return True

    def zookeeper_outage(self) -> bool:
        self.cluster.zookeeper.available = False
        self.events.note("ZooKeeper is out")

        def back() -> None:
            self.cluster.zookeeper.available = True

        self._later(200, 8_000, back)
        return True
