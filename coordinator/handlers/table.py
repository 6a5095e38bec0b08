"""The one table of what a coordinator answers."""

from __future__ import annotations

from coordinator.handlers import (
    delete_groups,
    describe_groups,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    metadata,
    no_records,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
)
from coordinator.handlers.context import CoordinatorContext
from springtide.node.handlers.dispatch import Handler
from springtide.node.handlers.table import SHARED_HANDLERS
from springtide.wire.apis import ApiKey

HANDLERS: dict[int, Handler[CoordinatorContext]] = {
    **SHARED_HANDLERS,
    ApiKey.METADATA: metadata.handle,
    ApiKey.PRODUCE: no_records.produce,
    ApiKey.FETCH: no_records.fetch,
    ApiKey.LIST_OFFSETS: no_records.refuse_partitions,
    ApiKey.OFFSET_COMMIT: offset_commit.handle,
    ApiKey.OFFSET_FETCH: offset_fetch.handle,
    ApiKey.JOIN_GROUP: join_group.handle,
    ApiKey.HEARTBEAT: heartbeat.handle,
    ApiKey.LEAVE_GROUP: leave_group.handle,
    ApiKey.SYNC_GROUP: sync_group.handle,
    ApiKey.DESCRIBE_GROUPS: describe_groups.handle,
    ApiKey.LIST_GROUPS: list_groups.handle,
    ApiKey.DELETE_RECORDS: no_records.refuse_partitions,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: no_records.refuse_partitions,
    ApiKey.DESCRIBE_LOG_DIRS: no_records.describe_log_dirs,
    ApiKey.DELETE_GROUPS: delete_groups.handle,
    ApiKey.OFFSET_DELETE: offset_delete.handle,
    ApiKey.DESCRIBE_PRODUCERS: no_records.refuse_partitions,
}
