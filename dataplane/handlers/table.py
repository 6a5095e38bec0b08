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
)
from dataplane.handlers.context import BrokerContext
from springtide.node.handlers import group_refusals
from springtide.node.handlers.dispatch import Handler
from springtide.node.handlers.table import SHARED_HANDLERS
from springtide.wire.apis import ApiKey

HANDLERS: dict[int, Handler[BrokerContext]] = {
    **SHARED_HANDLERS,
    ApiKey.PRODUCE: produce.handle,
    ApiKey.FETCH: fetch.handle,
    ApiKey.FIND_COORDINATOR: find_coordinator.handle,
    ApiKey.LIST_OFFSETS: list_offsets.handle,
    ApiKey.OFFSET_COMMIT: group_refusals.refuse_on_broker,
    ApiKey.OFFSET_FETCH: groups.offset_fetch,
    ApiKey.JOIN_GROUP: group_refusals.refuse_on_broker,
    ApiKey.HEARTBEAT: group_refusals.refuse_on_broker,
    ApiKey.LEAVE_GROUP: group_refusals.refuse_on_broker,
    ApiKey.SYNC_GROUP: group_refusals.refuse_on_broker,
    ApiKey.DESCRIBE_GROUPS: groups.describe_groups,
    ApiKey.LIST_GROUPS: groups.list_groups,
    ApiKey.DELETE_RECORDS: delete_records.handle,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: offset_for_leader_epoch.handle,
    ApiKey.DESCRIBE_LOG_DIRS: describe_log_dirs.handle,
    ApiKey.DELETE_GROUPS: group_refusals.refuse_on_broker,
    ApiKey.OFFSET_DELETE: group_refusals.refuse_on_broker,
    ApiKey.DESCRIBE_PRODUCERS: describe_producers.handle,
}
