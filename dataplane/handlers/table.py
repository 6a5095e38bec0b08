"""The one table of what a broker answers."""

from __future__ import annotations

from dataplane.handlers import (
    delete_records,
    describe_log_dirs,
    describe_producers,
    fetch,
    find_coordinator,
    groups,
    list_offsets,
    offset_for_leader_epoch,
    produce,
    transactions,
    write_txn_markers,
)
from dataplane.handlers.context import BrokerContext
from springtide.node.handlers import transaction_refusals
from springtide.node.handlers.dispatch import Handler, reads
from springtide.node.handlers.group_refusals import refuse_consumers_on_broker, refuse_on_broker
from springtide.node.handlers.table import SHARED_HANDLERS
from springtide.wire.apis import ApiKey
from springtide.wire.messages import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    DeleteGroupsRequest,
    DeleteRecordsRequest,
    DescribeGroupsRequest,
    DescribeLogDirsRequest,
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    EndTxnRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    ListOffsetsRequest,
    ListTransactionsRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    OffsetForLeaderEpochRequest,
    SyncGroupRequest,
    TxnOffsetCommitRequest,
    WriteTxnMarkersRequest,
)

HANDLERS: dict[int, Handler[BrokerContext]] = {
    **SHARED_HANDLERS,
    ApiKey.PRODUCE: produce.handle,
    ApiKey.FETCH: fetch.handle,
    ApiKey.FIND_COORDINATOR: reads(FindCoordinatorRequest, find_coordinator.handle),
    ApiKey.LIST_OFFSETS: reads(ListOffsetsRequest, list_offsets.handle),
    ApiKey.OFFSET_COMMIT: reads(OffsetCommitRequest, refuse_on_broker),
    ApiKey.OFFSET_FETCH: reads(OffsetFetchRequest, groups.offset_fetch),
    ApiKey.JOIN_GROUP: reads(JoinGroupRequest, refuse_on_broker),
    ApiKey.HEARTBEAT: reads(HeartbeatRequest, refuse_on_broker),
    ApiKey.LEAVE_GROUP: reads(LeaveGroupRequest, refuse_on_broker),
    ApiKey.SYNC_GROUP: reads(SyncGroupRequest, refuse_on_broker),
    ApiKey.DESCRIBE_GROUPS: reads(DescribeGroupsRequest, groups.describe_groups),
    ApiKey.LIST_GROUPS: reads(ListGroupsRequest, groups.list_groups),
    ApiKey.DELETE_RECORDS: reads(DeleteRecordsRequest, delete_records.handle),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: reads(OffsetForLeaderEpochRequest, offset_for_leader_epoch.handle),
    ApiKey.ADD_PARTITIONS_TO_TXN: reads(AddPartitionsToTxnRequest, transaction_refusals.refuse_on_broker),
    ApiKey.ADD_OFFSETS_TO_TXN: reads(AddOffsetsToTxnRequest, transaction_refusals.refuse_on_broker),
    ApiKey.END_TXN: reads(EndTxnRequest, transaction_refusals.refuse_on_broker),
    ApiKey.WRITE_TXN_MARKERS: reads(WriteTxnMarkersRequest, write_txn_markers.handle),
    ApiKey.TXN_OFFSET_COMMIT: reads(TxnOffsetCommitRequest, transaction_refusals.refuse_on_broker),
    ApiKey.DESCRIBE_LOG_DIRS: reads(DescribeLogDirsRequest, describe_log_dirs.handle),
    ApiKey.DELETE_GROUPS: reads(DeleteGroupsRequest, refuse_on_broker),
    ApiKey.OFFSET_DELETE: reads(OffsetDeleteRequest, refuse_on_broker),
    ApiKey.DESCRIBE_PRODUCERS: reads(DescribeProducersRequest, describe_producers.handle),
    ApiKey.DESCRIBE_TRANSACTIONS: reads(DescribeTransactionsRequest, transaction_refusals.refuse_on_broker),
    ApiKey.LIST_TRANSACTIONS: reads(ListTransactionsRequest, transactions.list_transactions),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: reads(ConsumerGroupHeartbeatRequest, refuse_consumers_on_broker),
    ApiKey.CONSUMER_GROUP_DESCRIBE: reads(ConsumerGroupDescribeRequest, refuse_consumers_on_broker),
}
