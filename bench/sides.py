"""What a benchmark needs of a cluster under test, and Springtide as one.

Both sides get the same: three brokers on this machine, replication factor 3, min.insync.replicas 2, no fsync
by the broker, and small segments that retention removes at once, so that the page cache does not grow (the
cost of touching new memory would hide every difference).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Protocol, Self

from bench.case import Setup
from localcluster.access import AUTHORIZER, LOGIN
from localcluster.cluster import LocalCluster
from localcluster.processes import SupervisedProcess

BROKERS = 3
BROKER_IDS = range(1, BROKERS + 1)
CLIENT = "bench"
"""The name in the load's certificate, where it shows one."""
REPLICATION_FACTOR = 3
MIN_INSYNC_REPLICAS = 2
SEGMENT_BYTES = 32 * 1024 * 1024
RETENTION_BYTES = 64 * 1024 * 1024
RETENTION_CHECK_MS = 1000
WORKERS = 2
"""Of each broker where the setup has several."""
KEEP_ALL = -1
"""As retention bytes: for what is to be read."""

Tell = Callable[[str], None]


class Side(Protocol):
    """A running cluster."""

    @property
    def name(self) -> str:
        """As the report and the JSON call it."""

    @property
    def bootstrap_servers(self) -> str: ...

    @property
    def ca_file(self) -> str | None:
        """The CA of its brokers; None: they speak in the clear."""

    @property
    def cert_file(self) -> str | None:
        """The key and certificate that a client shows; None: it shows none."""

    @property
    def broker_pids(self) -> tuple[int, ...]:
        """Of those that run. Raises ProcessFailed if one ended by itself."""

    @property
    def controller_pids(self) -> tuple[int, ...]: ...

    def broker_process(self, number: int) -> SupervisedProcess:
        """number: from 1, in the order of bootstrap_servers."""

    def create_topic(
        self, topic: str, *, partitions: int, retention_bytes: int, configs: Mapping[str, str] = {}
    ) -> None:
        """Returns when every partition has a leader and a full in-sync set. configs: beside topic_configs."""

    def delete_topic(self, topic: str) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def topic_configs(retention_bytes: int) -> dict[str, str]:
    """The same for both sides."""
    return {
        "min.insync.replicas": str(MIN_INSYNC_REPLICAS),
        "segment.bytes": str(SEGMENT_BYTES),
        "retention.bytes": str(retention_bytes),
    }


class Springtide:
    """Our side: ZooKeeper, a controller and three brokers, as everywhere else on one machine. With TLS, they
    speak it with clients, the controller and each other."""

    cert_file: str | None = None

    def __init__(
        self,
        tell: Tell,
        *,
        name: str = "springtide",
        coordinators: int = 0,
        broker_config: Mapping[str, str] = {},
        setup: Setup = Setup.PLAIN,
    ) -> None:
        self.name = name
        self._setup = setup
        self._running = ExitStack()
        self._cluster = LocalCluster(
            brokers=BROKERS,
            coordinators=coordinators,
            workers=WORKERS if setup is Setup.WORKERS else 1,
            broker_config={"log.retention.check.interval.ms": str(RETENTION_CHECK_MS), **broker_config},
            on_progress=tell,
            is_secure=setup in (Setup.TLS, Setup.ACLS),
            sasl=LOGIN if setup is Setup.ACLS else None,
        )

    def __enter__(self) -> Self:
        with ExitStack() as starting:
            starting.enter_context(self._cluster)
            self._cluster.form()
            if self._setup is Setup.ACLS:
                self._use_acls()
            self._running = starting.pop_all()
        return self

    def _use_acls(self) -> None:
        """Let ACLs decide, and allow the load, as CN of its certificate, to write and read every topic."""
        assert self._cluster.tls is not None
        self.cert_file = str(self._cluster.tls.certificate(CLIENT))
        clusters, principal = f"/clusters/{self._cluster.name}", f"User:CN={CLIENT}"
        about = {"resource_type": "topic", "resource_name": "*", "pattern_type": "literal"}
        bindings = [{**about, "principal": principal, "operation": one} for one in ("read", "write")]
        self._cluster.api.post(f"{clusters}/acls", {"bindings": bindings})
        self._cluster.api.post(
            f"{clusters}/configs:alter", {"configs": {"authorizer.class.name": AUTHORIZER}}
        )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._running.__exit__(kind, error, trace)

    @property
    def bootstrap_servers(self) -> str:
        return self._cluster.bootstrap_servers

    @property
    def ca_file(self) -> str | None:
        return None if self._cluster.tls is None else str(self._cluster.tls.ca)

    @property
    def broker_pids(self) -> tuple[int, ...]:
        self._cluster.require_alive()
        storing = (*self._cluster.brokers.values(), *self._cluster.coordinators.values())
        return tuple(pid for one in storing for pid in one.pids)

    @property
    def controller_pids(self) -> tuple[int, ...]:
        pids = (one.process.pid for one in self._cluster.controllers.values())
        return tuple(pid for pid in pids if pid is not None)

    def broker_process(self, number: int) -> SupervisedProcess:
        return self._cluster.brokers[number].process

    def create_topic(
        self, topic: str, *, partitions: int, retention_bytes: int, configs: Mapping[str, str] = {}
    ) -> None:
        self._cluster.create_topic(
            topic,
            partitions=partitions,
            replication_factor=REPLICATION_FACTOR,
            configs={**topic_configs(retention_bytes), **configs},
        )

    def delete_topic(self, topic: str) -> None:
        self._cluster.delete_topic(topic)  # returns when unlinking is over, so that it is in no other row
