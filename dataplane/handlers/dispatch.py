"""From a frame to its handler: the one table of what this broker answers.

An API or version that is not advertised ends the connection, for the client would not understand any
answer; but for ApiVersions, where the client can't know our versions yet (KIP-511).
"""

from __future__ import annotations

from dataplane.handlers import (
    alter_partition_reassignments,
    api_versions,
    create_partitions,
    create_topics,
    delete_topics,
    describe_configs,
    describe_log_dirs,
    describe_producers,
    elect_leaders,
    fetch,
    find_coordinator,
    incremental_alter_configs,
    init_producer_id,
    list_offsets,
    list_partition_reassignments,
    metadata,
    offset_for_leader_epoch,
    produce,
)
from dataplane.handlers.context import BrokerContext, Handler, Request
from dataplane.shell.clock import Clock
from dataplane.shell.connection import Answer, Connection, Dispatch
from dataplane.wire.apis import ApiKey, UnsupportedApi
from dataplane.wire.headers import decode_request_header

HANDLERS: dict[int, Handler] = {
    ApiKey.PRODUCE: produce.handle,
    ApiKey.FETCH: fetch.handle,
    ApiKey.LIST_OFFSETS: list_offsets.handle,
    ApiKey.METADATA: metadata.handle,
    ApiKey.FIND_COORDINATOR: find_coordinator.handle,
    ApiKey.API_VERSIONS: api_versions.handle,
    ApiKey.CREATE_TOPICS: create_topics.handle,
    ApiKey.DELETE_TOPICS: delete_topics.handle,
    ApiKey.INIT_PRODUCER_ID: init_producer_id.handle,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: offset_for_leader_epoch.handle,
    ApiKey.DESCRIBE_CONFIGS: describe_configs.handle,
    ApiKey.DESCRIBE_LOG_DIRS: describe_log_dirs.handle,
    ApiKey.CREATE_PARTITIONS: create_partitions.handle,
    ApiKey.ELECT_LEADERS: elect_leaders.handle,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: incremental_alter_configs.handle,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: alter_partition_reassignments.handle,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: list_partition_reassignments.handle,
    ApiKey.DESCRIBE_PRODUCERS: describe_producers.handle,
}


def make_dispatch(context: BrokerContext, clock: Clock) -> Dispatch:
    """The function that connections call with each frame. Raises MalformedRequest or UnsupportedApi."""
    requests = context.counters.requests
    mono_ms = clock.mono_ms

    def dispatch(connection: Connection, frame: memoryview, answer: Answer) -> None:
        try:
            api_key, api_version, correlation_id, client_id, body_position = decode_request_header(frame)
        except UnsupportedApi as error:
            if not error.is_api_versions:
                raise
            answer.complete(api_versions.refuse_version(error.correlation_id))
            return
        requests[api_key] = requests.get(api_key, 0) + 1
        connection.client_id = client_id
        HANDLERS[api_key](
            context,
            Request(
                api_key=api_key,
                api_version=api_version,
                correlation_id=correlation_id,
                frame=frame,
                body_position=body_position,
                answer=answer,
                now_ms=mono_ms(),
            ),
        )

    return dispatch
