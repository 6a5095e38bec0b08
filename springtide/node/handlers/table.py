"""What every node answers alike, broker or coordinator."""

from __future__ import annotations

from springtide.node.handlers import (
    alter_client_quotas,
    alter_configs,
    alter_partition_reassignments,
    alter_user_scram_credentials,
    api_versions,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_topic_partitions,
    describe_user_scram_credentials,
    elect_leaders,
    find_coordinator,
    incremental_alter_configs,
    init_producer_id,
    list_partition_reassignments,
    metadata,
    sasl_authenticate,
    sasl_handshake,
    update_features,
)
from springtide.node.handlers.context import NodeContext
from springtide.node.handlers.dispatch import Handler, reads
from springtide.wire.apis import ApiKey
from springtide.wire.messages import (
    AlterClientQuotasRequest,
    AlterConfigsRequest,
    AlterPartitionReassignmentsRequest,
    AlterUserScramCredentialsRequest,
    ApiVersionsRequest,
    CreateAclsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteAclsRequest,
    DeleteTopicsRequest,
    DescribeAclsRequest,
    DescribeClientQuotasRequest,
    DescribeClusterRequest,
    DescribeConfigsRequest,
    DescribeTopicPartitionsRequest,
    DescribeUserScramCredentialsRequest,
    ElectLeadersRequest,
    FindCoordinatorRequest,
    IncrementalAlterConfigsRequest,
    InitProducerIdRequest,
    ListPartitionReassignmentsRequest,
    MetadataRequest,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
    UpdateFeaturesRequest,
)

SHARED_HANDLERS: dict[int, Handler[NodeContext]] = {
    ApiKey.METADATA: reads(MetadataRequest, metadata.handle),
    ApiKey.FIND_COORDINATOR: reads(FindCoordinatorRequest, find_coordinator.handle),
    ApiKey.SASL_HANDSHAKE: reads(SaslHandshakeRequest, sasl_handshake.handle),
    ApiKey.API_VERSIONS: reads(ApiVersionsRequest, api_versions.handle),
    ApiKey.CREATE_TOPICS: reads(CreateTopicsRequest, create_topics.handle),
    ApiKey.DELETE_TOPICS: reads(DeleteTopicsRequest, delete_topics.handle),
    ApiKey.INIT_PRODUCER_ID: reads(InitProducerIdRequest, init_producer_id.handle),
    ApiKey.DESCRIBE_ACLS: reads(DescribeAclsRequest, describe_acls.handle),
    ApiKey.CREATE_ACLS: reads(CreateAclsRequest, create_acls.handle),
    ApiKey.DELETE_ACLS: reads(DeleteAclsRequest, delete_acls.handle),
    ApiKey.DESCRIBE_CONFIGS: reads(DescribeConfigsRequest, describe_configs.handle),
    ApiKey.ALTER_CONFIGS: reads(AlterConfigsRequest, alter_configs.handle),
    ApiKey.SASL_AUTHENTICATE: reads(SaslAuthenticateRequest, sasl_authenticate.handle),
    ApiKey.CREATE_PARTITIONS: reads(CreatePartitionsRequest, create_partitions.handle),
    ApiKey.ELECT_LEADERS: reads(ElectLeadersRequest, elect_leaders.handle),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: reads(IncrementalAlterConfigsRequest, incremental_alter_configs.handle),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: reads(
        AlterPartitionReassignmentsRequest, alter_partition_reassignments.handle
    ),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: reads(
        ListPartitionReassignmentsRequest, list_partition_reassignments.handle
    ),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: reads(DescribeClientQuotasRequest, describe_client_quotas.handle),
    ApiKey.ALTER_CLIENT_QUOTAS: reads(AlterClientQuotasRequest, alter_client_quotas.handle),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: reads(
        DescribeUserScramCredentialsRequest, describe_user_scram_credentials.handle
    ),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: reads(
        AlterUserScramCredentialsRequest, alter_user_scram_credentials.handle
    ),
    ApiKey.UPDATE_FEATURES: reads(UpdateFeaturesRequest, update_features.handle),
    ApiKey.DESCRIBE_CLUSTER: reads(DescribeClusterRequest, describe_cluster.handle),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: reads(DescribeTopicPartitionsRequest, describe_topic_partitions.handle),
}
