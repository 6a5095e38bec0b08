from __future__ import annotations

from typing import Any

from controller.audit.change import (
    AuditedChange,
    Entity,
    brokers_touched,
    partition_id,
    partition_of,
    topic_of,
)
from springtide.contract.epochs import ControllerEpoch


def change(entity: Entity, entity_id: str, before: Any, after: Any) -> AuditedChange:
    return AuditedChange(
        cluster="prod",
        entity=entity,
        entity_id=entity_id,
        version=1,
        cause="isr_shrunk",
        actor="controller",
        at_ms=0,
        before=before,
        after=after,
        controller_epoch=ControllerEpoch(1),
    )


STATE = {"topic": "orders", "replicas": [1, 2, 3], "isr": [1, 2, 3], "elr": [], "leader": 1}


def test_a_partition_change_touches_the_brokers_whose_role_changed() -> None:
    after = STATE | {"isr": [2, 3], "leader": 2}
    assert brokers_touched(change(Entity.PARTITION, "t/0", STATE, after)) == (1, 2)


def test_a_new_partition_touches_all_its_replicas_and_a_leaderless_one_nobody_called_minus_one() -> None:
    assert brokers_touched(change(Entity.PARTITION, "t/0", None, STATE | {"leader": -1})) == (1, 2, 3)


def test_a_broker_change_touches_that_broker() -> None:
    assert brokers_touched(change(Entity.BROKER, "7", None, {"broker_id": 7})) == (7,)


def test_topic_and_partition_are_read_from_the_snapshot_even_when_it_is_the_last_one() -> None:
    gone = change(Entity.PARTITION, partition_id("topic-id", 12), STATE, None)
    assert (topic_of(gone), partition_of(gone)) == ("orders", 12)
    assert topic_of(change(Entity.CLUSTER, "prod", None, {})) is None
    assert partition_of(change(Entity.TOPIC, "t", None, STATE)) is None
