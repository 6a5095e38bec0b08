"""Questions to one broker about itself; leadership does not matter. Each is one attempt: the caller knows
whether a broker that is down matters."""

from __future__ import annotations

from typing import NamedTuple

from pipeline.client.config import Address, ClientConfig
from pipeline.client.pool import ConnectionPool, shared_pool
from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode, error_code


class LogDirReplica(NamedTuple):
    """One line of a log directory; what stands beside the logs has a topic name of its own."""

    topic: str
    partition: int
    size_bytes: int


class LogDir(NamedTuple):
    """`error` other than NONE: the directory can't be read, and `replicas` says nothing. `usable_bytes`: free
    on its file system (KIP-827); None: the broker can't tell."""

    path: str
    error: ErrorCode
    replicas: tuple[LogDirReplica, ...]
    usable_bytes: int | None = None


def describe_log_dirs(
    address: Address, config: ClientConfig, *, pool: ConnectionPool | None = None
) -> list[LogDir]:
    """Return what the broker has on its disks (KIP-113). Raises ConnectionLost, UnsupportedBroker."""
    with (pool or shared_pool()).lease(address, config) as connection:
        message = connection.call(ApiKey.DESCRIBE_LOG_DIRS, {"topics": None})
    return [
        LogDir(
            one.log_dir,
            error_code(int(one.error_code)),
            tuple(
                LogDirReplica(topic.name, replica.partition_index, replica.partition_size)
                for topic in one.topics
                for replica in topic.partitions
            ),
            one.usable_bytes if one.usable_bytes >= 0 else None,
        )
        for one in message.results
    ]
