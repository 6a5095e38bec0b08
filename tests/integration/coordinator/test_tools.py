"""What stock tools find where three brokers and two coordinators run: three brokers, and each group once.

The bindings of librdkafka find coordinators among the brokers, since it would forget them otherwise.

Group members that look their coordinator up in Metadata find it all the same.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
import trio
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient
from kafka.admin import KafkaAdminClient

from springtide.wire.apis import ApiKey
from tests.kit.dataplane.clients_in_threads import produce
from tests.kit.dataplane.cluster_in_process import ClusterInProcess, cluster_in_process

TOPIC = "orders"
BROKERS, COORDINATORS = [1, 2, 3], [1001, 1002]
GROUPS = [f"group-{number}" for number in range(6)]
COUNT = 40
ANSWER_S_MAX = 20
READ_S = 8.0
SEARCHES_MAX = 100
"""A member that looks in vain asks 60 times a second; one whose coordinator is left out once, five times."""

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


def read_by(bootstrap: str, subscription: str, group: str, **settings: Any) -> tuple[int, int]:
    """Let a member of the group read all, and go on a while. Return the number of records and assignments."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            **settings,
        }
    )
    assignments = 0

    def on_assign(*_: object) -> None:
        nonlocal assignments
        assignments += 1

    count = 0
    try:
        consumer.subscribe([subscription], on_assign=on_assign)
        is_brief = not settings
        ends = monotonic() + (ANSWER_S_MAX if is_brief else READ_S)
        while monotonic() < ends and not (is_brief and count == COUNT):
            messages = consumer.consume(COUNT, timeout=0.2)
            assert [one.error() for one in messages if one.error()] == []
            count += len(messages)
    finally:
        consumer.close()
    return count, assignments


def librdkafka_lists(bootstrap: str) -> None:
    with AdminClient({"bootstrap.servers": bootstrap, "client.software.name": "librdkafka"}) as admin:

        def groups() -> list[str]:
            found = admin.list_consumer_groups().result(ANSWER_S_MAX)
            assert not found.errors
            return sorted(one.group_id for one in found.valid)

        assert groups() == GROUPS, "each once, where it knows coordinators"
        assert sorted(admin.list_topics(timeout=ANSWER_S_MAX).brokers) == BROKERS
        assert groups() == GROUPS, "and all, where it does not"


def python_lists(bootstrap: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        assert sorted(one["broker_id"] for one in admin.describe_cluster()["brokers"]) == BROKERS
        assert sorted(one["group_id"] for one in admin.list_groups()) == GROUPS
    finally:
        admin.close()


async def form(cluster: ClusterInProcess) -> str:
    await cluster.form(*BROKERS)
    cluster.controller.create_topic(TOPIC, ((1, 2, 3),))
    await cluster.form_coordinators(*COORDINATORS, configs={"group.initial.rebalance.delay.ms": "0"})
    await produce(cluster.bootstrap(), TOPIC, [b"%d" % number for number in range(COUNT)], acks="all")
    return cluster.bootstrap()


def test_tools_find_three_brokers_and_each_group_once(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster_in_process(tmp_path) as cluster:
            bootstrap = await form(cluster)
            for group in GROUPS:
                assert (await trio.to_thread.run_sync(read_by, bootstrap, TOPIC, group))[0] == COUNT
            await trio.to_thread.run_sync(librdkafka_lists, bootstrap)
            await trio.to_thread.run_sync(python_lists, bootstrap)

    trio.run(run)


@pytest.mark.parametrize("subscription", [TOPIC, "^ord.*"])
def test_a_member_that_asks_for_metadata_all_the_time_keeps_its_coordinator(
    tmp_path: Path, subscription: str
) -> None:
    """By pattern it asks for all topics."""

    async def run() -> None:
        async with cluster_in_process(tmp_path) as cluster:
            bootstrap = await form(cluster)
            settings = {"topic.metadata.refresh.interval.ms": 500, "session.timeout.ms": 6_000}
            read = partial(read_by, bootstrap, subscription, "billing", **settings)
            assert await trio.to_thread.run_sync(read) == (COUNT, 1)
            searches = sum(
                running.broker.counters.requests.get(ApiKey.FIND_COORDINATOR, 0)
                for running in cluster.brokers.values()
            )
            assert 0 < searches < SEARCHES_MAX

    trio.run(run)
