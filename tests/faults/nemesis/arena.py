"""What a fault may strike: the cluster, which hosts are being harmed already, and what the promise allows.

The promise is that an acknowledged record survives while one in-sync replica that has it survives. A run that
broke this by itself would prove nothing, so:

- at most two brokers, one controller, one coordinator and one ZooKeeper server are harmed at a time: a
  majority can always go on, and what stops is our doing, not the schedule's;
- a *lossy* fault, after which a replica may lack what it had, strikes only when every partition has another
  in-sync member whose log nobody touched, and only after the last lossy fault's victim is in sync again
  everywhere. (An in-sync member that is merely down or cut off still has everything on its disk.)
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import httpx

from localcluster.rest import ControllerApi, RestFailed, RestPartition, open_rest_client
from tests.checker.from_clients import Recorder
from tests.faults.hosts.cluster import (
    HostCluster,
    broker_host,
    controller_host,
    coordinator_host,
    zookeeper_host,
)

HARMED_MAX = {"broker": 2, "controller": 1, "coordinator": 1, "zookeeper": 1}
ASK_SECONDS_MAX = 2.0
COPIES = 3
"""Of each partition."""


def kind_of(host: str) -> str:
    return host.partition("-")[0]


def number_of(host: str) -> int:
    return int(host.partition("-")[2])


@dataclass(slots=True, eq=False)
class Ongoing:
    """A fault that holds. `heal` ends it without waiting for what it starts again; its victims stay harmed
    until all of them are back."""

    kind: str
    victims: tuple[str, ...]
    note: str
    heal: Callable[[], None]
    is_lossy: bool = False
    struck_ns: int = 0
    heal_due: float = 0.0
    healed_ns: int | None = None


@dataclass(slots=True)
class Arena:
    """`rng` decides everything that chance decides. recorder: of what a fault itself writes."""

    cluster: HostCluster
    topic: str
    rng: random.Random
    recorder: Recorder
    ongoing: list[Ongoing] = field(default_factory=list)
    _has_unmended_loss: bool = False
    _impatient: httpx.Client | None = None

    # --- who is there -------------------------------------------------------------------------------------

    @property
    def brokers(self) -> list[str]:
        return [broker_host(broker_id) for broker_id in self.cluster.brokers]

    @property
    def controllers(self) -> list[str]:
        return [controller_host(index) for index in self.cluster.controllers]

    @property
    def coordinators(self) -> list[str]:
        return [coordinator_host(coordinator_id) for coordinator_id in self.cluster.coordinators]

    @property
    def zookeepers(self) -> list[str]:
        return [zookeeper_host(server.server_id) for server in self.cluster.zookeeper.servers]

    def others(self, *victims: str) -> list[str]:
        """Every host but these, and but the clients'."""
        return [host for host in self.cluster.network.hosts if host not in victims]

    # --- who may be struck --------------------------------------------------------------------------------

    def harmed(self) -> set[str]:
        return {victim for fault in self.ongoing for victim in fault.victims}

    def may_harm(self, *victims: str) -> bool:
        """None of them is harmed yet, and not too many would be."""
        harmed = self.harmed()
        if harmed & set(victims):
            return False
        counts = Counter(kind_of(host) for host in [*harmed, *victims])
        return all(counts[kind] <= limit for kind, limit in HARMED_MAX.items())

    def pick(self, hosts: Iterable[str]) -> str | None:
        """One of them that may be harmed; None when there is none."""
        free = [host for host in hosts if self.may_harm(host)]
        return self.rng.choice(free) if free else None

    def views(self) -> list[RestPartition] | None:
        """The partitions as the controllers tell them; None while none does."""
        try:
            api = ControllerApi(self._client())
            return api.partitions(self.cluster.name, self.topic, timeout_seconds=0)
        except (RestFailed, httpx.HTTPError):
            return None

    def assign(self, view: RestPartition, brokers: Sequence[int]) -> bool:
        """Ask that a partition's replicas lie on these brokers; whether a controller has taken it."""
        path = f"/clusters/{self.cluster.name}/topics/{self.topic}/partitions/{view.partition}/assignment"
        try:
            return self._client().put(path, json={"replicas": list(brokers)}).is_success
        except httpx.HTTPError:
            return False

    def _client(self) -> httpx.Client:
        if self._impatient is None:
            self._impatient = open_rest_client(self.cluster.controller_urls)
            self._impatient.timeout = httpx.Timeout(ASK_SECONDS_MAX)
        return self._impatient

    def close(self) -> None:
        if self._impatient is not None:
            self._impatient.close()

    def pick_leader(self) -> str | None:
        """The broker that leads most, if it may be harmed."""
        led = Counter(view.leader for view in self.views() or () if view.leader is not None)
        return self.pick([broker_host(max(sorted(led), key=lambda broker: led[broker]))]) if led else None

    def pick_lossy(self) -> str | None:
        """A broker whose log may suffer, by the rules above."""
        if any(fault.is_lossy for fault in self.ongoing):
            return None
        views = self.views()
        if views is None:
            return None
        if self._has_unmended_loss:
            if not is_whole(views):
                return None
            self._has_unmended_loss = False
        return self.pick(
            host
            for host in self.brokers
            if all(set(view.isr) - {number_of(host)} for view in views if number_of(host) in view.replicas)
        )

    def is_back(self, host: str) -> bool:
        return self.cluster.is_back(host)

    def add(self, fault: Ongoing) -> None:
        self.ongoing.append(fault)
        self._has_unmended_loss |= fault.is_lossy

    def remove(self, fault: Ongoing) -> None:
        self.ongoing.remove(fault)


def is_whole(views: Sequence[RestPartition]) -> bool:
    """Every partition has a leader and all its replicas in sync."""
    return bool(views) and all(
        view.leader is not None and set(view.isr) == set(view.replicas) for view in views
    )
