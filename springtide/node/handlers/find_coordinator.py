"""FindCoordinator: the coordinator that owns the shard of a group, or of a transactional id (KIP-699: several
groups a request).

While there is none: COORDINATOR_NOT_AVAILABLE, on which every client waits and asks again, with a message
that says why. No client shows that message, and consumers would wait for ever where there never was a
coordinator: there a broker is named, which refuses all requests about a group (group_refusals). An error
here would reach those, too, that have a group's id and read by assignment.

Where there are no transactions, below the level that has them or where there never was a coordinator:
UNSUPPORTED_VERSION, on which Java, kafka-python, aiokafka and franz-go stop at once, without a word of ACLs;
Java shows our reason, too. Version 2 is librdkafka's: it asks without end on any code but
TRANSACTIONAL_ID_AUTHORIZATION_FAILED, and shows our reason with that one.
"""

from __future__ import annotations

from springtide.contract.updates import BrokerEndpoint
from springtide.levels import TRANSACTIONS, allows
from springtide.node.handlers.context import NodeContext, Request
from springtide.node.sharding import (
    GROUPS_TOPIC,
    HASHED_CHARS_MAX,
    TRANSACTIONS_TOPIC,
    may_be_hashed,
    shard_of,
)
from springtide.security.acls.model import Operation, ResourceType
from springtide.wire.errors import ErrorCode
from springtide.wire.messages import (
    FindCoordinatorCoordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

KEY_TYPE_GROUP = 0
KEY_TYPE_TRANSACTION = 1
SEVERAL_SINCE = 4
LIBRDKAFKA_VERSION = 2
"""The newest version that librdkafka knows (1.4 to 2.16). Java, kafka-python, franz-go ask in newer ones."""

NOT_ADMITTED = "this cluster has no coordinator: start `coordinator serve`, and admit it"
NOT_ALIVE = "no coordinator of this cluster is alive"
NOT_CREATED = "{} is not created yet: that takes as many live brokers as it has replicas"
NOT_OWNED = "its shard is being given to another coordinator"
NO_LISTENER = "its coordinator has no listener {}, by which you came"
NO_TRANSACTIONS = "this cluster has no transactions yet: remove transactional.id"
DENIED_GROUP = "no right to DESCRIBE the group"
DENIED_TRANSACTION = "no right to DESCRIBE the transactional id"
UNKNOWN_KEY_TYPE = "unknown key type"
TOO_LONG = f"a request may name {HASHED_CHARS_MAX} characters of groups: ask for fewer at once"


def handle(context: NodeContext, request: Request, message: FindCoordinatorRequest) -> None:
    request.answer.connection.may_be_members = True
    names_several = request.api_version >= SEVERAL_SINCE
    names = message.coordinator_keys if names_several else (message.key,)
    if may_be_hashed(names):
        found = tuple(_coordinator(context, request, message.key_type, name) for name in names)
    else:
        found = tuple(_nowhere(name, ErrorCode.INVALID_REQUEST, TOO_LONG) for name in names)
    if names_several:
        request.reply(FindCoordinatorResponse(coordinators=found))
        return
    (one,) = found
    request.reply(
        FindCoordinatorResponse(
            error_code=one.error_code,
            error_message=one.error_message,
            node_id=one.node_id,
            host=one.host,
            port=one.port,
        )
    )


def _coordinator(
    context: NodeContext, request: Request, key_type: int, key: str
) -> FindCoordinatorCoordinator:
    if key_type == KEY_TYPE_TRANSACTION:
        return _of_transaction(context, request, key)
    if key_type != KEY_TYPE_GROUP:
        return _nowhere(key, ErrorCode.INVALID_REQUEST, UNKNOWN_KEY_TYPE)
    if not request.may(Operation.DESCRIBE, ResourceType.GROUP, key):
        return _nowhere(key, ErrorCode.GROUP_AUTHORIZATION_FAILED, DENIED_GROUP)
    if context.is_view_complete() and not context.view.has_groups():
        owner = next(iter(context.view.active_brokers()), None)
        return _found(context, request, key, owner, GROUPS_TOPIC)
    return _found(context, request, key, _owner_of(context, key, GROUPS_TOPIC), GROUPS_TOPIC)


def _of_transaction(context: NodeContext, request: Request, key: str) -> FindCoordinatorCoordinator:
    if context.is_view_complete() and not allows(context.level(), TRANSACTIONS):
        return _nowhere(key, no_transactions(request.api_version), NO_TRANSACTIONS)
    if not request.may(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, key):
        return _nowhere(key, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, DENIED_TRANSACTION)
    if context.is_view_complete() and not context.view.has_groups():
        return _nowhere(key, no_transactions(request.api_version), NOT_ADMITTED)
    context.is_asked_for_transactions = True
    return _found(context, request, key, _owner_of(context, key, TRANSACTIONS_TOPIC), TRANSACTIONS_TOPIC)


def _owner_of(context: NodeContext, key: str, topic_name: str) -> BrokerEndpoint | None:
    topic = context.view.topic_by_name(topic_name)
    return None if topic is None else context.view.shard_owner(topic_name, shard_of(key, topic.partitions))


def _found(
    context: NodeContext, request: Request, key: str, owner: BrokerEndpoint | None, topic_name: str
) -> FindCoordinatorCoordinator:
    """Return the owner, or why there is none."""
    view, listener = context.view, request.listener
    address = None if owner is None else owner.address_for(listener)
    if owner is not None and address is not None:
        return FindCoordinatorCoordinator(key=key, node_id=owner.broker_id, host=address[0], port=address[1])
    if owner is not None:
        reason = NO_LISTENER.format(listener)
    elif not view.coordinators:
        reason = NOT_ADMITTED
    elif not any(coordinator.active for coordinator in view.coordinators.values()):
        reason = NOT_ALIVE
    else:
        reason = NOT_CREATED.format(topic_name) if view.topic_by_name(topic_name) is None else NOT_OWNED
    return _nowhere(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, reason)


def no_transactions(api_version: int) -> ErrorCode:
    """Return the code on which the clients that ask in this version stop at once."""
    is_librdkafka = api_version == LIBRDKAFKA_VERSION
    return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED if is_librdkafka else ErrorCode.UNSUPPORTED_VERSION


def _nowhere(key: str, error: ErrorCode, reason: str) -> FindCoordinatorCoordinator:
    return FindCoordinatorCoordinator(key=key, node_id=-1, port=-1, error_code=error, error_message=reason)
