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
from springtide.node.handlers.dispatch import Handler, reads
from springtide.node.handlers.table import SHARED_HANDLERS
from springtide.wire.apis import ApiKey
from springtide.wire.messages import (
    DeleteGroupsRequest,
    DeleteRecordsRequest,
    DescribeGroupsRequest,
    DescribeLogDirsRequest,
    DescribeProducersRequest,
    FetchRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    ListOffsetsRequest,
    MetadataRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    OffsetForLeaderEpochRequest,
    SyncGroupRequest,
)

HANDLERS: dict[int, Handler[CoordinatorContext]] = {
    **SHARED_HANDLERS,
    ApiKey.METADATA: reads(MetadataRequest, metadata.handle),
    ApiKey.PRODUCE: no_records.produce,
    ApiKey.FETCH: reads(FetchRequest, no_records.fetch),
    ApiKey.LIST_OFFSETS: reads(ListOffsetsRequest, no_records.list_offsets),
    ApiKey.OFFSET_COMMIT: reads(OffsetCommitRequest, offset_commit.handle),
    ApiKey.OFFSET_FETCH: reads(OffsetFetchRequest, offset_fetch.handle),
    ApiKey.JOIN_GROUP: reads(JoinGroupRequest, join_group.handle),
    ApiKey.HEARTBEAT: reads(HeartbeatRequest, heartbeat.handle),
    ApiKey.LEAVE_GROUP: reads(LeaveGroupRequest, leave_group.handle),
    ApiKey.SYNC_GROUP: reads(SyncGroupRequest, sync_group.handle),
    ApiKey.DESCRIBE_GROUPS: reads(DescribeGroupsRequest, describe_groups.handle),
    ApiKey.LIST_GROUPS: reads(ListGroupsRequest, list_groups.handle),
    ApiKey.DELETE_RECORDS: reads(DeleteRecordsRequest, no_records.delete_records),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: reads(OffsetForLeaderEpochRequest, no_records.offset_for_leader_epoch),
    ApiKey.DESCRIBE_LOG_DIRS: reads(DescribeLogDirsRequest, no_records.describe_log_dirs),
    ApiKey.DELETE_GROUPS: reads(DeleteGroupsRequest, delete_groups.handle),
    ApiKey.OFFSET_DELETE: reads(OffsetDeleteRequest, offset_delete.handle),
    ApiKey.DESCRIBE_PRODUCERS: reads(DescribeProducersRequest, no_records.describe_producers),
}
