"""The way from a handler to the shards of its groups or transactional ids, and back.

A shard answers with a reply of its machine, or with an error: its shard is elsewhere or opens, or its record
was not written. Clients of a coordinator do not know what a partition's leader says of an append, and are
told what they do, as by Kafka's coordinators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from coordinator.core.groups.options import STRING_BYTES_MAX
from coordinator.handlers.context import CoordinatorContext, MakeRequest, ShardDesk
from springtide.node.handlers.context import Request
from springtide.node.handlers.group_refusals import OneGroupRequest, refuse
from springtide.node.sharding import GROUPS_TOPIC, TRANSACTIONS_TOPIC, may_be_hashed, shard_of
from springtide.security.acls.model import Operation, ResourceType
from springtide.wire.errors import ErrorCode

A = TypeVar("A")
E = TypeVar("E")

NO_SHARD = -1
"""The shard of what has none: requests for it are refused with NOT_COORDINATOR."""

TOLD: Mapping[ErrorCode, ErrorCode] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def ask_group(
    context: CoordinatorContext,
    request: Request,
    message: OneGroupRequest,
    make: MakeRequest,
    answer: Callable[[Any], None],
    *,
    operation: Operation = Operation.READ,
    while_opening: ErrorCode = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
) -> None:
    """Ask the shard of the request's group. `answer` gets the machine's reply; an error is answered here.

    operation: the one on the group that the client needs the right to.
    """

    def answered(reply: object) -> None:
        if not isinstance(reply, ErrorCode):
            answer(reply)
        else:
            is_opening = reply is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            refuse(request, message, while_opening if is_opening else TOLD.get(reply, reply))

    if not request.may(operation, ResourceType.GROUP, message.group_id):
        refuse(request, message, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    elif len(message.group_id) > STRING_BYTES_MAX:
        refuse(request, message, ErrorCode.INVALID_GROUP_ID)
    else:
        context.shards.submit(shard_in(context, GROUPS_TOPIC, message.group_id), make, answered)


class Named(NamedTuple):
    """What shards hold by name. denied, invalid: the errors of a name that the client has no right to, and of
    one that is too long. operation: what the client needs the right to."""

    topic: str
    resource_type: ResourceType
    denied: ErrorCode
    invalid: ErrorCode
    operation: Operation = Operation.DESCRIBE


GROUPS = Named(
    GROUPS_TOPIC, ResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.INVALID_GROUP_ID
)
TRANSACTIONS = Named(
    TRANSACTIONS_TOPIC,
    ResourceType.TRANSACTIONAL_ID,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.INVALID_REQUEST,
)


def ask_named(
    context: CoordinatorContext,
    request: Request,
    asked: Sequence[A],
    *,
    kind: Named,
    name_of: Callable[[A], str],
    make: Callable[[int, tuple[A, ...]], object],
    entries: Callable[[Any], Sequence[E]],
    done: Callable[[Sequence[E | ErrorCode]], None],
) -> None:
    """Ask the shards of several names, each once, about those that the client has the right to.

    make: the request of one shard, from its token and what is asked of the shard. entries: what a reply says
    of each, in that order. done: gets each entry, or an error, in the order of `asked`.
    """
    if not may_be_hashed(map(name_of, asked)):
        done([ErrorCode.INVALID_REQUEST] * len(asked))
        return
    found: list[E | ErrorCode] = [kind.denied] * len(asked)
    places: dict[int, list[int]] = {}
    for place, one in enumerate(asked):
        name = name_of(one)
        if not request.may(kind.operation, kind.resource_type, name):
            continue
        if len(name) > STRING_BYTES_MAX:
            found[place] = kind.invalid
        else:
            places.setdefault(shard_in(context, kind.topic, name), []).append(place)

    def answered(replies: Mapping[int, Any]) -> None:
        for shard, reply in replies.items():
            is_error = isinstance(reply, ErrorCode)
            of_shard = [reply] * len(places[shard]) if is_error else entries(reply)
            for place, entry in zip(places[shard], of_shard, strict=True):
                found[place] = entry
        done(found)

    def ask(shard: int) -> MakeRequest:
        of_shard = tuple(asked[place] for place in places[shard])
        return lambda token: make(token, of_shard)

    ask_shards(desk_of(context, kind.topic), {shard: ask(shard) for shard in places}, answered)


def ask_shards(
    desk: ShardDesk,
    asks: Mapping[int, MakeRequest],
    done: Callable[[Mapping[int, Any]], None],
) -> None:
    """Ask each shard. done: gets the replies by shard, once all have come: of the machine, or an error that
    clients know."""
    replies: dict[int, object] = {}

    def answered(shard: int, reply: object) -> None:
        replies[shard] = TOLD.get(reply, reply) if isinstance(reply, ErrorCode) else reply
        if len(replies) == len(asks):
            done(replies)

    for shard, make in asks.items():
        desk.submit(shard, make, partial(answered, shard))
    if not asks:
        done(replies)


def shard_in(context: CoordinatorContext, topic: str, name: str) -> int:
    """Return the shard of a coordinator topic that holds the name; NO_SHARD if there is no topic."""
    found = context.view.topic_by_name(topic)
    return NO_SHARD if found is None else shard_of(name, found.partitions)


def desk_of(context: CoordinatorContext, topic: str) -> ShardDesk:
    return context.shards if topic == GROUPS_TOPIC else context.transactions
