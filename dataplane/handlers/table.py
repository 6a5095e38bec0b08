"""The one table of what a broker answers."""

from __future__ import annotations

from dataplane.handlers import (
    delete_records,
    describe_log_dirs,
    describe_producers,
    fetch,
    list_offsets,
    offset_for_leader_epoch,
    produce,
)
from dataplane.handlers.context import BrokerContext
from springtide.node.handlers import (
    alter_configs,
    alter_partition_reassignments,
    api_versions,
    create_partitions,
    create_topics,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_topic_partitions,
    elect_leaders,
    find_coordinator,
    group_refusals,
    incremental_alter_configs,
    init_producer_id,
    list_partition_reassignments,
    metadata,
)
from springtide.node.handlers.dispatch import Handler
from springtide.wire.apis import ApiKey

HANDLERS: dict[int, Handler[BrokerContext]] = {
    ApiKey.PRODUCE: produce.handle,
    ApiKey.FETCH: fetch.handle,
    ApiKey.LIST_OFFSETS: list_offsets.handle,
    ApiKey.METADATA: metadata.handle,
    ApiKey.OFFSET_COMMIT: group_refusals.refuse_on_broker,
    ApiKey.OFFSET_FETCH: group_refusals.refuse_on_broker,
    ApiKey.FIND_COORDINATOR: find_coordinator.handle,
    ApiKey.JOIN_GROUP: group_refusals.refuse_on_broker,
    ApiKey.HEARTBEAT: group_refusals.refuse_on_broker,
    ApiKey.LEAVE_GROUP: group_refusals.refuse_on_broker,
    ApiKey.SYNC_GROUP: group_refusals.refuse_on_broker,
    ApiKey.DESCRIBE_GROUPS: group_refusals.refuse_on_broker,
    ApiKey.LIST_GROUPS: group_refusals.list_none,
    ApiKey.API_VERSIONS: api_versions.handle,
    ApiKey.CREATE_TOPICS: create_topics.handle,
    ApiKey.DELETE_TOPICS: delete_topics.handle,
    ApiKey.DELETE_RECORDS: delete_records.handle,
    ApiKey.INIT_PRODUCER_ID: init_producer_id.handle,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: offset_for_leader_epoch.handle,
    ApiKey.DESCRIBE_CONFIGS: describe_configs.handle,
    ApiKey.ALTER_CONFIGS: alter_configs.handle,
    ApiKey.DESCRIBE_LOG_DIRS: describe_log_dirs.handle,
    ApiKey.CREATE_PARTITIONS: create_partitions.handle,
    ApiKey.DELETE_GROUPS: group_refusals.refuse_on_broker,
    ApiKey.ELECT_LEADERS: elect_leaders.handle,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: incremental_alter_configs.handle,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: alter_partition_reassignments.handle,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: list_partition_reassignments.handle,
    ApiKey.OFFSET_DELETE: group_refusals.refuse_on_broker,
    ApiKey.DESCRIBE_CLUSTER: describe_cluster.handle,
    ApiKey.DESCRIBE_PRODUCERS: describe_producers.handle,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: describe_topic_partitions.handle,
}
