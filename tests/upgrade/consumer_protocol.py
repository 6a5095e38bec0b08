"""Groups of the `consumer` protocol (KIP-848) around the moment when an upgrade is finalized: before it nodes
refuse them, so that a client knows; after it they have them, and no process was started again for that."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import closing

import trio
from confluent_kafka import Consumer

from springtide.wire.apis import ApiKey
from tests.faults.groups.lives import Member
from tests.kit.dataplane.raw import connected
from tests.upgrade.mixed_cluster import MixedCluster

REFUSED_SECONDS_MAX = 20.0
API_VERSIONS = 4


def not_refused(cluster: MixedCluster, group: str, topic: str) -> list[str]:
    """Return where a cluster below the level has the protocol, or leaves a client without an answer."""
    told = [f"key 68 is listed below its level by the node at {port}" for port in _listing(cluster)]
    return told if _refusal(cluster.bootstrap_servers, group, topic) else [*told, "librdkafka is not refused"]


def join(cluster: MixedCluster, members: Iterable[Member], tell: Callable[[str], None]) -> None:
    """Wait until each node lists the protocol, start its members, and wait until each has committed."""
    joining = list(members)
    ports = _ports(cluster)
    cluster.wait_until("all nodes list the consumer protocol", lambda: _listing(cluster) == ports)
    for member in joining:
        member.start()
    cluster.wait_until(
        "each member of the consumer protocol commits",
        lambda: all(member.committed_ns() for member in joining),
    )
    tell(f"finalized: {len(joining)} members of the consumer protocol are in the group")


def _ports(cluster: MixedCluster) -> list[int]:
    return [node.port for node in (*cluster.brokers.values(), *cluster.coordinators.values())]


def _listing(cluster: MixedCluster) -> list[int]:
    """Return at which ports the protocol is listed to a client that can choose."""

    async def ask(port: int) -> bool:
        async with connected(port) as raw:
            told = await raw.ask(
                ApiKey.API_VERSIONS,
                API_VERSIONS,
                {"client_software_name": "upgrade", "client_software_version": "1"},
            )
        return any(each.api_key == ApiKey.CONSUMER_GROUP_HEARTBEAT for each in told.api_keys)

    return [port for port in _ports(cluster) if trio.run(ask, port)]


def _refusal(bootstrap: str, group: str, topic: str) -> str:
    """Return the error with which librdkafka ends; "" if it has none."""
    errors: list[str] = []
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "group.protocol": "consumer",
        "error_cb": lambda error: errors.append(error.str()),
    }
    deadline = time.monotonic() + REFUSED_SECONDS_MAX
    with closing(Consumer(settings)) as consumer:
        consumer.subscribe([topic])
        while time.monotonic() < deadline:
            message = consumer.poll(0.2)
            if message is not None and (error := message.error()) is not None:
                errors.append(error.str())
            if found := [each for each in errors if "not supported" in each]:
                return found[0]
    return ""
