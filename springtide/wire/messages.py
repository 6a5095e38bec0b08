"""The messages of every API, each class for all the versions that are served.

Written by `python -m tests.kit.springtide.wire_classes`; not by hand."""

from __future__ import annotations

from typing import Annotated, ClassVar

from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.fields import (
    Bool,
    Bytes,
    Error,
    Float64,
    In,
    Int8,
    Int16,
    Int32,
    Int64,
    MessagePart,
    NullableBytes,
    NullableString,
    RequestMessage,
    ResponseMessage,
    String,
    Uuid,
)


class ProducePartitionProduceData(MessagePart, frozen=True, kw_only=True):
    index: Int32 = 0
    records: NullableBytes = None


class ProduceTopicProduceData(MessagePart, frozen=True, kw_only=True):
    name: Annotated[String, In(until=12)] = ""
    topic_id: Annotated[Uuid, In(13)] = None
    partition_data: tuple[ProducePartitionProduceData, ...] = ()


class ProduceRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.PRODUCE
    transactional_id: NullableString = None
    acks: Int16 = 0
    timeout_ms: Int32 = 0
    topic_data: tuple[ProduceTopicProduceData, ...] = ()


class ProduceBatchIndexAndErrorMessage(MessagePart, frozen=True, kw_only=True):
    batch_index: Int32 = 0
    batch_index_error_message: NullableString = None


class ProduceLeaderIdAndEpoch(MessagePart, frozen=True, kw_only=True):
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


class ProducePartitionProduceResponse(MessagePart, frozen=True, kw_only=True):
    index: Int32 = 0
    error_code: Error = ErrorCode.NONE
    base_offset: Int64 = 0
    log_append_time_ms: Int64 = -1
    log_start_offset: Annotated[Int64, In(5)] = -1
    record_errors: Annotated[tuple[ProduceBatchIndexAndErrorMessage, ...], In(8)] = ()
    error_message: Annotated[NullableString, In(8)] = None
    current_leader: Annotated[ProduceLeaderIdAndEpoch, In(10, tag=0)] = ProduceLeaderIdAndEpoch()


class ProduceTopicProduceResponse(MessagePart, frozen=True, kw_only=True):
    name: Annotated[String, In(until=12)] = ""
    topic_id: Annotated[Uuid, In(13)] = None
    partition_responses: tuple[ProducePartitionProduceResponse, ...] = ()


class ProduceNodeEndpoint(MessagePart, frozen=True, kw_only=True):
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: NullableString = None


class ProduceResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.PRODUCE
    responses: tuple[ProduceTopicProduceResponse, ...] = ()
    throttle_time_ms: Int32 = 0
    node_endpoints: Annotated[tuple[ProduceNodeEndpoint, ...], In(10, tag=0)] = ()


class FetchReplicaState(MessagePart, frozen=True, kw_only=True):
    replica_id: Int32 = -1
    replica_epoch: Int64 = -1


class FetchPartition(MessagePart, frozen=True, kw_only=True):
    partition: Int32 = 0
    current_leader_epoch: Annotated[Int32, In(9)] = -1
    fetch_offset: Int64 = 0
    last_fetched_epoch: Annotated[Int32, In(12)] = -1
    log_start_offset: Annotated[Int64, In(5)] = -1
    partition_max_bytes: Int32 = 0
    replica_directory_id: Annotated[Uuid, In(17, tag=0)] = None
    high_watermark: Annotated[Int64, In(18, tag=1)] = 9223372036854775807


class FetchTopic(MessagePart, frozen=True, kw_only=True):
    topic: Annotated[String, In(until=12)] = ""
    topic_id: Annotated[Uuid, In(13)] = None
    partitions: tuple[FetchPartition, ...] = ()


class FetchForgottenTopic(MessagePart, frozen=True, kw_only=True):
    topic: Annotated[String, In(until=12)] = ""
    topic_id: Annotated[Uuid, In(13)] = None
    partitions: tuple[Int32, ...] = ()


class FetchRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.FETCH
    cluster_id: Annotated[NullableString, In(12, tag=0)] = None
    replica_id: Annotated[Int32, In(until=14)] = -1
    replica_state: Annotated[FetchReplicaState, In(15, tag=1)] = FetchReplicaState()
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Int32 = 2147483647
    isolation_level: Int8 = 0
    session_id: Annotated[Int32, In(7)] = 0
    session_epoch: Annotated[Int32, In(7)] = -1
    topics: tuple[FetchTopic, ...] = ()
    forgotten_topics_data: Annotated[tuple[FetchForgottenTopic, ...], In(7)] = ()
    rack_id: Annotated[String, In(11)] = ""


class FetchEpochEndOffset(MessagePart, frozen=True, kw_only=True):
    epoch: Int32 = -1
    end_offset: Int64 = -1


class FetchLeaderIdAndEpoch(MessagePart, frozen=True, kw_only=True):
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


class FetchSnapshotId(MessagePart, frozen=True, kw_only=True):
    end_offset: Int64 = -1
    epoch: Int32 = -1


class FetchAbortedTransaction(MessagePart, frozen=True, kw_only=True):
    producer_id: Int64 = 0
    first_offset: Int64 = 0


class FetchPartitionData(MessagePart, frozen=True, kw_only=True):
    partition_index: Int32 = 0
    error_code: Error = ErrorCode.NONE
    high_watermark: Int64 = 0
    last_stable_offset: Int64 = -1
    log_start_offset: Annotated[Int64, In(5)] = -1
    diverging_epoch: Annotated[FetchEpochEndOffset, In(12, tag=0)] = FetchEpochEndOffset()
    current_leader: Annotated[FetchLeaderIdAndEpoch, In(12, tag=1)] = FetchLeaderIdAndEpoch()
    snapshot_id: Annotated[FetchSnapshotId, In(12, tag=2)] = FetchSnapshotId()
    aborted_transactions: tuple[FetchAbortedTransaction, ...] | None = None
    preferred_read_replica: Annotated[Int32, In(11)] = -1
    records: NullableBytes = None


class FetchableTopicResponse(MessagePart, frozen=True, kw_only=True):
    topic: Annotated[String, In(until=12)] = ""
    topic_id: Annotated[Uuid, In(13)] = None
    partitions: tuple[FetchPartitionData, ...] = ()


class FetchNodeEndpoint(MessagePart, frozen=True, kw_only=True):
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: NullableString = None


class FetchResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.FETCH
    throttle_time_ms: Int32 = 0
    error_code: Annotated[Error, In(7)] = ErrorCode.NONE
    session_id: Annotated[Int32, In(7)] = 0
    responses: tuple[FetchableTopicResponse, ...] = ()
    node_endpoints: Annotated[tuple[FetchNodeEndpoint, ...], In(16, tag=0)] = ()


class ListOffsetsPartition(MessagePart, frozen=True, kw_only=True):
    partition_index: Int32 = 0
    current_leader_epoch: Annotated[Int32, In(4)] = -1
    timestamp: Int64 = 0
    max_num_offsets: Annotated[Int32, In(until=0)] = 1


