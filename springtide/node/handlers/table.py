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
    group_refusals,
    incremental_alter_configs,
    init_producer_id,
    list_partition_reassignments,
    metadata,
    sasl_authenticate,
    sasl_handshake,
)
from springtide.node.handlers.context import NodeContext
from springtide.node.handlers.dispatch import Handler, reads
from springtide.wire.apis import ApiKey
from springtide.wire.messages.alter_client_quotas import AlterClientQuotasRequest
from springtide.wire.messages.alter_configs import AlterConfigsRequest
from springtide.wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from springtide.wire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from springtide.wire.messages.api_versions import ApiVersionsRequest
from springtide.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from springtide.wire.messages.create_acls import CreateAclsRequest
from springtide.wire.messages.create_partitions import CreatePartitionsRequest
from springtide.wire.messages.create_topics import CreateTopicsRequest
from springtide.wire.messages.delete_acls import DeleteAclsRequest
from springtide.wire.messages.delete_topics import DeleteTopicsRequest
from springtide.wire.messages.describe_acls import DescribeAclsRequest
from springtide.wire.messages.describe_client_quotas import DescribeClientQuotasRequest
from springtide.wire.messages.describe_cluster import DescribeClusterRequest
from springtide.wire.messages.describe_configs import DescribeConfigsRequest
from springtide.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from springtide.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from springtide.wire.messages.elect_leaders import ElectLeadersRequest
from springtide.wire.messages.find_coordinator import FindCoordinatorRequest
from springtide.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from springtide.wire.messages.init_producer_id import InitProducerIdRequest
from springtide.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from springtide.wire.messages.metadata import MetadataRequest
from springtide.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from springtide.wire.messages.sasl_handshake import SaslHandshakeRequest

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
    ApiKey.DESCRIBE_CLUSTER: reads(DescribeClusterRequest, describe_cluster.handle),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: reads(
        ConsumerGroupHeartbeatRequest, group_refusals.refuse_consumer_protocol
    ),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: reads(DescribeTopicPartitionsRequest, describe_topic_partitions.handle),
}
