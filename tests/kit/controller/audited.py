"""Changes as the audit gets them: of a partition, of a topic; and the receipt of an operation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller.audit.change import AuditedChange, Entity, partition_id
from controller.audit.receipts import Receipt, read_receipt
from controller.database.sql import Database
from controller.shell.published import snapshot
from springtide.contract.epochs import ControllerEpoch
from springtide.contract.partition_state import PartitionState


def state(epoch: int, **fields: Any) -> PartitionState:
    values: dict[str, Any] = {
        "topic_id": "t1",
        "topic": "orders",
        "partition": 0,
        "replicas": (1, 2, 3),
        "leader": 1,
        "leader_epoch": 0,
        "partition_epoch": epoch,
        "isr": (1, 2, 3),
        "min_insync_replicas": 2,
    }
    return PartitionState(**(values | fields))


def change(
    at_ms: int, before: PartitionState | None, after: PartitionState | None, **fields: Any
) -> AuditedChange:
    one = after or before
    assert one is not None
    values: dict[str, Any] = {
        "cluster": "prod",
        "entity": Entity.PARTITION,
        "entity_id": partition_id(one.topic_id, one.partition),
        "version": one.partition_epoch if after is not None else one.partition_epoch + 1,
        "cause": "topic_created" if before is None else "isr_shrunk",
        "actor": "controller",
        "at_ms": at_ms,
        "before": None if before is None else snapshot(before),
        "after": None if after is None else snapshot(after),
        "controller_epoch": 1,
    }
    return AuditedChange(**(values | fields))


def topic_change(at_ms: int, version: int, topic_id: str, after: Mapping[str, Any] | None) -> AuditedChange:
    return AuditedChange(
        cluster="prod",
        entity=Entity.TOPIC,
        entity_id=topic_id,
        version=version,
        cause="topic_created" if version == 0 else "topic_deletion_started",
        actor="alice",
        at_ms=at_ms,
        before=None if version == 0 else {"topic_id": topic_id},
        after=after,
        controller_epoch=ControllerEpoch(1),
    )


def announced(at_ms: int, topic_id: str = "t1", topic: str = "orders") -> AuditedChange:
    return topic_change(at_ms, 0, topic_id, {"topic_id": topic_id, "topic": topic, "deleting": False})


OPERATION = "op_1"


async def receipt(store: Database, *, begin_ms: int, end_ms: int, is_over: bool = True) -> Receipt:
    return await read_receipt(
        store,
        cluster="prod",
        operation_id=OPERATION,
        named={},
        begin_ms=begin_ms,
        end_ms=end_ms,
        is_over=is_over,
    )