class ListOffsetsTopic(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    partitions: tuple[ListOffsetsPartition, ...] = ()


class ListOffsetsRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.LIST_OFFSETS
    replica_id: Int32 = 0
    isolation_level: Annotated[Int8, In(2)] = 0
    topics: tuple[ListOffsetsTopic, ...] = ()
    timeout_ms: Annotated[Int32, In(10)] = 0


class ListOffsetsPartitionResponse(MessagePart, frozen=True, kw_only=True):
    partition_index: Int32 = 0
    error_code: Error = ErrorCode.NONE
    old_style_offsets: Annotated[tuple[Int64, ...], In(until=0)] = ()
    timestamp: Annotated[Int64, In(1)] = -1
    offset: Annotated[Int64, In(1)] = -1
    leader_epoch: Annotated[Int32, In(4)] = -1


class ListOffsetsTopicResponse(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    partitions: tuple[ListOffsetsPartitionResponse, ...] = ()


class ListOffsetsResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.LIST_OFFSETS
    throttle_time_ms: Annotated[Int32, In(2)] = 0
    topics: tuple[ListOffsetsTopicResponse, ...] = ()


class MetadataRequestTopic(MessagePart, frozen=True, kw_only=True):
    topic_id: Annotated[Uuid, In(10)] = None
    name: Annotated[NullableString, In(null_since=10)] = None


class MetadataRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.METADATA
    topics: Annotated[tuple[MetadataRequestTopic, ...] | None, In(null_since=1)] = None
    allow_auto_topic_creation: Annotated[Bool, In(4)] = True
    include_cluster_authorized_operations: Annotated[Bool, In(8, until=10)] = False
    include_topic_authorized_operations: Annotated[Bool, In(8)] = False


class MetadataResponseBroker(MessagePart, frozen=True, kw_only=True):
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: Annotated[NullableString, In(1)] = None


class MetadataResponsePartition(MessagePart, frozen=True, kw_only=True):
    error_code: Error = ErrorCode.NONE
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Annotated[Int32, In(7)] = -1
    replica_nodes: tuple[Int32, ...] = ()
    isr_nodes: tuple[Int32, ...] = ()
    offline_replicas: Annotated[tuple[Int32, ...], In(5)] = ()


class MetadataResponseTopic(MessagePart, frozen=True, kw_only=True):
    error_code: Error = ErrorCode.NONE
    name: Annotated[NullableString, In(null_since=12)] = None
    topic_id: Annotated[Uuid, In(10)] = None
    is_internal: Annotated[Bool, In(1)] = False
    partitions: tuple[MetadataResponsePartition, ...] = ()
    topic_authorized_operations: Annotated[Int32, In(8)] = -2147483648


class MetadataResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.METADATA
    throttle_time_ms: Annotated[Int32, In(3)] = 0
    brokers: tuple[MetadataResponseBroker, ...] = ()
    cluster_id: Annotated[NullableString, In(2)] = None
    controller_id: Annotated[Int32, In(1)] = -1
    topics: tuple[MetadataResponseTopic, ...] = ()
    cluster_authorized_operations: Annotated[Int32, In(8, until=10)] = -2147483648
    error_code: Annotated[Error, In(13)] = ErrorCode.NONE


class OffsetCommitRequestPartition(MessagePart, frozen=True, kw_only=True):
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Annotated[Int32, In(6)] = -1
    committed_metadata: NullableString = None


class OffsetCommitRequestTopic(MessagePart, frozen=True, kw_only=True):
    name: Annotated[String, In(until=9)] = ""
    topic_id: Annotated[Uuid, In(10)] = None
    partitions: tuple[OffsetCommitRequestPartition, ...] = ()


class OffsetCommitRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.OFFSET_COMMIT
    group_id: String = ""
    generation_id_or_member_epoch: Int32 = -1
    member_id: String = ""
    retention_time_ms: Annotated[Int64, In(until=4)] = -1
    group_instance_id: Annotated[NullableString, In(7)] = None
    topics: tuple[OffsetCommitRequestTopic, ...] = ()


class OffsetCommitResponsePartition(MessagePart, frozen=True, kw_only=True):
    partition_index: Int32 = 0
    error_code: Error = ErrorCode.NONE


class OffsetCommitResponseTopic(MessagePart, frozen=True, kw_only=True):
    name: Annotated[String, In(until=9)] = ""
    topic_id: Annotated[Uuid, In(10)] = None
    partitions: tuple[OffsetCommitResponsePartition, ...] = ()


class OffsetCommitResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.OFFSET_COMMIT
    throttle_time_ms: Annotated[Int32, In(3)] = 0
    topics: tuple[OffsetCommitResponseTopic, ...] = ()


class OffsetFetchRequestTopic(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    partition_indexes: tuple[Int32, ...] = ()


class OffsetFetchRequestTopics(MessagePart, frozen=True, kw_only=True):
    name: Annotated[String, In(until=9)] = ""
    topic_id: Annotated[Uuid, In(10)] = None
    partition_indexes: tuple[Int32, ...] = ()


class OffsetFetchRequestGroup(MessagePart, frozen=True, kw_only=True):
    group_id: String = ""
    member_id: Annotated[NullableString, In(9)] = None
    member_epoch: Annotated[Int32, In(9)] = -1
    topics: tuple[OffsetFetchRequestTopics, ...] | None = None


class OffsetFetchRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.OFFSET_FETCH
    group_id: Annotated[String, In(until=7)] = ""
    topics: Annotated[tuple[OffsetFetchRequestTopic, ...] | None, In(until=7, null_since=2)] = None
    groups: Annotated[tuple[OffsetFetchRequestGroup, ...], In(8)] = ()
    require_stable: Annotated[Bool, In(7)] = False


class OffsetFetchResponsePartition(MessagePart, frozen=True, kw_only=True):
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Annotated[Int32, In(5)] = -1
    metadata: NullableString = None
    error_code: Error = ErrorCode.NONE


class OffsetFetchResponseTopic(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    partitions: tuple[OffsetFetchResponsePartition, ...] = ()


class OffsetFetchResponsePartitions(MessagePart, frozen=True, kw_only=True):
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = -1
    metadata: NullableString = None
    error_code: Error = ErrorCode.NONE


class OffsetFetchResponseTopics(MessagePart, frozen=True, kw_only=True):
    name: Annotated[String, In(until=9)] = ""
    topic_id: Annotated[Uuid, In(10)] = None
    partitions: tuple[OffsetFetchResponsePartitions, ...] = ()


class OffsetFetchResponseGroup(MessagePart, frozen=True, kw_only=True):
    group_id: String = ""
    topics: tuple[OffsetFetchResponseTopics, ...] = ()
    error_code: Error = ErrorCode.NONE


class OffsetFetchResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.OFFSET_FETCH
    throttle_time_ms: Annotated[Int32, In(3)] = 0
    topics: Annotated[tuple[OffsetFetchResponseTopic, ...], In(until=7)] = ()
    error_code: Annotated[Error, In(2, until=7)] = ErrorCode.NONE
    groups: Annotated[tuple[OffsetFetchResponseGroup, ...], In(8)] = ()


class FindCoordinatorRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.FIND_COORDINATOR
    key: Annotated[String, In(until=3)] = ""
    key_type: Annotated[Int8, In(1)] = 0
    coordinator_keys: Annotated[tuple[String, ...], In(4)] = ()


class FindCoordinatorCoordinator(MessagePart, frozen=True, kw_only=True):
    key: String = ""
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    error_code: Error = ErrorCode.NONE
    error_message: NullableString = None


class FindCoordinatorResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.FIND_COORDINATOR
    throttle_time_ms: Annotated[Int32, In(1)] = 0
    error_code: Annotated[Error, In(until=3)] = ErrorCode.NONE
    error_message: Annotated[NullableString, In(1, until=3)] = None
    node_id: Annotated[Int32, In(until=3)] = 0
    host: Annotated[String, In(until=3)] = ""
    port: Annotated[Int32, In(until=3)] = 0
    coordinators: Annotated[tuple[FindCoordinatorCoordinator, ...], In(4)] = ()


class JoinGroupRequestProtocol(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    metadata: Bytes = b""


class JoinGroupRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.JOIN_GROUP
    group_id: String = ""
    session_timeout_ms: Int32 = 0
    rebalance_timeout_ms: Annotated[Int32, In(1)] = -1
    member_id: String = ""
    group_instance_id: Annotated[NullableString, In(5)] = None
    protocol_type: String = ""
    protocols: tuple[JoinGroupRequestProtocol, ...] = ()
    reason: Annotated[NullableString, In(8)] = None


class JoinGroupResponseMember(MessagePart, frozen=True, kw_only=True):
    member_id: String = ""
    group_instance_id: Annotated[NullableString, In(5)] = None
    metadata: Bytes = b""


class JoinGroupResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.JOIN_GROUP
    throttle_time_ms: Annotated[Int32, In(2)] = 0
    error_code: Error = ErrorCode.NONE
    generation_id: Int32 = -1
    protocol_type: Annotated[NullableString, In(7)] = None
    protocol_name: Annotated[NullableString, In(null_since=7)] = None
    leader: String = ""
    skip_assignment: Annotated[Bool, In(9)] = False
    member_id: String = ""
    members: tuple[JoinGroupResponseMember, ...] = ()


class HeartbeatRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.HEARTBEAT
    group_id: String = ""
    generation_id: Int32 = 0
    member_id: String = ""
    group_instance_id: Annotated[NullableString, In(3)] = None


class HeartbeatResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.HEARTBEAT
    throttle_time_ms: Annotated[Int32, In(1)] = 0
    error_code: Error = ErrorCode.NONE


class LeaveGroupMemberIdentity(MessagePart, frozen=True, kw_only=True):
    member_id: String = ""
    group_instance_id: NullableString = None
    reason: Annotated[NullableString, In(5)] = None


class LeaveGroupRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.LEAVE_GROUP
    group_id: String = ""
    member_id: Annotated[String, In(until=2)] = ""
    members: Annotated[tuple[LeaveGroupMemberIdentity, ...], In(3)] = ()


class LeaveGroupMemberResponse(MessagePart, frozen=True, kw_only=True):
    member_id: String = ""
    group_instance_id: NullableString = None
    error_code: Error = ErrorCode.NONE


class LeaveGroupResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.LEAVE_GROUP
    throttle_time_ms: Annotated[Int32, In(1)] = 0
    error_code: Error = ErrorCode.NONE
    members: Annotated[tuple[LeaveGroupMemberResponse, ...], In(3)] = ()


class SyncGroupRequestAssignment(MessagePart, frozen=True, kw_only=True):
    member_id: String = ""
    assignment: Bytes = b""


class SyncGroupRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.SYNC_GROUP
    group_id: String = ""
    generation_id: Int32 = 0
    member_id: String = ""
    group_instance_id: Annotated[NullableString, In(3)] = None
    protocol_type: Annotated[NullableString, In(5)] = None
    protocol_name: Annotated[NullableString, In(5)] = None
    assignments: tuple[SyncGroupRequestAssignment, ...] = ()


class SyncGroupResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.SYNC_GROUP
    throttle_time_ms: Annotated[Int32, In(1)] = 0
    error_code: Error = ErrorCode.NONE
    protocol_type: Annotated[NullableString, In(5)] = None
    protocol_name: Annotated[NullableString, In(5)] = None
    assignment: Bytes = b""


class DescribeGroupsRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.DESCRIBE_GROUPS
    groups: tuple[String, ...] = ()
    include_authorized_operations: Annotated[Bool, In(3)] = False


class DescribeGroupsDescribedGroupMember(MessagePart, frozen=True, kw_only=True):
    member_id: String = ""
    group_instance_id: Annotated[NullableString, In(4)] = None
    client_id: String = ""
    client_host: String = ""
    member_metadata: Bytes = b""
    member_assignment: Bytes = b""


class DescribeGroupsDescribedGroup(MessagePart, frozen=True, kw_only=True):
    error_code: Error = ErrorCode.NONE
    error_message: Annotated[NullableString, In(6)] = None
    group_id: String = ""
    group_state: String = ""
    protocol_type: String = ""
    protocol_data: String = ""
    members: tuple[DescribeGroupsDescribedGroupMember, ...] = ()
    authorized_operations: Annotated[Int32, In(3)] = -2147483648


class DescribeGroupsResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.DESCRIBE_GROUPS
    throttle_time_ms: Annotated[Int32, In(1)] = 0
    groups: tuple[DescribeGroupsDescribedGroup, ...] = ()


class ListGroupsRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.LIST_GROUPS
    states_filter: Annotated[tuple[String, ...], In(4)] = ()
    types_filter: Annotated[tuple[String, ...], In(5)] = ()


class ListGroupsListedGroup(MessagePart, frozen=True, kw_only=True):
    group_id: String = ""
    protocol_type: String = ""
    group_state: Annotated[String, In(4)] = ""
    group_type: Annotated[String, In(5)] = ""


class ListGroupsResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.LIST_GROUPS
    throttle_time_ms: Annotated[Int32, In(1)] = 0
    error_code: Error = ErrorCode.NONE
    groups: tuple[ListGroupsListedGroup, ...] = ()


class SaslHandshakeRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.SASL_HANDSHAKE
    mechanism: String = ""


class SaslHandshakeResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.SASL_HANDSHAKE
    error_code: Error = ErrorCode.NONE
    mechanisms: tuple[String, ...] = ()


class ApiVersionsRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.API_VERSIONS
    client_software_name: Annotated[String, In(3)] = ""
    client_software_version: Annotated[String, In(3)] = ""


class ApiVersionsApiVersion(MessagePart, frozen=True, kw_only=True):
    api_key: Int16 = 0
    min_version: Int16 = 0
    max_version: Int16 = 0


class ApiVersionsSupportedFeatureKey(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    min_version: Int16 = 0
    max_version: Int16 = 0


class ApiVersionsFinalizedFeatureKey(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    max_version_level: Int16 = 0
    min_version_level: Int16 = 0


class ApiVersionsResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.API_VERSIONS
    error_code: Error = ErrorCode.NONE
    api_keys: tuple[ApiVersionsApiVersion, ...] = ()
    throttle_time_ms: Annotated[Int32, In(1)] = 0
    supported_features: Annotated[tuple[ApiVersionsSupportedFeatureKey, ...], In(3, tag=0)] = ()
    finalized_features_epoch: Annotated[Int64, In(3, tag=1)] = -1
    finalized_features: Annotated[tuple[ApiVersionsFinalizedFeatureKey, ...], In(3, tag=2)] = ()
    zk_migration_ready: Annotated[Bool, In(3, tag=3)] = False


class CreateTopicsCreatableReplicaAssignment(MessagePart, frozen=True, kw_only=True):
    partition_index: Int32 = 0
    broker_ids: tuple[Int32, ...] = ()


class CreateTopicsCreatableTopicConfig(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    value: NullableString = None


class CreateTopicsCreatableTopic(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    num_partitions: Int32 = 0
    replication_factor: Int16 = 0
    assignments: tuple[CreateTopicsCreatableReplicaAssignment, ...] = ()
    configs: tuple[CreateTopicsCreatableTopicConfig, ...] = ()


class CreateTopicsRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.CREATE_TOPICS
    topics: tuple[CreateTopicsCreatableTopic, ...] = ()
    timeout_ms: Int32 = 60000
    validate_only: Bool = False


class CreateTopicsCreatableTopicConfigs(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    value: NullableString = None
    read_only: Bool = False
    config_source: Int8 = -1
    is_sensitive: Bool = False


class CreateTopicsCreatableTopicResult(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    topic_id: Annotated[Uuid, In(7)] = None
    error_code: Error = ErrorCode.NONE
    error_message: NullableString = None
    topic_config_error_code: Annotated[Int16, In(5, tag=0)] = 0
    num_partitions: Annotated[Int32, In(5)] = -1
    replication_factor: Annotated[Int16, In(5)] = -1
    configs: Annotated[tuple[CreateTopicsCreatableTopicConfigs, ...] | None, In(5)] = None


class CreateTopicsResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.CREATE_TOPICS
    throttle_time_ms: Int32 = 0
    topics: tuple[CreateTopicsCreatableTopicResult, ...] = ()


class DeleteTopicsDeleteTopicState(MessagePart, frozen=True, kw_only=True):
    name: NullableString = None
    topic_id: Uuid = None


class DeleteTopicsRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.DELETE_TOPICS
    topic_names: Annotated[tuple[String, ...], In(until=5)] = ()
    topics: Annotated[tuple[DeleteTopicsDeleteTopicState, ...], In(6)] = ()
    timeout_ms: Int32 = 0


class DeleteTopicsDeletableTopicResult(MessagePart, frozen=True, kw_only=True):
    name: Annotated[NullableString, In(null_since=6)] = None
    topic_id: Annotated[Uuid, In(6)] = None
    error_code: Error = ErrorCode.NONE
    error_message: Annotated[NullableString, In(5)] = None


class DeleteTopicsResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.DELETE_TOPICS
    throttle_time_ms: Int32 = 0
    responses: tuple[DeleteTopicsDeletableTopicResult, ...] = ()


class DeleteRecordsPartition(MessagePart, frozen=True, kw_only=True):
    partition_index: Int32 = 0
    offset: Int64 = 0


class DeleteRecordsTopic(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    partitions: tuple[DeleteRecordsPartition, ...] = ()


class DeleteRecordsRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.DELETE_RECORDS
    topics: tuple[DeleteRecordsTopic, ...] = ()
    timeout_ms: Int32 = 0


class DeleteRecordsPartitionResult(MessagePart, frozen=True, kw_only=True):
    partition_index: Int32 = 0
    low_watermark: Int64 = 0
    error_code: Error = ErrorCode.NONE


class DeleteRecordsTopicResult(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    partitions: tuple[DeleteRecordsPartitionResult, ...] = ()


class DeleteRecordsResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.DELETE_RECORDS
    throttle_time_ms: Int32 = 0
    topics: tuple[DeleteRecordsTopicResult, ...] = ()


class InitProducerIdRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.INIT_PRODUCER_ID
    transactional_id: NullableString = None
    transaction_timeout_ms: Int32 = 0
    producer_id: Annotated[Int64, In(3)] = -1
    producer_epoch: Annotated[Int16, In(3)] = -1


class InitProducerIdResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.INIT_PRODUCER_ID
    throttle_time_ms: Int32 = 0
    error_code: Error = ErrorCode.NONE
    producer_id: Int64 = -1
    producer_epoch: Int16 = 0


class OffsetForLeaderEpochOffsetForLeaderPartition(MessagePart, frozen=True, kw_only=True):
    partition: Int32 = 0
    current_leader_epoch: Int32 = -1
    leader_epoch: Int32 = 0


class OffsetForLeaderEpochOffsetForLeaderTopic(MessagePart, frozen=True, kw_only=True):
    topic: String = ""
    partitions: tuple[OffsetForLeaderEpochOffsetForLeaderPartition, ...] = ()


class OffsetForLeaderEpochRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.OFFSET_FOR_LEADER_EPOCH
    replica_id: Annotated[Int32, In(3)] = -2
    topics: tuple[OffsetForLeaderEpochOffsetForLeaderTopic, ...] = ()


class OffsetForLeaderEpochEpochEndOffset(MessagePart, frozen=True, kw_only=True):
    error_code: Error = ErrorCode.NONE
    partition: Int32 = 0
    leader_epoch: Int32 = -1
    end_offset: Int64 = -1


class OffsetForLeaderEpochOffsetForLeaderTopicResult(MessagePart, frozen=True, kw_only=True):
    topic: String = ""
    partitions: tuple[OffsetForLeaderEpochEpochEndOffset, ...] = ()


class OffsetForLeaderEpochResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.OFFSET_FOR_LEADER_EPOCH
    throttle_time_ms: Int32 = 0
    topics: tuple[OffsetForLeaderEpochOffsetForLeaderTopicResult, ...] = ()


class AddPartitionsToTxnTopic(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    partitions: tuple[Int32, ...] = ()


class AddPartitionsToTxnTransaction(MessagePart, frozen=True, kw_only=True):
    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    verify_only: Bool = False
    topics: tuple[AddPartitionsToTxnTopic, ...] = ()


class AddPartitionsToTxnRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.ADD_PARTITIONS_TO_TXN
    v3_and_below_transactional_id: Annotated[String, In(until=3)] = ""
    v3_and_below_producer_id: Annotated[Int64, In(until=3)] = 0
    v3_and_below_producer_epoch: Annotated[Int16, In(until=3)] = 0
    v3_and_below_topics: Annotated[tuple[AddPartitionsToTxnTopic, ...], In(until=3)] = ()
    transactions: Annotated[tuple[AddPartitionsToTxnTransaction, ...], In(4)] = ()


class AddPartitionsToTxnPartitionResult(MessagePart, frozen=True, kw_only=True):
    partition_index: Int32 = 0
    partition_error_code: Error = ErrorCode.NONE


class AddPartitionsToTxnTopicResult(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    results_by_partition: tuple[AddPartitionsToTxnPartitionResult, ...] = ()


class AddPartitionsToTxnResult(MessagePart, frozen=True, kw_only=True):
    transactional_id: String = ""
    topic_results: tuple[AddPartitionsToTxnTopicResult, ...] = ()


class AddPartitionsToTxnResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.ADD_PARTITIONS_TO_TXN
    throttle_time_ms: Int32 = 0
    results_by_topic_v3_and_below: Annotated[tuple[AddPartitionsToTxnTopicResult, ...], In(until=3)] = ()
    error_code: Annotated[Error, In(4)] = ErrorCode.NONE
    results_by_transaction: Annotated[tuple[AddPartitionsToTxnResult, ...], In(4)] = ()


class AddOffsetsToTxnRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.ADD_OFFSETS_TO_TXN
    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    group_id: String = ""


class AddOffsetsToTxnResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.ADD_OFFSETS_TO_TXN
    throttle_time_ms: Int32 = 0
    error_code: Error = ErrorCode.NONE


class EndTxnRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.END_TXN
    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    committed: Bool = False


class EndTxnResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.END_TXN
    throttle_time_ms: Int32 = 0
    error_code: Error = ErrorCode.NONE
    producer_id: Annotated[Int64, In(5)] = -1
    producer_epoch: Annotated[Int16, In(5)] = -1


class WriteTxnMarkersWritableTxnMarkerTopic(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    partition_indexes: tuple[Int32, ...] = ()
    leader_epochs: Annotated[tuple[Int32, ...], In(1, tag=10_000)] = ()


class WriteTxnMarkersWritableTxnMarker(MessagePart, frozen=True, kw_only=True):
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    transaction_result: Bool = False
    topics: tuple[WriteTxnMarkersWritableTxnMarkerTopic, ...] = ()
    coordinator_epoch: Int32 = 0
    transaction_version: Annotated[Int8, In(2)] = 0
    attempt: Annotated[Int64, In(1, tag=10_000)] = -1


class WriteTxnMarkersRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.WRITE_TXN_MARKERS
    markers: tuple[WriteTxnMarkersWritableTxnMarker, ...] = ()


class WriteTxnMarkersWritableTxnMarkerPartitionResult(MessagePart, frozen=True, kw_only=True):
    partition_index: Int32 = 0
    error_code: Error = ErrorCode.NONE


class WriteTxnMarkersWritableTxnMarkerTopicResult(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    partitions: tuple[WriteTxnMarkersWritableTxnMarkerPartitionResult, ...] = ()


class WriteTxnMarkersWritableTxnMarkerResult(MessagePart, frozen=True, kw_only=True):
    producer_id: Int64 = 0
    topics: tuple[WriteTxnMarkersWritableTxnMarkerTopicResult, ...] = ()


class WriteTxnMarkersResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.WRITE_TXN_MARKERS
    markers: tuple[WriteTxnMarkersWritableTxnMarkerResult, ...] = ()


class TxnOffsetCommitRequestPartition(MessagePart, frozen=True, kw_only=True):
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Annotated[Int32, In(2)] = -1
    committed_metadata: NullableString = None


class TxnOffsetCommitRequestTopic(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    partitions: tuple[TxnOffsetCommitRequestPartition, ...] = ()


class TxnOffsetCommitRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.TXN_OFFSET_COMMIT
    transactional_id: String = ""
    group_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    generation_id: Annotated[Int32, In(3)] = -1
    member_id: Annotated[String, In(3)] = ""
    group_instance_id: Annotated[NullableString, In(3)] = None
    topics: tuple[TxnOffsetCommitRequestTopic, ...] = ()


class TxnOffsetCommitResponsePartition(MessagePart, frozen=True, kw_only=True):
    partition_index: Int32 = 0
    error_code: Error = ErrorCode.NONE


class TxnOffsetCommitResponseTopic(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    partitions: tuple[TxnOffsetCommitResponsePartition, ...] = ()


class TxnOffsetCommitResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.TXN_OFFSET_COMMIT
    throttle_time_ms: Int32 = 0
    topics: tuple[TxnOffsetCommitResponseTopic, ...] = ()


class DescribeAclsRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.DESCRIBE_ACLS
    resource_type_filter: Int8 = 0
    resource_name_filter: NullableString = None
    pattern_type_filter: Int8 = 3
    principal_filter: NullableString = None
    host_filter: NullableString = None
    operation: Int8 = 0
    permission_type: Int8 = 0


class DescribeAclsAclDescription(MessagePart, frozen=True, kw_only=True):
    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class DescribeAclsResource(MessagePart, frozen=True, kw_only=True):
    resource_type: Int8 = 0
    resource_name: String = ""
    pattern_type: Int8 = 3
    acls: tuple[DescribeAclsAclDescription, ...] = ()


class DescribeAclsResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.DESCRIBE_ACLS
    throttle_time_ms: Int32 = 0
    error_code: Error = ErrorCode.NONE
    error_message: NullableString = None
    resources: tuple[DescribeAclsResource, ...] = ()


class CreateAclsAclCreation(MessagePart, frozen=True, kw_only=True):
    resource_type: Int8 = 0
    resource_name: String = ""
    resource_pattern_type: Int8 = 3
    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class CreateAclsRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.CREATE_ACLS
    creations: tuple[CreateAclsAclCreation, ...] = ()


class CreateAclsAclCreationResult(MessagePart, frozen=True, kw_only=True):
    error_code: Error = ErrorCode.NONE
    error_message: NullableString = None


class CreateAclsResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.CREATE_ACLS
    throttle_time_ms: Int32 = 0
    results: tuple[CreateAclsAclCreationResult, ...] = ()


class DeleteAclsFilter(MessagePart, frozen=True, kw_only=True):
    resource_type_filter: Int8 = 0
    resource_name_filter: NullableString = None
    pattern_type_filter: Int8 = 3
    principal_filter: NullableString = None
    host_filter: NullableString = None
    operation: Int8 = 0
    permission_type: Int8 = 0


class DeleteAclsRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.DELETE_ACLS
    filters: tuple[DeleteAclsFilter, ...] = ()


class DeleteAclsMatchingAcl(MessagePart, frozen=True, kw_only=True):
    error_code: Error = ErrorCode.NONE
    error_message: NullableString = None
    resource_type: Int8 = 0
    resource_name: String = ""
    pattern_type: Int8 = 3
    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class DeleteAclsFilterResult(MessagePart, frozen=True, kw_only=True):
    error_code: Error = ErrorCode.NONE
    error_message: NullableString = None
    matching_acls: tuple[DeleteAclsMatchingAcl, ...] = ()


class DeleteAclsResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.DELETE_ACLS
    throttle_time_ms: Int32 = 0
    filter_results: tuple[DeleteAclsFilterResult, ...] = ()


class DescribeConfigsResource(MessagePart, frozen=True, kw_only=True):
    resource_type: Int8 = 0
    resource_name: String = ""
    configuration_keys: tuple[String, ...] | None = ()


class DescribeConfigsRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.DESCRIBE_CONFIGS
    resources: tuple[DescribeConfigsResource, ...] = ()
    include_synonyms: Bool = False
    include_documentation: Annotated[Bool, In(3)] = False


class DescribeConfigsSynonym(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    value: NullableString = None
    source: Int8 = 0


class DescribeConfigsResourceResult(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    value: NullableString = None
    read_only: Bool = False
    config_source: Int8 = -1
    is_sensitive: Bool = False
    synonyms: tuple[DescribeConfigsSynonym, ...] = ()
    config_type: Annotated[Int8, In(3)] = 0
    documentation: Annotated[NullableString, In(3)] = None


class DescribeConfigsResult(MessagePart, frozen=True, kw_only=True):
    error_code: Error = ErrorCode.NONE
    error_message: NullableString = None
    resource_type: Int8 = 0
    resource_name: String = ""
    configs: tuple[DescribeConfigsResourceResult, ...] = ()


class DescribeConfigsResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.DESCRIBE_CONFIGS
    throttle_time_ms: Int32 = 0
    results: tuple[DescribeConfigsResult, ...] = ()


class AlterConfigsAlterableConfig(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    value: NullableString = None


class AlterConfigsResource(MessagePart, frozen=True, kw_only=True):
    resource_type: Int8 = 0
    resource_name: String = ""
    configs: tuple[AlterConfigsAlterableConfig, ...] = ()


class AlterConfigsRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.ALTER_CONFIGS
    resources: tuple[AlterConfigsResource, ...] = ()
    validate_only: Bool = False


class AlterConfigsResourceResponse(MessagePart, frozen=True, kw_only=True):
    error_code: Error = ErrorCode.NONE
    error_message: NullableString = None
    resource_type: Int8 = 0
    resource_name: String = ""


class AlterConfigsResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.ALTER_CONFIGS
    throttle_time_ms: Int32 = 0
    responses: tuple[AlterConfigsResourceResponse, ...] = ()


class DescribeLogDirsDescribableLogDirTopic(MessagePart, frozen=True, kw_only=True):
    topic: String = ""
    partitions: tuple[Int32, ...] = ()


class DescribeLogDirsRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.DESCRIBE_LOG_DIRS
    topics: tuple[DescribeLogDirsDescribableLogDirTopic, ...] | None = None


class DescribeLogDirsPartition(MessagePart, frozen=True, kw_only=True):
    partition_index: Int32 = 0
    partition_size: Int64 = 0
    offset_lag: Int64 = 0
    is_future_key: Bool = False


class DescribeLogDirsTopic(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    partitions: tuple[DescribeLogDirsPartition, ...] = ()


class DescribeLogDirsResult(MessagePart, frozen=True, kw_only=True):
    error_code: Error = ErrorCode.NONE
    log_dir: String = ""
    topics: tuple[DescribeLogDirsTopic, ...] = ()
    total_bytes: Annotated[Int64, In(4)] = -1
    usable_bytes: Annotated[Int64, In(4)] = -1
    is_cordoned: Annotated[Bool, In(5)] = False


class DescribeLogDirsResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.DESCRIBE_LOG_DIRS
    throttle_time_ms: Int32 = 0
    error_code: Annotated[Error, In(3)] = ErrorCode.NONE
    results: tuple[DescribeLogDirsResult, ...] = ()


class SaslAuthenticateRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.SASL_AUTHENTICATE
    auth_bytes: Bytes = b""


class SaslAuthenticateResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.SASL_AUTHENTICATE
    error_code: Error = ErrorCode.NONE
    error_message: NullableString = None
    auth_bytes: Bytes = b""
    session_lifetime_ms: Annotated[Int64, In(1)] = 0


class CreatePartitionsAssignment(MessagePart, frozen=True, kw_only=True):
    broker_ids: tuple[Int32, ...] = ()


class CreatePartitionsTopic(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    count: Int32 = 0
    assignments: tuple[CreatePartitionsAssignment, ...] | None = None


class CreatePartitionsRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.CREATE_PARTITIONS
    topics: tuple[CreatePartitionsTopic, ...] = ()
    timeout_ms: Int32 = 0
    validate_only: Bool = False


class CreatePartitionsTopicResult(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    error_code: Error = ErrorCode.NONE
    error_message: NullableString = None


class CreatePartitionsResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.CREATE_PARTITIONS
    throttle_time_ms: Int32 = 0
    results: tuple[CreatePartitionsTopicResult, ...] = ()


class DeleteGroupsRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.DELETE_GROUPS
    groups_names: tuple[String, ...] = ()


class DeleteGroupsDeletableGroupResult(MessagePart, frozen=True, kw_only=True):
    group_id: String = ""
    error_code: Error = ErrorCode.NONE


class DeleteGroupsResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.DELETE_GROUPS
    throttle_time_ms: Int32 = 0
    results: tuple[DeleteGroupsDeletableGroupResult, ...] = ()


class ElectLeadersTopicPartitions(MessagePart, frozen=True, kw_only=True):
    topic: String = ""
    partitions: tuple[Int32, ...] = ()


class ElectLeadersRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.ELECT_LEADERS
    election_type: Annotated[Int8, In(1)] = 0
    topic_partitions: tuple[ElectLeadersTopicPartitions, ...] | None = None
    timeout_ms: Int32 = 60000


class ElectLeadersPartitionResult(MessagePart, frozen=True, kw_only=True):
    partition_id: Int32 = 0
    error_code: Error = ErrorCode.NONE
    error_message: NullableString = None


class ElectLeadersReplicaElectionResult(MessagePart, frozen=True, kw_only=True):
    topic: String = ""
    partition_result: tuple[ElectLeadersPartitionResult, ...] = ()


class ElectLeadersResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.ELECT_LEADERS
    throttle_time_ms: Int32 = 0
    error_code: Annotated[Error, In(1)] = ErrorCode.NONE
    replica_election_results: tuple[ElectLeadersReplicaElectionResult, ...] = ()


class IncrementalAlterConfigsAlterableConfig(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    config_operation: Int8 = 0
    value: NullableString = None


class IncrementalAlterConfigsAlterConfigsResource(MessagePart, frozen=True, kw_only=True):
    resource_type: Int8 = 0
    resource_name: String = ""
    configs: tuple[IncrementalAlterConfigsAlterableConfig, ...] = ()


class IncrementalAlterConfigsRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.INCREMENTAL_ALTER_CONFIGS
    resources: tuple[IncrementalAlterConfigsAlterConfigsResource, ...] = ()
    validate_only: Bool = False


class IncrementalAlterConfigsAlterConfigsResourceResponse(MessagePart, frozen=True, kw_only=True):
    error_code: Error = ErrorCode.NONE
    error_message: NullableString = None
    resource_type: Int8 = 0
    resource_name: String = ""


class IncrementalAlterConfigsResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.INCREMENTAL_ALTER_CONFIGS
    throttle_time_ms: Int32 = 0
    responses: tuple[IncrementalAlterConfigsAlterConfigsResourceResponse, ...] = ()


class AlterPartitionReassignmentsReassignablePartition(MessagePart, frozen=True, kw_only=True):
    partition_index: Int32 = 0
    replicas: tuple[Int32, ...] | None = None


class AlterPartitionReassignmentsReassignableTopic(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    partitions: tuple[AlterPartitionReassignmentsReassignablePartition, ...] = ()


class AlterPartitionReassignmentsRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.ALTER_PARTITION_REASSIGNMENTS
    timeout_ms: Int32 = 60000
    allow_replication_factor_change: Annotated[Bool, In(1)] = True
    topics: tuple[AlterPartitionReassignmentsReassignableTopic, ...] = ()


class AlterPartitionReassignmentsReassignablePartitionResponse(MessagePart, frozen=True, kw_only=True):
    partition_index: Int32 = 0
    error_code: Error = ErrorCode.NONE
    error_message: NullableString = None


class AlterPartitionReassignmentsReassignableTopicResponse(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    partitions: tuple[AlterPartitionReassignmentsReassignablePartitionResponse, ...] = ()


class AlterPartitionReassignmentsResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.ALTER_PARTITION_REASSIGNMENTS
    throttle_time_ms: Int32 = 0
    allow_replication_factor_change: Annotated[Bool, In(1)] = True
    error_code: Error = ErrorCode.NONE
    error_message: NullableString = None
    responses: tuple[AlterPartitionReassignmentsReassignableTopicResponse, ...] = ()


class ListPartitionReassignmentsTopics(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    partition_indexes: tuple[Int32, ...] = ()


class ListPartitionReassignmentsRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.LIST_PARTITION_REASSIGNMENTS
    timeout_ms: Int32 = 60000
    topics: tuple[ListPartitionReassignmentsTopics, ...] | None = None


class ListPartitionReassignmentsOngoingPartitionReassignment(MessagePart, frozen=True, kw_only=True):
    partition_index: Int32 = 0
    replicas: tuple[Int32, ...] = ()
    adding_replicas: tuple[Int32, ...] = ()
    removing_replicas: tuple[Int32, ...] = ()


class ListPartitionReassignmentsOngoingTopicReassignment(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    partitions: tuple[ListPartitionReassignmentsOngoingPartitionReassignment, ...] = ()


class ListPartitionReassignmentsResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.LIST_PARTITION_REASSIGNMENTS
    throttle_time_ms: Int32 = 0
    error_code: Error = ErrorCode.NONE
    error_message: NullableString = None
    topics: tuple[ListPartitionReassignmentsOngoingTopicReassignment, ...] = ()


class OffsetDeleteRequestPartition(MessagePart, frozen=True, kw_only=True):
    partition_index: Int32 = 0


class OffsetDeleteRequestTopic(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    partitions: tuple[OffsetDeleteRequestPartition, ...] = ()


class OffsetDeleteRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.OFFSET_DELETE
    group_id: String = ""
    topics: tuple[OffsetDeleteRequestTopic, ...] = ()


class OffsetDeleteResponsePartition(MessagePart, frozen=True, kw_only=True):
    partition_index: Int32 = 0
    error_code: Error = ErrorCode.NONE


class OffsetDeleteResponseTopic(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    partitions: tuple[OffsetDeleteResponsePartition, ...] = ()


class OffsetDeleteResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.OFFSET_DELETE
    error_code: Error = ErrorCode.NONE
    throttle_time_ms: Int32 = 0
    topics: tuple[OffsetDeleteResponseTopic, ...] = ()


class DescribeClientQuotasComponentData(MessagePart, frozen=True, kw_only=True):
    entity_type: String = ""
    match_type: Int8 = 0
    match: NullableString = None


class DescribeClientQuotasRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.DESCRIBE_CLIENT_QUOTAS
    components: tuple[DescribeClientQuotasComponentData, ...] = ()
    strict: Bool = False


class DescribeClientQuotasEntityData(MessagePart, frozen=True, kw_only=True):
    entity_type: String = ""
    entity_name: NullableString = None


class DescribeClientQuotasValueData(MessagePart, frozen=True, kw_only=True):
    key: String = ""
    value: Float64 = 0.0


class DescribeClientQuotasEntryData(MessagePart, frozen=True, kw_only=True):
    entity: tuple[DescribeClientQuotasEntityData, ...] = ()
    values: tuple[DescribeClientQuotasValueData, ...] = ()


class DescribeClientQuotasResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.DESCRIBE_CLIENT_QUOTAS
    throttle_time_ms: Int32 = 0
    error_code: Error = ErrorCode.NONE
    error_message: NullableString = None
    entries: tuple[DescribeClientQuotasEntryData, ...] | None = None


class AlterClientQuotasEntityData(MessagePart, frozen=True, kw_only=True):
    entity_type: String = ""
    entity_name: NullableString = None


class AlterClientQuotasOpData(MessagePart, frozen=True, kw_only=True):
    key: String = ""
    value: Float64 = 0.0
    remove: Bool = False


class AlterClientQuotasEntryData(MessagePart, frozen=True, kw_only=True):
    entity: tuple[AlterClientQuotasEntityData, ...] = ()
    ops: tuple[AlterClientQuotasOpData, ...] = ()


class AlterClientQuotasRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.ALTER_CLIENT_QUOTAS
    entries: tuple[AlterClientQuotasEntryData, ...] = ()
    validate_only: Bool = False


class AlterClientQuotasResponseEntryDataEntityData(MessagePart, frozen=True, kw_only=True):
    entity_type: String = ""
    entity_name: NullableString = None


class AlterClientQuotasResponseEntryData(MessagePart, frozen=True, kw_only=True):
    error_code: Error = ErrorCode.NONE
    error_message: NullableString = None
    entity: tuple[AlterClientQuotasResponseEntryDataEntityData, ...] = ()


class AlterClientQuotasResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.ALTER_CLIENT_QUOTAS
    throttle_time_ms: Int32 = 0
    entries: tuple[AlterClientQuotasResponseEntryData, ...] = ()


class DescribeUserScramCredentialsUserName(MessagePart, frozen=True, kw_only=True):
    name: String = ""


class DescribeUserScramCredentialsRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS
    users: tuple[DescribeUserScramCredentialsUserName, ...] | None = None


class DescribeUserScramCredentialsCredentialInfo(MessagePart, frozen=True, kw_only=True):
    mechanism: Int8 = 0
    iterations: Int32 = 0


class DescribeUserScramCredentialsResult(MessagePart, frozen=True, kw_only=True):
    user: String = ""
    error_code: Error = ErrorCode.NONE
    error_message: NullableString = None
    credential_infos: tuple[DescribeUserScramCredentialsCredentialInfo, ...] = ()


class DescribeUserScramCredentialsResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS
    throttle_time_ms: Int32 = 0
    error_code: Error = ErrorCode.NONE
    error_message: NullableString = None
    results: tuple[DescribeUserScramCredentialsResult, ...] = ()


class AlterUserScramCredentialsScramCredentialDeletion(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    mechanism: Int8 = 0


class AlterUserScramCredentialsScramCredentialUpsertion(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    mechanism: Int8 = 0
    iterations: Int32 = 0
    salt: Bytes = b""
    salted_password: Bytes = b""


class AlterUserScramCredentialsRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.ALTER_USER_SCRAM_CREDENTIALS
    deletions: tuple[AlterUserScramCredentialsScramCredentialDeletion, ...] = ()
    upsertions: tuple[AlterUserScramCredentialsScramCredentialUpsertion, ...] = ()


class AlterUserScramCredentialsResult(MessagePart, frozen=True, kw_only=True):
    user: String = ""
    error_code: Error = ErrorCode.NONE
    error_message: NullableString = None


class AlterUserScramCredentialsResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.ALTER_USER_SCRAM_CREDENTIALS
    throttle_time_ms: Int32 = 0
    results: tuple[AlterUserScramCredentialsResult, ...] = ()


class UpdateFeaturesFeatureUpdateKey(MessagePart, frozen=True, kw_only=True):
    feature: String = ""
    max_version_level: Int16 = 0
    allow_downgrade: Annotated[Bool, In(until=0)] = False
    upgrade_type: Annotated[Int8, In(1)] = 1


class UpdateFeaturesRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.UPDATE_FEATURES
    timeout_ms: Int32 = 60000
    feature_updates: tuple[UpdateFeaturesFeatureUpdateKey, ...] = ()
    validate_only: Annotated[Bool, In(1)] = False


class UpdateFeaturesUpdatableFeatureResult(MessagePart, frozen=True, kw_only=True):
    feature: String = ""
    error_code: Error = ErrorCode.NONE
    error_message: NullableString = None


class UpdateFeaturesResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.UPDATE_FEATURES
    throttle_time_ms: Int32 = 0
    error_code: Error = ErrorCode.NONE
    error_message: NullableString = None
    results: Annotated[tuple[UpdateFeaturesUpdatableFeatureResult, ...], In(until=1)] = ()


class DescribeClusterRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.DESCRIBE_CLUSTER
    include_cluster_authorized_operations: Bool = False
    endpoint_type: Annotated[Int8, In(1)] = 1
    include_fenced_brokers: Annotated[Bool, In(2)] = False


class DescribeClusterBroker(MessagePart, frozen=True, kw_only=True):
    broker_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: NullableString = None
    is_fenced: Annotated[Bool, In(2)] = False


class DescribeClusterResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.DESCRIBE_CLUSTER
    throttle_time_ms: Int32 = 0
    error_code: Error = ErrorCode.NONE
    error_message: NullableString = None
    endpoint_type: Annotated[Int8, In(1)] = 1
    cluster_id: String = ""
    controller_id: Int32 = -1
    brokers: tuple[DescribeClusterBroker, ...] = ()
    cluster_authorized_operations: Int32 = -2147483648


class DescribeProducersTopicRequest(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    partition_indexes: tuple[Int32, ...] = ()


class DescribeProducersRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.DESCRIBE_PRODUCERS
    topics: tuple[DescribeProducersTopicRequest, ...] = ()


class DescribeProducersProducerState(MessagePart, frozen=True, kw_only=True):
    producer_id: Int64 = 0
    producer_epoch: Int32 = 0
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1
    coordinator_epoch: Int32 = 0
    current_txn_start_offset: Int64 = -1


class DescribeProducersPartitionResponse(MessagePart, frozen=True, kw_only=True):
    partition_index: Int32 = 0
    error_code: Error = ErrorCode.NONE
    error_message: NullableString = None
    active_producers: tuple[DescribeProducersProducerState, ...] = ()


class DescribeProducersTopicResponse(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    partitions: tuple[DescribeProducersPartitionResponse, ...] = ()


class DescribeProducersResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.DESCRIBE_PRODUCERS
    throttle_time_ms: Int32 = 0
    topics: tuple[DescribeProducersTopicResponse, ...] = ()


class DescribeTransactionsRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.DESCRIBE_TRANSACTIONS
    transactional_ids: tuple[String, ...] = ()


class DescribeTransactionsTopicData(MessagePart, frozen=True, kw_only=True):
    topic: String = ""
    partitions: tuple[Int32, ...] = ()


class DescribeTransactionsTransactionState(MessagePart, frozen=True, kw_only=True):
    error_code: Error = ErrorCode.NONE
    transactional_id: String = ""
    transaction_state: String = ""
    transaction_timeout_ms: Int32 = 0
    transaction_start_time_ms: Int64 = 0
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    topics: tuple[DescribeTransactionsTopicData, ...] = ()
    client_id: Annotated[String, In(0, tag=10_000)] = ""
    client_host: Annotated[String, In(0, tag=10_001)] = ""


class DescribeTransactionsResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.DESCRIBE_TRANSACTIONS
    throttle_time_ms: Int32 = 0
    transaction_states: tuple[DescribeTransactionsTransactionState, ...] = ()


class ListTransactionsRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.LIST_TRANSACTIONS
    state_filters: tuple[String, ...] = ()
    producer_id_filters: tuple[Int64, ...] = ()
    duration_filter: Annotated[Int64, In(1)] = -1
    transactional_id_pattern: Annotated[NullableString, In(2)] = None


class ListTransactionsTransactionState(MessagePart, frozen=True, kw_only=True):
    transactional_id: String = ""
    producer_id: Int64 = 0
    transaction_state: String = ""


class ListTransactionsResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.LIST_TRANSACTIONS
    throttle_time_ms: Int32 = 0
    error_code: Error = ErrorCode.NONE
    unknown_state_filters: tuple[String, ...] = ()
    transaction_states: tuple[ListTransactionsTransactionState, ...] = ()


class ConsumerGroupHeartbeatTopicPartitions(MessagePart, frozen=True, kw_only=True):
    topic_id: Uuid = None
    partitions: tuple[Int32, ...] = ()


class ConsumerGroupHeartbeatRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.CONSUMER_GROUP_HEARTBEAT
    group_id: String = ""
    member_id: String = ""
    member_epoch: Int32 = 0
    instance_id: NullableString = None
    rack_id: NullableString = None
    rebalance_timeout_ms: Int32 = -1
    subscribed_topic_names: tuple[String, ...] | None = None
    subscribed_topic_regex: Annotated[NullableString, In(1)] = None
    server_assignor: NullableString = None
    topic_partitions: tuple[ConsumerGroupHeartbeatTopicPartitions, ...] | None = None


class ConsumerGroupHeartbeatAssignmentTopicPartitions(MessagePart, frozen=True, kw_only=True):
    topic_id: Uuid = None
    partitions: tuple[Int32, ...] = ()


class ConsumerGroupHeartbeatAssignment(MessagePart, frozen=True, kw_only=True):
    topic_partitions: tuple[ConsumerGroupHeartbeatAssignmentTopicPartitions, ...] = ()


class ConsumerGroupHeartbeatResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.CONSUMER_GROUP_HEARTBEAT
    throttle_time_ms: Int32 = 0
    error_code: Error = ErrorCode.NONE
    error_message: NullableString = None
    member_id: NullableString = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: ConsumerGroupHeartbeatAssignment | None = None


class ConsumerGroupDescribeRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.CONSUMER_GROUP_DESCRIBE
    group_ids: tuple[String, ...] = ()
    include_authorized_operations: Bool = False


class ConsumerGroupDescribeTopicPartitions(MessagePart, frozen=True, kw_only=True):
    topic_id: Uuid = None
    topic_name: String = ""
    partitions: tuple[Int32, ...] = ()


class ConsumerGroupDescribeAssignment(MessagePart, frozen=True, kw_only=True):
    topic_partitions: tuple[ConsumerGroupDescribeTopicPartitions, ...] = ()


class ConsumerGroupDescribeMember(MessagePart, frozen=True, kw_only=True):
    member_id: String = ""
    instance_id: NullableString = None
    rack_id: NullableString = None
    member_epoch: Int32 = 0
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: tuple[String, ...] = ()
    subscribed_topic_regex: NullableString = None
    assignment: ConsumerGroupDescribeAssignment = ConsumerGroupDescribeAssignment()
    target_assignment: ConsumerGroupDescribeAssignment = ConsumerGroupDescribeAssignment()
    member_type: Annotated[Int8, In(1)] = -1


class ConsumerGroupDescribeDescribedGroup(MessagePart, frozen=True, kw_only=True):
    error_code: Error = ErrorCode.NONE
    error_message: NullableString = None
    group_id: String = ""
    group_state: String = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    assignor_name: String = ""
    members: tuple[ConsumerGroupDescribeMember, ...] = ()
    authorized_operations: Int32 = -2147483648


class ConsumerGroupDescribeResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.CONSUMER_GROUP_DESCRIBE
    throttle_time_ms: Int32 = 0
    groups: tuple[ConsumerGroupDescribeDescribedGroup, ...] = ()


class DescribeTopicPartitionsTopicRequest(MessagePart, frozen=True, kw_only=True):
    name: String = ""


class DescribeTopicPartitionsCursor(MessagePart, frozen=True, kw_only=True):
    topic_name: String = ""
    partition_index: Int32 = 0


class DescribeTopicPartitionsRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.DESCRIBE_TOPIC_PARTITIONS
    topics: tuple[DescribeTopicPartitionsTopicRequest, ...] = ()
    response_partition_limit: Int32 = 2000
    cursor: DescribeTopicPartitionsCursor | None = None


class DescribeTopicPartitionsResponsePartition(MessagePart, frozen=True, kw_only=True):
    error_code: Error = ErrorCode.NONE
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = -1
    replica_nodes: tuple[Int32, ...] = ()
    isr_nodes: tuple[Int32, ...] = ()
    eligible_leader_replicas: tuple[Int32, ...] | None = None
    last_known_elr: tuple[Int32, ...] | None = None
    offline_replicas: tuple[Int32, ...] = ()


class DescribeTopicPartitionsResponseTopic(MessagePart, frozen=True, kw_only=True):
    error_code: Error = ErrorCode.NONE
    name: NullableString = None
    topic_id: Uuid = None
    is_internal: Bool = False
    partitions: tuple[DescribeTopicPartitionsResponsePartition, ...] = ()
    topic_authorized_operations: Int32 = -2147483648


class DescribeTopicPartitionsResponseCursor(MessagePart, frozen=True, kw_only=True):
    topic_name: String = ""
    partition_index: Int32 = 0


class DescribeTopicPartitionsResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.DESCRIBE_TOPIC_PARTITIONS
    throttle_time_ms: Int32 = 0
    topics: tuple[DescribeTopicPartitionsResponseTopic, ...] = ()
    next_cursor: DescribeTopicPartitionsResponseCursor | None = None
