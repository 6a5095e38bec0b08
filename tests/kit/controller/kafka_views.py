"""A controller's view of a cluster whose nodes are KafkaNodes."""

from __future__ import annotations

from typing import Any

from controller.core.records import BrokerRegistration, CoordinatorRegistration
from controller.shell.published import Published
from springtide.contract.epochs import BrokerEpoch, LeaderEpoch, PartitionEpoch
from springtide.contract.partition_state import PartitionState, TopicState
from tests.kit.controller.kafka_node import KafkaNode

ORDERS = ("orders", 0)


def named(node: KafkaNode) -> Any:
    return lambda _: {"node_id": 1001, "host": "127.0.0.1", "port": node.port}


def broker(broker_id: int, port: int, *, host: str = "127.0.0.1", fenced: bool = False) -> BrokerRegistration:
    return BrokerRegistration(
        broker_id=broker_id,
        broker_epoch=BrokerEpoch(1),
        incarnation_id="i",
        host=host,
        port=port,
        admitted=True,
        fenced=fenced,
    )


def view(*ports: int, coordinator_fenced: bool = False) -> Published:
    """A broker and a coordinator at each port. The first one leads orders-0."""
    published = Published("prod")
    image = published.image
    for number, port in enumerate(ports, 1):
        image.brokers[number] = broker(number, port)
        image.coordinators[1000 + number] = CoordinatorRegistration(
            coordinator_id=1000 + number,
            coordinator_epoch=BrokerEpoch(1),
            incarnation_id="i",
            host="127.0.0.1",
            port=port,
            admitted=True,
            fenced=coordinator_fenced,
        )
    image.topic_ids["orders"] = "id"
    image.topics["id"] = TopicState(topic_id="id", topic="orders", partitions=1, replication_factor=1)
    image.partitions["id", 0] = PartitionState(
        topic_id="id",
        topic="orders",
        partition=0,
        replicas=(1,),
        leader=1,
        leader_epoch=LeaderEpoch(0),
        partition_epoch=PartitionEpoch(0),
        isr=(1,),
        min_insync_replicas=1,
    )
    return published
