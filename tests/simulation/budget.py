"""How much may be lost at once, so that nothing acknowledged may be.

Lossy faults, a machine that loses unflushed bytes or its whole disk, stay within what the promise covers: at
most min.insync.replicas - 1 brokers at a time have lost something that the controller does not know of, and
every partition that counts on such a broker has another whole replica to count on. Beyond that the promise
allows nothing but to stop; the strikes that go beyond it say so themselves (`over_budget`).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.broker_node import BrokerNode
    from tests.simulation.cluster import Cluster


class LossBudget:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        #: The life in which each broker lost something last. The controller knows of it from the registration
        #: of a later life: an epoch given since may be for a request that was sent before the loss.
        self._lives: dict[int, int] = {}
        #: Losses that are still to come, by broker: a disk that will be replaced.
        self._coming: Counter[int] = Counter()
        self.is_exceeded = False

    @property
    def unknown(self) -> set[int]:
        """Brokers whose loss the controller does not know of yet. One whose disk fails is among them even
        when it has a new epoch: it was started again meanwhile, and its seats go with the next write."""
        cluster = self.cluster
        unknown = {b for b, life in self._lives.items() if cluster.registered_life(b) <= life}
        unknown |= {b for b, count in self._coming.items() if count}
        return unknown | {b for b, node in cluster.brokers.items() if node.is_disk_failing or node.is_rotten}

    def may_lose(self, broker: BrokerNode) -> bool:
        cluster = self.cluster
        if cluster.zookeeper.is_back:
            return False
        unknown = self.unknown
        if len(unknown | {broker.broker_id}) >= cluster.options.least_minimum:
            return False
        for key in (*cluster.keys, *cluster.kept_keys):
            state = cluster.truth(key)
            if state is None:
                return False
            seats = {*state.isr, *state.elr}
            if broker.broker_id in seats and not seats - unknown - {broker.broker_id}:
                return False
        return True

    def spend(self, broker: BrokerNode, *, over_budget: bool) -> bool:
        """Take note that `broker` is about to lose something. False: it must not."""
        if not self.may_lose(broker):
            if not over_budget:
                return False
            self.is_exceeded = True
        self._lives[broker.broker_id] = broker.life
        return True

    def expect(self, broker_id: int) -> None:
        """What was spent on this broker will cost it its disk only later; until `comes` it counts as unknown,
        however often it registers meanwhile."""
        self._coming[broker_id] += 1

    def comes(self, broker_id: int) -> None:
        """The loss that was expected happens now."""
        self._coming[broker_id] -= 1
        self._lives[broker_id] = self.cluster.brokers[broker_id].life
