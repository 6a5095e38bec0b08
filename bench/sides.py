"""What a benchmark needs of a cluster under test, and Springtide as one.

Both sides get the same: three brokers on this machine, replication factor 3, min.insync.replicas 2, no fsync
by the broker, and small segments that retention removes at once, so that the page cache does not grow (the
cost of touching new memory would hide every difference).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Protocol, Self

from localcluster.cluster import LocalCluster
from localcluster.rest import describe_refusal

BROKERS = 3
REPLICATION_FACTOR = 3
MIN_INSYNC_REPLICAS = 2
SEGMENT_BYTES = 32 * 1024 * 1024
RETENTION_BYTES = 64 * 1024 * 1024
RETENTION_CHECK_MS = 1000
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
    def broker_pids(self) -> tuple[int, ...]: ...

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
    """Our side: ZooKeeper, a controller and three brokers, as everywhere else on one machine. is_secure: they
    speak TLS with clients, the controller and each other."""

    def __init__(
        self,
        tell: Tell,
        *,
        name: str = "springtide",
        coordinators: int = 0,
        broker_config: Mapping[str, str] = {},
        is_secure: bool = False,
    ) -> None:
        self.name = name
        self._cluster = LocalCluster(
            brokers=BROKERS,
            coordinators=coordinators,
            broker_config={"log.retention.check.interval.ms": str(RETENTION_CHECK_MS), **broker_config},
            on_progress=tell,
            is_secure=is_secure,
        )

    def __enter__(self) -> Self:
        self._cluster.__enter__()
        try:
            self._cluster.form()
        except BaseException:
            self._cluster.stop(keep_directory=True)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cluster.__exit__(kind, error, trace)

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
        pids = (one.process.pid for one in storing)
        return tuple(pid for pid in pids if pid is not None)

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
        path = f"/clusters/{self._cluster.name}/topics/{topic}"
        answer = self._cluster.rest.delete(path, headers={"Idempotency-Key": str(uuid.uuid4())})
        if not answer.is_success:
            raise describe_refusal(answer)
        self._cluster.api.wait_for_operation(answer)  # so that unlinking is in no other row
